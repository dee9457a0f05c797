// The whole road of a model to aipu.bin, but for the C compiler: a stand-in writes what takes the place of its output.
// The interpreter runs such files.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace aipu::fuzz {

struct Conversion {
  Status status;
  std::string file;  // what was written
};
// `model`: ONNX. `plugin`: the text of a .py file, if any. Ends the process if a conversion that fails leaves a file.
Conversion convert(std::string_view model, const std::string& target, std::string_view plugin = {});
// Of two models, entries of one file.
Conversion convert_both(std::string_view model, std::string_view other, const std::string& target);

}  // namespace aipu::fuzz
