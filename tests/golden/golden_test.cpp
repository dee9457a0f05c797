// What is made on the road, as texts that a person reads: the graph of one small model after each pass, its command
// buffers and plan (small_cnn/); four small kernels, a page each, as TIR after lowering and one of them as the C++ that
// is compiled (kernels/). Real kernels are hundreds of lines that differ for many reasons; what they compute is for
// tests/numerics, what becomes of their inner loops for its disassembly test.
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

#include "codegen/driver/kernel_text.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/text.h"
#include "gbuilder/build.h"
#include "kernels/dsl/parse.h"
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

// index.txt has times in it; the model's kernels are long.
bool is_compared(const std::string& name) { return name != "index.txt" && !name.starts_with("kernels/"); }

void compare_with_golden(const std::filesystem::path& golden, const Files& expected, const Files& actual) {
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
  const std::filesystem::path golden = std::filesystem::path(AIPU_SOURCE_DIR) / "tests/golden/small_cnn";
  compare_with_golden(golden, read_folder(golden), read_folder(folder / "dump"));
  std::filesystem::remove_all(folder);
}

constexpr size_t kPage = 120;  // lines

// For targets whose text is the same on every machine.
class GoldenKernel : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(GoldenKernel, Lowered) {
  const auto [name, target_name] = GetParam();
  const std::filesystem::path folder = std::filesystem::path(AIPU_SOURCE_DIR) / "tests/golden/kernels";
  const auto source = read_text_file((folder / (std::string(name) + ".py")).string());
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto kernel =
      dsl::parse_kernel(dsl::SourceText{std::string(name) + ".py", *source}, name, dsl::TemplateParams());
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const auto target = tir::find_target(target_name);
  ASSERT_TRUE(target.ok()) << target.status().message();
  const auto lowered = tir::lower(*kernel, *target);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  Files actual = {{std::string(name) + ".lowered.txt", tir::print_module(*lowered)}};
  // One for each dialect of what is compiled.
  if (std::string_view(name) == "relu_tail" || std::string_view(name) == "halve") {
    const auto unit = tir::kernel_source(name, *kernel, *lowered, *target);
    ASSERT_TRUE(unit.ok()) << unit.status().message();
    const auto text = tir::print_translation_unit(std::span(&*unit, 1), *target);
    ASSERT_TRUE(text.ok()) << text.status().message();
    actual[std::string(name) + ".compiled.txt"] = *text;
  }
  Files expected;
  for (auto& [file, text] : read_folder(folder)) {
    if (file.starts_with(std::string(name) + ".") && !file.ends_with(".py")) expected[file] = text;
  }
  for (const auto& [file, text] : actual) {
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), static_cast<ptrdiff_t>(kPage)) << file << " is for reading";
  }
  compare_with_golden(folder, expected, actual);
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenKernel,
                         testing::Values(std::pair{"relu_tail", "host-baseline"}, std::pair{"dot", "host-baseline"},
                                         std::pair{"halve", "X2_1204"}, std::pair{"staged", "X2_1204"}),
                         [](const auto& kernel) { return std::string(kernel.param.first); });

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
