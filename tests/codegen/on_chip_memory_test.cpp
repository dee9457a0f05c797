#include "codegen/tir/on_chip_memory.h"

#include <gtest/gtest.h>

#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// Buffers by name, as far as they are placed.
std::map<std::string, int64_t> offsets(const std::string& text, int64_t* lsram = nullptr, int64_t* shared = nullptr) {
  const Result<Module> module = parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return {};
  const Status valid = verify(*module);
  EXPECT_TRUE(valid.ok()) << valid.message();
  const OnChipMemory memory = plan_on_chip_memory(*module);
  std::map<std::string, int64_t> found;
  for (const auto& [buffer, offset] : memory.offsets) found[buffer->name] = offset;
  if (lsram != nullptr) *lsram = memory.lsram_bytes;
  if (shared != nullptr) *shared = memory.shared_bytes;
  return found;
}

std::string entry(const std::string& body) {
  return "func f(out#0: global int32*, n#1: int32) -> void {\n" + body + "}\n";
}

TEST(OnChipMemory, OneAfterTheOther) {
  int64_t lsram = 0;
  const auto at = offsets(entry(R"(  alloc a#2: lsram int32* [100]
  store a#2[0] = n#1
  store out#0[0] = load(a#2, 0)
  alloc b#3: lsram int32* [200]
  store b#3[0] = n#1
  store out#0[1] = load(b#3, 0)
)"),
                          &lsram);
  EXPECT_EQ(at.at("a"), at.at("b"));
  EXPECT_EQ(lsram, 800);
}

TEST(OnChipMemory, AtTheSameTime) {
  int64_t lsram = 0;
  const auto at = offsets(entry(R"(  alloc a#2: lsram int32* [100]
  alloc b#3: lsram int32* [200]
  alloc unused#4: lsram int32* [300]
  store b#3[0] = n#1
  store a#2[0] = load(b#3, 0)
)"),
                          &lsram);
  EXPECT_NE(at.at("a"), at.at("b"));
  EXPECT_EQ(lsram, 832 + 400);  // what is never used does not add up
}

TEST(OnChipMemory, LoopsAndPointersKeepWhatTheyUse) {
  // `a` is used in every turn, by another name.
  const auto at = offsets(entry(R"(  alloc a#2: lsram int32* [100]
  let p#3: lsram int32* = (a#2 + 1)
  for serial i#4: int32 = 0 to n#1 step 1 {
    store out#0[i#4] = load(p#3, 0)
    alloc b#5: lsram int32* [100]
    store b#5[0] = i#4
  }
  alloc c#6: lsram int32* [100]
  store c#6[0] = 1
)"));
  EXPECT_NE(at.at("a"), at.at("b"));
  EXPECT_EQ(at.at("c"), 0);
}

TEST(OnChipMemory, WhatTheNextTurnUses) {
  // The pointer brings `b` into the next turn, where `c` comes first.
  const auto at = offsets(entry(R"(  alloc a#2: lsram int32* [100]
  let p#3: lsram int32* = a#2
  for serial i#4: int32 = 0 to n#1 step 1 {
    alloc c#5: lsram int32* [100]
    store c#5[0] = load(p#3, 0)
    alloc b#6: lsram int32* [100]
    store b#6[0] = i#4
    set p#3 = b#6
  }
)"));
  EXPECT_NE(at.at("c"), at.at("b"));
  EXPECT_NE(at.at("c"), at.at("a"));
}

std::string with_functions(const std::string& body, const std::string& scope = "lsram") {
  std::string text = entry(body);
  for (const char* name : {"g", "h"}) {
    text += "func " + std::string(name) + "(p#0: global int32*) -> void {\n  alloc " + name + "1#1: " + scope +
            " int32* [1000]\n  store " + name + "1#1[0] = 1\n  store p#0[0] = load(" + name + "1#1, 0)\n}\n";
  }
  return text;
}

TEST(OnChipMemory, FunctionsInBranches) {
  int64_t lsram = 0;
  const auto at = offsets(with_functions(R"(  if (n#1 > 0) {
    eval call<void> g(out#0)
  } else {
    eval call<void> h(out#0)
  }
)"),
                          &lsram);
  EXPECT_EQ(at.at("g1"), at.at("h1"));
  EXPECT_EQ(lsram, 4000);
}

TEST(OnChipMemory, FunctionsBesideTheirCallersArrays) {
  int64_t lsram = 0;
  const auto at = offsets(with_functions(R"(  alloc a#2: lsram int32* [100]
  store a#2[0] = 1
  eval call<void> g(out#0)
  store out#0[0] = load(a#2, 0)
  eval call<void> h(out#0)
)"),
                          &lsram);
  EXPECT_NE(at.at("g1"), at.at("a"));
  EXPECT_EQ(at.at("h1"), 0);
  EXPECT_EQ(lsram, 4032 + 400);
}

TEST(OnChipMemory, TransfersThatAreUnderWay) {
  const std::string begin = R"(  let event#2: int32 = S.alloc_event<int32>()
  alloc a#3: lsram int32* [100]
  eval S.async_dma_copy<void>(a#3, out#0, 100, 100, 1, 100, event#2)
)";
  const std::string rest = R"(  alloc b#4: lsram int32* [100]
  store b#4[0] = 1
)";
  const std::string wait = "  eval S.wait_events<void>(event#2)\n";
  auto at = offsets(entry(begin + wait + rest));
  EXPECT_EQ(at.at("a"), at.at("b"));
  at = offsets(entry(begin + rest + wait));
  EXPECT_NE(at.at("a"), at.at("b"));
  at = offsets(entry(begin + "  if (n#1 > 0) {\n  " + wait + "  }\n" + rest));
  EXPECT_NE(at.at("a"), at.at("b"));
}

TEST(OnChipMemory, SharedMemoryNeedsABarrierInBetween) {
  const std::string first = R"(  alloc a#2: shared int32* [100]
  store a#2[0] = n#1
)";
  const std::string second = R"(  alloc b#3: shared int32* [100]
  store b#3[0] = n#1
)";
  auto at = offsets(entry(first + second));
  EXPECT_NE(at.at("a"), at.at("b"));
  at = offsets(entry(first + "  eval S.barrier<void>()\n" + second));
  EXPECT_EQ(at.at("a"), at.at("b"));
  at = offsets(entry(first + "  if (n#1 > 0) {\n    eval S.barrier<void>()\n  }\n" + second));
  EXPECT_NE(at.at("a"), at.at("b"));
  // In a loop a second one before the first array is used again.
  const auto loop = [](const std::string& body) {
    return entry("  for serial i#9: int32 = 0 to n#1 step 1 {\n" + body + "  }\n");
  };
  at = offsets(loop(first + "  eval S.barrier<void>()\n" + second));
  EXPECT_NE(at.at("a"), at.at("b"));
  at = offsets(loop(first + "  eval S.barrier<void>()\n" + second + "  eval S.barrier<void>()\n"));
  EXPECT_EQ(at.at("a"), at.at("b"));
}

TEST(OnChipMemory, SharedMemoryInBranchesThatAllTecsTakeAlike) {
  int64_t shared = 0;
  offsets(
      with_functions("  if (n#1 > 0) {\n    eval call<void> g(out#0)\n  } else {\n    eval call<void> h(out#0)\n  }\n",
                     "shared"),
      nullptr, &shared);
  EXPECT_EQ(shared, 4000);
  offsets(with_functions("  if (S.get_local_id<int32>() > 0) {\n    eval call<void> g(out#0)\n  } else {\n    eval "
                         "call<void> h(out#0)\n  "
                         "}\n",
                         "shared"),
          nullptr, &shared);
  EXPECT_EQ(shared, 4032 + 4000);
}

TEST(OnChipMemory, ManyCallsOfManyCallsEnd) {
  std::string text = entry("  eval call<void> f0(out#0)\n  eval call<void> f0(out#0)\n");
  constexpr int kFunctions = 40;
  for (int i = 0; i < kFunctions; ++i) {
    text += "func f" + std::to_string(i) + "(p#0: global int32*) -> void {\n  alloc a" + std::to_string(i) +
            "#1: lsram int32* [16]\n";
    const std::string next = "  eval call<void> f" + std::to_string(i + 1) + "(p#0)\n";
    text += i + 1 < kFunctions ? next + next + "}\n" : "  store a" + std::to_string(i) + "#1[0] = 1\n}\n";
  }
  int64_t lsram = 0;
  offsets(text, &lsram);
  EXPECT_EQ(lsram, kFunctions * 64);
}

}  // namespace
}  // namespace aipu::tir
