#include "tests/fuzz/targets/conversion.h"

#include <cstdlib>
#include <filesystem>

#include "gbuilder/build.h"
#include "runtime/base/file.h"
#include "runtime/base/temporary.h"
#include "test_paths.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {
namespace {

void write(const std::string& path, std::string_view text) {
  check(write_file_atomically(path, text, Sync::kNo).ok(), "the test cannot write its own files");
}

const std::string& folder() {
  static const Temporary folder = [] {
    ::setenv("AIPU_CC", AIPU_SOURCE_DIR "/tests/fuzz/stub_cc.sh", 1);
    auto created = Temporary::create_folder("aipu-fuzz");
    check(created.ok(), "no temporary folder");
    return std::move(created).value();
  }();
  return folder.path();
}

Conversion convert_file(gbuilder::BuildOptions options) {
  options.output = folder() + "/model.aipu.bin";
  options.use_cache = false;
  options.jobs = 1;
  std::error_code ignored;
  std::filesystem::remove(options.output, ignored);
  Conversion conversion;
  conversion.status = gbuilder::build_model(options).status();
  if (conversion.status.ok()) {
    auto file = read_text_file(options.output);
    check(file.ok(), "a conversion that went well wrote nothing");
    conversion.file = std::move(file).value();
  } else {
    check(!std::filesystem::exists(options.output, ignored), "a conversion that failed left a file");
  }
  return conversion;
}

}  // namespace

Conversion convert(std::string_view model, const std::string& target, std::string_view plugin) {
  gbuilder::BuildOptions options;
  options.model = folder() + "/model.onnx";
  options.target = target;
  write(options.model, model);
  if (!plugin.empty()) {
    options.plugins = {folder() + "/plugin.py"};
    write(options.plugins[0], plugin);
  }
  return convert_file(std::move(options));
}

Conversion convert_both(std::string_view model, std::string_view other, const std::string& target) {
  gbuilder::BuildOptions options;
  options.model = folder() + "/model.onnx";
  options.target = target;
  options.more_entries.emplace_back().model = folder() + "/other.onnx";
  write(options.model, model);
  write(options.more_entries[0].model, other);
  return convert_file(std::move(options));
}

}  // namespace aipu::fuzz
