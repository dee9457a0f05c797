// Operators of `.py` files: models with the examples of models/custom_op and with declarations made here, converted
// with --plugin for both targets and run natively and interpreted, against the same model with the operator written out
// or numbers by hand.
#include "test_paths.h"
#include "tests/models/script_plugin_fixture.h"

namespace aipu::models {
namespace {

using testing::HasSubstr;

TEST_F(ScriptPlugin, HardShrink) {
  const auto model = [&](const std::string& name, bool custom, double lambd) {
    OnnxBuilder b("m", 3);
    b.set_opset(1, "example");
    auto x = b.gemm(b.input("input", DType::kF32, {"N", 64}), 64, 37);
    if (custom) {
      x = b.op("HardShrink", {x}, {{"lambd", lambd}}, "example");
    } else {
      x = b.op("Shrink", {x}, {{"lambd", lambd}, {"bias", 0.0}});
    }
    b.output(b.relu(x), "output", DType::kF32, {"N", 37});
    ASSERT_EQ(b.save(file(name)).message(), "");
  };
  model("plain.onnx", false, 0.25);
  model("custom.onnx", true, 0.25);
  model("other.onnx", true, 0.75);
  write_f32("input.npy", {5, 64}, waves(5 * 64));
  expect_same(example("hard_shrink.py"), {"output"}, " --rtol 1e-5 --atol 1e-6");
}

// An operator whose positions are apart is no border between convolutions: no transpositions around it, and it is part
// of the batch loop.
TEST_F(ScriptPlugin, LayoutsAndBatchLoops) {
  const auto model = [&](const std::string& name, bool custom, double lambd) {
    OnnxBuilder b("m", 3);
    b.set_opset(1, "example");
    auto x = b.conv(b.input("input", DType::kF32, {"N", 3, 96, 96}), 3, 32, {});
    if (custom) {
      x = b.op("HardShrink", {x}, {{"lambd", lambd}}, "example");
    } else {
      x = b.op("Shrink", {x}, {{"lambd", lambd}, {"bias", 0.0}});
    }
    b.output(b.conv(x, 32, 32, {}), "output", DType::kF32, {"N", 32, "H", "W"});
    ASSERT_EQ(b.save(file(name)).message(), "");
  };
  model("plain.onnx", false, 0.25);
  model("custom.onnx", true, 0.25);
  model("other.onnx", true, 0.75);
  write_f32("input.npy", {2, 3, 96, 96}, waves(2 * 3 * 96 * 96));
  expect_same(example("hard_shrink.py"), {"output"}, " --rtol 1e-4 --atol 1e-5");
  ASSERT_EQ(convert("custom.onnx", "custom.aipu.bin", "--plugin " + example("hard_shrink.py")), 0) << log();
  ASSERT_EQ(run(tool("aipudump") + " " + file("custom.aipu.bin") + " --commands"), 0) << log();
  const std::string commands = log();
  size_t transpositions = 0;
  for (size_t at = commands.find("_transpose"); at != std::string::npos; at = commands.find("_transpose", at + 1))
    ++transpositions;
  EXPECT_EQ(transpositions, 2u) << "of the model's input and output\n" << commands;
  EXPECT_THAT(commands, HasSubstr("#1..#5 may be run for one of N at a time"));
}

// The declaration of an operator as it stands in kernels/ADDING_AN_OP.md.
std::string guides_example(const std::string& op) {
  const auto text = read_text_file(AIPU_SOURCE_DIR "/kernels/ADDING_AN_OP.md");
  if (!text.ok()) return text.status().message();
  for (size_t begin = text->find("```python\n"); begin != std::string::npos; begin = text->find("```python\n", begin)) {
    begin += 10;
    const std::string block = text->substr(begin, text->find("```", begin) - begin);
    if (block.find("\"" + op + "\"") != std::string::npos) return block;
  }
  return "no such operator in the guide";
}

// The guide's program, with an optional and a variadic input between two convolutions: the model that it names has two
// kernels, and the numbers are those of the same model with the operator written out.
TEST_F(ScriptPlugin, TheGuidesElementwiseExample) {
  std::ofstream(file("guide.py")) << guides_example("example::Blend");
  const auto model = [&](const std::string& name, bool custom, double limit) {
    OnnxBuilder b("m", 3);
    b.set_opset(1, "example");
    ConvOptions same;
    same.pads = {1, 1, 1, 1};
    const auto input = b.input("input", DType::kF32, {"N", 3, 16, 20});
    auto x = b.conv(input, 3, 16, same);
    const auto other = b.op("Sigmoid", {b.conv(input, 3, 16, same)}), scale = b.weight({16, 1, 1}, 1);
    if (custom) {
      x = b.op("Blend", {x, scale, other, x}, {{"limit", limit}}, "example");
    } else {
      const auto sum = b.op("Add", {b.op("Add", {b.op("Mul", {x, scale}), other}), x});
      x = b.op("Clip", {sum, b.scalar(static_cast<float>(-limit)), b.scalar(static_cast<float>(limit))});
    }
    b.output(b.conv(b.op("HardSwish", {x}), 16, 8, same), "output", DType::kF32, {"N", 8, 16, 20});
    ASSERT_EQ(b.save(file(name)).message(), "");
  };
  model("plain.onnx", false, 1.5);
  model("custom.onnx", true, 1.5);
  model("other.onnx", true, 0.5);
  write_f32("input.npy", {2, 3, 16, 20}, waves(2 * 3 * 16 * 20));
  expect_same(file("guide.py"), {"output"}, " --rtol 1e-5 --atol 1e-5");
  const auto kernels_of = [&](const std::string& name, const std::string& options) {
    EXPECT_EQ(convert(name, "counted.aipu.bin", options), 0) << log();
    EXPECT_EQ(run(tool("aipudump") + " " + file("counted.aipu.bin") + " --commands"), 0) << log();
    const std::string commands = log();
    int64_t count = 0;
    for (size_t at = commands.find(" tec["); at != std::string::npos; at = commands.find(" tec[", at + 1)) ++count;
    return count;
  };
  for (const std::string target : kPluginTargets) {
    EXPECT_EQ(kernels_of("custom.onnx", "--target " + target + " --plugin " + file("guide.py")),
              kernels_of("plain.onnx", "--target " + target));
  }
}

// The one of kernels/ADDING_AN_OP.md works as it stands there.
TEST_F(ScriptPlugin, TheGuidesExample) {
  std::ofstream(file("guide.py")) << guides_example("example::HardShrink");
  OnnxBuilder b("m", 3);
  b.set_opset(1, "example");
  b.output(b.op("HardShrink", {b.input("x", DType::kF32, {"N", 5})}, {{"lambd", 1.0}}, "example"), "y", DType::kF32,
           {"N", 5});
  ASSERT_EQ(b.save(file("one.onnx")).message(), "");
  write_f32("x.npy", {2, 5}, {-3, -1, 0.5, 1, 2, 0, 1.5, -0.25, -7, 9});
  write_f32("y.npy", {2, 5}, {-3, 0, 0, 0, 2, 0, 1.5, 0, -7, 9});
  for (const std::string target : kPluginTargets) {
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("guide.py")), 0) << log();
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                  " --expect y=" + file("y.npy")),
              0)
        << log();
  }
}

TEST_F(ScriptPlugin, HardShrinkInHalfPrecision) {
  const auto model = [&](const std::string& name, bool custom, double lambd) {
    OnnxBuilder b("m", 3);
    b.set_opset(1, "example");
    auto x = b.op("Cast", {b.input("input", DType::kF32, {"N", 999})}, {{"to", 10}});
    x = custom ? b.op("HardShrink", {x}, {{"lambd", lambd}}, "example")
               : b.op("Shrink", {x}, {{"lambd", lambd}, {"bias", 0.0}});
    b.output(b.op("Cast", {x}, {{"to", 1}}), "output", DType::kF32, {"N", 999});
    ASSERT_EQ(b.save(file(name)).message(), "");
  };
  model("plain.onnx", false, 0.25);
  model("custom.onnx", true, 0.25);
  model("other.onnx", true, 0.75);
  write_f32("input.npy", {11, 999}, waves(11 * 999));
  expect_same(example("hard_shrink.py"), {"output"}, " --rtol 0 --atol 0");
}

TEST_F(ScriptPlugin, UnitRows) {
  const auto model = [&](const std::string& name, bool custom, double epsilon) {
    OnnxBuilder b("m", 3);
    b.set_opset(1, "example");
    const auto x = b.linear(b.input("input", DType::kF32, {"N", "seq", 64}), 64, 45);
    std::string y, norm;
    if (custom) {
      const auto results = b.node("UnitRows", {x}, {{"epsilon", epsilon}}, 2, "example");
      y = results[0], norm = results[1];
    } else {
      norm = b.op("Max",
                  {b.op("ReduceL2", {x}, {{"axes", std::vector<int64_t>{-1}}}), b.scalar(static_cast<float>(epsilon))});
      y = b.op("Div", {x, norm});
    }
    b.output(y, "output", DType::kF32, {"N", "seq", 45});
    b.output(norm, "norm", DType::kF32, {"N", "seq", 1});
    ASSERT_EQ(b.save(file(name)).message(), "");
  };
  model("plain.onnx", false, 1e-12);
  model("custom.onnx", true, 1e-12);
  model("other.onnx", true, 100.0);
  write_f32("input.npy", {2, 7, 64}, waves(2 * 7 * 64));
  expect_same(example("unit_rows.py"), {"output", "norm"}, " --rtol 1e-5 --atol 1e-6");
}

// Everything a declaration can say: several kernels with a workspace between them, computed extents, lists as
// attributes, integers, a type from a second variable, an output that nobody uses.
TEST_F(ScriptPlugin, DeclarationsInFull) {
  write_plugin(R"(
T = op.dtype("int32", "float32")
U = op.dtype("int32")
WINDOW = 1


def groups(n, size):
    count = (n + size - 1) // size
    return max(count, 1)


@S.prim_func
def partial(x: S.ptr(T, "global"), sums: S.ptr(T, "global"), n: S.i32, m: S.i32, size: S.i32):
    for g in range(S.get_local_id(), m, S.get_local_size()):
        total = x[g * size] * WEIGHTS[0]
        for i in range(g * size + 1, S.min(g * size + size, n)):
            total = total + x[i]
        sums[g] = total


@S.prim_func
def finish(sums: S.ptr(T, "global"), bias: S.ptr(U, "global"), y: S.ptr(T, "global"), count: S.ptr("int32", "global"), m: S.i32):
    for g in range(S.get_local_id(), m, S.get_local_size()):
        scale = 2 if MODE == "double" else 1
        y[g] = sums[g] * scale + S.cast(bias[0], T)
    if S.get_local_id() == 0:
        count[0] = m


WEIGHTS = [1, 1]
MODE = "plain"
op.register("test::Grouped",
            inputs={"x": op.tensor(T, "n"), "bias": op.tensor(U, 1)},
            outputs={"y": op.tensor(T, "m"), "count": op.tensor("int32", 1)},
            workspace={"sums": op.tensor(T, "m")},
            attributes={"size": int, "MODE": "plain", "WEIGHTS": [3, 1]},
            extents={"m": groups},
            kernels=[partial, finish])
)");
  write_i32("x.npy", {7}, {1, 2, 3, 4, 5, 6, 7});
  write_i32("bias.npy", {1}, {100});
  write_i32("y.npy", {3}, {3 + 2 + 3, 12 + 5 + 6, 21});
  write_i32("doubled.npy", {3}, {2 * 8 + 100, 2 * 23 + 100, 2 * 21 + 100});
  write_i32("count.npy", {1}, {3});
  for (const std::string target : kPluginTargets) {
    one_node("Grouped", {{"x", DType::kI32, {"len"}}, {"bias", DType::kI32, {1}}},
             {{"y", DType::kI32, {"groups"}}, {"count", DType::kI32, {1}}}, {{"size", 3}, {"MODE", "double"}});
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --input bias=" +
                  file("bias.npy") + " --expect y=" + file("doubled.npy") + " --expect count=" + file("count.npy")),
              0)
        << log();
    one_node("Grouped", {{"x", DType::kI32, {7}}, {"bias", DType::kI32, {1}}}, {{"y", DType::kI32, {3}}},
             {{"size", 3}});
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    write_i32("zero.npy", {1}, {0});
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                  " --input bias=" + file("zero.npy") + " --expect y=" + file("y.npy")),
              0)
        << log();
  }
}

// A weight among the operands, lanes of a type variable, an attribute that unrolls a loop, a domain with dots; between
// other operators.
TEST_F(ScriptPlugin, WeightsAndUnrolledTaps) {
  write_plugin(R"(
T = op.dtype("float32", "float16", "int32")
VL = op.lanes(T)
taps = 1


def tap(x, w, row, column, cols, k):
    return S.vload(x + row * cols + column + k, lanes=VL) * S.vbcast(w[k], lanes=VL)


@op.register("com.example.filters::Fir", inputs={"x": op.tensor(T, "...rows", "cols"), "w": op.tensor(T, "length")},
             outputs={"y": op.tensor(T, "...rows", "out")}, attributes={"taps": int},
             extents={"out": lambda cols, taps: cols - taps + 1},
             check=lambda length, taps: None if length == taps else f"w has {length} elements, expected {taps}")
@S.prim_func
def fir(x: S.ptr(T, "global"), w: S.ptr(T, "global.1"), y: S.ptr(T, "global"), rows: S.i32, cols: S.i32, out: S.i32):
    full = out // VL * VL
    for row in range(S.get_local_id(), rows, S.get_local_size()):
        for column in range(0, full, VL):
            total = tap(x, w, row, column, cols, 0)
            for k in range(1, taps):
                total = total + tap(x, w, row, column, cols, k)
            S.vstore(total, y + row * out + column)
        for column in range(full, out):
            sum = x[row * cols + column] * w[0]
            for k in range(1, taps):
                sum = sum + x[row * cols + column + k] * w[k]
            y[row * out + column] = sum
)");
  for (const bool bad : {false, true}) {
    OnnxBuilder b("m", 1);
    b.set_opset(1, "com.example.filters");
    const auto x = b.op("Neg", {b.input("x", DType::kF32, {"N", 2, 40})});
    const auto w = b.initializer(TensorData::f32({3}, {1, -2, 0.5}));
    b.output(b.op("Neg", {b.op("Fir", {x, w}, {{"taps", bad ? 4 : 3}}, "com.example.filters")}), "y", DType::kF32,
             {"N", 2, 38});
    ASSERT_EQ(b.save(file("one.onnx")).message(), "");
    std::vector<float> in = waves(3 * 2 * 40), out;
    for (float& v : in) v = std::round(v * 8);
    for (size_t row = 0; row < 6; ++row) {
      for (size_t c = 0; c < 38; ++c) {
        const float* p = in.data() + row * 40 + c;
        out.push_back(p[0] - 2 * p[1] + 0.5F * p[2]);
      }
    }
    write_f32("x.npy", {3, 2, 40}, in);
    write_f32("y.npy", {3, 2, 38}, out);
    for (const std::string target : kPluginTargets) {
      ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")),
                bad ? 1 : 0)
          << log();
      if (bad) {
        EXPECT_THAT(log(), HasSubstr("w has 3 elements, expected 4"));
        continue;
      }
      EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                    " --expect y=" + file("y.npy")),
                0)
          << log();
    }
  }
}

TEST_F(ScriptPlugin, ShapeFunctionsAndSymbolicExtents) {
  write_plugin(R"(
def pooled(x, size):
    shape = x[:-1]
    shape.append(min((x[-1] + size - 1) // size, 4))
    return shape


@op.register("test::Pool", inputs={"x": op.tensor("float32", "...rows", "cols")}, outputs={"y": op.tensor("float32")},
             attributes={"size": 2}, extents={"groups": lambda cols, size: min((cols + size - 1) // size, 4)}, shape=pooled)
@S.prim_func
def pool(x: S.ptr("float32", "global"), y: S.ptr("float32", "global"), rows: S.i32, cols: S.i32, groups: S.i32, size: S.i32):
    for row in range(S.get_local_id(), rows, S.get_local_size()):
        for g in range(groups):
            best = x[row * cols + g * size]
            for i in range(g * size + 1, S.min(g * size + size, cols)):
                best = S.max(best, x[row * cols + i])
            y[row * groups + g] = best
)");
  one_node("Pool", {{"x", DType::kF32, {"N", 2, "cols"}}}, {{"y", DType::kF32, {"N", 2, "groups"}}}, {{"size", 3}});
  for (const std::string target : kPluginTargets) {
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    write_f32("x.npy", {1, 2, 5}, {1, 2, 3, 4, 5, 9, 8, 7, 6, 5});
    write_f32("y.npy", {1, 2, 2}, {3, 5, 9, 6});
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                  " --expect y=" + file("y.npy")),
              0)
        << log();
    write_f32("x.npy", {2, 2, 1}, {1, 2, 3, 4});
    write_f32("y.npy", {2, 2, 1}, {1, 2, 3, 4});
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                  " --expect y=" + file("y.npy")),
              0)
        << log();
  }
}

// Extents of one name that are symbols of the model are compared when the shapes are bound.
TEST_F(ScriptPlugin, ExtentsMustAgreeAtRunTime) {
  write_plugin(R"(
@op.register("test::Plus", inputs={"a": op.tensor("int32", "n"), "b": op.tensor("int32", "n")}, outputs={"y": op.tensor("int32", "n")})
@S.prim_func
def plus(a: S.ptr("int32", "global"), b: S.ptr("int32", "global"), y: S.ptr("int32", "global"), n: S.i32):
    for i in range(S.get_local_id(), n, S.get_local_size()):
        y[i] = a[i] + b[i]
)");
  one_node("Plus", {{"a", DType::kI32, {"P"}}, {"b", DType::kI32, {"Q"}}}, {{"y", DType::kI32, {"P"}}});
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--plugin " + file("plugin.py")), 0) << log();
  write_i32("a.npy", {3}, {1, 2, 3});
  write_i32("y.npy", {3}, {2, 4, 6});
  write_i32("b.npy", {2}, {1, 2});
  const std::string command =
      tool("aipurun") + " " + file("one.aipu.bin") + " --input a=" + file("a.npy") + " --input b=";
  EXPECT_EQ(run(command + file("a.npy") + " --expect y=" + file("y.npy")), 0) << log();
  EXPECT_NE(run(command + file("b.npy")), 0);
  EXPECT_THAT(log(), HasSubstr("test::Plus: extents that must agree differ"));
}

// What a node gets wrong is reported at the node.
TEST_F(ScriptPlugin, NodesAreChecked) {
  const auto refused = [&](const std::string& plugin, const std::string& text) {
    EXPECT_EQ(convert("one.onnx", "one.aipu.bin", "--plugin " + plugin), 1);
    EXPECT_THAT(log(), HasSubstr(text));
    EXPECT_EQ(lines(), 1) << log();
  };
  write_plugin(R"(
T = op.dtype("float32", "float16")
def check(a, n, mode):
    if mode not in ("fast", "exact"):
        return f"mode is '{mode}', expected fast or exact"
    if len(a) > 2:
        return "a has too many dimensions"

def odd(n):
    return 4 if n % 2 == 0 else 5

@op.register("test::Both", inputs={"a": op.tensor(T, "...n"), "b": op.tensor(T, 3, "m")}, outputs={"y": op.tensor(T, "...n")},
             attributes={"mode": "fast", "k": int}, check=check, extents={"q": odd})
@S.prim_func
def both(a: S.ptr(T, "global"), b: S.ptr(T, "global"), y: S.ptr(T, "global"), q: S.i32, m: S.i32, k: S.i32):
    y[0] = a[0] + b[0]
)");
  const std::string plugin = file("plugin.py");
  const Operand b = {"b", DType::kF32, {3, 4}};
  const Operand y = {"y", DType::kF32, {6}};
  one_node("Both", {{"a", DType::kI32, {6}}, b}, {{"y", DType::kI32, {6}}}, {{"k", 1}});
  refused(plugin, "input 0 'a' may not be int32");
  one_node("Both", {{"a", DType::kF64, {6}}, b}, {y}, {{"k", 1}});
  refused(plugin, "input 'a' is float64, expected float32 or float16");
  one_node("Both", {{"a", DType::kF16, {6}}, b}, {y}, {{"k", 1}});
  refused(plugin, "input 'b' is float32, but another input of the same type is float16");
  one_node("Both", {{"a", DType::kF32, {6}}, {"b", DType::kF32, {4, 4}}}, {y}, {{"k", 1}});
  refused(plugin, "input 'b' has the shape [4,4], expected [3, m]");
  one_node("Both", {{"a", DType::kF32, {6}}, {"b", DType::kF32, {4}}}, {y}, {{"k", 1}});
  refused(plugin, "input 'b' has the shape [4], expected [3, m]");
  one_node("Both", {{"a", DType::kF32, {6}}, b}, {y});
  refused(plugin, "attribute 'k'");
  one_node("Both", {{"a", DType::kF32, {6}}, b}, {y}, {{"k", 1}, {"mode", "slow"}});
  refused(plugin, "mode is 'slow', expected fast or exact");
  one_node("Both", {{"a", DType::kF32, {6, 1, 1}}, b}, {y}, {{"k", 1}});
  refused(plugin, "a has too many dimensions");
  one_node("Both", {{"a", DType::kF32, {6}}, b}, {y}, {{"k", 1}, {"unknown", 3}});
  refused(plugin, "unknown");
  write_plugin(R"(
def odd(n):
    if n % 2 == 0:
        return 4
    return 5

@op.register("test::Odd", inputs={"a": op.tensor("int32", "n")}, outputs={"y": op.tensor("int32", "q")}, extents={"q": odd})
@S.prim_func
def kernel(a: S.ptr("int32", "global"), y: S.ptr("int32", "global")):
    y[0] = a[0]
)");
  one_node("Odd", {{"a", DType::kI32, {"N"}}}, {{"y", DType::kI32, {"Q"}}});
  refused(plugin, "plugin.py:5:8: The condition depends on an extent that is only known when the model runs.");
}

// What a declaration gets wrong is reported at its place in the file, in one line.
TEST_F(ScriptPlugin, DeclarationsAreChecked) {
  one_node("Copy", {{"x", DType::kF32, {4}}}, {{"y", DType::kF32, {4}}});
  const std::string kernel =
      "@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\"), y: S.ptr(\"float32\", \"global\"), n: S.i32):\n    "
      "y[0] = x[0]\n";
  const std::string in = "inputs={\"x\": op.tensor(\"float32\", \"n\")}",
                    out = "outputs={\"y\": op.tensor(\"float32\", \"n\")}";
  const std::string value_of =
      "@op.elementwise(\"test::Copy\", inputs={\"x\": op.tensor(\"float32\"), \"w\": op.optional(\"float32\")}, "
      "outputs={\"y\": op.tensor(\"float32\")})\n";
  const struct {
    std::string text, error;
  } rows[] = {
      {"x = 1\n", "plugin.py:1:1: the file declares no operator"},
      {"def broken(:\n", "plugin.py:3:11: '(' was never closed"},
      {"@op.register(\"Copy\", " + in + ", " + out + ")\n" + kernel,
       "plugin.py:3:14: \"Copy\" is not of the form \"domain::Name\""},
      {"@op.register(" + in + ", " + out + ")\n" + kernel, "op.register expects the operator's name first"},
      {"@op.register(\"test::Copy\", " + out + ")\n" + kernel, "plugin.py:3:2: op.register needs `inputs`"},
      {"@op.register(\"test::Copy\", " + in + ")\n" + kernel, "plugin.py:3:2: op.register needs `outputs`"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={})\n" + kernel, "an operator has at least one output"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", shapes=3)\n" + kernel,
       "op.register has no argument \"shapes\""},
      {"@op.register(\"test::Copy\", inputs=[\"x\"], " + out + ")\n" + kernel,
       "inputs must be a dictionary from names to op.tensor(...)"},
      {"@op.register(\"test::Copy\", inputs={\"x\": \"float32\"}, " + out + ")\n" + kernel,
       "\"x\" must be declared as op.tensor(type, extents...)"},
      {"@op.register(\"test::Copy\", inputs={\"w\": op.variadic(\"float32\"), \"x\": op.tensor(\"float32\", \"n\")}, " +
           out + ")\n" + kernel,
       "plugin.py:3:36: \"w\" is variadic, so it must be the last of the inputs"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.optional(\"float32\", \"n\")})\n" + kernel,
       "\"y\": only inputs can be optional"},
      {"U = op.dtype(\"int8\")\n@op.register(\"test::Copy\", inputs={\"x\": op.optional(U, \"n\")}, outputs={\"y\": "
       "op.tensor(U, \"n\")})\n" +
           kernel,
       "\"y\" has the element type \"U\", which only optional inputs have"},
      {"@op.elementwise(\"test::Copy\", " + in +
           ", outputs={\"y\": op.tensor(\"float32\")})\ndef copy(x):\n    return x\n",
       "plugin.py:3:39: \"x\" has extents, but the tensors of op.elementwise have any shape"},
      {value_of + "def copy(x):\n    return x\n", "\"copy\" has no parameter \"w\", so nothing reads that input"},
      {value_of + "def copy(x, w, z):\n    return x\n",
       "parameter \"z\" of \"copy\" names no input or attribute of \"test::Copy\""},
      {value_of + "@S.prim_func\ndef copy(x, w):\n    return x\n",
       "\"copy\" must be a plain function below op.elementwise alone"},
      {"op.elementwise(\"test::Copy\", inputs={}, outputs={\"y\": op.tensor(\"float32\")})\n",
       "plugin.py:3:1: op.elementwise stands above the function of the value"},
      {"@op.elementwise(\"test::Copy\", inputs={}, outputs={}, shape=3)\ndef copy():\n    return 0\n",
       "op.elementwise has no argument \"shape\""},
      {"@op.register(\"test::Copy\", inputs={\"x\": op.tensor(\"real\", \"n\")}, " + out + ")\n" + kernel,
       "an element type is expected"},
      {"@op.register(\"test::Copy\", inputs={\"x\": op.tensor(\"float32\", \"...n\", \"...k\")}, " + out + ")\n" +
           kernel,
       "only one of a tensor's extents can stand for any number of them"},
      {"@op.register(\"test::Copy\", inputs={\"x\": op.tensor(\"float32\", 1.5)}, " + out + ")\n" + kernel,
       "an extent is a name"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.tensor(\"float32\", \"k\")})\n" + kernel,
       "\"y\" has the extent \"k\", which no input has"},
      {"U = op.dtype(\"int8\")\n@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.tensor(U, \"n\")})\n" +
           kernel,
       "\"y\" has the element type \"U\", which no input has"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.tensor(\"float32\")})\n" + kernel,
       "the extents of \"y\" are missing"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", attributes={\"x\": 1})\n" + kernel,
       "\"x\" is declared twice"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", attributes={\"n\": 1})\n" + kernel,
       "\"n\" is an extent and something else too"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", attributes={\"k\": None})\n" + kernel,
       "attribute \"k\" must be a default value"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", check=lambda q: None)\n" + kernel,
       "parameter \"q\" of \"<lambda>\" names no input"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", check=3)\n" + kernel,
       "check must be a function of this file"},
      {"@op.register(\"test::Copy\", " + in + ", " + out +
           ")\n@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\"), y: S.ptr(\"float32\", "
           "\"global\"), k: S.i32):\n    y[0] = x[0]\n",
       "parameter \"k\" of kernel \"copy\" names no input, output, workspace, attribute or extent of \"test::Copy\""},
      {"@op.register(\"test::Copy\", " + in + ", " + out +
           ")\n@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\")):\n    x[0] = 1\n",
       "no kernel has a parameter \"y\", so nothing writes that output"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ")\ndef copy(x, y, n):\n    pass\n",
       "kernel \"copy\" must be decorated by \"S.prim_func\""},
      {kernel + "op.register(\"test::Copy\", " + in + ", " + out + ")\n",
       "op.register needs `kernels`, `compute`, or a kernel function below it"},
      {kernel + "op.register(\"test::Copy\", " + in + ", " + out + ", kernels=[paste])\n",
       "kernels must be a list of kernel functions of this file"},
      {"@op.register(\"test::Copy\", " + in + ", " + out +
           ")\n@S.prim_func\ndef copy(x: S.ptr(\"int32\", \"global\"), y: S.ptr(\"float32\", "
           "\"global\")):\n    y[0] = x[0]\n",
       "parameter \"x\" of kernel \"copy\" points to int32, but the tensor is float32"},
      {"@op.register(\"test::Copy\", " + in + ", " + out +
           ")\n@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\"), y: S.ptr(\"float32\", "
           "\"global\"), n: S.fp32):\n    y[0] = x[0]\n",
       "parameter \"n\" of kernel \"copy\" is float32, but an extent is an integer"},
      {"@op.register(\"test::Copy\", " + in + ", " + out +
           ")\n@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\"), y: S.ptr(\"float32\", "
           "\"lsram\")):\n    y[0] = x[0]\n",
       "parameter \"y\" of kernel \"copy\" must be a global pointer, it is a tensor"},
  };
  for (const auto& row : rows) {
    write_plugin(row.text);
    EXPECT_EQ(convert("one.onnx", "one.aipu.bin", "--plugin " + file("plugin.py")), 1) << row.text;
    EXPECT_THAT(log(), HasSubstr(row.error)) << row.text;
    EXPECT_EQ(lines(), 1) << log();
  }
  // A kernel's own errors come with the source line.
  write_plugin("@op.register(\"test::Copy\", " + in + ", " + out + ")\n" + kernel + "    z = missing\n");
  EXPECT_EQ(convert("one.onnx", "one.aipu.bin", "--plugin " + file("plugin.py")), 1);
  EXPECT_THAT(log(), HasSubstr("plugin.py:7:9\n    z = missing\n        ^\n"));
  EXPECT_EQ(convert("one.onnx", "one.aipu.bin", "--plugin " + file("nothing.py")), 1);
  EXPECT_THAT(log(), HasSubstr("no such file"));
}

}  // namespace
}  // namespace aipu::models
