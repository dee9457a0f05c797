// Where the files are that belong to the runtime and that it finds at run time: back ends, aipu-sandbox, the library of
// signatures. All places are relative to where this code was loaded from, so that an installation can be moved.
#pragma once

#include <string>
#include <vector>

namespace aipu::runtime {

// Those that exist, in the order in which they are searched: the folder of the library (or program) with this code, and
// the folders beside it of a build, of an installed prefix and of a Python wheel. Nothing where the system cannot say.
std::vector<std::string> own_folders();

}  // namespace aipu::runtime
