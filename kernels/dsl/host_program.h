// A DSL file as the plain Python that it also is: its constants evaluated and its undecorated functions called at
// compile time, without a kernel around. For files that declare things, such as operators (kernels/script_op).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/dsl/ast.h"
#include "kernels/dsl/parse.h"
#include "kernels/dsl/value.h"

namespace aipu::dsl {

class FileEnvironment;

// A value, and what owns its containers.
struct HostResult {
  std::shared_ptr<const void> owner;
  Value value;
};

// Immutable: any number of threads may use it. Errors are one line, "file:line:column: text".
class HostProgram {
 public:
  static Result<std::shared_ptr<const HostProgram>> parse(const SourceText& source);

  const ast::Module& module() const { return module_; }
  // The value expression of the last top-level assignment to a name; null when there is none.
  ast::ExprPtr assignment(std::string_view name) const;
  // The function defined under a name at the top level; null when there is none.
  ast::FunctionPtr function(std::string_view name) const;
  // What an import bound to a name, "aipu.op"; null when none did.
  const std::string* import(std::string_view name) const;

  Result<HostResult> evaluate(const ast::ExprPtr& expr) const;
  // Arguments by name. `arguments` makes them, with the pool for their containers; integer scalar expressions stand for
  // numbers that are not known yet, and the result may be made of them.
  using Arguments = std::vector<std::pair<std::string, Value>>;
  Result<HostResult> call(const FunctionValue& function, const std::function<Arguments(ValuePool&)>& arguments) const;
  // The same where an embedder answers for further names, and for what is done with its objects. Functions reach it as
  // HostFunction (host_environment.h).
  Result<HostResult> call(const FunctionValue& function, const std::function<Arguments(ValuePool&)>& arguments,
                          std::shared_ptr<Environment> embedder) const;
  // A function of the file as a value.
  FunctionValue function_value(ast::FunctionPtr definition) const;

  Status error(Position position, std::string_view text) const;

 private:
  explicit HostProgram(ast::Module module);
  ast::Module module_;
  std::shared_ptr<FileEnvironment> environment_;
};

}  // namespace aipu::dsl
