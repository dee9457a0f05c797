// Operators of `.py` files on the whole road: models with the examples of models/custom_op and with declarations made here, converted with
// --plugin for both targets and run natively and interpreted, against the same model with the operator written out or numbers by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "models/onnx_builder.h"
#include "runtime/base/file.h"

namespace aipu::models {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kTargets[] = {"host", "X2_1204"};

class ScriptPlugin : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / (std::string("aipu_script_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string tool(const std::string& name) { return AIPU_BUILD_DIR "/bin/" + name; }
  static std::string example(const std::string& name) { return AIPU_SOURCE_DIR "/models/custom_op/" + name; }

  // The exit code; what it printed is in log().
  int run(const std::string& command) {
    const int status = std::system((command + " > " + file("log.txt") + " 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const {
    const auto text = read_text_file(file("log.txt"));
    return text.ok() ? *text : text.status().message();
  }
  int64_t lines() const {
    const std::string text = log();
    return std::count(text.begin(), text.end(), '\n');
  }
  int convert(const std::string& model, const std::string& output, const std::string& options) {
    return run(tool("aipugb") + " " + file(model) + " -o " + file(output) + " -q " + options);
  }

  template <typename T>
  void write_npy(const std::string& name, const std::string& descr, const std::vector<int64_t>& shape, const std::vector<T>& values) {
    std::string dims;
    for (const int64_t d : shape) dims += std::to_string(d) + ",";
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
    header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::ofstream out(file(name), std::ios::binary);
    const auto length = static_cast<uint16_t>(header.size());
    out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(length & 255) << static_cast<char>(length >> 8) << header;
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  void write_f32(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    write_npy(name, "<f4", shape, values);
  }
  void write_i32(const std::string& name, const std::vector<int64_t>& shape, const std::vector<int32_t>& values) {
    write_npy(name, "<i4", shape, values);
  }
  static std::vector<float> waves(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f) * 2.0f;
    return values;
  }

  // The custom model computes what the plain one does, on each target and back end, and differs from it with other attributes.
  void expect_same(const std::string& plugin, const std::vector<std::string>& outputs, const std::string& tolerance) {
    ASSERT_EQ(convert("plain.onnx", "plain.aipu.bin", ""), 0) << log();
    ASSERT_EQ(
        run(tool("aipurun") + " " + file("plain.aipu.bin") + " --input input=" + file("input.npy") + " --output-dir " + file("plain")), 0)
        << log();
    std::string expected;
    for (const std::string& name : outputs) expected += " --expect " + name + "=" + file("plain/" + name + ".npy");
    for (const std::string target : kTargets) {
      ASSERT_EQ(convert("custom.onnx", "custom.aipu.bin", "--target " + target + " --plugin " + plugin), 0) << log();
      for (const std::string backend : {"", " --backend interp"}) {
        EXPECT_EQ(
            run(tool("aipurun") + " " + file("custom.aipu.bin") + " --input input=" + file("input.npy") + expected + tolerance + backend),
            0)
            << target << backend << "\n"
            << log();
      }
      ASSERT_EQ(convert("other.onnx", "other.aipu.bin", "--target " + target + " --plugin " + plugin), 0) << log();
      EXPECT_EQ(run(tool("aipurun") + " " + file("other.aipu.bin") + " --input input=" + file("input.npy") + expected + tolerance), 1)
          << log();
    }
  }

  // A model that is one node of the operator, between inputs and outputs of the given types.
  struct Operand {
    std::string name;
    DType dtype;
    Extents extents;
  };
  void one_node(const std::string& op, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
                const NamedAttributes& attributes = {}) {
    OnnxBuilder b("one", 1);
    b.set_opset(1, "test");
    std::vector<std::string> names;
    for (const Operand& o : inputs) names.push_back(b.input(o.name, o.dtype, o.extents));
    const auto results = b.node(op, names, attributes, outputs.size(), "test");
    for (size_t i = 0; i < outputs.size(); ++i) b.output(results[i], outputs[i].name, outputs[i].dtype, outputs[i].extents);
    ASSERT_EQ(b.save(file("one.onnx")).message(), "");
  }
  void write_plugin(const std::string& text, const std::string& name = "plugin.py") {
    std::ofstream(file(name)) << "from aipu import op\nfrom aipu import script as S\n" << text;
  }

  fs::path folder_;
};

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

// The one of kernels/ADDING_AN_OP.md works as it stands there.
TEST_F(ScriptPlugin, TheGuidesExample) {
  const auto text = read_text_file(AIPU_SOURCE_DIR "/kernels/ADDING_AN_OP.md");
  ASSERT_TRUE(text.ok());
  const size_t begin = text->find("```python\n") + 10;
  std::ofstream(file("guide.py")) << text->substr(begin, text->find("```", begin) - begin);
  OnnxBuilder b("m", 3);
  b.set_opset(1, "example");
  b.output(b.op("HardShrink", {b.input("x", DType::kF32, {"N", 5})}, {{"lambd", 1.0}}, "example"), "y", DType::kF32, {"N", 5});
  ASSERT_EQ(b.save(file("one.onnx")).message(), "");
  write_f32("x.npy", {2, 5}, {-3, -1, 0.5, 1, 2, 0, 1.5, -0.25, -7, 9});
  write_f32("y.npy", {2, 5}, {-3, 0, 0, 0, 2, 0, 1.5, 0, -7, 9});
  for (const std::string target : kTargets) {
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("guide.py")), 0) << log();
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")), 0)
        << log();
  }
}

TEST_F(ScriptPlugin, HardShrinkInHalfPrecision) {
  const auto model = [&](const std::string& name, bool custom, double lambd) {
    OnnxBuilder b("m", 3);
    b.set_opset(1, "example");
    auto x = b.op("Cast", {b.input("input", DType::kF32, {"N", 999})}, {{"to", 10}});
    x = custom ? b.op("HardShrink", {x}, {{"lambd", lambd}}, "example") : b.op("Shrink", {x}, {{"lambd", lambd}, {"bias", 0.0}});
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
      norm = b.op("Max", {b.op("ReduceL2", {x}, {{"axes", std::vector<int64_t>{-1}}}), b.scalar(static_cast<float>(epsilon))});
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

// Everything a declaration can say: several kernels with a workspace between them, computed extents, lists as attributes, integers, a type
// from a second variable, an output that nobody uses.
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
  for (const std::string target : kTargets) {
    one_node("Grouped", {{"x", DType::kI32, {"len"}}, {"bias", DType::kI32, {1}}},
             {{"y", DType::kI32, {"groups"}}, {"count", DType::kI32, {1}}}, {{"size", 3}, {"MODE", "double"}});
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --input bias=" + file("bias.npy") +
                  " --expect y=" + file("doubled.npy") + " --expect count=" + file("count.npy")),
              0)
        << log();
    one_node("Grouped", {{"x", DType::kI32, {7}}, {"bias", DType::kI32, {1}}}, {{"y", DType::kI32, {3}}}, {{"size", 3}});
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    write_i32("zero.npy", {1}, {0});
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --input bias=" + file("zero.npy") +
                  " --expect y=" + file("y.npy")),
              0)
        << log();
  }
}

// A weight among the operands, lanes of a type variable, an attribute that unrolls a loop, a domain with dots; between other operators.
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
    b.output(b.op("Neg", {b.op("Fir", {x, w}, {{"taps", bad ? 4 : 3}}, "com.example.filters")}), "y", DType::kF32, {"N", 2, 38});
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
    for (const std::string target : kTargets) {
      ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), bad ? 1 : 0) << log();
      if (bad) {
        EXPECT_THAT(log(), HasSubstr("w has 3 elements, expected 4"));
        continue;
      }
      EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")), 0)
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
  for (const std::string target : kTargets) {
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    write_f32("x.npy", {1, 2, 5}, {1, 2, 3, 4, 5, 9, 8, 7, 6, 5});
    write_f32("y.npy", {1, 2, 2}, {3, 5, 9, 6});
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")), 0)
        << log();
    write_f32("x.npy", {2, 2, 1}, {1, 2, 3, 4});
    write_f32("y.npy", {2, 2, 1}, {1, 2, 3, 4});
    EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")), 0)
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
  const std::string command = tool("aipurun") + " " + file("one.aipu.bin") + " --input a=" + file("a.npy") + " --input b=";
  EXPECT_EQ(run(command + file("a.npy") + " --expect y=" + file("y.npy")), 0) << log();
  EXPECT_NE(run(command + file("b.npy")), 0);
  EXPECT_THAT(log(), HasSubstr("test::Plus: extents that must agree differ"));
}

// Four TECs with memories of their own, barriers, shared memory and asynchronous copies: the maximum of everything.
TEST_F(ScriptPlugin, TecsShareTheirWork) {
  write_plugin(R"(
@op.register("test::Maximum", inputs={"x": op.tensor("float32", "...n")}, outputs={"y": op.tensor("float32", 1)})
@S.prim_func
def maximum(x: S.ptr("float32", "global"), y: S.ptr("float32", "global"), n: S.i32):
    tid, tecs = S.get_local_id(), S.get_local_size()
    board = S.alloc_buffer((64,), "float32", scope="shared")
    first = S.alloc((512,), "float32", scope="lsram")
    second = S.alloc((512,), "float32", scope="lsram")
    a, b = S.alloc_events(2)
    chunks = S.ceildiv(n, 512)
    best = S.fp32("-inf")
    if tid < chunks:
        S.async_dma_copy(first, x + tid * 512, S.min(512, n - tid * 512), event=a)
    use_first = True == (tid >= 0)
    for chunk in range(tid, chunks, tecs):
        following = chunk + tecs
        if use_first:
            if following < chunks:
                S.async_dma_copy(second, x + following * 512, S.min(512, n - following * 512), event=b)
            S.wait_events(a)
            for i in range(S.min(512, n - chunk * 512)):
                best = S.max(best, first[i])
        else:
            if following < chunks:
                S.async_dma_copy(first, x + following * 512, S.min(512, n - following * 512), event=a)
            S.wait_events(b)
            for i in range(S.min(512, n - chunk * 512)):
                best = S.max(best, second[i])
        use_first = not use_first
    board[tid] = best
    S.free_events(a, b)
    S.barrier()
    if tid == 0:
        for t in range(1, tecs):
            best = S.max(best, board[t])
        y[0] = best
)");
  one_node("Maximum", {{"x", DType::kF32, {"N", 100}}}, {{"y", DType::kF32, {1}}});
  for (const std::string target : kTargets) {
    ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target " + target + " --plugin " + file("plugin.py")), 0) << log();
    for (const int64_t rows : {1, 10, 77}) {
      for (const int64_t where : {int64_t{0}, rows * 61, rows * 100 - 1}) {
        std::vector<float> x = waves(rows * 100);
        x[static_cast<size_t>(where)] = 50;
        write_f32("x.npy", {rows, 100}, x);
        write_f32("y.npy", {1}, {50});
        for (const std::string backend : {"", " --backend interp"}) {
          EXPECT_EQ(
              run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy") + backend),
              0)
              << target << backend << "\n"
              << log();
        }
      }
    }
  }
}

// The four TECs of X2_1204 run at the same time and each prints; one that returns early is not waited for.
TEST_F(ScriptPlugin, FourTecsRunAtTheSameTime) {
  write_plugin(R"(
@op.register("test::Meet", inputs={"x": op.tensor("int32", 1)}, outputs={"y": op.tensor("int32", 4)})
@S.prim_func
def meet(x: S.ptr("int32", "global"), y: S.ptr("int32", "global")):
    tid = S.get_local_id()
    board = S.alloc_buffer((4,), "int32", scope="shared")
    mine = S.alloc_buffer((4096,), "int32", scope="lsram")
    S.perf_tick_begin(0)
    S.printf("tec %d of %d, %f, %s\n", tid, S.get_local_size(), 0.125, "here")
    for i in range(4096):
        mine[i] = tid + x[0]
    board[tid] = mine[tid * 1000]
    S.flush_cache()
    S.barrier()
    # Each takes what its neighbour has put down, then what that one has made of it.
    value = board[(tid + 1) % 4]
    S.barrier()
    board[tid] = value * 10
    S.barrier()
    y[tid] = board[(tid + 1) % 4] + mine[4095]
    S.perf_tick_end(0)
    if tid == 1:
        return
    S.barrier()
    S.barrier()
)");
  one_node("Meet", {{"x", DType::kI32, {1}}}, {{"y", DType::kI32, {4}}});
  write_i32("x.npy", {1}, {7});
  write_i32("y.npy", {4}, {90 + 7, 100 + 8, 70 + 9, 80 + 10});
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target X2_1204 --plugin " + file("plugin.py")), 0) << log();
  for (const std::string backend : {"", " --backend interp"}) {
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(run("timeout 60 " + tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") +
                    " --expect y=" + file("y.npy") + backend),
                0)
          << backend << "\n"
          << log();
      for (int t = 0; t < 4; ++t) EXPECT_THAT(log(), HasSubstr("tec " + std::to_string(t) + " of 4, 0.125000, here\n")) << backend;
    }
  }
}

// The host has as many TECs as threads; those that return early are not waited for either.
TEST_F(ScriptPlugin, TecsThatReturnEarlyAreNotWaitedForOnTheHost) {
  write_plugin(R"(
@op.register("test::Early", inputs={"x": op.tensor("int32", 1)}, outputs={"y": op.tensor("int32", 16)})
@S.prim_func
def early(x: S.ptr("int32", "global"), y: S.ptr("int32", "global")):
    tid = S.get_local_id()
    board = S.alloc_buffer((16,), "int32", scope="shared")
    board[tid] = x[0] + tid
    S.barrier()
    if tid == 0:
        for i in range(16):
            other = i % S.get_local_size()
            y[i] = board[other] - other
    if tid % 2 == 1:
        return
    for i in range(100):
        S.barrier()
)");
  one_node("Early", {{"x", DType::kI32, {1}}}, {{"y", DType::kI32, {16}}});
  write_i32("x.npy", {1}, {7});
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", "--target host --plugin " + file("plugin.py")), 0) << log();
  for (const int threads : {1, 2, 4}) {
    write_i32("y.npy", {16}, std::vector<int32_t>(16, 7));
    EXPECT_EQ(run("timeout 60 " + tool("aipurun") + " " + file("one.aipu.bin") + " --threads " + std::to_string(threads) +
                  " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")),
              0)
        << log();
  }
}

// Local and shared memory are bounded; the error has the numbers.
TEST_F(ScriptPlugin, MemoriesAreBounded) {
  const auto plugin = [&](int64_t lsram, int64_t shared) {
    write_plugin(
        "@op.register(\"test::Fill\", inputs={\"x\": op.tensor(\"int32\", 1)}, outputs={\"y\": op.tensor(\"int32\", 1)})\n@S.prim_func\n"
        "def fill(x: S.ptr(\"int32\", \"global\"), y: S.ptr(\"int32\", \"global\")):\n    a = S.alloc_buffer((" +
        std::to_string(lsram) + ",), \"int8\", scope=\"lsram\")\n    b = S.alloc_buffer((" + std::to_string(shared) +
        ",), \"int8\", scope=\"shared\")\n    a[" + std::to_string(lsram - 1) + "] = 3\n    b[" + std::to_string(shared - 1) +
        "] = 4\n    S.barrier()\n    y[0] = x[0] + a[" + std::to_string(lsram - 1) + "] + b[" + std::to_string(shared - 1) + "]\n");
  };
  one_node("Fill", {{"x", DType::kI32, {1}}}, {{"y", DType::kI32, {1}}});
  write_i32("x.npy", {1}, {10});
  write_i32("y.npy", {1}, {17});
  const std::string options = "--target X2_1204 --plugin " + file("plugin.py");
  plugin(32 << 10, 256 << 10);
  ASSERT_EQ(convert("one.onnx", "one.aipu.bin", options), 0) << log();
  EXPECT_EQ(run(tool("aipurun") + " " + file("one.aipu.bin") + " --input x=" + file("x.npy") + " --expect y=" + file("y.npy")), 0) << log();
  plugin((32 << 10) + 1, 16);
  EXPECT_EQ(convert("one.onnx", "two.aipu.bin", options), 1);
  EXPECT_THAT(log(), HasSubstr("needs 32769 bytes of local memory (lsram) per TEC, X2_1204 has 32768"));
  plugin(16, (256 << 10) + 1);
  EXPECT_EQ(convert("one.onnx", "two.aipu.bin", options), 1);
  EXPECT_THAT(log(), HasSubstr("needs 262145 bytes of shared memory, X2_1204 has 262144"));
  EXPECT_FALSE(fs::exists(file("two.aipu.bin")));
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
      "@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\"), y: S.ptr(\"float32\", \"global\"), n: S.i32):\n    y[0] = x[0]\n";
  const std::string in = "inputs={\"x\": op.tensor(\"float32\", \"n\")}", out = "outputs={\"y\": op.tensor(\"float32\", \"n\")}";
  const struct {
    std::string text, error;
  } rows[] = {
      {"x = 1\n", "plugin.py:1:1: the file declares no operator"},
      {"def broken(:\n", "plugin.py:3:11: '(' was never closed"},
      {"@op.register(\"Copy\", " + in + ", " + out + ")\n" + kernel, "plugin.py:3:14: \"Copy\" is not of the form \"domain::Name\""},
      {"@op.register(" + in + ", " + out + ")\n" + kernel, "op.register expects the operator's name first"},
      {"@op.register(\"test::Copy\", " + out + ")\n" + kernel, "plugin.py:3:2: op.register needs `inputs`"},
      {"@op.register(\"test::Copy\", " + in + ")\n" + kernel, "plugin.py:3:2: op.register needs `outputs`"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={})\n" + kernel, "an operator has at least one output"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", shapes=3)\n" + kernel, "op.register has no argument \"shapes\""},
      {"@op.register(\"test::Copy\", inputs=[\"x\"], " + out + ")\n" + kernel, "inputs must be a dictionary from names to op.tensor(...)"},
      {"@op.register(\"test::Copy\", inputs={\"x\": \"float32\"}, " + out + ")\n" + kernel,
       "\"x\" must be declared as op.tensor(type, extents...)"},
      {"@op.register(\"test::Copy\", inputs={\"x\": op.tensor(\"real\", \"n\")}, " + out + ")\n" + kernel, "an element type is expected"},
      {"@op.register(\"test::Copy\", inputs={\"x\": op.tensor(\"float32\", \"...n\", \"...k\")}, " + out + ")\n" + kernel,
       "only one of a tensor's extents can stand for any number of them"},
      {"@op.register(\"test::Copy\", inputs={\"x\": op.tensor(\"float32\", 1.5)}, " + out + ")\n" + kernel, "an extent is a name"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.tensor(\"float32\", \"k\")})\n" + kernel,
       "\"y\" has the extent \"k\", which no input has"},
      {"U = op.dtype(\"int8\")\n@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.tensor(U, \"n\")})\n" + kernel,
       "\"y\" has the element type \"U\", which no input has"},
      {"@op.register(\"test::Copy\", " + in + ", outputs={\"y\": op.tensor(\"float32\")})\n" + kernel, "the extents of \"y\" are missing"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", attributes={\"x\": 1})\n" + kernel, "\"x\" is declared twice"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", attributes={\"n\": 1})\n" + kernel,
       "\"n\" is an extent and something else too"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", attributes={\"k\": None})\n" + kernel,
       "attribute \"k\" must be a default value"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", check=lambda q: None)\n" + kernel,
       "parameter \"q\" of \"<lambda>\" names no input"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ", check=3)\n" + kernel, "check must be a function of this file"},
      {"@op.register(\"test::Copy\", " + in + ", " + out +
           ")\n@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\"), y: S.ptr(\"float32\", "
           "\"global\"), k: S.i32):\n    y[0] = x[0]\n",
       "parameter \"k\" of kernel \"copy\" names no input, output, workspace, attribute or extent of \"test::Copy\""},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ")\n@S.prim_func\ndef copy(x: S.ptr(\"float32\", \"global\")):\n    x[0] = 1\n",
       "no kernel has a parameter \"y\", so nothing writes that output"},
      {"@op.register(\"test::Copy\", " + in + ", " + out + ")\ndef copy(x, y, n):\n    pass\n",
       "kernel \"copy\" must be decorated by \"S.prim_func\""},
      {kernel + "op.register(\"test::Copy\", " + in + ", " + out + ")\n", "op.register needs `kernels`, or a kernel function below it"},
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
