// Loops and branches whose course data decides, beside the same written in C++: native code, X2_1204, the interpreter,
// and devices with memory or queues of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "gbuilder/build.h"
#include "gbuilder/file/encode.h"
#include "gbuilder/record/command_checker.h"
#include "runtime/base/file.h"
#include "runtime/session.h"
#include "test_paths.h"
#include "tests/numerics/road.h"
#include "tests/runtime/counted_allocations.h"

namespace aipu::test {
namespace {

using models::OnnxBuilder;
using models::TensorData;
using Values = std::map<std::string, TensorData>;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

struct Place {
  std::string target, backend;
};
const Place kPlaces[] = {{"host", ""}, {"X2_1204", ""}, {"host", "interp"}, {"host", "remote"}, {"host", "delay"}};
// Devices of the tests' own are found there.
const int kPathIsSet = ::setenv("AIPU_BACKEND_PATH", AIPU_BUILD_DIR "/test_backends", 1);

TensorData f32(Ints shape, const Floats& elements) { return TensorData::f32(std::move(shape), elements); }
TensorData i64(int64_t element) { return TensorData::i64({}, {element}); }
TensorData boolean(bool element) { return TensorData::of(DType::kBool, {}, std::vector<uint8_t>{element}); }

class Converted {
 public:
  Converted(OnnxBuilder& b, const std::string& name) : path_(temporary_path(name + ".onnx")) {
    EXPECT_TRUE(b.save(path_).ok());
    for (const char* target : {"host", "X2_1204"}) {
      gbuilder::BuildOptions build;
      build.model = path_;
      build.output = path_ + "." + target + ".aipu.bin";
      build.target = target;
      build.jobs = 1;
      const Status status = gbuilder::build_model(build).status();
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  std::unique_ptr<runtime::Session> open(const Place& place, runtime::SessionOptions options = {}) const {
    auto model = runtime::Model::load(path_ + "." + place.target + ".aipu.bin", {.backend = place.backend});
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return nullptr;
    options.threads = 2;
    auto session = runtime::Session::create(*model, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? std::move(*session) : nullptr;
  }

 private:
  std::string path_;
};

Status run(runtime::Session& session, const Values& inputs) {
  const auto specs = session.model().inputs();
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorData& value = inputs.at(specs[i].name);
    AIPU_RETURN_IF_ERROR(session.bind_input(i, {value.dtype, value.shape, value.bytes.data()}));
  }
  return session.run();
}

// Both run, and their first two outputs have the same bytes.
testing::AssertionResult run_both(runtime::Session& found, runtime::Session& expected, const Values& inputs) {
  for (runtime::Session* session : {&found, &expected}) {
    if (const Status status = run(*session, inputs); !status.ok())
      return testing::AssertionFailure() << status.message();
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto a = found.output(i), b = expected.output(i);
    if (!a.ok() || !b.ok()) return testing::AssertionFailure() << "output " << i << " is not there";
    if (!std::equal(a->shape.begin(), a->shape.end(), b->shape.begin(), b->shape.end()))
      return testing::AssertionFailure() << "output " << i << " has another shape";
    size_t bytes = dtype_bytes(a->dtype);
    for (const int64_t extent : a->shape) bytes *= static_cast<size_t>(extent);
    if (std::memcmp(a->data, b->data, bytes) != 0) return testing::AssertionFailure() << "output " << i << " differs";
  }
  return testing::AssertionSuccess();
}

struct Case {
  Values inputs;
  std::vector<TensorData> outputs;
};

// Every case everywhere, one after the other in one session: what a run leaves behind is nothing to the next.
void check(OnnxBuilder& b, const std::string& name, const std::vector<Case>& cases) {
  const Converted converted(b, name);
  for (const Place& place : kPlaces) {
    const auto session = converted.open(place);
    ASSERT_NE(session, nullptr);
    for (size_t c = 0; c < cases.size(); ++c) {
      const std::string what = name + ", case " + std::to_string(c) + ", " + place.target + " " + place.backend;
      const Status status = run(*session, cases[c].inputs);
      ASSERT_TRUE(status.ok()) << what << ": " << status.message();
      for (size_t i = 0; i < cases[c].outputs.size(); ++i) {
        const TensorData& expected = cases[c].outputs[i];
        const auto found = session->output(i);
        ASSERT_TRUE(found.ok()) << what << ": " << found.status().message();
        ASSERT_EQ(Ints(found->shape.begin(), found->shape.end()), expected.shape) << what << ", output " << i;
        EXPECT_EQ(std::memcmp(found->data, expected.bytes.data(), expected.bytes.size()), 0)
            << what << ", output " << i;
      }
    }
  }
}

// v doubles until its largest element reaches the limit, or as often as it may.
struct Doubling {
  OnnxBuilder body{"body"}, model{"doubling"};
  Doubling() {
    body.input("i", DType::kI64, {});
    body.input("go", DType::kBool, {});
    body.input("v", DType::kF32, {2});
    body.node_to("Add", {"v", "v"}, {"next"});
    body.node_to("ReduceMax", {"next"}, {"most"}, {{"keepdims", 0}});
    body.node_to("Less", {"most", "limit"}, {"more"});
    body.node_to("Identity", {"next"}, {"slice"});
    for (const char* output : {"more", "next", "slice"}) body.output(output);
    const auto trips = model.input("trips", DType::kI64, {});
    const auto go = model.input("start", DType::kBool, {});
    const auto x = model.input("x", DType::kF32, {2});
    model.input("limit", DType::kF32, {});
    const auto results = model.node("Loop", {trips, go, x}, {{"body", &body}}, 2);
    model.output(results[0], "last", DType::kF32, {2});
    model.output(results[1], "all", DType::kF32, {"K", 2});
    model.output(model.op("ReduceSum", {results[1]}, {{"keepdims", 0}}), "sum", DType::kF32, {});
  }
};

Case doubled(int64_t trips, bool start, Floats x, float limit) {
  const Values inputs = {
      {"trips", i64(trips)}, {"start", boolean(start)}, {"x", f32({2}, x)}, {"limit", f32({}, {limit})}};
  Floats all;
  float sum = 0;
  bool more = start;
  int64_t trip = 0;
  for (; trip < trips && more; ++trip) {
    for (float& v : x) v += v;
    all.insert(all.end(), x.begin(), x.end());
    for (const float v : x) sum += v;
    more = std::max(x[0], x[1]) < limit;
  }
  return {inputs, {f32({2}, x), f32({trip, 2}, all), f32({}, {sum})}};
}

TEST(ControlFlow, LoopThatDataEnds) {
  Doubling doubling;
  check(doubling.model, "doubling",
        {doubled(100, true, {1, 3}, 1000), doubled(4, true, {1, 3}, 1000), doubled(0, true, {1, 3}, 1000),
         doubled(100, false, {1, 3}, 1000), doubled(-5, true, {1, 3}, 1000), doubled(100, true, {1, 3}, 1000)});
}

// Fibonacci words: b, a -> a + b, b. Both states change their length, one after the other.
TEST(ControlFlow, StatesThatGrow) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("a", DType::kF32, {"A"});
  body.input("b", DType::kF32, {"B"});
  body.node_to("Concat", {"a", "b"}, {"c"}, {{"axis", 0}});
  body.node_to("Identity", {"b"}, {"d"});
  body.node_to("Identity", {"go"}, {"on"});
  for (const char* output : {"on", "d", "c"}) body.output(output);
  OnnxBuilder b("fibonacci");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {"X"});
  const auto y = b.input("y", DType::kF32, {"Y"});
  const auto results = b.node("Loop", {trips, "", x, y}, {{"body", &body}}, 2);
  b.output(b.op("Neg", {results[0]}), "p", DType::kF32, {"P"});
  b.output(b.op("Neg", {results[1]}), "q", DType::kF32, {"Q"});
  const auto word = [](int64_t count, Floats p, Floats q) {
    const Values inputs = {{"trips", i64(count)},
                           {"x", f32({static_cast<int64_t>(p.size())}, p)},
                           {"y", f32({static_cast<int64_t>(q.size())}, q)}};
    for (int64_t trip = 0; trip < count; ++trip) {
      Floats next = p;
      next.insert(next.end(), q.begin(), q.end());
      p = std::exchange(q, next);
    }
    for (float& v : p) v = -v;
    for (float& v : q) v = -v;
    return Case{inputs, {f32({static_cast<int64_t>(p.size())}, p), f32({static_cast<int64_t>(q.size())}, q)}};
  };
  check(b, "fibonacci", {word(7, {1}, {2, 3}), word(0, {1, 5}, {}), word(9, {1}, {}), word(7, {1}, {2, 3})});
}

// What grows outside, by the extent's name too, grows inside again.
TEST(ControlFlow, StatesThatGrowInStatesThatGrow) {
  OnnxBuilder inner("inner");
  inner.input("j", DType::kI64, {});
  inner.input("inner_go", DType::kBool, {});
  inner.input("u", DType::kF32, {"U"});
  inner.node_to("Concat", {"u", "one"}, {"u_next"}, {{"axis", 0}});
  inner.node_to("Identity", {"inner_go"}, {"inner_on"});
  for (const char* output : {"inner_on", "u_next"}) inner.output(output);
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {"V"});
  body.node_to("Loop", {"i", "", "v"}, {"v_next"}, {{"body", &inner}});
  body.node_to("Identity", {"go"}, {"on"});
  for (const char* output : {"on", "v_next"}) body.output(output);
  OnnxBuilder b("growing");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {"carried_x"});
  b.initializer(f32({1}, {1}), "one");
  b.output(b.op("Loop", {trips, "", x}, {{"body", &body}}), "y", DType::kF32, {"Y"});
  const auto grown = [](int64_t count, const Floats& from) {
    Floats v = from;
    for (int64_t trip = 0; trip < count; ++trip) v.insert(v.end(), static_cast<size_t>(trip), 1);
    return Case{{{"trips", i64(count)}, {"x", f32({static_cast<int64_t>(from.size())}, from)}},
                {f32({static_cast<int64_t>(v.size())}, v)}};
  };
  check(b, "growing", {grown(4, {2, 3}), grown(1, {7}), grown(0, {5, 6}), grown(6, {8})});
}

TEST(ControlFlow, BranchesOfExtentsThatDataDecides) {
  OnnxBuilder positions("positions");
  positions.node_to("NonZero", {"x"}, {"places"});
  positions.node_to("Cast", {"places"}, {"then_out"}, {{"to", 1}});
  positions.output("then_out");
  OnnxBuilder twice("twice");
  twice.node_to("Concat", {"x", "x"}, {"both"}, {{"axis", 0}});
  twice.node_to("Unsqueeze", {"both", "axes"}, {"else_out"});
  twice.output("else_out");
  OnnxBuilder b("branches");
  const auto c = b.input("c", DType::kBool, {});
  b.input("x", DType::kF32, {"N"});
  b.initializer(TensorData::i64({1}, {0}), "axes");
  b.output(b.op("Abs", {b.op("If", {c}, {{"then_branch", &positions}, {"else_branch", &twice}})}), "y", DType::kF32,
           {1, "K"});
  const Floats x = {0, -2, 0, 4, 5};
  check(b, "branches",
        {{{{"c", boolean(true)}, {"x", f32({5}, x)}}, {f32({1, 3}, {1, 3, 4})}},
         {{{"c", boolean(false)}, {"x", f32({5}, x)}}, {f32({1, 10}, {0, 2, 0, 4, 5, 0, 2, 0, 4, 5})}},
         {{{"c", boolean(true)}, {"x", f32({2}, {0, 0})}}, {f32({1, 0}, {})}},
         {{{"c", boolean(true)}, {"x", f32({5}, x)}}, {f32({1, 3}, {1, 3, 4})}}});
}

TEST(ControlFlow, OnlyTheBranchTakenRuns) {
  OnnxBuilder product("product");
  product.node_to("MatMul", {"x", "x"}, {"then_out"});
  product.output("then_out");
  OnnxBuilder sine("sine");
  sine.node_to("Sin", {"x"}, {"else_out"});
  sine.output("else_out");
  OnnxBuilder b("taken");
  const auto c = b.input("c", DType::kBool, {});
  b.input("x", DType::kF32, {64, 64});
  b.output(b.op("If", {c}, {{"then_branch", &product}, {"else_branch", &sine}}), "y", DType::kF32, {64, 64});
  const Converted converted(b, "taken");
  for (const bool taken : {true, false}) {
    runtime::SessionOptions options;
    options.profile = true;
    const auto session = converted.open(kPlaces[0], options);
    ASSERT_NE(session, nullptr);
    const Status status = run(*session, {{"c", boolean(taken)}, {"x", f32({64, 64}, Floats(64 * 64, 0.5f))}});
    ASSERT_TRUE(status.ok()) << status.message();
    std::string ran;
    for (const auto& row : session->profile()) ran += row.engine == "tec" ? std::string(row.origin) + ";" : "";
    EXPECT_EQ(ran.find("MatMul") != std::string::npos, taken) << ran;
    EXPECT_EQ(ran.find("Sin") != std::string::npos, !taken) << ran;
  }
}

// The sum so far of each row of a sequence, whichever way and along whichever axis it is read and stacked.
TEST(ControlFlow, ScanOfAnyLength) {
  struct Way {
    int64_t axis, backward, stack_axis, stack_backward;
  };
  for (const Way& way : {Way{0, 0, 0, 0}, Way{0, 1, 0, 0}, Way{0, 0, 0, 1}, Way{1, 0, 0, 0}, Way{1, 1, -1, 1}}) {
    OnnxBuilder body("body");
    body.input("sum", DType::kF32, {3});
    body.input("row", DType::kF32, {3});
    body.node_to("Add", {"sum", "row"}, {"total"});
    body.node_to("Mul", {"total", "factor"}, {"scaled"});
    body.output("total");
    body.output("scaled");
    OnnxBuilder b("scan");
    const auto start = b.input("start", DType::kF32, {3});
    const auto x = way.axis == 0 ? b.input("x", DType::kF32, {"T", 3}) : b.input("x", DType::kF32, {3, "T"});
    b.initializer(f32({}, {10}), "factor");
    const auto results = b.node("Scan", {start, x},
                                {{"body", &body},
                                 {"num_scan_inputs", 1},
                                 {"scan_input_axes", Ints{way.axis}},
                                 {"scan_input_directions", Ints{way.backward}},
                                 {"scan_output_axes", Ints{way.stack_axis}},
                                 {"scan_output_directions", Ints{way.stack_backward}}},
                                2);
    b.output(results[0], "last", DType::kF32, {3});
    b.output(results[1], "each", DType::kF32, way.stack_axis == 0 ? models::Extents{"T", 3} : models::Extents{3, "T"});
    const auto scanned = [&](int64_t length) {
      Floats elements(static_cast<size_t>(3 * length)), sum = {1, 2, 3}, stack(elements.size());
      for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i * i % 17);
      const Values inputs = {{"start", f32({3}, sum)},
                             {"x", f32(way.axis == 0 ? Ints{length, 3} : Ints{3, length}, elements)}};
      for (int64_t trip = 0; trip < length; ++trip) {
        const int64_t from = way.backward != 0 ? length - 1 - trip : trip;
        const int64_t to = way.stack_backward != 0 ? length - 1 - trip : trip;
        for (int64_t k = 0; k < 3; ++k) {
          auto& total = sum[static_cast<size_t>(k)];
          total += elements[static_cast<size_t>(way.axis == 0 ? from * 3 + k : k * length + from)];
          stack[static_cast<size_t>(way.stack_axis == 0 ? to * 3 + k : k * length + to)] = 10 * total;
        }
      }
      return Case{inputs, {f32({3}, sum), f32(way.stack_axis == 0 ? Ints{length, 3} : Ints{3, length}, stack)}};
    };
    check(b, "scan", {scanned(5), scanned(1), scanned(40), scanned(0), scanned(5)});
  }
}

// A loop in a branch in a loop, each with what the ones around it compute.
TEST(ControlFlow, Nested) {
  OnnxBuilder inner("inner");
  inner.input("j", DType::kI64, {});
  inner.input("inner_go", DType::kBool, {});
  inner.input("u", DType::kF32, {});
  inner.node_to("Add", {"u", "step"}, {"u_next"});
  inner.node_to("Less", {"u_next", "goal"}, {"u_more"});
  inner.output("u_more");
  inner.output("u_next");
  OnnxBuilder climb("climb");
  climb.node_to("Loop", {"", "yes", "v"}, {"climbed"}, {{"body", &inner}});
  climb.output("climbed");
  OnnxBuilder fall("fall");
  fall.node_to("Sub", {"v", "half"}, {"fallen"});
  fall.output("fallen");
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {});
  body.node_to("Mul", {"v", "half"}, {"step0"});
  body.node_to("Add", {"step0", "one"}, {"step"});
  body.node_to("Less", {"v", "goal"}, {"low"});
  body.node_to("If", {"low"}, {"next"}, {{"then_branch", &climb}, {"else_branch", &fall}});
  body.node_to("Identity", {"go"}, {"on"});
  body.node_to("Identity", {"next"}, {"slice"});
  for (const char* output : {"on", "next", "slice"}) body.output(output);
  OnnxBuilder b("nested");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {});
  b.input("goal", DType::kF32, {});
  b.initializer(f32({}, {0.5f}), "half");
  b.initializer(f32({}, {1}), "one");
  b.initializer(boolean(true), "yes");
  const auto results = b.node("Loop", {trips, "", x}, {{"body", &body}}, 2);
  b.output(results[0], "last", DType::kF32, {});
  b.output(results[1], "all", DType::kF32, {"K"});
  const auto climbed = [](int64_t count, float v, float goal) {
    const Values inputs = {{"trips", i64(count)}, {"x", f32({}, {v})}, {"goal", f32({}, {goal})}};
    Floats all;
    for (int64_t trip = 0; trip < count; ++trip) {
      const float step = v * 0.5f + 1;
      if (v < goal) {
        do v += step;
        while (v < goal);
      } else {
        v -= 0.5f;
      }
      all.push_back(v);
    }
    return Case{inputs, {f32({}, {v}), f32({count}, all)}};
  };
  check(b, "nested", {climbed(9, 0, 3), climbed(3, 5, 3), climbed(1, 0, 100), climbed(0, 7, 3)});

  // The file can be read back, the bodies of bodies too.
  const auto file = MappedFile::open(temporary_path("nested.onnx") + ".host.aipu.bin");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto decoded = gbuilder::decode(file->bytes());
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  const std::function<int(const gbuilder::Plan&)> checked = [&](const gbuilder::Plan& plan) {
    int count = 1;
    const Status status = gbuilder::check_program(plan, plan.programs[0]);
    EXPECT_TRUE(status.ok()) << status.message();
    for (const gbuilder::Plan& inside : plan.bodies) count += checked(inside);
    return count;
  };
  EXPECT_EQ(checked(decoded->plan), 5);
}

// A state that a branch makes longer, or cuts down to what data says.
TEST(ControlFlow, StatesThatBranchesResize) {
  OnnxBuilder longer("longer");
  longer.node_to("Concat", {"v", "x"}, {"then_out"}, {{"axis", 0}});
  longer.output("then_out");
  OnnxBuilder shorter("shorter");
  shorter.node_to("NonZero", {"v"}, {"places"});
  shorter.node_to("Squeeze", {"places", "first"}, {"row"});
  shorter.node_to("Cast", {"row"}, {"else_out"}, {{"to", 1}});
  shorter.output("else_out");
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {"A"});
  body.node_to("Mod", {"i", "two"}, {"parity"});
  body.node_to("Equal", {"parity", "zero"}, {"even"});
  body.node_to("If", {"even"}, {"next"}, {{"then_branch", &longer}, {"else_branch", &shorter}});
  body.node_to("Identity", {"go"}, {"on"});
  body.node_to("Shape", {"next"}, {"length"});
  for (const char* output : {"on", "next", "length"}) body.output(output);
  OnnxBuilder b("resized");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {"N"});
  b.initializer(i64(2), "two");
  b.initializer(i64(0), "zero");
  b.initializer(TensorData::i64({1}, {0}), "first");
  const auto results = b.node("Loop", {trips, "", x}, {{"body", &body}}, 2);
  b.output(results[0], "y", DType::kF32, {"Y"});
  b.output(results[1], "lengths", DType::kI64, {"K", 1});
  const auto resized = [](int64_t count, const Floats& v) {
    const Values inputs = {{"trips", i64(count)}, {"x", f32({static_cast<int64_t>(v.size())}, v)}};
    Floats state = v;
    Ints lengths;
    for (int64_t trip = 0; trip < count; ++trip) {
      if (trip % 2 == 0) {
        state.insert(state.end(), v.begin(), v.end());
      } else {
        Floats places;
        for (size_t i = 0; i < state.size(); ++i)
          if (state[i] != 0) places.push_back(static_cast<float>(i));
        state = places;
      }
      lengths.push_back(static_cast<int64_t>(state.size()));
    }
    return Case{inputs, {f32({static_cast<int64_t>(state.size())}, state), TensorData::i64({count, 1}, lengths)}};
  };
  check(b, "resized", {resized(5, {0, 1, 0, 2}), resized(0, {0, 1}), resized(6, {3, 0, 1}), resized(1, {})});
}

// What a body uses of the shapes around it may be no extent of anything that it takes.
TEST(ControlFlow, ExtentsOfTheGraphAround) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {});
  body.node_to("Shape", {"places"}, {"shape"});
  body.node_to("Expand", {"one", "shape"}, {"ones"});
  body.node_to("ReduceSum", {"ones"}, {"count"}, {{"keepdims", 0}});
  body.node_to("Add", {"v", "count"}, {"next"});
  body.node_to("Identity", {"ones"}, {"slice"});
  body.node_to("Identity", {"go"}, {"on"});
  for (const char* output : {"on", "next", "slice"}) body.output(output);
  OnnxBuilder b("around");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {"N"});
  const auto start = b.input("start", DType::kF32, {});
  b.node_to("NonZero", {x}, {"places"});
  b.initializer(f32({1, 1}, {1}), "one");
  const auto results = b.node("Loop", {trips, "", start}, {{"body", &body}}, 2);
  b.output(results[0], "y", DType::kF32, {});
  b.output(results[1], "all", DType::kF32, {"K", 1, "P"});
  const auto counted = [](int64_t count, const Floats& v) {
    const auto places = static_cast<int64_t>(v.size()) - std::count(v.begin(), v.end(), 0.0f);
    return Case{{{"trips", i64(count)}, {"x", f32({static_cast<int64_t>(v.size())}, v)}, {"start", f32({}, {5})}},
                {f32({}, {static_cast<float>(5 + count * places)}),
                 f32({count, 1, places}, Floats(static_cast<size_t>(count * places), 1))}};
  };
  check(b, "around", {counted(3, {0, 1, 2, 0, 5}), counted(2, {1}), counted(3, {0, 0}), counted(4, {1, 1})});
}

// A loop is what it is when it becomes part of the graph: convolutions whose weights are captured, layouts included.
TEST(ControlFlow, LoopsAreAsTheirBodiesOneByOne) {
  const auto model = [](OnnxBuilder& b, OnnxBuilder& body, bool known) {
    body.input("i", DType::kI64, {});
    body.input("go", DType::kBool, {});
    body.input("v", DType::kF32, {"N", 4, 9, 7});
    body.node_to("Conv", {"v", "w"}, {"sum"}, {{"pads", Ints{1, 1, 1, 1}}});
    body.node_to("Tanh", {"sum"}, {"next"});
    body.node_to("GlobalAveragePool", {"next"}, {"mean"});
    body.node_to("Identity", {"go"}, {"on"});
    for (const char* output : {"on", "next", "mean"}) body.output(output);
    const auto trips = b.input("trips", DType::kI64, {});
    const auto x = b.input("x", DType::kF32, {"N", 4, 9, 7});
    Floats weights(4 * 4 * 3 * 3);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i * 37 % 29) / 29 - 0.5f;
    b.initializer(f32({4, 4, 3, 3}, weights), "w");
    const auto results = b.node("Loop", {known ? b.initializer(i64(5)) : trips, "", x}, {{"body", &body}}, 2);
    b.output(results[0], "last", DType::kF32, {"N", 4, 9, 7});
    b.output(results[1], "means", DType::kF32, {"K", "N", 4, 1, 1});
    if (known) b.output(b.op("Neg", {trips}), "unused", DType::kI64, {});
  };
  OnnxBuilder run_body("body"), run("as_a_program"), inlined_body("body"), inlined("inlined");
  model(run, run_body, false);
  model(inlined, inlined_body, true);
  const Converted as_program(run, "as_a_program"), as_nodes(inlined, "inlined");
  Floats image(2 * 4 * 9 * 7);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i * 53 % 97) / 97 - 0.5f;
  const Values inputs = {{"trips", i64(5)}, {"x", f32({2, 4, 9, 7}, image)}};
  for (const Place& place : kPlaces) {
    const auto found = as_program.open(place), expected = as_nodes.open(place);
    ASSERT_TRUE(found != nullptr && expected != nullptr);
    ASSERT_TRUE(run_both(*found, *expected, inputs)) << place.target << " " << place.backend;
  }
}

TEST(ControlFlow, AnErrorInABodyNamesItsNode) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {});
  body.node_to("Gather", {"table", "i"}, {"picked"});
  body.node_to("Add", {"v", "picked"}, {"next"});
  body.node_to("Identity", {"go"}, {"on"});
  body.output("on");
  body.output("next");
  OnnxBuilder b("outside");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {});
  b.input("table", DType::kF32, {4});
  b.output(b.node("Loop", {trips, "", x}, {{"body", &body}}, 1)[0], "y", DType::kF32, {});
  const Converted converted(b, "outside");
  for (const Place& place : kPlaces) {
    const auto session = converted.open(place);
    ASSERT_NE(session, nullptr);
    const auto inputs = [](int64_t count) {
      return Values{{"trips", i64(count)}, {"x", f32({}, {1})}, {"table", f32({4}, {1, 2, 3, 4})}};
    };
    ASSERT_TRUE(run(*session, inputs(4)).ok());
    EXPECT_EQ(run(*session, inputs(5)).message(), "'/picked' (Gather): index 4 is outside of an axis of 4 elements");
    ASSERT_TRUE(run(*session, inputs(3)).ok());
    EXPECT_EQ(*static_cast<const float*>(session->output(0)->data), 7);
  }
}

TEST(ControlFlow, SlicesOfUnlikeShapesAreAnError) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {"A"});
  body.node_to("Concat", {"v", "v"}, {"next"}, {{"axis", 0}});
  body.node_to("Identity", {"next"}, {"slice"});
  body.node_to("Identity", {"go"}, {"on"});
  for (const char* output : {"on", "next", "slice"}) body.output(output);
  OnnxBuilder b("unlike");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {2});
  b.output(b.node("Loop", {trips, "", x}, {{"body", &body}}, 2)[1], "y", DType::kF32, {"K", "L"});
  const auto session = Converted(b, "unlike").open(kPlaces[0]);
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(run(*session, {{"trips", i64(1)}, {"x", f32({2}, {1, 2})}}).ok());
  const Status status = run(*session, {{"trips", i64(2)}, {"x", f32({2}, {1, 2})}});
  EXPECT_NE(status.message().find("iteration 1 gives a slice [8], the ones before it were [4]"), std::string::npos)
      << status.message();
}

TEST(ControlFlow, ALoopWithoutAnEndIsEndedByTheLimit) {
  Doubling doubling;
  runtime::SessionOptions options;
  options.run_seconds = 0.05;
  const auto session = Converted(doubling.model, "endless").open(kPlaces[0], options);
  ASSERT_NE(session, nullptr);
  const Status status =
      run(*session,
          {{"trips", i64(INT64_MAX)}, {"start", boolean(true)}, {"x", f32({2}, {0, 0})}, {"limit", f32({}, {1})}});
  EXPECT_NE(status.message().find("the run takes longer than 0.05 s"), std::string::npos) << status.message();
}

// The same bytes on devices as on the host, for values that no C++ of a test gives to the bit.
void check_on_devices(OnnxBuilder& b, const std::string& name, const std::vector<Values>& runs) {
  const Converted converted(b, name);
  const auto here = converted.open(kPlaces[0]);
  for (const char* device : {"remote", "delay"}) {
    const auto there = converted.open({"host", device});
    ASSERT_TRUE(here != nullptr && there != nullptr);
    for (const Values& inputs : runs) EXPECT_TRUE(run_both(*there, *here, inputs)) << name << " on " << device;
  }
}

Floats wave(size_t count, float step) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(step * static_cast<float>(i));
  return values;
}

// An LSTM written out: a Scan over as many steps as the run has.
TEST(ControlFlow, AnLstmByScanOfAnyLengthOnDevices) {
  constexpr int64_t kInputs = 5, kHidden = 8;
  OnnxBuilder body("step");
  body.input("h", DType::kF32, {1, kHidden});
  body.input("c", DType::kF32, {1, kHidden});
  body.input("x", DType::kF32, {1, kInputs});
  body.node_to("MatMul", {"x", "w"}, {"from_x"});
  body.node_to("MatMul", {"h", "r"}, {"from_h"});
  body.node_to("Add", {"from_x", "from_h"}, {"gates"});
  body.node_to("Split", {"gates"}, {"i", "o", "f", "g"}, {{"axis", 1}});
  body.node_to("Sigmoid", {"i"}, {"si"});
  body.node_to("Sigmoid", {"o"}, {"so"});
  body.node_to("Sigmoid", {"f"}, {"sf"});
  body.node_to("Tanh", {"g"}, {"tg"});
  body.node_to("Mul", {"sf", "c"}, {"kept"});
  body.node_to("Mul", {"si", "tg"}, {"new"});
  body.node_to("Add", {"kept", "new"}, {"c_next"});
  body.node_to("Tanh", {"c_next"}, {"tc"});
  body.node_to("Mul", {"so", "tc"}, {"h_next"});
  body.node_to("Identity", {"h_next"}, {"y"});
  for (const char* output : {"h_next", "c_next", "y"}) body.output(output);
  OnnxBuilder b("lstm_scan");
  b.initializer(f32({kInputs, 4 * kHidden}, wave(kInputs * 4 * kHidden, 0.7f)), "w");
  b.initializer(f32({kHidden, 4 * kHidden}, wave(kHidden * 4 * kHidden, 1.3f)), "r");
  const auto h = b.input("h0", DType::kF32, {1, kHidden});
  const auto c = b.input("c0", DType::kF32, {1, kHidden});
  const auto x = b.input("xs", DType::kF32, {"T", 1, kInputs});
  const auto results = b.node("Scan", {h, c, x}, {{"body", &body}, {"num_scan_inputs", 1}}, 3);
  b.output(results[2], "ys", DType::kF32, {"T", 1, kHidden});
  b.output(results[1], "c_last", DType::kF32, {1, kHidden});
  std::vector<Values> runs;
  for (const int64_t length : {7, 1, 23, 7}) {
    runs.push_back({{"h0", f32({1, kHidden}, wave(kHidden, 0.3f))},
                    {"c0", f32({1, kHidden}, wave(kHidden, 0.9f))},
                    {"xs", f32({length, 1, kInputs}, wave(static_cast<size_t>(length * kInputs), 0.17f))}});
  }
  check_on_devices(b, "lstm_scan", runs);
}

// As every detector ends: the boxes that stay, if there are any worth it; how many only the branch knows.
TEST(ControlFlow, NonMaxSuppressionInABranchOnDevices) {
  OnnxBuilder keep("keep");
  keep.node_to("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"kept"});
  keep.output("kept");
  OnnxBuilder none("none");
  none.node_to("Identity", {"nothing"}, {"no_box"});
  none.output("no_box");
  OnnxBuilder b("suppressed");
  b.input("boxes", DType::kF32, {1, "N", 4});
  b.input("scores", DType::kF32, {1, 1, "N"});
  b.initializer(i64(50), "most");
  b.initializer(f32({}, {0.5f}), "overlap");
  b.initializer(f32({}, {0.2f}), "least");
  b.initializer(TensorData::i64({0, 3}, {}), "nothing");
  const auto best = b.op("ReduceMax", {"scores"}, {{"keepdims", 0}});
  const auto any = b.op("Greater", {best, "least"});
  const auto kept = b.op("If", {any}, {{"then_branch", &keep}, {"else_branch", &none}});
  b.output(kept, "kept_boxes", DType::kI64, {"K", 3});
  b.output(b.op("Mul", {kept, kept}), "squares", DType::kI64, {"K", 3});
  std::vector<Values> runs;
  for (const auto& [boxes, height] : {std::pair<int64_t, float>{20, 1}, {3, 1}, {20, 0.1f}, {40, 1}}) {
    Floats corners, scores;
    for (int64_t i = 0; i < boxes; ++i) {
      const auto at = static_cast<float>(i % 7);
      for (const float v : {at, at, at + 1.5f, at + 2}) corners.push_back(v);
      scores.push_back(height * std::abs(std::sin(0.8f * static_cast<float>(i + 1))));
    }
    runs.push_back({{"boxes", f32({1, boxes, 4}, corners)}, {"scores", f32({1, 1, boxes}, scores)}});
  }
  check_on_devices(b, "suppressed", runs);
}

// What a run allocates does not depend on how often a loop is run.
TEST(ControlFlow, IterationsAllocateNothing) {
  OnnxBuilder body("body");
  body.input("i", DType::kI64, {});
  body.input("go", DType::kBool, {});
  body.input("v", DType::kF32, {4});
  body.node_to("Add", {"v", "w"}, {"next"});
  body.node_to("Identity", {"go"}, {"on"});
  body.output("on");
  body.output("next");
  OnnxBuilder b("steady");
  const auto trips = b.input("trips", DType::kI64, {});
  const auto x = b.input("x", DType::kF32, {4});
  b.input("w", DType::kF32, {4});
  b.output(b.node("Loop", {trips, "", x}, {{"body", &body}}, 1)[0], "y", DType::kF32, {4});
  const auto session = Converted(b, "steady").open(kPlaces[0]);
  ASSERT_NE(session, nullptr);
  const auto allocated = [&](int64_t count) {
    const Values inputs = {{"trips", i64(count)}, {"x", f32({4}, {0, 1, 2, 3})}, {"w", f32({4}, {1, 1, 2, 2})}};
    const int64_t before = allocation_count();
    EXPECT_TRUE(run(*session, inputs).ok());
    const int64_t during = allocation_count() - before;
    EXPECT_EQ(static_cast<const float*>(session->output(0)->data)[3], 3 + 2 * static_cast<float>(count));
    return during;
  };
  allocated(10);
  EXPECT_EQ(allocated(10000), allocated(10));
}

}  // namespace
}  // namespace aipu::test
