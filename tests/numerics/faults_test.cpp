// What no operator has a result for (indices outside of an axis, division by zero, ...): an error that names the node
// and the value, on native code, X2_1204 and the interpreter alike, after which the session runs as before.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "gbuilder/build.h"
#include "runtime/session.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::NamedAttributes;
using models::OnnxBuilder;
using models::TensorData;
using Values = std::map<std::string, TensorData>;
using Ints = std::vector<int64_t>;

struct Place {
  std::string target, backend;
};
const Place kPlaces[] = {{"host", ""}, {"X2_1204", ""}, {"host", "interp"}};

TensorData i64(Ints shape, const Ints& elements) { return TensorData::i64(std::move(shape), elements); }
TensorData i32(Ints shape, const std::vector<int32_t>& elements) {
  return TensorData::of(DType::kI32, std::move(shape), elements);
}
TensorData f32(Ints shape, const std::vector<float>& elements) { return TensorData::f32(std::move(shape), elements); }

std::vector<float> counting(size_t count) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = static_cast<float>(i);
  return result;
}

Status convert(OnnxBuilder& b, const std::string& path, const std::string& target) {
  AIPU_RETURN_IF_ERROR(b.save(path));
  gbuilder::BuildOptions build;
  build.model = path;
  build.output = path + "." + target + ".aipu.bin";
  build.target = target;
  build.jobs = 1;
  return gbuilder::build_model(build).status();
}

class Runner {
 public:
  Status open(const std::string& path, const Place& place, int threads) {
    AIPU_ASSIGN_OR_RETURN(model_,
                          runtime::Model::load(path + "." + place.target + ".aipu.bin", {.backend = place.backend}));
    runtime::SessionOptions options;
    options.threads = threads;
    AIPU_ASSIGN_OR_RETURN(session_, runtime::Session::create(model_, options));
    return {};
  }
  Status run(const Values& inputs) {
    for (size_t i = 0; i < model_->inputs().size(); ++i) {
      const TensorData& value = inputs.at(model_->inputs()[i].name);
      AIPU_RETURN_IF_ERROR(session_->bind_input(i, {value.dtype, value.shape, value.bytes.data()}));
    }
    return session_->run();
  }
  // The first output must be `expected`, bit by bit.
  void expect_output(const TensorData& expected, const std::string& what) {
    const auto view = session_->output(0);
    ASSERT_TRUE(view.ok()) << what << ": " << view.status().message();
    ASSERT_EQ(Ints(view->shape.begin(), view->shape.end()), expected.shape) << what;
    EXPECT_EQ(view->dtype, expected.dtype) << what;
    EXPECT_EQ(std::memcmp(view->data, expected.bytes.data(), expected.bytes.size()), 0) << what;
  }

 private:
  std::shared_ptr<const runtime::Model> model_;
  std::unique_ptr<runtime::Session> session_;
};

struct BadRun {
  Values inputs;
  std::string message;
};

// Good, then each bad run, with the good one again behind it, everywhere.
void check(OnnxBuilder& b, const std::string& name, const Values& good, const TensorData& expected,
           const std::vector<BadRun>& bad) {
  const std::string path = temporary_path(name + ".onnx");
  for (const char* target : {"host", "X2_1204"}) {
    const Status status = convert(b, path, target);
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
  }
  for (const Place& place : kPlaces) {
    const std::string what = name + " on " + place.target + " " + place.backend;
    Runner runner;
    Status status = runner.open(path, place, 2);
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    status = runner.run(good);
    ASSERT_TRUE(status.ok()) << what << ": " << status.message();
    runner.expect_output(expected, what);
    for (const BadRun& run : bad) {
      status = runner.run(run.inputs);
      EXPECT_FALSE(status.ok()) << what << ": no error '" << run.message << "'";
      if (status.ok()) continue;
      EXPECT_EQ(status.message(), run.message) << what;
      status = runner.run(good);
      ASSERT_TRUE(status.ok()) << what << ", after an error: " << status.message();
      runner.expect_output(expected, what + ", after an error");
    }
  }
}

void expect_refused(OnnxBuilder& b, const std::string& name, const std::string& message) {
  const Status status = convert(b, temporary_path(name + ".onnx"), "host");
  ASSERT_FALSE(status.ok()) << name;
  EXPECT_NE(status.message().find(message), std::string::npos) << name << ": " << status.message();
}

// ---- extents

// What a type rule takes for granted of two extents is checked where only a run knows them.
TEST(Faults, ExtentsThatMustBeEqual) {
  OnnxBuilder c("conv");
  c.node_to("Conv", {c.input("x", DType::kF32, {1, "C", 1, 2}), c.initializer(f32({1, 2, 1, 1}, {1, 10}))}, {"y"});
  c.output("y", "y", DType::kF32, {1, 1, 1, 2});
  check(c, "conv", {{"x", f32({1, 2, 1, 2}, {1, 2, 3, 4})}}, f32({1, 1, 1, 2}, {31, 42}),
        {{{{"x", f32({1, 1, 1, 2}, {1, 2})}},
          "host command 0, from '/y' (Conv): the input's channel count must be 2, found 1"},
         {{{"x", f32({1, 3, 1, 2}, {1, 2, 3, 4, 5, 6})}},
          "host command 0, from '/y' (Conv): the input's channel count must be 2, found 3"}});

  OnnxBuilder k("concat");
  k.node_to("Concat", {k.input("a", DType::kF32, {"A", 1}), k.input("b", DType::kF32, {"B", 1})}, {"y"}, {{"axis", 1}});
  k.output("y", "y", DType::kF32, {"A", 2});
  check(k, "concat", {{"a", f32({2, 1}, {1, 2})}, {"b", f32({2, 1}, {3, 4})}}, f32({2, 2}, {1, 3, 2, 4}),
        {{{{"a", f32({2, 1}, {1, 2})}, {"b", f32({1, 1}, {3})}},
          "host command 0, from '/y' (Concat): extent 0 of operand 1 must be 2, found 1"}});
}

// ---- Gather and Scatter

TEST(Faults, GatherOfAnEmbedding) {
  OnnxBuilder b("embedding");
  const std::string table = b.initializer(f32({1000, 3}, counting(3000)));
  const std::string indices = b.input("indices", DType::kI64, {"N"});
  b.node_to("Gather", {table, indices}, {"y"});
  b.output("y", "y", DType::kF32, {"N", 3});
  const auto outside = [](int64_t index) {
    return BadRun{{{"indices", i64({3}, {5, index, 7})}},
                  "'/y' (Gather): index " + std::to_string(index) + " is outside of an axis of 1000 elements"};
  };
  check(b, "embedding", {{"indices", i64({3}, {999, -1000, 2})}}, f32({3, 3}, {2997, 2998, 2999, 0, 1, 2, 6, 7, 8}),
        {outside(1007), outside(1000), outside(-1001), outside((int64_t{1} << 32) + 3), outside(-(int64_t{1} << 32)),
         outside(std::numeric_limits<int64_t>::max()), outside(std::numeric_limits<int64_t>::min())});
}

TEST(Faults, GatherByAllTecs) {
  OnnxBuilder b("all");
  const std::string table = b.input("table", DType::kF32, {2, 4, 700});
  const std::string indices = b.input("indices", DType::kI32, {50});
  b.node_to("Gather", {table, indices}, {"{value}"}, {{"axis", 1}});
  b.output("{value}", "{value}", DType::kF32, {2, 50, 700});
  const std::vector<float> data = counting(5600);
  std::vector<float> expected;
  for (size_t o = 0; o < 2; ++o) {
    for (size_t n = 0; n < 50; ++n) {
      for (size_t i = 0; i < 700; ++i) expected.push_back(data[(o * 4 + 3) * 700 + i]);
    }
  }
  check(b, "all_tecs", {{"table", f32({2, 4, 700}, data)}, {"indices", i32({50}, std::vector<int32_t>(50, -1))}},
        f32({2, 50, 700}, expected),
        {{{{"table", f32({2, 4, 700}, data)}, {"indices", i32({50}, std::vector<int32_t>(50, 4))}},
          "'/{value}' (Gather): index 4 is outside of an axis of 4 elements"}});
}

TEST(Faults, GatherFromAnEmptyAxis) {
  OnnxBuilder b("empty");
  const std::string data = b.input("data", DType::kF32, {"N", 2});
  const std::string indices = b.input("indices", DType::kI64, {1});
  b.node_to("Gather", {data, indices}, {"y"});
  b.output("y", "y", DType::kF32, {1, 2});
  check(b, "empty_axis", {{"data", f32({1, 2}, {4, 5})}, {"indices", i64({1}, {0})}}, f32({1, 2}, {4, 5}),
        {{{{"data", f32({0, 2}, {})}, {"indices", i64({1}, {0})}},
          "'/y' (Gather): index 0 is outside of an axis of 0 elements"}});
}

TEST(Faults, GatherOfOneConstant) {
  OnnxBuilder b("slice");
  const std::string data = b.input("data", DType::kF32, {"N", 2});
  b.node_to("Gather", {data, b.initializer(i64({}, {-2}))}, {"y"});
  b.output("y", "y", DType::kF32, {2});
  const std::string path = temporary_path("slice.onnx");
  ASSERT_TRUE(convert(b, path, "host").ok());
  Runner runner;
  ASSERT_TRUE(runner.open(path, kPlaces[0], 1).ok());
  ASSERT_TRUE(runner.run({{"data", f32({2, 2}, {4, 5, 6, 7})}}).ok());
  runner.expect_output(f32({2}, {4, 5}), "slice");
  EXPECT_EQ(runner.run({{"data", f32({1, 2}, {4, 5})}}).message(),
            "host command 0, from '/y' (Gather): index -2 is outside of an axis of 1 elements");
}

TEST(Faults, GatherElements) {
  OnnxBuilder b("elements");
  const std::string data = b.input("data", DType::kF32, {2, 3});
  const std::string indices = b.input("indices", DType::kI64, {2, "K"});
  b.node_to("GatherElements", {data, indices}, {"y"}, {{"axis", 1}});
  b.output("y", "y", DType::kF32, {2, "K"});
  const TensorData x = f32({2, 3}, counting(6));
  check(b, "elements", {{"data", x}, {"indices", i64({2, 2}, {2, -3, 0, 1})}}, f32({2, 2}, {2, 0, 3, 4}),
        {{{{"data", x}, {"indices", i64({2, 2}, {2, -4, 0, 1})}},
          "'/y' (GatherElements): index -4 is outside of an axis of 3 elements"},
         {{{"data", x}, {"indices", i64({2, 2}, {2, 0, 0, 3 + (int64_t{1} << 32)})}},
          "'/y' (GatherElements): index 4294967299 is outside of an axis of 3 elements"}});
}

TEST(Faults, GatherND) {
  OnnxBuilder b("tuples");
  const std::string data = b.input("data", DType::kF32, {2, 3});
  const std::string indices = b.input("indices", DType::kI64, {"K", 2});
  b.node_to("GatherND", {data, indices}, {"y"});
  b.output("y", "y", DType::kF32, {"K"});
  const TensorData x = f32({2, 3}, counting(6));
  check(b, "gather_nd", {{"data", x}, {"indices", i64({2, 2}, {1, 2, -2, -3})}}, f32({2}, {5, 0}),
        {{{{"data", x}, {"indices", i64({2, 2}, {1, 2, 2, 0})}},
          "'/y' (GatherND): index 2 is outside of an axis of 2 elements"},
         {{{"data", x}, {"indices", i64({2, 2}, {1, 3, 0, 0})}},
          "'/y' (GatherND): index 3 is outside of an axis of 3 elements"}});
}

TEST(Faults, ScatterElementsAndScatterND) {
  for (const bool elements : {true, false}) {
    const std::string op = elements ? "ScatterElements" : "ScatterND";
    OnnxBuilder b("scatter");
    const std::string data = b.input("data", DType::kF32, {3});
    const std::string indices =
        elements ? b.input("indices", DType::kI64, {2}) : b.input("indices", DType::kI64, {2, 1});
    const std::string updates = b.input("updates", DType::kF32, {2});
    b.node_to(op, {data, indices, updates}, {"y"});
    b.output("y", "y", DType::kF32, {3});
    const auto inputs = [&](int64_t first, int64_t second) {
      return Values{{"data", f32({3}, {0, 1, 2})},
                    {"indices", i64(elements ? Ints{2} : Ints{2, 1}, {first, second})},
                    {"updates", f32({2}, {8, 9})}};
    };
    check(
        b, op, inputs(-3, 2), f32({3}, {8, 1, 9}),
        {{inputs(0, 3), "'/y' (" + op + "): index 3 is outside of an axis of 3 elements"},
         {inputs(-4, 0), "'/y' (" + op + "): index -4 is outside of an axis of 3 elements"},
         {inputs(int64_t{1} << 40, 0), "'/y' (" + op + "): index 1099511627776 is outside of an axis of 3 elements"}});
  }
}

TEST(Faults, IndicesThatDoNotCountFromTheEnd) {
  OnnxBuilder b("unpool");
  const std::string x = b.input("x", DType::kF32, {1, 1, 1, 2});
  const std::string indices = b.input("indices", DType::kI64, {1, 1, 1, 2});
  b.node_to("MaxUnpool", {x, indices}, {"y"}, {{"kernel_shape", Ints{1, 2}}, {"strides", Ints{1, 2}}});
  b.output("y", "y", DType::kF32, {1, 1, 1, 4});
  const auto inputs = [&](int64_t second) {
    return Values{{"x", f32({1, 1, 1, 2}, {5, 6})}, {"indices", i64({1, 1, 1, 2}, {1, second})}};
  };
  check(b, "unpool", inputs(2), f32({1, 1, 1, 4}, {0, 5, 6, 0}),
        {{inputs(-1), "'/y' (MaxUnpool): index -1 is outside of an axis of 4 elements"},
         {inputs(4), "'/y' (MaxUnpool): index 4 is outside of an axis of 4 elements"}});
}

TEST(Faults, Compress) {
  OnnxBuilder b("compress");
  const std::string data = b.input("data", DType::kF32, {3});
  const std::string condition = b.input("condition", DType::kBool, {"C"});
  b.node_to("Compress", {data, condition}, {"y"}, {{"axis", 0}});
  b.output("y", "y", DType::kF32, {"K"});
  const auto inputs = [&](const std::vector<uint8_t>& flags) {
    return Values{{"data", f32({3}, {7, 8, 9})},
                  {"condition", TensorData::of(DType::kBool, {static_cast<int64_t>(flags.size())}, flags)}};
  };
  check(b, "compress", inputs({1, 0, 1, 0}), f32({2}, {7, 9}),
        {{inputs({1, 0, 0, 0, 1}), "'/y' (Compress): condition 4 is true, but the axis has 3 elements"}});
}

TEST(Faults, ConstantIndicesAreCheckedWhenConverting) {
  for (const char* op : {"Gather", "GatherElements", "GatherND"}) {
    OnnxBuilder b("constant");
    const std::string data = b.input("data", DType::kF32, {4});
    const std::string indices = b.initializer(i64(std::string(op) == "GatherND" ? Ints{2, 1} : Ints{2}, {-4, 4}));
    b.node_to(op, {data, indices}, {"y"});
    b.output("y", "y", DType::kF32, {2});
    expect_refused(b, std::string("constant_") + op,
                   "node '/y' (" + std::string(op) + "): plugin 'gather': index 4 is outside of an axis of 4 elements");
  }
  OnnxBuilder b("constant");
  const std::string data = b.input("data", DType::kF32, {4});
  b.node_to("Gather", {data, b.initializer(i64({}, {5}))}, {"y"});
  b.output("y", "y", DType::kF32, Extents{});
  expect_refused(b, "constant_slice", "index 5 is outside of an axis of 4 elements");
}

// ---- integer division

template <typename T>
void check_division(const std::string& name, DType dtype, const std::vector<T>& x, const std::vector<T>& d,
                    const std::vector<T>& quotients, const std::vector<T>& remainders) {
  // Enough elements for vectors and a tail; the zero is in the tail, or in the middle.
  const size_t copies = 41;
  const auto repeated = [&](const std::vector<T>& pattern) {
    std::vector<T> all;
    for (size_t i = 0; i < copies; ++i) all.insert(all.end(), pattern.begin(), pattern.end());
    return all;
  };
  const auto count = static_cast<int64_t>(copies * x.size());
  for (const bool modulo : {false, true}) {
    const std::string op = modulo ? "Mod" : "Div";
    OnnxBuilder b(name);
    const std::string a = b.input("a", dtype, {"N"});
    const std::string divisor = b.input("d", dtype, {"N"});
    b.node_to(op, {a, divisor}, {"y"});
    b.output("y", "y", dtype, {"N"});
    std::vector<BadRun> bad;
    for (const size_t at : {size_t{0}, copies * x.size() / 2, copies * x.size() - 1}) {
      std::vector<T> zero = repeated(d);
      zero[at] = 0;
      bad.push_back({{{"a", TensorData::of(dtype, {count}, repeated(x))}, {"d", TensorData::of(dtype, {count}, zero)}},
                     "'/y' (" + op + "): division by 0"});
    }
    check(b, name + op,
          {{"a", TensorData::of(dtype, {count}, repeated(x))}, {"d", TensorData::of(dtype, {count}, repeated(d))}},
          TensorData::of(dtype, {count}, repeated(modulo ? remainders : quotients)), bad);
  }
}

TEST(Faults, DivisionOfIntegers) {
  check_division<int32_t>("int32", DType::kI32, {7, -7, INT32_MIN, INT32_MIN}, {2, 2, -1, 3},
                          {3, -3, INT32_MIN, -715827882}, {1, 1, 0, 1});
  check_division<int64_t>("int64", DType::kI64, {7, -7, INT64_MIN}, {-2, 2, -1}, {-3, -3, INT64_MIN}, {-1, 1, 0});
  check_division<uint8_t>("uint8", DType::kU8, {200, 7}, {255, 2}, {0, 3}, {200, 1});
}

TEST(Faults, DivisionByConstants) {
  OnnxBuilder b("by_constants");
  const std::string x = b.input("x", DType::kI32, {4});
  const std::string halves = b.op("Div", {x, b.initializer(i32({}, {2}))});
  b.node_to("Div", {halves, b.initializer(i32({4}, {1, -1, 3, -1}))}, {"y"});
  b.output("y", "y", DType::kI32, {4});
  check(b, "by_constants", {{"x", i32({4}, {8, INT32_MIN, 9, -6})}}, i32({4}, {4, 1 << 30, 1, 3}), {});
  for (const bool scalar : {true, false}) {
    OnnxBuilder zero("by_zero");
    const std::string a = zero.input("a", DType::kI32, {3});
    zero.node_to("Mod", {a, zero.initializer(scalar ? i32({}, {0}) : i32({3}, {1, 0, 2}))}, {"y"});
    zero.output("y", "y", DType::kI32, {3});
    expect_refused(zero, "by_zero", "'/y' (Mod): division by 0");
  }
}

// The node that divides, not the group of nodes that became one kernel.
TEST(Faults, DivisionInAFusedExpression) {
  OnnxBuilder b("fused");
  const std::string x = b.input("x", DType::kI32, {"N"});
  const std::string d = b.input("d", DType::kI32, {"N"});
  const std::string e = b.input("e", DType::kI32, {1});
  b.node_to("Div", {x, d}, {"first"});
  const std::string sum = b.op("Add", {"first", x});
  b.node_to("Mod", {sum, b.op("Sub", {e, b.initializer(i32({}, {1}))})}, {"second"});
  b.output(b.op("Neg", {"second"}), "y", DType::kI32, {"N"});
  const auto inputs = [](std::vector<int32_t> divisors, int32_t last) {
    return Values{{"x", i32({3}, {10, 20, 30})}, {"d", i32({3}, divisors)}, {"e", i32({1}, {last})}};
  };
  check(b, "fused", inputs({3, 4, 5}, 8), i32({3}, {-6, -4, -1}),
        {{inputs({3, 4, 0}, 8), "'/first' (Div): division by 0"},
         {inputs({3, 4, 5}, 1), "'/second' (Mod): division by 0"}});
}

// What a branch that is not taken would compute is nobody's error.
TEST(Faults, BranchesThatAreNotTaken) {
  OnnxBuilder divides("then"), gathers("else");
  divides.node_to("Div", {"x", "d"}, {"quotient"});
  divides.output("quotient");
  gathers.node_to("Gather", {"x", "d"}, {"element"});
  gathers.output("element");
  OnnxBuilder b("branches");
  b.input("x", DType::kI64, {3});
  b.input("d", DType::kI64, {3});
  const std::string condition = b.input("condition", DType::kBool, {1});
  b.node_to("If", {condition}, {"y"}, {{"then_branch", &divides}, {"else_branch", &gathers}});
  b.output("y", "y", DType::kI64, {3});
  const auto inputs = [](Ints d, bool yes) {
    return Values{{"x", i64({3}, {10, 20, 30})},
                  {"d", i64({3}, d)},
                  {"condition", TensorData::of<uint8_t>(DType::kBool, {1}, {yes ? uint8_t{1} : uint8_t{0}})}};
  };
  check(b, "branches_else", inputs({0, 1, 2}, false), i64({3}, {10, 20, 30}),
        {{inputs({0, 1, 2}, true), "'/quotient' (Div): division by 0"}});
  check(b, "branches_then", inputs({5, 7, 9}, true), i64({3}, {2, 2, 3}),
        {{inputs({5, 1, 2}, false), "'/element' (Gather): index 5 is outside of an axis of 3 elements"}});
}

// Nor what it would do with extents that do not fit each other, though it reads more of its operands than there is.
TEST(Faults, ShapesInBranchesThatAreNotTaken) {
  OnnxBuilder fits("then"), adds("else");
  fits.node_to("Abs", {"x"}, {"magnitude"});
  fits.output("magnitude");
  const std::string wide = adds.op("Expand", {"x", adds.ints({4})});
  const std::string flat = adds.op("Reshape", {"z", adds.ints({4})});
  const std::string sum = adds.op("Relu", {adds.op("Add", {wide, flat})});
  adds.node_to("Concat", {sum, adds.op("MatMul", {flat, "w"})}, {"both"}, {{"axis", 0}});
  adds.output("both");
  OnnxBuilder b("shapes_in_branches");
  b.input("x", DType::kF32, {"X"});
  b.input("z", DType::kF32, {"Z"});
  b.input("w", DType::kF32, {"W", 1});
  const std::string condition = b.input("condition", DType::kBool, {});
  b.node_to("If", {condition}, {"y"}, {{"then_branch", &fits}, {"else_branch", &adds}});
  b.output("y", "y", DType::kF32, {"K"});
  const auto inputs = [](int64_t x, int64_t z, int64_t w, bool then) {
    const auto row = [](int64_t n) { return counting(static_cast<size_t>(n)); };
    return Values{{"x", f32({x}, row(x))},
                  {"z", f32({z}, row(z))},
                  {"w", f32({w, 1}, row(w))},
                  {"condition", TensorData::of<uint8_t>(DType::kBool, {}, {then ? uint8_t{1} : uint8_t{0}})}};
  };
  const std::vector<BadRun> bad = {
      {inputs(3, 4, 4, false),
       "host command 0, from '/Expand' (Expand): an axis of 3 elements cannot be broadcast to 4"}};
  check(b, "shapes_then", inputs(3, 2, 5, true), f32({3}, {0, 1, 2}), bad);
  check(b, "shapes_then_large", inputs(3, 100, 1, true), f32({3}, {0, 1, 2}), bad);
  check(b, "shapes_else", inputs(4, 4, 4, false), f32({5}, {0, 2, 4, 6, 14}), bad);
}

// ---- other operands that data gives

TEST(Faults, ReverseSequence) {
  OnnxBuilder b("reverse");
  const std::string x = b.input("x", DType::kF32, {"T", 2});
  const std::string lengths = b.input("lengths", DType::kI64, {2});
  b.node_to("ReverseSequence", {x, lengths}, {"y"});
  b.output("y", "y", DType::kF32, {"T", 2});
  const auto inputs = [](int64_t length) {
    return Values{{"x", f32({3, 2}, counting(6))}, {"lengths", i64({2}, {length, 2})}};
  };
  check(b, "reverse", inputs(3), f32({3, 2}, {4, 3, 2, 1, 0, 5}),
        {{inputs(4), "'/y' (ReverseSequence): a length of 4 in sequences of 3 steps"},
         {inputs(-1), "'/y' (ReverseSequence): a length of -1 in sequences of 3 steps"},
         {inputs((int64_t{1} << 32) + 1), "'/y' (ReverseSequence): a length of 4294967297 in sequences of 3 steps"}});
}

TEST(Faults, RoiAlignAndMaxRoiPool) {
  OnnxBuilder b("align");
  const std::string x = b.input("x", DType::kF32, {"N", 1, 2, 2});
  const std::string rois = b.input("rois", DType::kF32, {1, 4});
  const std::string batch = b.input("batch", DType::kI64, {1});
  b.node_to("RoiAlign", {x, rois, batch}, {"y"}, {{"output_height", 1}, {"output_width", 1}, {"sampling_ratio", 1}});
  b.output("y", "y", DType::kF32, {1, 1, 1, 1});
  const auto inputs = [](int64_t image, int64_t images) {
    return Values{{"x", f32({images, 1, 2, 2}, counting(static_cast<size_t>(images) * 4))},
                  {"rois", f32({1, 4}, {0, 0, 2, 2})},
                  {"batch", i64({1}, {image})}};
  };
  check(b, "align", inputs(1, 2), f32({1, 1, 1, 1}, {5.5}),
        {{inputs(2, 2), "'/y' (RoiAlign): batch index 2 is outside of a batch of 2 images"},
         {inputs(-1, 2), "'/y' (RoiAlign): batch index -1 is outside of a batch of 2 images"},
         {inputs(0, 0), "'/y' (RoiAlign): batch index 0 is outside of a batch of 0 images"},
         {inputs(int64_t{1} << 32, 2), "'/y' (RoiAlign): batch index 4294967296 is outside of a batch of 2 images"}});

  OnnxBuilder p("pool");
  p.input("x", DType::kF32, {2, 1, 2, 2});
  p.input("rois", DType::kF32, {1, 5});
  p.node_to("MaxRoiPool", {"x", "rois"}, {"y"}, {{"pooled_shape", Ints{1, 1}}});
  p.output("y", "y", DType::kF32, {1, 1, 1, 1});
  const auto region = [](float image) {
    return Values{{"x", f32({2, 1, 2, 2}, counting(8))}, {"rois", f32({1, 5}, {image, 0, 0, 1, 1})}};
  };
  check(p, "roi_pool", region(1), f32({1, 1, 1, 1}, {7}),
        {{region(2), "'/y' (MaxRoiPool): batch index 2 is outside of a batch of 2 images"},
         {region(-3), "'/y' (MaxRoiPool): batch index -3 is outside of a batch of 2 images"},
         {region(std::numeric_limits<float>::quiet_NaN()), "'/y' (MaxRoiPool): a batch index is not a number"}});
}

TEST(Faults, LengthsOfRecurrentLayers) {
  OnnxBuilder b("recurrent");
  const std::string x = b.input("x", DType::kF32, {"T", 2, 1});
  const std::string lengths = b.input("lengths", DType::kI32, {2});
  const std::string w = b.initializer(f32({1, 1, 1}, {0})), r = b.initializer(f32({1, 1, 1}, {0}));
  b.node_to("RNN", {x, w, r, "", lengths}, {"y"}, {{"hidden_size", 1}});
  b.output("y", "y", DType::kF32, {"T", 1, 2, 1});
  const auto inputs = [](int32_t length) {
    return Values{{"x", f32({3, 2, 1}, counting(6))}, {"lengths", i32({2}, {length, 1})}};
  };
  check(b, "recurrent", inputs(3), f32({3, 1, 2, 1}, std::vector<float>(6)),
        {{inputs(4), "'/y' (RNN): a length of 4 in sequences of 3 steps"},
         {inputs(-1), "'/y' (RNN): a length of -1 in sequences of 3 steps"}});
}

TEST(Faults, TopK) {
  OnnxBuilder b("top");
  const std::string x = b.input("x", DType::kF32, {"N"});
  const std::string k = b.input("k", DType::kI64, {1});
  b.node_to("TopK", {x, k}, {"y", "positions"});
  b.output("y", "y", DType::kF32, {"K"});
  const auto inputs = [](int64_t wanted) { return Values{{"x", f32({3}, {5, 7, 6})}, {"k", i64({1}, {wanted})}}; };
  check(b, "top", inputs(3), f32({3}, {7, 6, 5}),
        {{inputs(4), "host command 1, from '/y' (TopK): k is 4, and the axis has 3 elements"},
         {inputs(-1), "host command 1, from '/y' (TopK): k is -1, and the axis has 3 elements"}});
}

TEST(Faults, Range) {
  OnnxBuilder b("range");
  for (const char* name : {"start", "limit", "delta"}) b.input(name, DType::kI64, Extents{});
  b.node_to("Range", {"start", "limit", "delta"}, {"y"});
  b.output("y", "y", DType::kI64, {"K"});
  const auto inputs = [](int64_t delta) {
    return Values{{"start", i64({}, {1})}, {"limit", i64({}, {6})}, {"delta", i64({}, {delta})}};
  };
  check(b, "range", inputs(2), i64({3}, {1, 3, 5}), {{inputs(0), "host command 3, from '/y' (Range): delta is 0"}});

  OnnxBuilder f("float_range");
  for (const char* name : {"start", "limit", "delta"}) f.input(name, DType::kF32, Extents{});
  f.node_to("Range", {"start", "limit", "delta"}, {"y"});
  f.output("y", "y", DType::kF32, {"K"});
  const auto floats = [](float limit, float delta) {
    return Values{{"start", f32({}, {1})}, {"limit", f32({}, {limit})}, {"delta", f32({}, {delta})}};
  };
  check(f, "float_range", floats(6, 2), f32({3}, {1, 3, 5}),
        {{floats(6, 0), "'/y' (Range): delta is 0"}, {floats(1, 0), "'/y' (Range): delta is 0"}});
}

TEST(Faults, ArgMaxOfNothing) {
  OnnxBuilder b("arg");
  const std::string x = b.input("x", DType::kF32, {"M", "N"});
  b.node_to("ArgMax", {x}, {"y"}, {{"axis", 1}, {"keepdims", 0}});
  b.output("y", "y", DType::kI64, {"M"});
  check(b, "arg", {{"x", f32({2, 2}, {1, 2, 4, 3})}}, i64({2}, {1, 0}),
        {{{{"x", f32({2, 0}, {})}}, "host command 0, from '/y' (ArgMax): an empty axis has no largest element"}});
  check(b, "arg_of_no_rows", {{"x", f32({0, 0}, {})}}, i64({0}, {}), {});
  OnnxBuilder h("hardmax");
  h.node_to("Hardmax", {h.input("x", DType::kF32, {"M", 0})}, {"y"}, {{"axis", 1}});
  h.output("y", "y", DType::kF32, {"M", 0});
  check(h, "hardmax_of_nothing", {{"x", f32({2, 0}, {})}}, f32({2, 0}, {}), {});
  OnnxBuilder e("arg_empty");
  e.node_to("ArgMin", {e.input("x", DType::kF32, {0})}, {"y"}, {{"axis", 0}});
  e.output("y", "y", DType::kI64, {1});
  expect_refused(e, "arg_empty", "node '/y' (ArgMin): plugin 'select': an empty axis has no smallest element");
}

// Not data, but what it decides: extents that do not fit each other, of which kernels would read too much.
TEST(Faults, ShapesThatDoNotFit) {
  OnnxBuilder b("add");
  b.node_to("Add", {b.input("x", DType::kF32, {"A"}), b.input("z", DType::kF32, {"B"})}, {"y"});
  b.output("y", "y", DType::kF32, {"K"});
  check(b, "add", {{"x", f32({3}, {1, 2, 3})}, {"z", f32({3}, {5, 5, 5})}}, f32({3}, {6, 7, 8}),
        {{{{"x", f32({3}, {1, 2, 3})}, {"z", f32({2}, {5, 6})}},
          "host command 1, from '/y' (Add): an axis of 2 elements cannot be broadcast to 3"}});

  OnnxBuilder e("expand");
  e.node_to("Expand", {e.input("x", DType::kF32, {"N"}), e.ints({2, 3})}, {"y"});
  e.output("y", "y", DType::kF32, {2, 3});
  check(e, "expand", {{"x", f32({3}, {1, 2, 3})}}, f32({2, 3}, {1, 2, 3, 1, 2, 3}),
        {{{{"x", f32({2}, {1, 2})}},
          "host command 0, from '/y' (Expand): an axis of 2 elements cannot be broadcast to 3"}});

  OnnxBuilder t("expand_to");
  t.node_to("Expand", {t.initializer(f32({3}, {1, 2, 3})), t.input("to", DType::kI64, {1})}, {"y"});
  t.output("y", "y", DType::kF32, {"K"});
  check(
      t, "expand_to", {{"to", i64({1}, {3})}}, f32({3}, {1, 2, 3}),
      {{{{"to", i64({1}, {5})}}, "host command 1, from '/y' (Expand): an axis of 5 elements cannot be broadcast to 3"},
       {{{"to", i64({1}, {0})}}, "host command 1, from '/y' (Expand): an axis of 0 elements cannot be broadcast to 3"},
       {{{"to", i64({1}, {-3})}},
        "host command 1, from '/y' (Expand): an axis of -3 elements cannot be broadcast to 3"}});
  check(t, "expand_to_one", {{"to", i64({1}, {1})}}, f32({3}, {1, 2, 3}), {});

  // By the extent of another operand, of a rank above the data's; what data does not have is 1.
  OnnxBuilder l("expand_like");
  const std::string shape = l.op("Shape", {l.input("like", DType::kF32, {"A", "B"})});
  l.node_to("Expand", {l.input("x", DType::kF32, {"N"}), shape}, {"y"});
  l.output("y", "y", DType::kF32, {"A", "K"});
  const auto like = [](int64_t rows, int64_t columns, const std::vector<float>& x) {
    return Values{{"like", f32({rows, columns}, std::vector<float>(static_cast<size_t>(rows * columns)))},
                  {"x", f32({static_cast<int64_t>(x.size())}, x)}};
  };
  check(l, "expand_like", like(2, 2, {1, 2}), f32({2, 2}, {1, 2, 1, 2}),
        {{like(2, 2, {1, 2, 3}), "host command 1, from '/y' (Expand): an axis of 2 elements cannot be broadcast to 3"},
         {like(2, 3, {1, 2}), "host command 0, from '/y' (Expand): an axis of 2 elements cannot be broadcast to 3"}});
  check(l, "expand_like_one", like(2, 1, {1, 2}), f32({2, 2}, {1, 2, 1, 2}), {});
  check(l, "expand_one_like", like(2, 3, {7}), f32({2, 3}, {7, 7, 7, 7, 7, 7}), {});

  // Data of which shapes are made is followed when converting: not what only a run can refuse.
  OnnxBuilder d("expanded_shape");
  const std::string extents = d.op("Expand", {d.ints({2, 3}), d.input("to", DType::kI64, {1})});
  d.node_to("Reshape", {d.input("x", DType::kF32, {6}), extents}, {"y"});
  d.output("y", "y", DType::kF32, {2, 3});
  check(d, "expanded_shape", {{"to", i64({1}, {1})}, {"x", f32({6}, {1, 2, 3, 4, 5, 6})}},
        f32({2, 3}, {1, 2, 3, 4, 5, 6}),
        {{{{"to", i64({1}, {4})}, {"x", f32({6}, {1, 2, 3, 4, 5, 6})}},
          "host command 1, from '/Expand' (Expand): an axis of 4 elements cannot be broadcast to 2"}});

  OnnxBuilder s("split");
  s.node_to("Split", {s.input("x", DType::kF32, {3}), s.input("parts", DType::kI64, {2})}, {"y", "z"});
  s.output("y", "y", DType::kF32, {"K"});
  s.output("z", "z", DType::kF32, {"L"});
  check(s, "split", {{"x", f32({3}, {1, 2, 3})}, {"parts", i64({2}, {2, 1})}}, f32({2}, {1, 2}),
        {{{{"x", f32({3}, {1, 2, 3})}, {"parts", i64({2}, {1, 1})}},
          "host command 1, from '/y' (Split): parts of 2 elements in all, of an axis of 3"}});

  OnnxBuilder g("batches");
  g.node_to("GatherND", {g.input("x", DType::kF32, {"A", 2}), g.input("i", DType::kI64, {"B", 1})}, {"y"},
            {{"batch_dims", 1}});
  g.output("y", "y", DType::kF32, {"A"});
  check(g, "batches", {{"x", f32({2, 2}, {1, 2, 3, 4})}, {"i", i64({2, 1}, {1, 0})}}, f32({2}, {2, 3}),
        {{{{"x", f32({1, 2}, {1, 2})}, {"i", i64({2, 1}, {1, 0})}},
          "host command 0, from '/y' (GatherND): batch axis 0 of the indices has 2 elements, that of the data 1"}});
}

}  // namespace
}  // namespace aipu::test
