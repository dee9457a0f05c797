// Tensors as files of a folder, and those between the layers of a model (aipurun --dump-tensors).
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/session.h"

namespace aipu::tools {

// Writes NAME.npy. Names of ONNX values may hold anything; files may not: what is not a letter, digit, '_', '-' or '.'
// becomes '_', and of two names that become the same the second gets a number in front.
class TensorFolder {
 public:
  explicit TensorFolder(std::string path) : path_(std::move(path)) {}
  Status write(const std::string& name, const runtime::TensorView& tensor);

 private:
  std::string path_;
  std::map<std::string, std::string> files_;  // by the tensor's name
  std::set<std::string> taken_;
};

// Keeps what a run writes of the tensors whose names fit a pattern, and prints a line for each.
class TensorDump {
 public:
  // `folder` may be null: nothing is written then.
  TensorDump(std::vector<std::string> patterns, TensorFolder* folder, bool is_quiet)
      : patterns_(std::move(patterns)), used_(patterns_.size()), folder_(folder), is_quiet_(is_quiet) {}
  void take(const runtime::WrittenTensor& tensor);
  // What went wrong: a file that cannot be written, a pattern that fits nothing.
  Status end() const;

 private:
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
  TensorFolder* folder_;
  bool is_quiet_;
  Status status_;
};

}  // namespace aipu::tools
