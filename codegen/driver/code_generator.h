// Who makes code of kernels: a target names its code generator, which is looked up in a registry, as TVM does with
// codegen.build_<target>. Ours are native_c (hosts), compass_c (Compass NPUs) and cuda_c (NVIDIA GPUs); libraries of
// targets bring their own (codegen/targets/target_library.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/driver/cc_driver.h"
#include "codegen/driver/kernel_text.h"
#include "codegen/lower/lower.h"

namespace aipu::tir {

// Has no state that a call changes: kernels are lowered and printed by several threads at a time.
class CodeGenerator {
 public:
  virtual ~CodeGenerator() = default;
  // How targets name it: letters, digits and '_'.
  virtual std::string_view name() const = 0;

  // From a parsed kernel to one that print_kernel() takes. What comes back is also what the interpreter runs and what
  // the file carries for it, so it computes what `parsed` does. By default lower(): who leaves passes out adds them to
  // options.disabled_passes.
  virtual Result<Module> lower(const Module& parsed, const Target& target, const LowerOptions& options) const;
  // What it refuses to print, in a line that does not name the kernel. By default check_types().
  virtual Status check(const Module& lowered, const Target& target) const;
  // What the text is printed from, if that is not the lowered kernel. By default nothing.
  virtual Result<std::optional<Module>> shown(const Module& parsed, const Target& target,
                                              const std::vector<std::string>& disabled_passes) const;

  // What all units include as <compass/dsl.h>; beside it lies <compass/kernel_abi.h>.
  virtual std::string prelude(const Target& target) const = 0;
  // One kernel with its ABI wrapper. `line_marks`: with #line directives.
  virtual Result<KernelText> print_kernel(const KernelSource& kernel, const Target& target, bool line_marks) const = 0;

  // All kernels of a model to the module that the target's back end loads. By default units of printed kernels, which
  // this machine's C++ compiler makes a shared object of: compile_units().
  virtual Result<CompiledModule> compile(std::span<const KernelSource> kernels, const Target& target,
                                         const CompileOptions& options) const;
  // Whether that module is code for the CPU at hand, if it has target.cpu_features: constants are computed by it then.
  virtual bool is_for_this_cpu() const { return false; }
};

// An error lists what exists.
Result<const CodeGenerator*> find_code_generator(std::string_view name);
// Adds all or none; an error names one whose name is taken or is no name. Any thread; they stay until the process ends.
Status add_code_generators(std::vector<std::unique_ptr<CodeGenerator>> generators);
// Whether add_code_generators() would take them.
Status check_code_generators(std::span<const std::unique_ptr<CodeGenerator>> generators);

// Whether the target has the types of everything in the module: "it takes float64, which target '...' lacks".
Status check_types(const Module& module, const Target& target);

// Units of printed kernels through the C++ compiler and the cache: what compile() does unless it is overridden.
Result<CompiledModule> compile_units(const CodeGenerator& generator, std::span<const KernelSource> kernels,
                                     const Target& target, const CompileOptions& options);

}  // namespace aipu::tir
