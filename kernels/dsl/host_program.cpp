#include "kernels/dsl/host_program.h"

#include <fmt/format.h>

#include "kernels/dsl/host_environment.h"
#include "kernels/dsl/parser.h"

namespace aipu::dsl {
namespace {

// One evaluation: the compiler owns the containers of the result.
struct Run {
  explicit Run(const std::shared_ptr<FileEnvironment>& environment) : compiler(environment, diagnostics) {}
  Diagnostics diagnostics;
  Compiler compiler;
};

template <typename Work>
Result<HostResult> run(const std::shared_ptr<FileEnvironment>& environment, Work work) {
  auto run = std::make_shared<Run>(environment);
  try {
    Value value = work(run->compiler);
    if (const auto* meta = value.as<MetaValue>()) value = Value(*meta->value);
    if (run->diagnostics.empty()) return HostResult{run, std::move(value)};
  } catch (const Diagnosed&) {
    // Recorded.
  }
  return invalid_argument(run->diagnostics.first_line());
}

}  // namespace

HostProgram::HostProgram(ast::Module module)
    : module_(std::move(module)),
      environment_(std::make_shared<FileEnvironment>(module_, TemplateParams(), std::map<std::string, ast::Module>())) {
}

Result<std::shared_ptr<const HostProgram>> HostProgram::parse(const SourceText& source) {
  Diagnostics diagnostics;
  try {
    ast::Module module = parse_source(make_source_file(source.file, source.text, source.first_line), diagnostics);
    return std::shared_ptr<const HostProgram>(new HostProgram(std::move(module)));
  } catch (const Diagnosed&) {
    return invalid_argument(diagnostics.first_line());
  }
}

ast::ExprPtr HostProgram::assignment(std::string_view name) const { return environment_->assignment(name); }

const std::string* HostProgram::import(std::string_view name) const { return environment_->import(name); }

ast::FunctionPtr HostProgram::function(std::string_view name) const {
  ast::FunctionPtr found;
  for (const ast::StmtPtr& stmt : module_.body) {
    if (const auto* f = stmt->as<ast::Function>(); f != nullptr && f->function->name == name) found = f->function;
  }
  return found;
}

FunctionValue HostProgram::function_value(ast::FunctionPtr definition) const {
  FunctionValue value;
  value.definition = std::move(definition);
  value.globals = environment_;
  return value;
}

Result<HostResult> HostProgram::evaluate(const ast::ExprPtr& expr) const {
  auto file = std::make_shared<ast::FunctionDef>();
  file->name = *module_.file->name;
  file->file = module_.file;
  return run(environment_,
             [&](Compiler& compiler) { return compiler.evaluate_at_top_level(function_value(file), expr); });
}

static Result<HostResult> call_in(const std::shared_ptr<FileEnvironment>& environment, const FunctionValue& function,
                                  const std::function<HostProgram::Arguments(ValuePool&)>& arguments) {
  return run(environment, [&](Compiler& compiler) {
    CallArguments call;
    call.keywords = arguments(compiler.pool());
    return compiler.call_at_top_level(function, call);
  });
}

Result<HostResult> HostProgram::call(const FunctionValue& function,
                                     const std::function<Arguments(ValuePool&)>& arguments) const {
  return call_in(environment_, function, arguments);
}

Result<HostResult> HostProgram::call(const FunctionValue& function,
                                     const std::function<Arguments(ValuePool&)>& arguments,
                                     std::shared_ptr<Environment> embedder) const {
  const auto environment = std::make_shared<HostEnvironment>(module_, std::move(embedder));
  FunctionValue there = function;
  there.globals = environment;
  return call_in(environment, there, arguments);
}

Status HostProgram::error(Position position, std::string_view text) const {
  return invalid_argument(fmt::format("{}:{}:{}: {}", *module_.file->name, position.line, position.column, text));
}

}  // namespace aipu::dsl
