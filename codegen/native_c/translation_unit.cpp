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

namespace {

// Constant arrays, prototypes of the sub-functions and definitions, in the order of their names behind the entry.
Result<std::string> print_functions(const Module& module, const LaunchNeeds& needs,
                                    const std::vector<std::string>& names, bool line_marks) {
  FunctionPrinter printer(module, needs, names, line_marks);
  std::map<std::string, size_t> sorted;
  for (size_t i = 1; i < names.size(); i++) sorted[names[i]] = i;
  std::vector<size_t> order = {0};
  for (const auto& [name, index] : sorted) order.push_back(index);

  std::string prototypes, definitions;
  for (size_t i : order) {
    // Nothing calls the entry.
    if (i != 0) prototypes += printer.prototype(i) + ";\n";
    definitions += "\n" + printer.definition(i);
  }
  AIPU_RETURN_IF_ERROR(printer.status());
  std::string text = printer.constants();
  if (!text.empty()) text += "\n";
  return text + prototypes + definitions;
}

}  // namespace

std::string host_prelude(const Target& target) {
  std::string text = fmt::format("#define AIPU_VECTOR_BITS {}\n", target.vector_bits);
  text += prelude_file("kernel_abi.h");
  for (const char* name : {"prelude_types.h", "prelude_ops.h", "prelude_convert.h", "prelude_memory.h",
                           "prelude_vector_math.h", "math_functions.h", "prelude_math.h", "prelude_print.h"}) {
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
  AIPU_ASSIGN_OR_RETURN(const std::string functions, print_functions(module, needs, names, line_marks));

  const PrimFunc& entry = module.entry();
  KernelText text;
  text.entry = "aipu_entry_" + names[0];
  std::string arguments;
  for (size_t i = 0; i < entry.params.size(); i++) {
    arguments += fmt::format("{}__argument<{}>(arguments[{}])", i == 0 ? "" : ", ", c_type(entry.params[i]->type), i);
  }
  text.c = fmt::format(
      "{0}\nextern \"C\" __hidden void {1}(const aipu_tec_context*{2}, const unsigned long long*{3}) {{\n{4}  "
      "{5}({6});\n}}\n",
      functions, text.entry, needs.uses_context ? " context" : "", entry.params.empty() ? "" : " arguments",
      needs.uses_context ? "  __tec = context;\n" : "", names[0], arguments);
  text.reports_faults = needs.reports_faults;
  text.table_row = table_row(kernel.symbol, text.entry, entry.params.size(), needs);
  return text;
}

std::string_view kernel_abi_text() { return prelude_file("kernel_abi.h"); }

}  // namespace aipu::tir
