#include "kernels/dsl/parse.h"

#include <fmt/format.h>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/parser.h"

namespace aipu::dsl {

FileEnvironment::FileEnvironment(ast::Module module, const TemplateParams& params, std::map<std::string, ast::Module> sources)
    : module_(std::move(module)), sources_(std::move(sources)), params_(params.values()) {
  const auto take = [&](const ast::Module& m, const std::string* bound_name) {
    for (const ast::StmtPtr& stmt : m.body) {
      if (const auto* function = stmt->as<ast::Function>()) {
        functions_[bound_name != nullptr ? *bound_name : function->function->name] = function->function;
      } else if (const auto* import = stmt->as<ast::Import>()) {
        for (const auto& [path, name] : import->names) imports_[name] = path;
      } else if (const auto* assign = stmt->as<ast::Assign>()) {
        for (const ast::ExprPtr& target : assign->targets) {
          if (const auto* name = target->as<ast::Name>()) assignments_[name->id] = assign->value;
        }
      }
    }
  };
  take(module_, nullptr);
  // Functions given as parameters win over the file's own; helpers beside them are visible too.
  for (const auto& [name, source] : sources_) take(source, nullptr);
  for (const auto& [name, source] : sources_) {
    if (functions_.contains(name)) continue;
    for (const ast::StmtPtr& stmt : source.body) {
      if (const auto* function = stmt->as<ast::Function>()) functions_[name] = function->function;
    }
  }
}

std::optional<Captured> FileEnvironment::lookup(std::string_view name) {
  if (const auto found = params_.find(name); found != params_.end()) return found->second;
  if (const auto found = functions_.find(name); found != functions_.end()) return Captured{CapturedFunction{found->second, shared_from_this()}};
  return std::nullopt;
}

ast::ExprPtr FileEnvironment::assignment(std::string_view name) const {
  const auto found = assignments_.find(name);
  return found == assignments_.end() ? nullptr : found->second;
}

const std::string* FileEnvironment::import(std::string_view name) const {
  const auto found = imports_.find(name);
  return found == imports_.end() ? nullptr : &found->second;
}

namespace {

Result<tir::Module> compile_entry(std::string_view entry, const std::string& file, const std::shared_ptr<Environment>& environment, std::string_view kernel_name,
                                  Diagnostics& diagnostics) {
  const auto found = environment->lookup(entry);
  const auto* function = found ? std::get_if<CapturedFunction>(&found->value) : nullptr;
  if (function == nullptr) return not_found(fmt::format("{} defines no function \"{}\"", file, entry));
  tir::Module module;
  try {
    Compiler compiler(environment, diagnostics);
    module = compiler.compile({std::static_pointer_cast<const ast::FunctionDef>(function->definition), function->globals}, kernel_name);
  } catch (const Diagnosed&) {
    // Recorded.
  }
  AIPU_RETURN_IF_ERROR(diagnostics.status());
  return module;
}

}  // namespace

Result<tir::Module> parse_kernel(const SourceText& source, std::string_view entry, const TemplateParams& params, std::string_view kernel_name) {
  Diagnostics diagnostics;
  std::shared_ptr<FileEnvironment> environment;
  try {
    ast::Module module = parse_source(make_source_file(source.file, source.text, source.first_line), diagnostics);
    std::map<std::string, ast::Module> sources;
    for (const auto& [name, text] : params.sources()) sources[name] = parse_source(make_source_file(fmt::format("<{}>", name), text, 1), diagnostics);
    environment = std::make_shared<FileEnvironment>(std::move(module), params, std::move(sources));
  } catch (const Diagnosed&) {
    return diagnostics.status();
  }
  return compile_entry(entry, source.file, environment, kernel_name, diagnostics);
}

Result<tir::Module> parse_kernel(const SourceText& source, std::string_view entry, std::shared_ptr<Environment> environment, std::string_view kernel_name) {
  Diagnostics diagnostics;
  std::shared_ptr<EmbeddedFileEnvironment> file;
  try {
    ast::Module module = parse_source(make_source_file(source.file, source.text, source.first_line), diagnostics);
    file = std::make_shared<EmbeddedFileEnvironment>(std::move(module), std::move(environment));
  } catch (const Diagnosed&) {
    return diagnostics.status();
  }
  return compile_entry(entry, source.file, file, kernel_name, diagnostics);
}

}  // namespace aipu::dsl
