// Every model at hand is imported: the result has the types of the stored outputs, or the import says clearly what is
// not supported.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_file.h"
#include "graph/ir/graph.h"
#include "tests/frontend/onnx_cases.h"

namespace aipu::frontend {
namespace {

bool verbose() { return std::getenv("AIPU_TEST_VERBOSE") != nullptr; }

// Empty when the graph's outputs can be what the files hold.
std::string compare_outputs(const graph::Graph& graph, const std::vector<std::string>& files) {
  if (graph.outputs().size() != files.size() && !files.empty())
    return str_cat(graph.outputs().size(), " outputs, ", files.size(), " files");
  for (size_t i = 0; i < files.size(); ++i) {
    const auto file = read_tensor_file(files[i]);
    if (!file.ok()) return file.status().message();
    const auto& type = graph.type(graph.outputs()[i].value);
    const auto& expected = *file->tensor;
    // Some files hold bfloat16 results as uint16.
    const bool same_dtype =
        type.dtype == expected.dtype() || (type.dtype == DType::kBF16 && expected.dtype() == DType::kU16);
    bool fits = same_dtype && type.rank() == static_cast<int>(expected.shape().size());
    for (int axis = 0; fits && axis < type.rank(); ++axis) {
      const auto extent = type.shape[static_cast<size_t>(axis)].constant();
      fits = !extent || *extent == expected.shape()[static_cast<size_t>(axis)];
    }
    if (!fits) return str_cat("output ", i, " is ", type.text(), ", the file has ", expected.type().text());
  }
  return {};
}

bool is_one_line(const std::string& text) { return !text.empty() && text.find('\n') == std::string::npos; }

// The extents and integers of the first data set, for models whose ranks depend on them.
ImportOptions shapes_of_data(const OnnxCase& c) {
  ImportOptions options;
  const auto signature = read_model_signature(c.model);
  for (size_t i = 0; signature.ok() && i < signature->inputs.size() && i < c.inputs.size(); ++i) {
    const auto file = read_tensor_file(c.inputs[i]);
    if (!file.ok()) continue;
    const std::string& name = signature->inputs[i].name;
    if (is_integer(file->tensor->dtype())) {
      options.constant_inputs[name] = file->tensor;
    } else {
      options.shapes[name] = file->tensor->shape();
    }
  }
  return options;
}

TEST(OnnxCorpus, DevelopmentModelsImport) {
  const auto cases = development_models();
  if (cases.empty()) GTEST_SKIP() << "no development models on this machine (set AIPU_MODELS)";
  for (const auto& c : cases) {
    // PyTorch's squeeze() of an axis that may or may not be 1: only given shapes, and the sample rate, decide the rank.
    const bool rank_depends_on_shape = c.name == "silero_vad_v5";
    const auto graph = import_onnx(c.model, rank_depends_on_shape ? shapes_of_data(c) : ImportOptions());
    if (verbose()) std::printf("%s %s\n", c.name.c_str(), graph.ok() ? "ok" : graph.status().message().c_str());
    ASSERT_TRUE(graph.ok()) << c.name << ": " << graph.status().message();
    EXPECT_EQ(compare_outputs(**graph, c.expected), "") << c.name;
    EXPECT_EQ(graph::verify_graph(**graph).message(), "") << c.name;
  }
}

TEST(OnnxCorpus, BackendTestsImportOrSayWhyNot) {
  const auto cases = onnx_backend_cases();
  if (cases.empty()) GTEST_SKIP() << "libonnx-testdata is not installed (set AIPU_ONNX_TESTDATA)";
  int imported = 0;
  int unsupported = 0;
  for (const auto& c : cases) {
    ModelDescription description;
    ImportOptions options;
    options.description = &description;
    const auto graph = import_onnx(c.model, options);
    if (!graph.ok()) {
      ++unsupported;
      if (verbose()) std::printf("UNSUPPORTED %s: %s\n", c.name.c_str(), graph.status().message().c_str());
      EXPECT_EQ(graph.status().code(), ErrorCode::kUnsupported) << c.name << ": " << graph.status().message();
      EXPECT_TRUE(is_one_line(graph.status().message())) << c.name;
      continue;
    }
    ++imported;
    // The data of a sequence are no tensor's, strings have no tensors here; tests/python has those cases.
    const auto& outputs = (*graph)->outputs();
    const bool has_strings = std::any_of(outputs.begin(), outputs.end(), [&](const graph::Graph::Output& output) {
      return (*graph)->type(output.value).dtype == DType::kString;
    });
    if (description.lists.empty() && !has_strings) {
      EXPECT_EQ(compare_outputs(**graph, c.expected), "") << c.name;
    }
    EXPECT_EQ(graph::verify_graph(**graph).message(), "") << c.name;
  }
  std::printf("%d imported, %d unsupported of %zu\n", imported, unsupported, cases.size());
  EXPECT_GE(imported, 1035);  // what is left are sequences of unknown length and gradients
}

}  // namespace
}  // namespace aipu::frontend
