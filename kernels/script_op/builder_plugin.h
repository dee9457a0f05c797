// A graph-builder plugin as a build of a DSL function writes it (frontend/python/toolchain.md, "Graph-builder plugin"):
// a class that says which object file holds the kernel of a layer, and what its arguments are. It is read, not run: a
// statement that is none of the forms below is an error with its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/dsl/diagnostics.h"
#include "kernels/dsl/host_program.h"

namespace aipu::kernels::script_op {

struct BuilderPlugin {
  // What one `params.append(...)` gives.
  struct Input {
    size_t index = 0;  // sgnode.inputs[index]
    int64_t byte_offset = 0;
  };
  struct Output {
    size_t index = 0;  // sgnode.outputs[index]
    int64_t byte_offset = 0;
  };
  struct Constant {
    std::string name;  // sgnode.constants["<layer>/<name>"]
    int64_t byte_offset = 0;
  };
  struct Attribute {
    std::string name;   // nodes[0].params["<name>"],
    std::string dtype;  // as the bits of this type: "int32", "bfloat16"
  };
  struct Argument {
    dsl::Position position;
    std::variant<Input, Output, Constant, Attribute, int64_t> value;
  };

  std::shared_ptr<const dsl::HostProgram> program;  // for errors
  dsl::Position position;                           // of the class
  std::string layer_type;                           // register_optype("DSL_<entry>")
  std::string object;                               // generate_code_name(), from the plugin's folder
  std::string kernel;                               // generate_kernel(), or the object's name without its extension
  std::vector<Argument> arguments;                  // generate_params()
};

// Whether a file has a class under @register_plugin(...): a plugin of this kind, and not of aipu.op's.
bool is_builder_plugin(const dsl::HostProgram& program);

// Errors are one line, "file:line:column: text".
Result<BuilderPlugin> read_builder_plugin(std::shared_ptr<const dsl::HostProgram> program);

}  // namespace aipu::kernels::script_op
