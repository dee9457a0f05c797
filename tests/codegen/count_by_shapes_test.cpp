// What shapes alone tell of a kernel's cycles, beside what a run of it counts.
#include "codegen/timing/count_by_shapes.h"

#include <gtest/gtest.h>

#include "codegen/timing/timing_model.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"

namespace aipu::tir {
namespace {

// Counters of one TEC that runs f(out, n), where the body stores as often as its loops say.
void expect_counted(const std::string& body, int64_t n) {
  const std::string text = "func f(out#0: global int32*, n#1: int32) -> void {\n" + body + "}\n";
  const Result<Module> module = parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const auto counting = instrument(*module);
  ASSERT_TRUE(counting.ok()) << counting.status().message();
  std::vector<int32_t> out(1);
  std::vector<int64_t> counted(static_cast<size_t>(counting->counter_count));
  const std::vector<InterpreterArgument> arguments = {
      {.data = reinterpret_cast<std::byte*>(out.data()), .bytes = sizeof(int32_t), .is_pointer = true},
      {.word = static_cast<uint64_t>(n)},
      {.data = reinterpret_cast<std::byte*>(counted.data()),
       .bytes = counted.size() * sizeof(int64_t),
       .is_pointer = true}};
  const Status status = interpret_all(counting->module, 1, arguments);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto told = count_by_shapes(*counting, 1, std::vector<std::optional<int64_t>>{std::nullopt, n});
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_EQ(*told, counted);
}

std::string turns(const std::string& count) {
  return "  for serial i#9: int32 = 0 to " + count + " step 1 {\n    store out#0[0] = i#9\n  }\n";
}

TEST(CountByShapes, Signed) {
  expect_counted(turns("(n#1 / 2)"), 7);
  expect_counted(turns("(n#1 / -1)"), -7);
  expect_counted(turns("(n#1 >> 1)"), 7);
}

// Of n = -1 the largest number, which division, shifts, comparisons and minima take as such.
TEST(CountByShapes, Unsigned) {
  const std::string u = "  let u#2: uint64 = cast<uint64>(n#1)\n";
  expect_counted(u + turns("cast<int32>((u#2 >> 61:uint64))"), -1);
  expect_counted(u + turns("cast<int32>((u#2 / 4611686018427387904:uint64))"), -1);
  expect_counted(u + turns("cast<int32>((u#2 % 10:uint64))"), -1);
  expect_counted(u + turns("cast<int32>((u#2 min 9:uint64))"), -1);
  expect_counted(u + "  if (u#2 > 9:uint64) {\n" + turns("5") + "  }\n", -1);
}

TEST(CountByShapes, CountsOfShiftsAreTakenModuloTheWidth) {
  expect_counted(turns("(n#1 << 33)"), 3);
  expect_counted(turns("(n#1 >> 33)"), 7);
}

}  // namespace
}  // namespace aipu::tir
