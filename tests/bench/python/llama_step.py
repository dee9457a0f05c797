"""A decoder's step by llama.cpp: one of the shape of `decoder_1b_4l`, with weights of Q4_0, for beside decode.py.

    python3 -m venv llama
    CMAKE_ARGS="-DGGML_NATIVE=ON" llama/bin/pip install --no-binary llama-cpp-python llama-cpp-python gguf
    llama/bin/python tests/bench/python/llama_step.py [--keys 1024] [--threads 1]

Q4_0 has blocks of 32 with float16 scales, 4.5 bits per weight (decoder_1b_4l has 5); keys and values are float32. The
line is like those of decode.py.
"""

import argparse
import os
import statistics
import tempfile
import time

import gguf
import llama_cpp
import numpy as np

LAYERS, WIDTH, HEADS, KEY_HEADS, HEAD, HIDDEN, VOCABULARY, CONTEXT = 4, 2048, 32, 8, 64, 8192, 32000, 2048
BLOCK = 32


def write_model(path):
    """Random weights; returns the bytes of those that are multiplied by."""
    random, writer, total = np.random.default_rng(1), gguf.GGUFWriter(path, "llama"), 0
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")

    def add(name, rows, depth):
        blocks = np.empty((rows, depth // BLOCK, 2 + BLOCK // 2), np.uint8)
        blocks[..., 2:] = random.integers(0, 256, (rows, depth // BLOCK, BLOCK // 2), np.uint8)
        scales = (random.random((rows, depth // BLOCK, 1)) * 0.5 + 0.75) / 4.6 / np.sqrt(depth)
        blocks[..., :2] = scales.astype(np.float16).view(np.uint8)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        return blocks.nbytes

    add("token_embd.weight", VOCABULARY, WIDTH)
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(WIDTH, np.float32))
        for name, rows, depth in (
            ("attn_q", HEADS * HEAD, WIDTH),
            ("attn_k", KEY_HEADS * HEAD, WIDTH),
            ("attn_v", KEY_HEADS * HEAD, WIDTH),
            ("attn_output", WIDTH, HEADS * HEAD),
            ("ffn_gate", HIDDEN, WIDTH),
            ("ffn_up", HIDDEN, WIDTH),
            ("ffn_down", WIDTH, HIDDEN),
        ):
            total += add(f"blk.{layer}.{name}.weight", rows, depth)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    total += add("output.weight", VOCABULARY, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return total


def decode(context, tokens, position):
    """Seconds that it takes."""
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for k, token in enumerate(tokens):
        batch.token[k], batch.pos[k], batch.n_seq_id[k], batch.logits[k] = token, position + k, 1, k == len(tokens) - 1
        batch.seq_id[k][0] = 0
    start = time.perf_counter()
    status = llama_cpp.llama_decode(context, batch)
    llama_cpp.llama_synchronize(context)
    spent = time.perf_counter() - start
    llama_cpp.llama_batch_free(batch)
    if status != 0:
        raise RuntimeError(f"llama_decode: {status}")
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=31)
    arguments = parser.parse_args()
    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, None)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "decoder.gguf")
        total = write_model(path) + 2 * LAYERS * KEY_HEADS * HEAD * arguments.keys * 4
        model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch = CONTEXT, CONTEXT
        parameters.n_threads, parameters.n_threads_batch = arguments.threads, arguments.threads
        parameters.type_k = parameters.type_v = 0  # float32
        context = llama_cpp.llama_init_from_model(model, parameters)
        decode(context, np.random.default_rng(2).integers(0, VOCABULARY, arguments.keys - 1).tolist(), 0)
        times = [decode(context, [7], arguments.keys - 1 + k) for k in range(arguments.turns + 2)][2:]
        spent = statistics.median(times)
        print(
            f"{arguments.keys} keys, {total / 1e6:.0f} MB, threads {arguments.threads}: "
            f"llama.cpp {spent * 1e3:.1f} ms, {total / spent / 1e9:.1f} GB/s"
        )


if __name__ == "__main__":
    main()
