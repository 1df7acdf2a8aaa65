"""Builds the int8 graph: dense layers in 8 bits, with fixed scales of activations.

A vector depends on its own text alone, since no scale is computed at run time. Weights have one scale
per output channel. Activations have one per tensor, wide enough for the values of the calibration
texts. Attention, softmax, LayerNorm and GELU stay f32.

Two rewrites of the weights, which leave the function unchanged, reduce outliers that one scale per
tensor represents badly:

- Large channels of LayerNorm are scaled down, and the weights that they are multiplied with are scaled
  up (SmoothQuant: G. Xiao et al., arXiv 2211.10438, section 4).
- In four of the six layers, one or two channels of GELU reach 14 to 25 at [CLS], where other values
  rarely exceed 7. Such a channel is spread over copies, each with a share of its value (`spread`).

onnxruntime.quantization finds ranges and writes the same operators. It has neither rewrite, and it does
not choose weights that are safe without VNNI (`codes`): each would be an override per tensor.
"""

import math

import numpy as np
from onnx import TensorProto, helper

import teacher as t

# The first opset with the operator Attention. It and Gelu are a tenth faster than the operators they replace.
OPSET = 23
# Share of the difference between channels that moves into the weights, 0 to 1. From 0.6 to 0.95 the mean cosine
# differs by 0.0001.
SMOOTHING = 0.85
# Outputs of GELU are clipped here. 5 and 6 measured alike, 7 is coarser, and below 5 clipping costs more.
CEILING = 6.0
# The minimum of GELU.
FLOOR = -0.17
# Widths are multiples of this, so that vector instructions have no remainder.
LANES = 16

ATTENTION, CONTEXT, UP, DOWN = "attention.self", "attention.output.dense", "intermediate.dense", "output.dense"
# The dense layers that read each quantized input.
READERS = {
    ATTENTION: [f"{ATTENTION}.{part}" for part in ("query", "key", "value")],
    CONTEXT: [CONTEXT],
    UP: [UP],
    DOWN: [DOWN],
}


def int8(weights, rows):
    """Returns the quantized encoder, calibrated with texts (lists of token ids)."""
    weights, peaks = dict(weights), observe(weights, rows)
    scales, ranges = {}, {}
    for i in range(t.layers(weights)):
        layer = f"encoder.layer.{i}"
        spread(weights, layer, peaks[f"{layer}.{DOWN}"][1])
        ranges[f"{layer}.{DOWN}"] = FLOOR, CEILING
        low, high = peaks[f"{layer}.{CONTEXT}"]
        ranges[f"{layer}.{CONTEXT}"] = low.min(), high.max()
        for name in (ATTENTION, UP):
            site = f"{layer}.{name}"
            low, high = peaks[site]
            scale = scales[site] = smooth(weights, [f"{layer}.{reader}" for reader in READERS[name]],
                                          np.maximum(-low, high))
            ranges[site] = (low / scale).min(), (high / scale).max()
    # Half the memory. This step alone keeps cosines at 0.9999999.
    table = "embeddings.word_embeddings.weight"
    weights[table] = weights[table].astype(np.float16)
    return quantized(weights, scales, ranges)


# --- Calibration ----------------------------------------------------------------------------


def observe(weights, rows):
    """Returns the smallest and largest value of each channel of each dense layer's input."""
    sites = {}

    def enter(g, x, site):
        sites[site] = x
        return x

    def dense(g, x, name):
        w = g.const(f"{name}.weight_t", weights[f"{name}.weight"].T.copy())
        return g("Gemm", x, w, g.const(f"{name}.bias", weights[f"{name}.bias"]))

    model = encoder(weights, enter, dense)
    model.graph.output.extend(helper.make_tensor_value_info(x, TensorProto.FLOAT, None) for x in sites.values())
    session = t.session(model)
    peaks = {site: (np.inf, -np.inf) for site in sites}
    for batch in t.batches(rows):
        found = session.run(list(sites.values()), t.feed(session, batch))
        for site, x in zip(sites, found):
            low, high = peaks[site]
            peaks[site] = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
    return peaks


# --- Rewrites -------------------------------------------------------------------------------


def smooth(weights, readers, largest):
    """Moves the scales of channels into the readers' weights. Returns the scales, by which the input must be divided."""
    met = np.max([np.abs(weights[f"{name}.weight"]).max(0) for name in readers], axis=0)
    scale = np.maximum(largest, 1e-5) ** SMOOTHING / np.maximum(met, 1e-5) ** (1 - SMOOTHING)
    scale = (scale / np.exp(np.log(scale).mean())).astype(np.float32)
    for name in readers:
        weights[f"{name}.weight"] = weights[f"{name}.weight"] * scale
    return scale


def spread(weights, layer, highest):
    """Replaces channels of GELU that far exceed the ceiling c by several copies that share their value.

    gelu(h) = min(gelu(h), c) + min(gelu(h - c), c) + ..., with an error of up to 0.17 where h is just below a multiple of c.
    The clipping needs no operator: it is the end of the range of codes.
    """
    up, bias, down = (weights[f"{layer}.{name}"] for name in (f"{UP}.weight", f"{UP}.bias", f"{DOWN}.weight"))
    copies = [(channel, k) for channel in np.flatnonzero(highest > 2 * CEILING)
              for k in range(1, math.ceil(highest[channel] / CEILING))]
    if not copies:
        return
    channels, shifts = np.array(copies).T
    spare = -len(copies) % LANES
    weights[f"{layer}.{UP}.weight"] = np.pad(np.concatenate([up, up[channels]]), [(0, spare), (0, 0)])
    weights[f"{layer}.{UP}.bias"] = np.pad(
        np.concatenate([bias, bias[channels] - np.float32(CEILING) * shifts.astype(np.float32)]), (0, spare))
    weights[f"{layer}.{DOWN}.weight"] = np.pad(np.concatenate([down, down[:, channels]], 1), [(0, 0), (0, spare)])


# --- Graph ----------------------------------------------------------------------------------


def encoder(weights, enter, dense):
    """Builds the graph of `teacher.bert_onnx` from operators of a later opset, with one row per token between attentions.

    `enter` gets each dense layer's input and returns the tensor that `dense` reads.
    """
    g = t.Graph()
    x, axis = t.embeddings(g, weights), t.axes(g)
    flat = g.const("flat", np.array([-1, t.HIDDEN], np.int64))
    shape = g("Concat", g("Shape", "input_ids"), g.const("width", np.array([t.HIDDEN], np.int64)), axis=0)
    batch, length = g("Shape", "input_ids", end=1), g("Shape", "input_ids", start=1)
    # Attention requires a row of the mask for each query.
    mask = g("Unsqueeze", g("Unsqueeze", "attention_mask", axis[1]), axis[2])
    mask = g("Expand", g("Cast", mask, to=TensorProto.BOOL),
             g("Concat", batch, g.const("one_head", np.array([1], np.int64)), length, length, axis=0))

    x = g("Reshape", x, flat)
    for i in range(t.layers(weights)):
        layer = f"encoder.layer.{i}"
        inner = enter(g, x, f"{layer}.{ATTENTION}")
        heads = [g("Reshape", dense(g, inner, f"{layer}.{name}"), shape) for name in READERS[ATTENTION]]
        context = g("Attention", *heads, mask, q_num_heads=t.HEADS, kv_num_heads=t.HEADS)
        context = enter(g, g("Reshape", context, flat), f"{layer}.{CONTEXT}")
        x = g("Add", dense(g, context, f"{layer}.{CONTEXT}"), x)
        x = t.layer_norm(g, weights, x, f"{layer}.attention.output.LayerNorm")

        h = g("Gelu", dense(g, enter(g, x, f"{layer}.{UP}"), f"{layer}.{UP}"))
        h = dense(g, enter(g, h, f"{layer}.{DOWN}"), f"{layer}.{DOWN}")
        x = t.layer_norm(g, weights, g("Add", h, x), f"{layer}.output.LayerNorm")
    g("Reshape", x, shape, out="last_hidden_state")
    return t.model_from(g, ["input_ids", "attention_mask", "token_type_ids"], t.HIDDEN, "minilm",
                        opset=OPSET)


def quantized(weights, scales, ranges):
    """Surrounds each Gemm with Q and DQ operators; ONNX Runtime fuses them into one integer QGemm when it loads the graph."""
    steps = {}

    def enter(g, x, site):
        if site in scales:
            x = g("Mul", x, g.const(f"{site}.smoothing", 1 / scales[site]))
        # Unsigned: x86 has no fast product of two signed matrices.
        low, high = (float(end) for end in ranges[site])
        step = np.float32((high - low) / 255)
        zero = np.uint8(round(-low / float(step)))
        grid = g.const(f"{site}.step", step), g.const(f"{site}.zero", zero)
        x = g("DequantizeLinear", g("QuantizeLinear", x, *grid), *grid)
        steps[x] = step
        return x

    def dense(g, x, name):
        def dequantized(part, values, scale, axis):
            # Without zero points ONNX Runtime does not fuse the product into an integer one.
            zeros = g.const(f"zeros_{values.dtype}_{len(scale)}", np.zeros(len(scale), values.dtype))
            return g("DequantizeLinear", g.const(f"{name}.{part}", values),
                     g.const(f"{name}.{part}_scale", scale), zeros, axis=axis)

        w, scale = codes(weights[f"{name}.weight"])
        # 32 bits in the unit of the product: sums start from the bias.
        unit = steps[x] * scale
        bias = np.rint(weights[f"{name}.bias"] / unit).astype(np.int32)
        return g("Gemm", x, dequantized("weight_t", w.T.copy(), scale, 1), dequantized("bias", bias, unit, 0))

    return encoder(weights, enter, dense)


def codes(w):
    """Returns 8-bit weights [out, in], and a scale per output channel.

    CPUs with AVX2 and without VNNI add adjacent products in pairs, in 16 bits, and saturate. The sum of two
    adjacent weights is therefore kept to 128 at most: 128 * 255 fits. That costs a third of a bit on average,
    where 7-bit weights would cost one.
    """
    pairs = np.abs(w[:, 0::2] + w[:, 1::2]).max(1)
    scale = np.maximum(np.abs(w).max(1), pairs) / np.float32(127)
    # `spread` adds rows of zeros, whose scale is arbitrary.
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.rint(w / scale[:, None]).astype(np.int8), scale
