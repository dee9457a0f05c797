// Plans of two engines, for tests of what plays them.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/model_builder.h"

namespace aipu::test {

// A random plan over a few tensors; each command waits for those of the other engine that it has memory in common with.
inline ModelBuilder random_plan(uint32_t seed) {
  constexpr uint32_t kTensors = 5;
  constexpr int64_t kCount = 256;
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random); };
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), count = b.constant(kCount), many = b.constant(1 << 20);
  const uint32_t bytes = b.constant(kCount * 4), all = b.constant(kCount * kTensors);
  const uint32_t x = b.tensor("x", DType::kF32, {count}, fb::TensorKind::kInput);
  std::vector<uint32_t> tensors;
  for (uint32_t t = 0; t < kTensors; ++t)
    tensors.push_back(b.tensor("t" + std::to_string(t), DType::kF32, {count}, fb::TensorKind::kArena));
  const uint32_t y = b.tensor("y", DType::kF32, {all}, fb::TensorKind::kOutput);
  const uint32_t scale = b.kernel(scale_kernel()), add = b.kernel(add_kernel());

  struct Use {
    fb::Wait place;
    std::vector<uint32_t> reads;
    uint32_t writes;
  };
  std::vector<Use> uses;
  uint32_t launches = 0, copies = 0;
  const auto waits_of = [&](fb::Engine engine, const std::vector<uint32_t>& reads, uint32_t writes) {
    std::vector<fb::Wait> waits;
    const auto has = [](const std::vector<uint32_t>& list, uint32_t t) {
      return std::find(list.begin(), list.end(), t) != list.end();
    };
    for (const Use& use : uses) {
      if (use.place.engine() == engine) continue;
      if (has(reads, use.writes) || has(use.reads, writes) || use.writes == writes) waits.push_back(use.place);
    }
    const uint32_t index = engine == fb::Engine::kTec ? launches++ : copies++;
    uses.push_back({fb::Wait(engine, index), reads, writes});
    return waits;
  };
  const auto copy = [&](uint32_t to, uint32_t offset, uint32_t from) {
    auto waits = waits_of(fb::Engine::kDma, {from}, to);
    b.copy(to, offset, from, zero, bytes, one, zero, zero, 0, std::move(waits));
  };
  for (const uint32_t tensor : tensors) copy(tensor, zero, x);
  for (int i = 0; i < 60; ++i) {
    const uint32_t to = tensors[below(kTensors)], a = tensors[below(kTensors)], c = tensors[below(kTensors)];
    if (to == a || to == c) continue;
    switch (below(3)) {
      case 0:
        copy(to, zero, a);
        break;
      case 1: {
        auto waits = waits_of(fb::Engine::kTec, {a}, to);
        b.launch(scale, {b.pointer(a, false, zero), b.pointer(to, true, zero), b.number(count), b.word(1.5f)}, many, 0,
                 std::move(waits));
        break;
      }
      default: {
        auto waits = waits_of(fb::Engine::kTec, {a, c}, to);
        b.launch(add,
                 {b.pointer(a, false, zero), b.pointer(c, false, zero), b.pointer(to, true, zero), b.number(count)},
                 many, 0, std::move(waits));
      }
    }
  }
  for (uint32_t t = 0; t < kTensors; ++t) copy(y, b.constant(int64_t{t} * kCount * 4), tensors[t]);
  b.sections.push_back({fb::SectionKind::kNativeModule, 0, test_kernels()});
  return b;
}

}  // namespace aipu::test
