// A single DSL kernel as a product: compiled once, then an aipu.bin per set of call arguments (toolchain.md 5, 7, 8).
// What the Python package's executor stands on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "codegen/driver/cc_driver.h"
#include "codegen/targets/target.h"
#include "codegen/tir/parameter_analysis.h"
#include "frontend/ir/compass_ir.h"
#include "gbuilder/build.h"
#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

struct DslKernelOptions {
  tir::CompileOptions compile;
  std::vector<std::string> disabled_passes;  // of tir::lower; others are ignored here
};

// Immutable once made.
struct DslKernel {
  std::shared_ptr<const tir::Module> parsed;
  tir::Module lowered;
  tir::Target target;
  tir::PrimFuncInfo info;
  PlanKernel row;  // with what running it takes
  // the object, and the C that was compiled (not the text that users read: tir::compass_c_text)
  tir::CompiledModule compiled;
  std::vector<std::string> disabled_passes;
};

// Lowers, checks the memories of the target and compiles. Errors name the kernel; one of the C compiler has the code
// kInternal.
Result<DslKernel> compile_dsl_kernel(tir::Module parsed, const tir::Target& target,
                                     const DslKernelOptions& options = {});

// One argument of a call, for the parameter at its place.
struct DslArgument {
  DType dtype = DType::kVoid;                         // of a tensor's elements; may differ from the parameter's
  std::vector<int64_t> shape;                         // of a tensor
  int64_t byte_offset = 0;                            // the kernel's pointer, from the tensor's start
  bool is_null = false;                               // a pointer: no tensor at all
  graph::ConstantPtr constant;                        // of a const_tensor
  std::variant<int64_t, double> number = int64_t{0};  // of a scalar
};

struct DslCallFile {
  frontend::CompassIr ir;
  frontend::DslCall call;
  // Which argument each input and output of the aipu.bin is. An aipu.bin needs an input: without one, the first tensor
  // argument is its input a second time, and the kernel does not see it (`has_fake_input`).
  std::vector<size_t> inputs, outputs;
  bool has_fake_input = false;
  BuildReport report;
};

// Writes the aipu.bin of one call; `arguments` has one per parameter. kInvalidArgument "Function must has at least one
// output." without any.
Result<DslCallFile> build_dsl_call(const DslKernel& kernel, const std::vector<DslArgument>& arguments,
                                   const std::string& path);

}  // namespace aipu::gbuilder
