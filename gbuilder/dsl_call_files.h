// A call of a DSL kernel as files: what a build of a function leaves behind is enough to make its aipu.bin again, byte
// for byte, without the function (frontend/python/toolchain.md, "Output directory").
//
//   compass_ir.txt, compass_ir.bin   the call: shapes, attributes, constants
//   aipubt_gb_<entry>.py             the plugin: which object, and what the kernel's arguments are
//   op_lib/<entry>.o                 the compiled kernel
//   op_lib/<entry>.tir               what it was compiled from and for
#pragma once

#include <optional>
#include <string>

#include "gbuilder/build.h"
#include "gbuilder/dsl_call.h"
#include "kernels/script_op/builder_plugin.h"

namespace aipu::gbuilder {

// The text of <entry>.tir: lines "target NAME" and "disabled PASS", an empty line, the TIR of the kernel as parsed.
std::string kernel_file_text(const DslKernel& kernel);
// From OBJECT.o and OBJECT.tir beside it. Errors name the file.
Result<DslKernel> load_dsl_kernel(const std::string& object);

// The plugin among `plugins` that reads as a graph builder's; nullopt where there is none. Errors of a file that cannot
// be read, or holds no Python, are left to who loads it.
struct NamedBuilderPlugin {
  std::string file;
  kernels::script_op::BuilderPlugin plugin;
};
Result<std::optional<NamedBuilderPlugin>> find_builder_plugin(const std::vector<std::string>& plugins);

// What build_model() does with the Compass IR of a call and its plugin.
Result<BuildReport> build_from_call_files(const BuildOptions& options, const NamedBuilderPlugin& plugin);

}  // namespace aipu::gbuilder
