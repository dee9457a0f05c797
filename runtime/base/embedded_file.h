// A text file compiled into a library (kernel templates, the C prelude); see aipu_embed() in the top-level
// CMakeLists.txt.
#pragma once

#include <span>
#include <string_view>

namespace aipu {

struct EmbeddedFile {
  std::string_view name;  // without folders
  std::string_view text;
};

}  // namespace aipu
