// Loading a user's operators, --plugin FILE, and targets, --target-plugin FILE.
#pragma once

#include <string>

#include "kernels/plugin.h"

namespace aipu::gbuilder {

// FILE is a shared library that exports aipu_register_plugin_v4 (kernels/plugin.h), which stays loaded until the
// process ends: op records and plugins are code in it (a file that was replaced since it was loaded is an error); or a
// `.py` file with operators declared through aipu.op (kernels/ADDING_AN_OP.md). What it registers belongs to the
// registry. Any thread may load for a registry of its own.
Status load_plugin(const std::string& path, kernels::PluginRegistry& registry);

// FILE is a shared library that exports aipu_register_target_v2 (codegen/targets/target_library.h). What it adds is
// known to the whole process, and stays; a library that the process has already adds nothing. Any thread.
Status load_targets(const std::string& path);

}  // namespace aipu::gbuilder
