// The whole road of one small model as text: the graph after each pass, TIR before and after lowering, the C, the
// command buffers, the plan.
//
// Goldens are below tests/golden/<case>/. `golden_test --update-golden` rewrites them and lists what changed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu {
namespace {

bool update_golden = false;

using Files = std::map<std::string, std::string>;  // by path below a folder

Files read_folder(const std::filesystem::path& folder) {
  Files files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (!entry.is_regular_file()) continue;
    auto text = read_text_file(entry.path().string());
    if (text.ok()) files[std::filesystem::relative(entry.path(), folder).generic_string()] = *text;
  }
  return files;
}

// The first line that differs, with its neighbours.
std::string difference(const std::string& expected, const std::string& actual) {
  const auto split = [](const std::string& text) {
    std::vector<std::string> lines(1);
    for (const char c : text) {
      if (c == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += c;
      }
    }
    return lines;
  };
  const auto e = split(expected), a = split(actual);
  size_t line = 0;
  while (line < e.size() && line < a.size() && e[line] == a[line]) ++line;
  std::string text = "line " + std::to_string(line + 1) + "\n";
  if (line < e.size()) text += "  golden: " + e[line] + "\n";
  if (line < a.size()) text += "  now:    " + a[line] + "\n";
  return text;
}

// index.txt has times in it.
bool is_compared(const std::string& name) { return name != "index.txt"; }

void compare_with_golden(const std::filesystem::path& golden, const Files& actual) {
  const Files expected = read_folder(golden);
  std::set<std::string> names;
  for (const auto& [name, text] : expected) names.insert(name);
  for (const auto& [name, text] : actual) {
    if (is_compared(name)) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto want = expected.find(name), have = actual.find(name);
    if (want != expected.end() && have != actual.end() && want->second == have->second) continue;
    if (update_golden) {
      const std::filesystem::path file = golden / name;
      if (have == actual.end()) {
        std::filesystem::remove(file);
        std::printf("removed  %s\n", file.c_str());
        continue;
      }
      std::filesystem::create_directories(file.parent_path());
      ASSERT_TRUE(write_file_atomically(file.string(), have->second).ok());
      std::printf("%s %s\n", want == expected.end() ? "new     " : "changed ", file.c_str());
    } else if (want == expected.end()) {
      ADD_FAILURE() << name << " has no golden";
    } else if (have == actual.end()) {
      ADD_FAILURE() << name << " is no longer written";
    } else {
      ADD_FAILURE() << name << ": " << difference(want->second, have->second);
    }
  }
}

// host-baseline: the same text on every machine.
TEST(Golden, SmallCnn) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("aipu-golden-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  models::OnnxBuilder b("small_cnn", 3);
  auto x = b.input("image", DType::kF32, {"N", 1, 12, 12});
  x = b.relu(b.conv(x, 1, 8, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  x = b.max_pool(x, 2, 2);
  x = b.op("Flatten", {x}, {{"axis", 1}});
  x = b.gemm(x, 8 * 6 * 6, 10);
  b.output(x, "scores", DType::kF32, {"N", 10});
  gbuilder::BuildOptions options;
  options.model = (folder / "small_cnn.onnx").string();
  options.output = (folder / "small_cnn.aipu.bin").string();
  options.target = "host-baseline";
  options.dump_ir = (folder / "dump").string();
  ASSERT_TRUE(b.save(options.model).ok());
  const auto report = gbuilder::build_model(options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  compare_with_golden(std::filesystem::path(AIPU_SOURCE_DIR) / "tests/golden/small_cnn", read_folder(folder / "dump"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace aipu

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--update-golden") == 0) aipu::update_golden = true;
  }
  if (aipu::update_golden && std::getenv("CI") != nullptr) {
    std::fprintf(stderr, "golden_test: --update-golden is refused in CI\n");
    return 1;
  }
  return RUN_ALL_TESTS();
}
