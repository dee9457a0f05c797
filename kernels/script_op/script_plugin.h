// Operators of a `.py` file as op records and plugins, like those of a shared library.
#pragma once

#include <string>

#include "kernels/plugin.h"

namespace aipu::kernels {

// Reads the file's declarations and registers them. Errors are one line, "file:line:column: text".
Status register_script_operators(const std::string& path, PluginLibrary& library);
// The same for a text that is in no file; `path` is what errors call it.
Status register_script_operators(const std::string& path, std::string text, PluginLibrary& library);

}  // namespace aipu::kernels
