// Loading a user's operators, --plugin FILE.
#pragma once

#include <string>

#include "kernels/plugin.h"

namespace aipu::gbuilder {

// FILE is a shared library that exports aipu_register_plugin_v2 (kernels/plugin.h), which stays loaded until the
// process ends: op records and plugins are code in it; or a `.py` file with operators declared through aipu.op
// (kernels/ADDING_AN_OP.md).
Status load_plugin(const std::string& path, kernels::PluginRegistry& registry);

}  // namespace aipu::gbuilder
