"""Models with an encoder of a few lines, T5's and Whisper's way, as BeamSearch and WhisperBeamSearch of com.microsoft
take them: see tiny_gpt.py, whose model() puts them into a node. Needs the package onnx."""

import numpy as np
from onnx import TensorProto, helper
from tiny_gpt import HEADS, POSITIONS, SIZE, Nodes

WIDTH = HEADS * SIZE
MELS = 6  # of Whisper's features


def typed(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


class _Weights:
    """The same for encoder and decoder of one seed: each is drawn from its name."""

    def __init__(self, seed, scale):
        self.seed, self.scale = seed, scale

    def __call__(self, name, *shape):
        rng = np.random.default_rng([self.seed, *name.encode()])
        return (rng.standard_normal(shape) * self.scale).astype(np.float32)


def _heads(op, x):
    return op("Transpose", [op("Reshape", [x, np.array([0, 0, HEADS, SIZE])])], perm=[0, 2, 1, 3])


def _attention(op, q, k, v, bias=None):
    scores = op("Mul", [op("MatMul", [q, op("Transpose", [k], perm=[0, 1, 3, 2])]), np.float32(SIZE**-0.5)])
    if bias is not None:
        scores = op("Add", [scores, bias])
    y = op("Transpose", [op("MatMul", [op("Softmax", [scores], axis=-1), v])], perm=[0, 2, 1, 3])
    return op("Reshape", [y, np.array([0, 0, WIDTH])]), scores


def _hidden(op, weights, features, tokens):
    """What the encoder makes of tokens, or of features [batch, mels, frames]."""
    if features:
        x = op("MatMul", [op("Transpose", ["encoder_input_ids"], perm=[0, 2, 1]), weights("mel", MELS, WIDTH) * 3])
    else:
        x = op("Gather", [weights("words", tokens, WIDTH) * 2, "encoder_input_ids"])
    return op("Tanh", [op("MatMul", [x, weights("encoder", WIDTH, WIDTH) * 3])], ["encoder_hidden_states"])


def _cross(op, weights, layers):
    for layer in range(layers):
        for kind in ("key", "value"):
            x = op("MatMul", ["encoder_hidden_states", weights(f"{kind}_cross_{layer}", WIDTH, WIDTH) * 2])
            shape = np.array([0, 0, HEADS, SIZE])
            op("Transpose", [op("Reshape", [x, shape])], [f"present_{kind}_cross_{layer}"], perm=[0, 2, 1, 3])


def _decoder(op, weights, ids, layers, tokens, cross, masked, past, qk=False):
    """Logits, and keys and values of its own; `past` says whether there are such, `cross` how those of the encoder
    are called."""
    length = op("Squeeze", [op("Shape", [ids], start=1, end=2)])
    before = op("Squeeze", [op("Shape", ["past_key_self_0"], start=2, end=3)]) if past else np.array(0)
    total = op("Add", [length, before])
    queries = op("Range", [before, total, np.array(1)])
    keys = op("Range", [np.array(0), total, np.array(1)])
    words = op("Gather", [weights("words", tokens, WIDTH) * 2, ids])
    x = op("Add", [words, op("Gather", [weights("positions", POSITIONS, WIDTH), queries])])
    causal = op("LessOrEqual", [keys, op("Unsqueeze", [queries, np.array([1])])])
    causal = op("Where", [causal, np.float32(0), np.float32(-1e9)])
    bias = None
    if masked:
        hidden = op("Sub", [np.float32(1), op("Cast", ["encoder_attention_mask"], to=TensorProto.FLOAT)])
        bias = op("Unsqueeze", [op("Mul", [hidden, np.float32(-10000)]), np.array([1, 2])])
    for layer in range(layers):
        q = _heads(op, op("MatMul", [x, weights(f"q_{layer}", WIDTH, WIDTH)]))
        parts = []
        for kind in ("key", "value"):
            new, name = _heads(op, op("MatMul", [x, weights(f"{kind}_{layer}", WIDTH, WIDTH)])), f"{kind}_self_{layer}"
            if past:
                parts.append(op("Concat", [f"past_{name}", new], [f"present_{name}"], axis=2))
            else:
                parts.append(op("Identity", [new], [f"present_{name}"]))
        x = op("Add", [x, op("MatMul", [_attention(op, q, *parts, causal)[0], weights(f"o_{layer}", WIDTH, WIDTH)])])
        q = _heads(op, op("MatMul", [x, weights(f"qc_{layer}", WIDTH, WIDTH) * 3]))
        y, scores = _attention(op, q, *[f"{cross}_{kind}_cross_{layer}" for kind in ("key", "value")], bias)
        if qk:
            op("Identity", [scores], [f"output_cross_qk_{layer}"])
        x = op("Add", [x, y])
    op("MatMul", [x, weights("logits", WIDTH, tokens) * 2], ["logits"])


def _states(kinds, layers, where, floats=TensorProto.FLOAT):
    for kind in kinds:
        length = {"self": "p" if where == "past" else "t", "cross": "e"}[kind]
        for layer in range(layers):
            for part in ("key", "value"):
                yield typed(f"{where}_{part}_{kind}_{layer}", floats, "b", HEADS, length, SIZE)


def encoder(seed, tokens=20, layers=1, scale=0.5, features=False, first=False, masked=True):
    """Keys and values for the decoder; with `first` also its first call, with decoder_input_ids."""
    n, weights = Nodes(), _Weights(seed, scale)
    _hidden(n.op, weights, features, tokens)
    _cross(n.op, weights, layers)
    inputs = [typed("encoder_input_ids", TensorProto.FLOAT, "b", MELS, "f") if features else
              typed("encoder_input_ids", TensorProto.INT32, "b", "e")]  # fmt: skip
    if not features:
        inputs.append(typed("encoder_attention_mask", TensorProto.INT32, "b", "e"))
    outputs = list(_states(["cross"], layers, "present"))
    if first:
        _decoder(n.op, weights, "decoder_input_ids", layers, tokens, "present", masked and not features, past=False)
        inputs.append(typed("decoder_input_ids", TensorProto.INT32, "b", "s" if features else 1))
        outputs = [typed("logits", TensorProto.FLOAT, "b", "s" if features else 1, tokens),
                   typed("encoder_hidden_states", TensorProto.FLOAT, "b", "e", WIDTH)]  # fmt: skip
        outputs += _states(["self", "cross"], layers, "present")
    return helper.make_graph(n.nodes, "encoder", inputs, outputs, n.constants)


def decoder(seed, tokens=20, layers=1, scale=0.5, features=False, hidden=False, one=True, masked=True, qk=False):
    """One call with what the calls before gave; `one` token, or all there are."""
    n, weights = Nodes(), _Weights(seed, scale)
    _decoder(n.op, weights, "input_ids", layers, tokens, "past", masked and not features, past=True, qk=qk)
    inputs = [typed("input_ids", TensorProto.INT32, "b", 1 if one else "s")]
    if not features:
        inputs.append(typed("encoder_attention_mask", TensorProto.INT32, "b", "e"))
    if hidden:
        inputs.append(typed("encoder_hidden_states", TensorProto.FLOAT, "b", "e", WIDTH))
    inputs += _states(["self", "cross"], layers, "past")
    outputs = [typed("logits", TensorProto.FLOAT, "b", 1, tokens), *_states(["self"], layers, "present")]
    if qk:
        outputs += [typed(f"output_cross_qk_{layer}", TensorProto.FLOAT, "b", HEADS, 1, "e") for layer in range(layers)]
    return helper.make_graph(n.nodes, "decoder", inputs, outputs, n.constants)
