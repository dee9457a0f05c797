// The DSL front end: source text and captured values in, typed TIR out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/tir/stmt.h"
#include "kernels/dsl/environment.h"

namespace aipu::dsl {

// Whether a parameter of this name is for the compiler, whatever the source mentions: __no_restrict__ and its like.
bool is_compiler_option(std::string_view name);

struct SourceText {
  std::string file;  // shown in diagnostics
  std::string text;
  int first_line = 1;  // of `text` within `file`
  // The text behind `from module import name`; nullopt for modules that are none of ours (numpy). Imported files see
  // the same parameters.
  std::function<std::optional<std::string>(std::string_view module)> import_module = {};
};

// Parses the file's top level, binds `params` (they win over the file's own top-level assignments of the same name),
// and compiles the function `entry` and everything it calls. `kernel_name` renames the entry ("" = keep). An error
// carries all diagnostics, each as "error:
// <text>\n --> file:line:column\n<source line>\n<caret>"; Status::message() starts with the first one's text.
Result<tir::Module> parse_kernel(const SourceText& source, std::string_view entry, const TemplateParams& params,
                                 std::string_view kernel_name = "");

// The same with an embedder's environment (the Python package).
Result<tir::Module> parse_kernel(const SourceText& source, std::string_view entry,
                                 std::shared_ptr<Environment> environment, std::string_view kernel_name = "");

// The same for a function that an embedder has parsed (parse_function); its own environment answers for the
// compilation.
Result<tir::Module> parse_kernel(const CapturedFunction& entry, std::string_view kernel_name = "");

// An undecorated function of an embedder, for its Environment to answer with. `name`: that of a `def` at the top level
// of the text or in an `if` there (an indented function below a line `if True:` keeps its columns), or "<lambda>": the
// only lambda that starts in line `line` of the file (0: anywhere in the text), whatever is around it: Python's
// inspect.getsource() gives whole statements and pieces of them. Free names resolve in `globals`. Errors: not_found
// when there is none of that name, invalid_argument when several lambdas fit or the text is no Python.
Result<Captured> parse_function(const SourceText& source, std::string_view name, std::shared_ptr<Environment> globals,
                                int line = 0);

// A function of a built-in template, for what the language has from there. Its file and what that imports see `params`.
Result<Captured> built_in_function(std::string_view file, std::string_view name, const TemplateParams& params);

}  // namespace aipu::dsl
