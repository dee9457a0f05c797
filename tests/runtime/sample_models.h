// Small models made by hand that several tests run.
#pragma once

#include "tests/runtime/model_builder.h"

namespace aipu::test {

// x[N,4] -> t = 3 * x -> u = t + x -> (dma) y[N,4]; y = 4 * x.
inline ModelBuilder chain_model() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), many = b.constant(1 << 20), four = b.constant(4);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n, four}, fb::TensorKind::kInput);
  const uint32_t t = b.tensor("t", DType::kF32, {n, four}, fb::TensorKind::kArena);
  const uint32_t u = b.tensor("u", DType::kF32, {n, four}, fb::TensorKind::kArena);
  const uint32_t y = b.tensor("y", DType::kF32, {n, four}, fb::TensorKind::kOutput);
  const uint32_t count = b.mul(n, four);
  const uint32_t bytes = b.mul(count, four);
  const uint32_t scale = b.kernel(scale_kernel());
  const uint32_t add = b.kernel(add_kernel());
  b.launch(scale, {b.pointer(x, false, zero), b.pointer(t, true, zero), b.number(count), b.word(3.0f)}, many);
  b.launch(add, {b.pointer(t, false, zero), b.pointer(x, false, zero), b.pointer(u, true, zero), b.number(count)},
           many);
  b.copy(y, zero, u, zero, bytes, one, zero, zero, 0, {{fb::Engine::kTec, 1}});
  b.tensors[t].first_use = 1;
  b.tensors[t].last_use = 2;
  b.tensors[u].first_use = 2;
  b.tensors[u].last_use = 3;
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  b.sections.push_back({fb::SectionKind::kConstants, 0, std::vector<std::byte>(256)});
  b.origins = {"'conv' (Conv)"};
  return b;
}

// The constants w (64 floats) and v (64 more): "one" is x[N] -> y = 2 * (w + v)[:N], "two" is x[N] -> y = -1 * w[:N].
// (What x holds says nothing.)
inline ModelBuilder two_entries() {
  const auto model = [](bool is_first) {
    ModelBuilder b;
    const uint32_t zero = b.constant(0), many = b.constant(64);
    const uint32_t n = b.symbol("N", 0, 0);
    b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
    const uint32_t w = b.tensor("w", DType::kF32, {many}, fb::TensorKind::kConstant);
    const uint32_t y = b.tensor("y", DType::kF32, {n}, fb::TensorKind::kOutput);
    uint32_t source = w;
    if (is_first) {
      const uint32_t v = b.tensor("v", DType::kF32, {many}, fb::TensorKind::kConstant);
      b.tensors[v].offset_bytes = 256;
      source = b.tensor("sum", DType::kF32, {many}, fb::TensorKind::kArena);
      b.launch(1, {b.pointer(w, false, zero), b.pointer(v, false, zero), b.pointer(source, true, zero), b.number(many)},
               many);
      b.tensors[source].first_use = 1;
      b.tensors[source].last_use = 2;
    }
    b.launch(0,
             {b.pointer(source, false, zero), b.pointer(y, true, zero), b.number(n), b.word(is_first ? 2.0f : -1.0f)},
             many);
    b.entry_name = is_first ? "one" : "two";
    return b;
  };
  ModelBuilder b = model(true);
  b.kernel(scale_kernel());
  b.kernel(add_kernel());
  b.entries = {model(false)};
  std::vector<float> constants(128);
  for (size_t i = 0; i < constants.size(); ++i) constants[i] = static_cast<float>(i);
  const auto bytes = std::as_bytes(std::span(constants));
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  b.sections.push_back({fb::SectionKind::kConstants, 0, {bytes.begin(), bytes.end()}});
  return b;
}

// The same, sample by sample: commands 1 to 3 of chain_model() in a batch loop.
inline ModelBuilder looped_chain_model() {
  ModelBuilder b = chain_model();
  b.batch_loops = {fb::BatchLoop(1, 3, 0)};
  return b;
}

// x[N,4] -> t = x -> y[N,4] = t. Negative elements are fault 2 of 'root' in the first kernel, fault 0 of 'again' in the
// second. `loop`: both are in a batch loop.
inline ModelBuilder faulty_model(bool loop = false) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), many = b.constant(1 << 20), four = b.constant(4);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n, four}, fb::TensorKind::kInput);
  const uint32_t t = b.tensor("t", DType::kF32, {n, four}, fb::TensorKind::kArena);
  const uint32_t y = b.tensor("y", DType::kF32, {n, four}, fb::TensorKind::kOutput);
  const uint32_t count = b.mul(n, four);
  const uint32_t root = b.kernel(root_kernel());
  b.launch(root, {b.pointer(x, false, zero), b.pointer(t, true, zero), b.number(count), b.word(uint64_t{2})}, many);
  b.launch(root, {b.pointer(t, false, zero), b.pointer(y, true, zero), b.number(count), b.word(uint64_t{0})}, many);
  b.tensors[t].first_use = 1;
  b.tensors[t].last_use = 2;
  b.strings = {"a root of {value} at {limit}, {value}"};
  b.origins = {"'root {value}' (Sqrt)", "'again' (Sqrt)"};
  b.programs[0].faults = {fb::Fault(0, 2, 0, 0, kNone), fb::Fault(1, 0, 0, 1, kNone)};
  if (loop) b.batch_loops = {fb::BatchLoop(1, 2, 0)};
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, faulty_kernels()});
  return b;
}

// x[N] -> count of positive elements -> K = count -> y[K] = those elements.
inline ModelBuilder positive_model() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
  const uint32_t c = b.tensor("count", DType::kI64, {one}, fb::TensorKind::kArena);
  const uint32_t k = b.symbol("K", c, 0, fb::SymbolKind::kTensorElement);
  const uint32_t t = b.tensor("t", DType::kF32, {k}, fb::TensorKind::kArena);
  const uint32_t y = b.tensor("y", DType::kF32, {k}, fb::TensorKind::kOutput);
  const uint32_t count = b.kernel(count_kernel());
  const uint32_t positive = b.kernel(positive_kernel());
  const uint32_t scale = b.kernel(scale_kernel());
  b.launch(count, {b.pointer(x, false, zero), b.pointer(c, true, zero), b.number(n)}, one);
  b.host(fb::HostOp::kBindSymbols, 1, 1, 0, 0, {{fb::Engine::kTec, 0}});
  b.launch(positive, {b.pointer(x, false, zero), b.pointer(t, true, zero), b.number(n)}, one);
  b.launch(scale, {b.pointer(t, false, zero), b.pointer(y, true, zero), b.number(k), b.word(2.0f)}, n);
  b.tensors[c].first_use = 1;
  b.tensors[c].last_use = 2;
  b.tensors[t].first_use = 3;
  b.tensors[t].last_use = 4;
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  return b;
}

// x[N,4] -> t = 3 * x; then a size is bound that nothing depends on; then, in a batch loop, the halves of t are copied
// out, and y[N,2] = left + 2 * right.
inline ModelBuilder looped_behind_binding_model() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), two = b.constant(2), many = b.constant(1 << 20);
  const uint32_t four = b.constant(4), eight = b.constant(8), sixteen = b.constant(16);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n, four}, fb::TensorKind::kInput);
  const uint32_t c = b.tensor("count", DType::kI64, {one}, fb::TensorKind::kArena);
  b.symbol("K", c, 0, fb::SymbolKind::kTensorElement);
  const uint32_t t = b.tensor("t", DType::kF32, {n, four}, fb::TensorKind::kArena);
  const auto half = [&](const char* name) { return b.tensor(name, DType::kF32, {n, two}, fb::TensorKind::kArena); };
  const uint32_t left = half("left"), right = half("right"), once = half("once"), twice = half("twice");
  const uint32_t y = b.tensor("y", DType::kF32, {n, two}, fb::TensorKind::kOutput);
  const uint32_t scale = b.kernel(scale_kernel());
  const uint32_t add = b.kernel(add_kernel());
  const uint32_t count = b.kernel(count_kernel());
  const auto times = [&](uint32_t from, uint32_t to, uint32_t elements, float factor, std::vector<fb::Wait> waits) {
    b.launch(scale, {b.pointer(from, false, zero), b.pointer(to, true, zero), b.number(elements), b.word(factor)}, many,
             0, std::move(waits));
  };
  times(x, t, b.mul(n, four), 3, {});
  b.launch(count, {b.pointer(x, false, zero), b.pointer(c, true, zero), b.number(b.mul(n, four))}, one);
  b.host(fb::HostOp::kBindSymbols, 1, 1, 0, 0, {{fb::Engine::kTec, 1}});
  b.copy(left, zero, t, zero, eight, n, eight, sixteen, 0, {{fb::Engine::kTec, 0}});
  b.copy(right, zero, t, eight, eight, n, eight, sixteen);
  times(left, once, b.mul(n, two), 1, {{fb::Engine::kDma, 1}});
  times(right, twice, b.mul(n, two), 2, {});
  b.launch(
      add,
      {b.pointer(once, false, zero), b.pointer(twice, false, zero), b.pointer(y, true, zero), b.number(b.mul(n, two))},
      many);
  const auto lives = [&](uint32_t tensor, uint32_t first, uint32_t last) {
    b.tensors[tensor].first_use = first;
    b.tensors[tensor].last_use = last;
  };
  lives(t, 1, 5);
  lives(c, 2, 3);
  lives(left, 4, 6);
  lives(right, 5, 7);
  lives(once, 6, 8);
  lives(twice, 7, 8);
  b.batch_loops = {fb::BatchLoop(4, 8, 0)};
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  return b;
}

// (c bool[1], x[N]) -> y[N] = c ? 2 * x : -x, each branch a program.
inline ModelBuilder branch_model() {
  ModelBuilder b;
  b.programs.resize(3);
  const uint32_t zero = b.constant(0), one = b.constant(1), many = b.constant(1 << 20);
  const uint32_t n = b.symbol("N", 1, 0);
  const uint32_t c = b.tensor("c", DType::kBool, {one}, fb::TensorKind::kInput);
  const uint32_t x = b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {n}, fb::TensorKind::kOutput);
  const uint32_t scale = b.kernel(scale_kernel());
  b.host(fb::HostOp::kIf, c, 1, 2);
  b.launch(scale, {b.pointer(x, false, zero), b.pointer(y, true, zero), b.number(n), b.word(2.0f)}, many, 1);
  b.launch(scale, {b.pointer(x, false, zero), b.pointer(y, true, zero), b.number(n), b.word(-1.0f)}, many, 2);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  return b;
}

// (x[N], trips) -> y[N] = 3^trips * x, by a loop.
inline ModelBuilder loop_model() {
  ModelBuilder body;
  {
    const uint32_t zero = body.constant(0), one = body.constant(1), many = body.constant(1 << 20);
    const uint32_t n = body.symbol("N", 2, 0);
    body.tensor("i", DType::kI64, {}, fb::TensorKind::kInput);
    const uint32_t go = body.tensor("go", DType::kBool, {}, fb::TensorKind::kInput);
    const uint32_t v = body.tensor("v", DType::kF32, {n}, fb::TensorKind::kInput);
    const uint32_t on = body.tensor("on", DType::kBool, {}, fb::TensorKind::kOutput);
    const uint32_t next = body.tensor("next", DType::kF32, {n}, fb::TensorKind::kOutput);
    body.copy(on, zero, go, zero, one, one, zero, zero);
    body.launch(0, {body.pointer(v, false, zero), body.pointer(next, true, zero), body.number(n), body.word(3.0f)},
                many);
  }
  ModelBuilder b;
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
  const uint32_t trips = b.tensor("trips", DType::kI64, {}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {n}, fb::TensorKind::kOutput);
  b.kernel(scale_kernel());
  b.host(fb::HostOp::kLoop, 0, 0);
  b.host(fb::HostOp::kFetch, 0, 0, y);
  b.calls = {{.bodies = {0}, .trip_count = trips, .inputs = {x}, .states = 1}};
  b.bodies.push_back(std::move(body));
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  return b;
}

// x[N] -> y[N] reversed, by a kernel with local memory, shared memory and barriers. N <= 1024.
inline ModelBuilder barrier_model() {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), many = b.constant(1 << 20);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kF32, {n}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {n}, fb::TensorKind::kOutput);
  b.launch(b.kernel(reverse_kernel()), {b.pointer(x, false, zero), b.pointer(y, true, zero), b.number(n)}, many);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  return b;
}

// x[N] int32 -> y[N] int32 by a kernel f(x, y, n).
inline ModelBuilder interpreted_model(const std::string& kernel, const std::string& tir) {
  ModelBuilder b;
  b.tec_count = 4;
  const uint32_t zero = b.constant(0), four = b.constant(4);
  const uint32_t n = b.symbol("N", 0, 0);
  const uint32_t x = b.tensor("x", DType::kI32, {n}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kI32, {n}, fb::TensorKind::kOutput);
  test::KernelRow row{kernel, {true, true, false}};
  row.tir = tir;
  b.launch(b.kernel(row), {b.pointer(x, false, zero), b.pointer(y, true, zero), b.number(n)}, four);
  return b;
}

inline std::string tir_of(const std::string& kernel, const std::string& body) {
  return "func " + kernel + "(x#0: global int32*, y#1: global int32*, n#2: int32) -> void {\n" + body + "\n}\n";
}

// y = 3 * x, by four TECs that meet before and after.
inline ModelBuilder triple_model() {
  return interpreted_model(
      "triple", tir_of("triple",
                       "let t#3: int32 = S.get_local_id<int32>()\n"
                       "eval S.barrier<void>()\n"
                       "for serial i#4: int32 = t#3 to n#2 step 4 { store y#1[i#4] = (load(x#0, i#4) * 3) }\n"
                       "eval S.barrier<void>()"));
}

}  // namespace aipu::test
