// Where the files are that belong to the runtime and that it finds at run time: back ends, aipu-sandbox, the libraries
// of signatures, strings and images. All places are relative to where this code was loaded from, so that an
// installation can be moved.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::runtime {

// Those that exist, in the order in which they are searched: the folder of the library (or program) with this code, and
// the folders beside it of a build, of an installed prefix and of a Python wheel. Nothing where the system cannot say.
std::vector<std::string> own_folders();

// The function `symbol` of the library `file` in one of them, which is loaded for good. Not from AIPU_BACKEND_PATH or
// the library path: who says what is trusted is not chosen by the environment. `what` needs it, says the error where it
// is not there.
Result<void*> own_function(const char* file, const char* symbol, std::string_view what);

}  // namespace aipu::runtime
