"""Text by one operator of com.microsoft (GreedySearch, Sampling, BeamSearch, WhisperBeamSearch), against ONNX
Runtime."""

import os
import pathlib

import pytest
from other_python import python_with, run_python

COMMON = """
import sys
import numpy as np, onnx, onnxruntime
import aipu
import tiny_encoder_decoder
from tiny_encoder_decoder import MELS, encoder
from tiny_gpt import decoder, model

BACKEND = sys.argv[1] if len(sys.argv) > 1 else None
rng = np.random.default_rng(31)
def ints(*elements):
    return np.array(elements, np.int32)
def floats(*elements):
    return np.array(elements, np.float32)

PROMPTS = ints([0, 3, 4, 5], [7, 8, 9, 1])
GREEDY = dict.fromkeys(["input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask",
                        "prefix_vocab_mask", "attention_mask"])
BEAMS = dict.fromkeys(["input_ids", "max_length", "min_length", "num_beams", "num_return_sequences",
                       "length_penalty", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask",
                       "decoder_input_ids", "logits_processor"])
WHISPER = {**BEAMS, **dict.fromkeys(["cross_qk_layer_head", "extra_decoding_ids", "temperature"])}

def expected(made, feed):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)

def converted(made):
    aipu.build(made, "m.aipu.bin")
    return aipu.load("m.aipu.bin", backend=BACKEND)

def own(made, operands):
    names = {value.name for value in made.graph.input}
    return {name: array for name, array in operands.items() if name in names}

def check_greedy(kind="GreedySearch", more=(), prompts=(PROMPTS,), constants=(), **options):
    '''One conversion for all prompts. Where all sentences have ended ONNX Runtime leaves what was in memory.'''
    attributes = {"decoder": decoder(2), "eos_token_id": 19, "pad_token_id": 0}
    operands = {**GREEDY, **{name: None for name in more}, "max_length": ints(12)}
    for name, value in options.items():
        (operands if name in operands else attributes)[name] = value
    loaded = None
    for ids in prompts:
        operands["input_ids"] = ids
        symbols = {name: ["batch", "length"] for name in ("input_ids", "attention_mask")} if len(prompts) > 1 else {}
        made = model(kind, operands, ["sequences"], constants, symbols, **attributes)
        loaded = loaded or converted(made)
        feed = own(made, operands)
        theirs, = expected(made, feed)
        mine = loaded.run(feed)["sequences"]
        pad, begin = attributes["pad_token_id"], ids.shape[1]
        # Of a row all are padding from where it ends on.
        trailing = [np.argmax(np.append(True, row[begin:] != pad)[::-1]) for row in mine]
        length = min(12, 12 - min(trailing) + 1)
        assert mine.shape == theirs.shape and (mine[:, length:] == pad).all()
        np.testing.assert_array_equal(mine[:, :length], theirs[:, :length])
    return mine
"""

GREEDY = """
check_greedy(prompts=[PROMPTS, PROMPTS[:1, 1:], ints([5], [6], [7])])
check_greedy(decoder=decoder(5, layers=2), eos_token_id=4)
ends_early = check_greedy(decoder=decoder(2), eos_token_id=14)
assert (ends_early[:, 4:] == 0).any()
check_greedy(min_length=ints(7), eos_token_id=14)
for mask in ([1, 1, 1, 1], [1, 1, 1, 1]), ([0, 1, 1, 1], [0, 0, 1, 1]), ([0, 1, 1, 1], [1, 0, 1, 1]):
    check_greedy(attention_mask=ints(*mask))
allowed = np.ones(20, np.int32)
allowed[[3, 12, 14, 16, 17]] = 0
check_greedy(vocab_mask=allowed, prefix_vocab_mask=np.stack([allowed, 1 - allowed]), vocab_size=20)
check_greedy(prefix_vocab_mask=np.stack([allowed, 1 - allowed]))
for penalty in (1.7, 0.6):
    check_greedy(repetition_penalty=floats(penalty), min_length=ints(6))
for n in (1, 2, 3):
    check_greedy(no_repeat_ngram_size=n)
check_greedy(init_decoder=decoder(7, name="init"), decoder=decoder(3))
"""

SAMPLING = """
# one token is left
more = ["presence_mask", "seed"]
for rule in ({"min_tokens_to_keep": 1}, {"top_p": 1e-6, "min_tokens_to_keep": 1}, {"top_p": 1e-6, "custom": 1},
             {"top_p": 1.0, "temperature": 1e-4}):
    check_greedy("Sampling", more, seed=ints(3), constants=["seed"], no_repeat_ngram_size=2, **rule)
    check_greedy("Sampling", more, **rule)

# The first token of many equal prompts: as often as it is probable among those that top_p leaves.
N, TOKENS = 4000, 8
ids = np.tile(ints(3, 5), (N, 1))
for top_p, custom in ((1.0, 0), (0.7, 0), (0.7, 1)):
    attributes = {"decoder": decoder(4, TOKENS, scale=0.5), "eos_token_id": 1, "pad_token_id": 0}
    attributes |= {"top_p": top_p, "temperature": 1.5, "custom": custom, "min_tokens_to_keep": 1}
    operands = {**GREEDY, "input_ids": ids, "max_length": ints(3), "presence_mask": None, "seed": ints(11)}
    made = model("Sampling", operands, ["sequences"], ["seed"], **attributes)
    mine = converted(made).run(own(made, operands))["sequences"][:, 2]
    operands["seed"] = ints(12)
    theirs, = expected(model("Sampling", operands, ["sequences"], ["seed"], **attributes), own(made, operands))
    shares = [np.bincount(drawn, minlength=TOKENS) / N for drawn in (mine, theirs[:, 2])]
    assert top_p == 1 or ((shares[0] == 0) == (shares[1] == 0)).all(), shares
    np.testing.assert_allclose(*shares, atol=4 / np.sqrt(N))
    assert top_p == 1 or (shares[0] == 0).any()
again = converted(made).run(own(made, operands))["sequences"][:, 2]
np.testing.assert_array_equal(mine, again)
# numbers differ from call to call
operands |= {"input_ids": ids[:1], "max_length": ints(40), "seed": ints(11)}
made = model("Sampling", operands, ["sequences"], ["seed"], decoder=decoder(4, TOKENS, scale=0.001), eos_token_id=9,
             pad_token_id=9, top_p=1.0)
assert len(set(converted(made).run(own(made, operands))["sequences"][0, 2:].tolist())) > 4
"""

CHECK_BEAMS = """
def check_beams(prompts=(PROMPTS,), beams=3, returned=2, kind="BeamSearch", axes=("batch", "length"), **options):
    attributes = {"eos_token_id": 19, "pad_token_id": 0}
    if "encoder" not in options:
        attributes["decoder"] = decoder(2, scale=0.5)
    inputs = WHISPER if kind == "WhisperBeamSearch" else BEAMS
    operands = {**inputs, "max_length": ints(12), "min_length": ints(1), "num_beams": ints(beams),
                "num_return_sequences": ints(returned), "length_penalty": floats(1)}
    for name, value in options.items():
        (operands if name in operands else attributes)[name] = value
    outputs, loaded = ["sequences", "sequences_scores", "scores"], None
    for ids in prompts:
        operands["input_ids"] = ids
        symbols = {"input_ids": axes} if len(prompts) > 1 else {}
        constants = ["num_beams", "num_return_sequences", "logits_processor"]
        made = model(kind, operands, outputs, constants, symbols, **attributes)
        loaded = loaded or converted(made)
        theirs, mine = expected(made, own(made, operands)), loaded.run(own(made, operands))
        np.testing.assert_array_equal(mine["sequences"], theirs[0])
        np.testing.assert_allclose(mine["sequences_scores"], theirs[1], rtol=1e-4, atol=1e-5)
        assert mine["scores"].shape == theirs[2].shape
        # Where all have ended ONNX Runtime leaves what was in memory.
        steps = [step for step in range(len(theirs[2])) if mine["scores"][step].any()]
        np.testing.assert_allclose(mine["scores"][steps], theirs[2][steps], rtol=1e-4, atol=1e-4)
    return mine["sequences"]
"""

BEAMS = (
    CHECK_BEAMS
    + """
check_beams([PROMPTS, PROMPTS[:1, 1:], ints([5], [6], [7])])
check_beams(beams=1, returned=1, decoder=decoder(5, layers=2))
for early in (0, 1):
    for penalty in (1.0, 0.3, -1.0):
        check_beams([np.concatenate([PROMPTS, PROMPTS[::-1]])], returned=3, early_stopping=early, eos_token_id=7,
                    length_penalty=floats(penalty), min_length=ints(6))
allowed = np.ones(20, np.int32)
allowed[[3, 12, 14, 16, 17]] = 0
check_beams(vocab_mask=allowed, prefix_vocab_mask=np.stack([allowed, 1 - allowed]))
check_beams(repetition_penalty=floats(1.7), no_repeat_ngram_size=2, attention_mask=ints([0, 1, 1, 1], [0, 0, 1, 1]))
check_beams(init_decoder=decoder(7, name="init"), beams=4, returned=4)
"""
)

TEXTS = (
    CHECK_BEAMS
    + """
def check_texts(*arguments, seed=2, layers=1, first=False, hidden=False, one=True, start=3, **options):
    return check_beams(*arguments, model_type=1, decoder_start_token_id=start, encoder=encoder(seed, 20, layers, 0.5,
                       first=first), decoder=tiny_encoder_decoder.decoder(seed, 20, layers, 0.5, hidden=hidden,
                       one=one), **options)

check_texts([PROMPTS, PROMPTS[:1, 1:], ints([5], [6], [7])])
check_texts([np.concatenate([PROMPTS, PROMPTS[::-1, ::-1]])], first=True, hidden=True, layers=2, beams=4, returned=4)
check_texts(beams=1, returned=1, first=True, seed=7)
# padding in front is not seen; behind it is
check_texts([ints([0, 0, 4, 0], [7, 0, 9, 1])], one=False, max_length=ints(6))
check_texts(attention_mask=ints([1, 1, 0, 0], [0, 1, 1, 0]), first=True)
for early in (0, 1):
    for penalty in (0.3, -1.0):
        found = check_texts([np.concatenate([PROMPTS, PROMPTS[::-1]])], returned=3, early_stopping=early,
                            eos_token_id=17, length_penalty=floats(penalty), min_length=ints(3), seed=1)
        assert (found[:, :, -1] == 0).any()
allowed = np.ones(20, np.int32)
allowed[[3, 12, 14, 16, 17]] = 0
check_texts(vocab_mask=allowed, prefix_vocab_mask=np.stack([allowed, 1 - allowed]), repetition_penalty=floats(1.7),
            no_repeat_ngram_size=2, vocab_size=20)
"""
)

SOUNDS = (
    CHECK_BEAMS
    + """
END, START, TRANSLATE, TRANSCRIBE, LM, SILENCE, TIMELESS, TIME = range(20, 28)
TOKENS = TIME + 60
FEATURES = rng.standard_normal((3, MELS, 5)).astype(np.float32)
SPECIAL = {"decoder_start_token_id": START, "translate_token_id": TRANSLATE, "transcribe_token_id": TRANSCRIBE,
           "start_of_lm_token_id": LM, "no_timestamps_token_id": TIMELESS, "beginning_timestamp_token_id": TIME}
def begun(seed, **options):
    attributes = {"eos_token_id": END, "pad_token_id": END, **SPECIAL, "model_type": 2, "scale": 0.5} | options
    scale, hidden, one = [attributes.pop(name, None) for name in ("scale", "hidden", "one")]
    sizes = (seed, TOKENS, 1, scale)
    return attributes | {"encoder": encoder(*sizes, features=True, first=True), "decoder":
                         tiny_encoder_decoder.decoder(*sizes, features=True, hidden=bool(hidden), one=one is None)}

def check_sounds(seed, prompts=(FEATURES,), kind="WhisperBeamSearch", **options):
    options = begun(seed, **options)
    if kind == "BeamSearch":
        options = {name: value for name, value in options.items() if name[:5] == "decod" or name not in SPECIAL}
    return check_beams(prompts, kind=kind, axes=("batch", MELS, "frames"), **options)

check_sounds(2, [FEATURES, FEATURES[:2, :, 1:], FEATURES[:1, :, :1]])
check_sounds(3, kind="BeamSearch", hidden=True, decoder_input_ids=rng.integers(0, 20, (3, 4)).astype(np.int32))
check_sounds(3, [FEATURES[:2]], one=False, decoder_input_ids=ints([START, 3, 4], [START, 5, 6]), early_stopping=1)
check_sounds(4, temperature=floats(2.5), repetition_penalty=floats(1.3), beams=2, no_repeat_ngram_size=2)
check_sounds(4, temperature=floats(0.0), logits_processor=ints(0))
# times: all there are after the first one, pairs, and what is before them
spoken = set()
for seed in range(6):
    found = check_sounds(seed, logits_processor=ints(1), early_stopping=seed % 2, scale=(0.1, 0.3)[seed % 2],
                         decoder_input_ids=np.stack([ints(START, *rng.integers(0, TOKENS, 2)) for _ in range(3)]))
    spoken |= set(found[:, :, 3:].ravel().tolist())
    check_sounds(seed, logits_processor=ints(1), scale=0.2, beams=1, returned=1, temperature=floats(0.5))
assert any(token < END for token in spoken) and any(token >= TIME for token in spoken), spoken

# How probable silence is: ONNX Runtime's CPU provider leaves zeros.
operands = {**WHISPER, "input_ids": FEATURES, "max_length": ints(5), "num_beams": ints(2),
            "num_return_sequences": ints(1), "decoder_input_ids": ints(*[[START, 4]] * 3)}
attributes = begun(5, no_speech_token_id=SILENCE)
made = model("WhisperBeamSearch", operands, ["sequences", "", "", "", "silence"], ["num_beams", "num_return_sequences"],
             **attributes)
found = converted(made).run(own(made, operands))["silence"]
alone = onnx.helper.make_model(attributes["encoder"], opset_imports=made.opset_import[:1], ir_version=8)
logits = expected(alone, {"encoder_input_ids": FEATURES, "decoder_input_ids": operands["decoder_input_ids"]})[0]
parts = np.exp(logits[:, -1].astype(np.float64))
np.testing.assert_allclose(found, parts[:, SILENCE] / parts.sum(-1), rtol=1e-5)
"""
)

REFUSED = """
def error(kind, outputs, operands, constants=(), **attributes):
    attributes = {"decoder": decoder(2), "eos_token_id": 19, "pad_token_id": 0} | attributes
    operands |= {"input_ids": PROMPTS, "max_length": ints(6)}
    try:
        converted(model(kind, operands, outputs, constants, **attributes))
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "converted"

def check(text, *arguments, **attributes):
    found = error(*arguments, **attributes)
    assert "'search'" in found and text in found and "\\n" not in found, found

sampling = {**GREEDY, "presence_mask": None, "seed": None}
beams = {**BEAMS, "num_beams": ints(2), "num_return_sequences": ints(1)}
fixed = ["num_beams", "num_return_sequences"]
check("model_type 0", "GreedySearch", ["sequences"], dict(GREEDY), model_type=1)
check("must have the inputs input_ids, position_ids", "GreedySearch", ["sequences"], dict(GREEDY),
      decoder=model("Gelu", {"x": floats(1)}, ["y"]).graph)
check("not of 21 tokens", "GreedySearch", ["sequences"], dict(GREEDY), vocab_size=21)
check("operand 'seed' must be known when compiling", "Sampling", ["sequences"], sampling | {"seed": ints(3)})
check("filtered_logits", "Sampling", ["sequences", "filtered"], sampling, top_p=0.5)
check("presence_penalty", "Sampling", ["sequences"], sampling | {"presence_mask": np.ones((2, 20), np.int32)},
      presence_penalty=0.5)
check("temperature", "Sampling", ["sequences"], sampling, temperature=0.0)
check("operand 'num_beams' must be known when compiling", "BeamSearch", ["sequences"], beams)
check("num_return_sequences is 3 of 2 beams", "BeamSearch", ["sequences"],
      beams | {"num_return_sequences": ints(3)}, fixed)
check("model_type is 3", "BeamSearch", ["sequences"], dict(beams), fixed, model_type=3)
texts = {"model_type": 1, "encoder": encoder(2), "decoder": tiny_encoder_decoder.decoder(2)}
check("decoder_start_token_id", "BeamSearch", ["sequences"], dict(beams), fixed, **texts)
check("decoder_input_ids are supported for Whisper only", "BeamSearch", ["sequences"],
      beams | {"decoder_input_ids": ints([1], [1])}, fixed, decoder_start_token_id=1, **texts)
check("a logits_processor", "BeamSearch", ["sequences"], beams | {"logits_processor": ints(1)},
      [*fixed, "logits_processor"], decoder_start_token_id=1, **texts)
check("the decoder must have the inputs input_ids, encoder_attention_mask", "BeamSearch", ["sequences"], dict(beams),
      fixed, decoder_start_token_id=1, **texts | {"decoder": decoder(2)})
check("the encoder must have the inputs encoder_input_ids, encoder_attention_mask", "BeamSearch", ["sequences"],
      dict(beams), fixed, decoder_start_token_id=1, **texts | {"encoder": encoder(2, layers=2)})
check("the input must be features", "WhisperBeamSearch", ["sequences"], {**WHISPER, **beams}, fixed, model_type=2,
      decoder_start_token_id=1, encoder=encoder(2, features=True, first=True),
      decoder=tiny_encoder_decoder.decoder(2, features=True))
for text, outputs, more in (("cross_qk", ["sequences", "", "", "cross_qk"], {}),
                            ("extra_decoding_ids", ["sequences"], {"extra_decoding_ids": ints([1], [1])}),
                            ("logits_processor 2", ["sequences"], {"logits_processor": ints(2)}),
                            ("beginning_timestamp_token_id", ["sequences"], {"logits_processor": ints(1)})):
    check(text, "WhisperBeamSearch", outputs, {**WHISPER, **beams, **more}, [*fixed, "logits_processor"],
          decoder_start_token_id=1, translate_token_id=2, transcribe_token_id=3, start_of_lm_token_id=4,
          no_timestamps_token_id=5, encoder=encoder(2, features=True, first=True),
          decoder=tiny_encoder_decoder.decoder(2, features=True))

# as many tokens as fit
made = model("GreedySearch", {**GREEDY, "input_ids": PROMPTS, "max_length": ints(4)}, ["sequences"],
             decoder=decoder(2), eos_token_id=19, pad_token_id=0)
try:
    print(converted(made).run({"input_ids": PROMPTS, "max_length": ints(4)}))
    raise AssertionError("ran")
except ValueError as error:
    assert "'search'" in str(error), error
"""


def run_script(folder, monkeypatch, script, *arguments):
    (folder / "script.py").write_text(COMMON + script)
    monkeypatch.chdir(folder)
    run_python(python_with("onnxruntime, onnx"), folder / "script.py", *arguments)


@pytest.fixture(autouse=True)
def helpers(monkeypatch):
    """The script is an interpreter of its own, which finds tiny_gpt too."""
    paths = [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


@pytest.mark.parametrize(
    "script", [GREEDY, SAMPLING, BEAMS, TEXTS, SOUNDS], ids=["greedy", "sampling", "beams", "texts", "sounds"]
)
def test_as_onnx_runtime(tmp_path, monkeypatch, interpreted, script):
    run_script(tmp_path, monkeypatch, script, interpreted)


def test_native(tmp_path, monkeypatch):
    """Compiled, one model of each kind."""
    beams = BEAMS.split("check_beams([PROMPTS")[0] + "check_beams(eos_token_id=7)\n"
    sounds = SOUNDS.split("check_sounds(2, [")[0] + "check_sounds(1, logits_processor=ints(1))\n"
    run_script(tmp_path, monkeypatch, "check_greedy(eos_token_id=14)\n" + beams + sounds)


def test_refused(tmp_path, monkeypatch, interpreted):
    run_script(tmp_path, monkeypatch, REFUSED, interpreted)
