// Constants in every form, data beside the model, and bytes that are not to be trusted.
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/file.h"
#include "tests/frontend/import_model.h"

namespace aipu::frontend {
namespace {

// ---- constants

TEST(OnnxImport, ConstantInAllForms) {
  OnnxBuilder b;
  std::vector<std::string> values;
  values.push_back(b.op("Constant", {}, {{"value", TensorData::f32({2}, {1, 2})}}));
  values.push_back(b.op("Constant", {}, {{"value_int", 7}}));
  values.push_back(b.op("Constant", {}, {{"value_ints", Ints{1, 2, 3}}}));
  values.push_back(b.op("Constant", {}, {{"value_float", 0.5}}));
  values.push_back(b.op("Constant", {}, {{"value_floats", std::vector<double>{1, 2}}}));
  for (const auto& value : values) b.output(value);
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  const std::vector<std::string> types{"float32[2]", "int64[]", "int64[3]", "float32[]", "float32[2]"};
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(output_type(**graph, i), types[i]);
    EXPECT_NE((*graph)->constant((*graph)->outputs()[i].value), nullptr);
  }
}

TEST(OnnxImport, StringsAreNumbersOfATable) {
  OnnxBuilder b;
  b.output(b.op("Constant", {}, {{"value_string", "text"}}));
  b.output(b.op("Constant", {}, {{"value_strings", std::vector<std::string>{"b", "", "text", "b"}}}));
  EXPECT_EQ(error_of(import(b)), "m.onnx: the model has strings, for which there is no table (ImportOptions::strings)");
  ImportOptions options;
  options.strings = std::make_shared<graph::StringTable>();
  const auto graph = import(b, options);
  ASSERT_IMPORTED(graph);
  EXPECT_EQ(output_type(**graph, 0), "string[]");
  EXPECT_EQ(output_type(**graph, 1), "string[4]");
  EXPECT_EQ(options.strings->texts(), (std::vector<std::string>{"", "text", "b"}));
  EXPECT_EQ((*graph)->constant((*graph)->outputs()[1].value)->to_int64s(), (std::vector<int64_t>{2, 0, 1, 2}));
}

TEST(OnnxImport, TypedDataOfEveryElementType) {
  const auto elements = [](DType dtype, const std::vector<std::byte>& bytes) -> std::string {
    OnnxBuilder b;
    b.output(b.op("Identity", {b.typed_initializer({dtype, {2}, bytes}, "w")}));
    const auto graph = import(b);
    if (!graph.ok()) return graph.status().message();
    const auto& node = only(**graph, "Identity");
    const auto* constant = (*graph)->constant(node.inputs[0]);
    if (constant->dtype() != dtype || !std::ranges::equal(constant->bytes(), bytes)) return "differs";
    return "same";
  };
  for (const DType dtype : {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                            DType::kI64, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    std::vector<std::byte> bytes(2 * dtype_bytes(dtype));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : 0x35 + 17 * i);
    EXPECT_EQ(elements(dtype, bytes), "same") << dtype_name(dtype);
  }
  EXPECT_EQ(elements(DType::kI32, std::vector<std::byte>(12)),
            "m.onnx: node '/Identity' (Identity): tensor 'w' has 3 elements in int32_data, its shape needs 2");
}

TEST(OnnxImport, SparseInitializersBecomeDense) {
  const auto dense = [](const TensorData& indices, std::vector<int64_t> shape) -> Imported {
    OnnxBuilder b;
    b.sparse_initializer(TensorData::f32({2}, {5, 7}), indices, std::move(shape), "w");
    b.output(b.op("Identity", {"w"}));
    return import(b);
  };
  for (const auto& indices : {TensorData::i64({2}, {1, 5}), TensorData::i64({2, 2}, {0, 1, 1, 2})}) {
    const auto graph = dense(indices, {2, 3});
    ASSERT_IMPORTED(graph);
    EXPECT_EQ((*graph)->constant(only(**graph, "Identity").inputs[0])->to_doubles(),
              (std::vector<double>{0, 5, 0, 0, 0, 7}));
  }
  const std::string where = "m.onnx: node '/Identity' (Identity): sparse tensor 'w' ";
  EXPECT_EQ(error_of(dense(TensorData::i64({2}, {1, 6}), {2, 3})), where + "has the index 6 of 6 elements");
  EXPECT_EQ(error_of(dense(TensorData::i64({2, 2}, {0, 1, 2, 2}), {2, 3})),
            where + "has the index 2 in an axis of extent 2");
  EXPECT_EQ(error_of(dense(TensorData::i64({2}, {1, 2}), {1 << 20, 1 << 20})),
            where + "is more than 268435456 bytes when dense");
}

TEST(OnnxImport, InitializersListedAsInputsAreNoInputs) {
  OnnxBuilder b;
  b.set_ir_version(3);
  const auto x = b.input("x", DType::kF32, {2});
  b.input("w", DType::kF32, {2});
  b.initializer(TensorData::f32({2}, {1, 2}), "w");
  b.output(b.op("Add", {x, "w"}));
  const auto graph = import(b);
  ASSERT_IMPORTED(graph);
  ASSERT_EQ((*graph)->inputs().size(), 1u);
  EXPECT_NE((*graph)->constant(only(**graph, "Add").inputs[1]), nullptr);
}

TEST(OnnxImport, LargeWeightsAreBorrowed) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {1024});
  b.output(b.op("Add", {x, b.weight({1024}, 1.0)}));
  const std::string bytes = b.serialize();
  const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx");
  ASSERT_IMPORTED(graph);
  EXPECT_EQ((*graph)->constant(only(**graph, "Add").inputs[1])->bytes().size(), 4096u);
}

// ---- external data

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("aipu_external_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "model");
    const auto x = builder_.input("x", DType::kF32, {4});
    builder_.output(builder_.op("Add", {x, builder_.initializer(TensorData::f32({4}, {1, 2, 3, 4}), "w")}));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "model" / "m.onnx").string(); }

  std::filesystem::path folder_;
  OnnxBuilder builder_;
};

TEST_F(ExternalData, IsReadFromBesideTheModel) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  const auto graph = import_onnx(path());
  ASSERT_IMPORTED(graph);
  EXPECT_EQ((*graph)->constant(only(**graph, "Add").inputs[1])->to_doubles(), (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(ExternalData, TruncatedFile) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  std::filesystem::resize_file(folder_ / "model" / "m.data", 12);
  EXPECT_EQ(error_of(import_onnx(path())),
            path() + ": node '/Add' (Add): tensor 'w' needs bytes 0 to 16 of 'm.data', which has 12");
}

// What is imported is in memory: the files may be cut off behind the importer's back, a mapping would end in SIGBUS.
TEST_F(ExternalData, FilesThatAreCutOffAfterTheyWereRead) {
  constexpr int64_t kCount = 100000;
  const std::vector<float> inside(kCount, 2), outside(kCount, 3);
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {kCount});
  const auto sum = b.op("Add", {x, b.initializer(TensorData::f32({kCount}, outside), "outside")});
  const auto product = b.op("Mul", {sum, b.initializer(TensorData::f32({kCount}, outside), "shared")});
  b.output(b.op("Sub", {product, b.initializer(TensorData::f32({kCount - 1, 1}, {inside.begin() + 1, inside.end()}))}));
  ASSERT_TRUE(b.save_with_external_data(path(), "m.data", kCount * sizeof(float)).ok());
  const auto graph = import_onnx(path());
  ASSERT_IMPORTED(graph);
  std::filesystem::resize_file(path(), 0);
  std::filesystem::resize_file(folder_ / "model" / "m.data", 0);
  const auto last = [&](const char* op) {
    return (*graph)->constant(only(**graph, op).inputs[1])->to_doubles().back();
  };
  EXPECT_EQ(last("Add"), 3);
  EXPECT_EQ(last("Mul"), 3);
  EXPECT_EQ(last("Sub"), 2);
}

TEST_F(ExternalData, MayNotLeaveTheFolder) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "../m.data", 1).ok());
  EXPECT_EQ(error_of(import_onnx(path())), path() +
                                               ": node '/Add' (Add): tensor 'w' has the external data location "
                                               "'../m.data'; it must be a path below the model's folder");
}

TEST_F(ExternalData, SymbolicLinksMayNotLeaveTheFolderEither) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  std::filesystem::rename(folder_ / "model" / "m.data", folder_ / "outside.data");
  std::filesystem::create_symlink(folder_ / "outside.data", folder_ / "model" / "m.data");
  EXPECT_EQ(error_of(import_onnx(path())), path() +
                                               ": node '/Add' (Add): tensor 'w' has the external data location "
                                               "'m.data', which leads out of the model's folder");
}

TEST_F(ExternalData, NeedsAFolder) {
  ASSERT_TRUE(builder_.save_with_external_data(path(), "m.data", 1).ok());
  const auto text = read_text_file(path());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(error_of(import_onnx_from_memory(std::as_bytes(std::span(*text)), "m.onnx")),
            "m.onnx: node '/Add' (Add): tensor 'w' keeps its data in another file, and this model has no folder");
}

// ---- hostile bytes

TEST(OnnxImport, NotAModel) {
  const std::string garbage = "this is no protobuf";
  EXPECT_EQ(error_of(import_onnx_from_memory(std::as_bytes(std::span(garbage)), "m.onnx")),
            "m.onnx: not an ONNX model: the protobuf is damaged or truncated");
  EXPECT_EQ(error_of(import_onnx_from_memory({}, "m.onnx")), "m.onnx: not an ONNX model: there is no graph in it");
}

TEST(OnnxImport, TensorsAreNotTrusted) {
  const auto with_weight = [](TensorData data) {
    OnnxBuilder b;
    b.output(b.op("Neg", {b.initializer(std::move(data), "w")}));
    return error_of(import(b));
  };
  const std::string where = "m.onnx: node '/Neg' (Neg): tensor 'w' ";
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 60}, {}}),
            where + "has 0 bytes of data, its shape and type need 4611686018427387904");
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 62}, {}}), where + "has a size beyond 64 bits");
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 40}, {}}),
            where + "has 0 bytes of data, its shape and type need 4398046511104");
  EXPECT_EQ(with_weight({DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}, {}}), where + "has a size beyond 64 bits");
  EXPECT_EQ(with_weight({DType::kF32, {-1}, {}}), where + "has the negative extent -1");
  EXPECT_EQ(with_weight({DType::kF32, std::vector<int64_t>(40, 1), {}}), where + "has rank 40, the limit is 32");
}

TEST(OnnxImport, TruncationsAndFlippedBitsAreErrorsOrModels) {
  OnnxBuilder b;
  const auto x = b.input("x", DType::kF32, {"N", 3, 8, 8});
  b.output(b.relu(b.conv_bn(x, 3, 4, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})));
  const std::string good = b.serialize();
  int errors = 0;
  const auto attempt = [&](const std::string& bytes) {
    const auto graph = import_onnx_from_memory(std::as_bytes(std::span(bytes)), "m.onnx");
    if (graph.ok()) return;
    ++errors;
    EXPECT_EQ(graph.status().message().find('\n'), std::string::npos);
  };
  for (size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
  EXPECT_GT(errors, static_cast<int>(good.size()) - 8);  // a cut at a field's end may leave a model
  for (size_t bit = 0; bit < good.size() * 8; bit += 3) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    attempt(flipped);
  }
}

}  // namespace
}  // namespace aipu::frontend
