"""Bytes of weights and caches per second of a decoder's step, beside what memory gives.

    PYTHONPATH=build/release/python:tests/python python3 tests/bench/python/decode.py build/release [--keys 1024]

`decoder_1b_4l` (four layers of a decoder with int4 weights, models/decoder.cpp) computes one token behind so many keys,
with its caches in place: past_key_values.* and present.* are the same memory. It is run in turns with a loop of C that
reads as many bytes, by as many threads; after them, where it is installed, ONNX Runtime, whose caches are in place too.
Lines are medians in ms and GB/s, of the products' codes and scales and the keys and values, each once, and their share
of what the loop reads.
"""

import argparse
import functools
import os
import statistics
import subprocess
import tempfile

import aipu
import numpy as np
from aipu._onnx_graph import OnnxModel
from few_bits import compiled_reader, ort_session, read_by_threads, seconds


def bytes_of_products(model):
    total = 0
    for node in model.nodes:
        if node.op == "MatMulNBits":
            total += sum(model.constant(name).nbytes for name in node.inputs[1:])
    return total


def bind(session, feed, caches, ort_value):
    """The binding of a session of ONNX Runtime, whose logits are memory of its own."""
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name, cache in caches.items():
        value = ort_value(cache)
        binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
    binding.bind_output("logits")
    return binding


def report(keys, threads, total, taken):
    for name, spent in taken.items():
        share = f", {taken['memory'] / spent:.0%}" if "memory" in taken else ""
        print(
            f"{keys} keys, {total / 1e6:.0f} MB, threads {threads}: {name} {spent * 1e3:.1f} ms, "
            f"{total / spent / 1e9:.1f} GB/s{share}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", help="folder of the build")
    parser.add_argument("--model", default="decoder_1b_4l")
    parser.add_argument("--keys", type=int, default=1024)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--turns", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reader, path = compiled_reader(folder), os.path.join(folder, "decoder.onnx")
        tool = os.path.join(arguments.build, "bin", "aipu-make-model")
        subprocess.run([tool, arguments.model, "-o", path], check=True)
        model = OnnxModel(path)
        length = arguments.keys
        output = os.path.join(folder, "decoder.aipu.bin")
        aipu.build(path, output, shapes={"past_key_values.0.key": [-1, -1, length, -1]})
        # Into memory, which has large pages, as the buffer of the loop has; so do caches side by side.
        random, loaded = np.random.default_rng(1), aipu.load(output, copy=True)
        feed = {"input_ids": np.array([[7]]), "attention_mask": np.ones((1, length), np.int64)}
        inputs = [value for value in loaded.inputs if value.name not in feed]
        rows = random.standard_normal((len(inputs), 1, *inputs[0].shape[1:])).astype(np.float32)
        caches = {value.name: rows[k] for k, value in enumerate(inputs)}
        total = bytes_of_products(model) + sum(cache.nbytes for cache in caches.values())
        buffer = np.ones(total // 8, np.int64)
        logits = next(value for value in loaded.outputs if value.name == "logits")
        present = {"logits": np.empty((1, 1, logits.shape[2]), np.float32)}
        present |= {name.replace("past_key_values", "present"): cache for name, cache in caches.items()}
        for threads in map(int, arguments.threads.split(",")):
            session = loaded.session(threads=threads)
            step = functools.partial(session.run, {**feed, **caches}, outputs=present)
            memory = functools.partial(read_by_threads, reader, buffer, threads)
            taken = seconds({"memory": memory, "aipu": step}, arguments.turns, statistics.median)
            report(arguments.keys, threads, total, taken)
            # By itself: its threads wait in loops, and so take CPUs from what runs after it.
            other = ort_session(path, threads)
            if other is not None:
                import onnxruntime

                binding = bind(other, feed, caches, onnxruntime.OrtValue.ortvalue_from_numpy)
                found = step()["logits"]
                other.run_with_iobinding(binding)
                expected = binding.get_outputs()[-1].numpy()
                np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())
                turns = {"onnxruntime": functools.partial(other.run_with_iobinding, binding)}
                report(arguments.keys, threads, total, seconds(turns, arguments.turns, statistics.median))
                del binding, other


if __name__ == "__main__":
    main()
