#include "runtime/tools/tensor_dump.h"

#include <cstdio>

#include "runtime/base/pattern.h"
#include "runtime/base/text.h"
#include "runtime/tools/cli.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/npy.h"

namespace aipu::tools {
namespace {

std::string file_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    result += plain ? c : '_';
  }
  if (result.empty() || result[0] == '.') result.insert(0, "_");
  return result + ".npy";
}

}  // namespace

Status TensorFolder::write(const std::string& name, const runtime::TensorView& tensor) {
  const auto [at, is_new] = files_.try_emplace(name);
  if (is_new) {
    at->second = file_name(name);
    if (taken_.count(at->second) != 0) at->second = str_cat(files_.size() - 1, "_", at->second);
    taken_.insert(at->second);
  }
  return write_npy(path_ + "/" + at->second, tensor.dtype, tensor.shape, tensor.data);
}

void TensorDump::take(const runtime::WrittenTensor& tensor) {
  bool is_wanted = false;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!fits_pattern(patterns_[i], tensor.name)) continue;
    is_wanted = true;
    used_[i] = true;
  }
  if (!is_wanted) return;
  const runtime::TensorView& value = tensor.value;
  const std::string name(tensor.name);
  if (!is_quiet_) {
    std::printf("%s %s%s %s, by %s\n", printable(name).c_str(), std::string(dtype_name(value.dtype)).c_str(),
                shape_text(value.shape).c_str(), statistics({value.dtype, value.shape, value.data}).c_str(),
                printable(std::string(tensor.origin)).c_str());
  }
  if (folder_ != nullptr && status_.ok()) status_ = folder_->write(name, value);
}

Status TensorDump::end() const {
  AIPU_RETURN_IF_ERROR(Status(status_));
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!used_[i])
      return invalid_argument(str_cat("--dump-tensors '", patterns_[i],
                                      "' fits no tensor that the run has written; what fused kernels keep to "
                                      "themselves becomes visible with aipugb --expose"));
  }
  return {};
}

}  // namespace aipu::tools
