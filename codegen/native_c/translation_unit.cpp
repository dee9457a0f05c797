#include "codegen/native_c/translation_unit.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/c_spelling/c_names.h"
#include "codegen/native_c/function_printer.h"
#include "runtime/base/embedded_file.h"

namespace aipu::tir {

std::span<const EmbeddedFile> prelude_files();  // generated, see codegen/CMakeLists.txt

namespace {

std::string_view prelude_file(std::string_view name) {
  for (const EmbeddedFile& file : prelude_files()) {
    if (file.name == name) return file.text;
  }
  return {};
}

// #include "..." and #pragma once have no place in text that is pasted together.
std::string without_includes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (!line.starts_with("#include") && !line.starts_with("#pragma once")) out += line;
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::vector<std::string> function_names(const Module& module, const std::string& entry, std::set<std::string>& taken) {
  std::vector<std::string> names;
  for (size_t i = 0; i < module.functions.size(); i++) {
    const std::string base = native_identifier(i == 0 ? entry : fmt::format("{}_{}", entry, module.functions[i]->name));
    std::string name = base;
    for (int k = 1; !taken.insert(name).second; k++) name = fmt::format("{}_{}", base, k);
    names.push_back(name);
  }
  return names;
}

std::string host_prelude(const Target& target) {
  std::string text = fmt::format("#define AIPU_VECTOR_BITS {}\n", target.vector_bits);
  text += prelude_file("kernel_abi.h");
  for (const char* name :
       {"prelude_types.h", "prelude_ops.h", "prelude_limits.h", "prelude_bits.h", "prelude_convert.h", "prelude_dots.h",
        "prelude_memory.h", "prelude_vector_math.h", "math_functions.h", "prelude_math.h", "prelude_print.h"}) {
    // Inlined without exception: a loop over lanes around a call would not vectorise.
    const bool is_math = std::string_view(name) == "math_functions.h";
    if (is_math) text += "#pragma push_macro(\"inline\")\n#define inline inline __attribute__((always_inline))\n";
    text += without_includes(prelude_file(name));
    if (is_math) text += "#pragma pop_macro(\"inline\")\n";
  }
  return text;
}

Result<KernelText> print_host_kernel(const KernelSource& kernel, const Target& target, bool line_marks) {
  const Module& module = kernel.lowered;
  const LaunchNeeds needs = launch_needs(module);
  AIPU_RETURN_IF_ERROR(check_runs(module, needs, target));
  std::set<std::string> taken;
  const std::vector<std::string> names = function_names(module, kernel.symbol, taken);
  FunctionPrinter printer(module, needs, names, line_marks);
  AIPU_ASSIGN_OR_RETURN(std::string functions, printer.all_functions());
  return wrap_kernel(kernel.symbol, names[0], module, needs, std::move(functions), {"__argument", "__tec"});
}

std::string_view kernel_abi_text() { return prelude_file("kernel_abi.h"); }

}  // namespace aipu::tir
