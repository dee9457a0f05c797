// The files of --dump-ir and --emit-c.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace aipu::gbuilder {

// Writes files below a folder; with an empty folder it does nothing. The first error is kept and told by status().
class Dumper {
 public:
  explicit Dumper(std::string folder) : folder_(std::move(folder)) {}
  bool enabled() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  // `name` may have folders in it.
  void write(const std::string& name, std::string_view text);
  const Status& status() const { return status_; }

 private:
  std::string folder_;
  Status status_;
};

}  // namespace aipu::gbuilder
