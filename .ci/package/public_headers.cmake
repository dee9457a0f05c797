# The headers that are installed, by the oldest language that each is for. The one list of them: what is here is installed with its path in the source
# tree, must include nothing that is not here, and is compiled alone by the test install, with gcc and clang, as C99 or C++ of that year and all later ones.
set(AIPU_HEADERS_C99
  runtime/abi/kernel_abi.h
  runtime/aipu.h
  runtime/backends/backend_api.h
  runtime/backends/device_api.h)
set(AIPU_HEADERS_CXX17
  runtime/aipu.hpp)
# What plugins see (kernels/ADDING_AN_OP.md).
set(AIPU_HEADERS_CXX20
  codegen/targets/target.h
  codegen/tir/expr.h
  codegen/tir/node_list.h
  codegen/tir/stmt.h
  codegen/tir/type.h
  graph/ir/axis_map.h
  graph/ir/dim.h
  graph/ir/graph.h
  graph/ir/op_def.h
  graph/partition/claim.h
  kernels/dsl/environment.h
  kernels/launch.h
  kernels/plugin.h
  runtime/base/dtype.h
  runtime/base/embedded_file.h
  runtime/base/hash.h
  runtime/base/status.h)
