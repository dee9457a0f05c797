"""FlexAttention with its sub-graphs, against NumPy."""

from other_python import python_with, run_python

SCRIPT = """
import numpy as np, onnx.parser
import aipu

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 22, "ai.onnx.preview" : 1]>
g (float[2,4,N,8] q, float[2,2,M,8] k, float[2,2,M,5] v, float[1,1,1,M] bias)
    => (float[2,4,N,5] y, float[2,4,N,5] plain) {
  y = ai.onnx.preview.FlexAttention<scale = 0.5,
      score_mod = s (float[B,H,L,S] scores) => (float[B,H,L,S] more) { more = Add(scores, bias) },
      prob_mod = p (float[B,H,L,S] probs) => (float[B,H,L,S] less) { less = Mul(probs, probs) }>(q, k, v)
  plain = ai.onnx.preview.FlexAttention(q, k, v)
}''')
rng = np.random.default_rng(4)
aipu.build(model, "m.aipu.bin")
loaded = aipu.load("m.aipu.bin")
for n, m in ((3, 6), (1, 2)):
    q, k, v = (rng.standard_normal(s).astype("f") for s in ((2, 4, n, 8), (2, 2, m, 8), (2, 2, m, 5)))
    bias = rng.standard_normal((1, 1, 1, m)).astype("f")
    keys, values = np.repeat(k, 2, 1).swapaxes(2, 3), np.repeat(v, 2, 1)
    found = loaded.run({"q": q, "k": k, "v": v, "bias": bias})
    np.testing.assert_allclose(found["y"], softmax(q @ keys * 0.5 + bias) ** 2 @ values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["plain"], softmax(q @ keys / np.sqrt(8)) @ values, rtol=1e-4, atol=1e-5)
"""


def test_sub_graphs(tmp_path, monkeypatch):
    python = python_with("numpy, onnx.parser")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    run_python(python, tmp_path / "script.py")
