#include "tests/frontend/onnx_cases.h"
#include "test_paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace aipu::frontend {

namespace fs = std::filesystem;

namespace {

fs::path from_environment(const char* variable, const fs::path& otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? fs::path(value) : otherwise;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void add_case(const fs::path& folder, const std::string& name, std::vector<OnnxCase>* cases) {
  if (!fs::exists(folder / "model.onnx")) return;
  OnnxCase found{name, (folder / "model.onnx").string(), {}, {}};
  const auto collect = [&](const std::string& role, std::vector<std::string>* files) {
    for (int i = 0;; ++i) {
      const fs::path file = folder / "test_data_set_0" / (role + "_" + std::to_string(i) + ".pb");
      if (!fs::exists(file)) break;
      files->push_back(file.string());
    }
  };
  collect("input", &found.inputs);
  collect("output", &found.expected);
  cases->push_back(std::move(found));
}

}  // namespace

std::vector<OnnxCase> onnx_backend_cases() {
  std::vector<OnnxCase> cases;
  const fs::path root = from_environment("AIPU_ONNX_TESTDATA", "/usr/share/libonnx-testdata/data");
  for (const char* group : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    for (const auto& folder : sorted_entries(root / group))
      add_case(folder, std::string(group) + "/" + folder.filename().string(), &cases);
  }
  return cases;
}

std::vector<OnnxCase> development_models() {
  std::vector<OnnxCase> cases;
  const fs::path root = from_environment("AIPU_MODELS", fs::path(AIPU_SOURCE_DIR).parent_path() / "shared" / "models");
  for (const auto& folder : sorted_entries(root)) add_case(folder, folder.filename().string(), &cases);
  for (const auto& file : sorted_entries(root / "light")) {
    if (file.extension() != ".onnx") continue;
    OnnxCase found{file.stem().string(), file.string(), {}, {}};
    const fs::path expected = file.parent_path() / (file.stem().string() + "_output_0.pb");
    if (fs::exists(expected)) found.expected.push_back(expected.string());
    cases.push_back(std::move(found));
  }
  return cases;
}

}  // namespace aipu::frontend
