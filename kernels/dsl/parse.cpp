#include "kernels/dsl/parse.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/lambda_source.h"
#include "kernels/dsl/parse_blocks.h"
#include "kernels/dsl/parser.h"
#include "runtime/base/embedded_file.h"

namespace aipu::kernels {
std::span<const EmbeddedFile> embedded_templates();
}  // namespace aipu::kernels

namespace aipu::dsl {

bool is_compiler_option(std::string_view name) {
  constexpr std::string_view kOptions[] = {"__restrict__", "__no_restrict__", "__compass_strict__",
                                           "__compass_target__"};
  return std::find(std::begin(kOptions), std::end(kOptions), name) != std::end(kOptions);
}

FileEnvironment::FileEnvironment(ast::Module module, const TemplateParams& params,
                                 std::map<std::string, ast::Module> sources)
    : module_(std::move(module)), sources_(std::move(sources)), params_(params.values()), counts_(params.counts()) {
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
      } else if (const auto* record = stmt->as<ast::Class>(); record != nullptr && record->definition->is_record) {
        records_[record->definition->name] = record->definition;
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
  if (const auto found = functions_.find(name); found != functions_.end())
    return Captured{CapturedFunction{found->second, shared_from_this()}};
  return std::nullopt;
}

std::optional<ParameterCount> FileEnvironment::parameter_count(std::string_view parameter) {
  const auto found = counts_.find(parameter);
  return found == counts_.end() ? std::nullopt : std::optional(found->second);
}

ast::ExprPtr FileEnvironment::assignment(std::string_view name) const {
  const auto found = assignments_.find(name);
  return found == assignments_.end() ? nullptr : found->second;
}

ast::ClassPtr FileEnvironment::record(std::string_view name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : found->second;
}

const std::string* FileEnvironment::import(std::string_view name) const {
  const auto found = imports_.find(name);
  return found == imports_.end() ? nullptr : &found->second;
}

std::optional<std::pair<std::shared_ptr<FileEnvironment>, std::string>> FileEnvironment::imported(
    std::string_view name) const {
  const std::string* path = import(name);
  const size_t dot = path == nullptr ? std::string::npos : path->rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto module = modules_.find(std::string_view(*path).substr(0, dot));
  if (module == modules_.end()) return std::nullopt;
  return std::make_pair(module->second, path->substr(dot + 1));
}

namespace {

constexpr int kMaxImportDepth = 8;

// Files import each other as a tree: a module imported twice is parsed twice, which only costs time; a cycle ends at
// the depth limit.
void load_imports(FileEnvironment& environment, const SourceText& source, const TemplateParams& params,
                  const std::map<std::string, ast::Module>& sources, int depth, Diagnostics& diagnostics) {
  if (!source.import_module || depth > kMaxImportDepth) return;
  std::set<std::string> modules;
  for (const auto& [name, path] : environment.imports()) {
    if (const size_t dot = path.rfind('.'); dot != std::string::npos) modules.insert(path.substr(0, dot));
  }
  for (const std::string& module : modules) {
    auto text = source.import_module(module);
    if (!text) continue;
    auto loaded = std::make_shared<FileEnvironment>(
        parse_source(make_source_file(module + ".py", std::move(*text), 1), diagnostics), params, sources);
    load_imports(*loaded, source, params, sources, depth + 1, diagnostics);
    environment.add_module(module, std::move(loaded));
  }
}

// The functions of other files as values, each with the environment of its file.
Status load_functions(const TemplateParams& params, Diagnostics& diagnostics, TemplateParams* all) {
  for (const auto& [name, function] : params.functions()) {
    TemplateParams own = function->params;
    for (const std::string& lanes : function->lanes) {
      if (const auto found = params.values().find("VL"); found != params.values().end()) own.set(lanes, found->second);
    }
    auto environment = std::make_shared<FileEnvironment>(
        parse_source(make_source_file(function->file, function->text, 1), diagnostics), own,
        std::map<std::string, ast::Module>());
    auto value = environment->lookup(function->name);
    if (!value) return not_found(fmt::format("{} defines no function \"{}\"", function->file, function->name));
    all->set(name, *std::move(value));
  }
  return {};
}

Result<tir::Module> compile_function(const CapturedFunction& entry, const std::shared_ptr<Environment>& environment,
                                     std::string_view kernel_name, Diagnostics& diagnostics,
                                     tir::BlockMarks* marks = nullptr) {
  const auto definition = std::static_pointer_cast<const ast::FunctionDef>(entry.definition);
  FunctionValue function{definition, entry.globals};
  function.embedded = entry.embedded;
  tir::Module module;
  try {
    Compiler compiler(environment, diagnostics);
    compiler.mark_blocks(marks);
    module = compiler.compile(function, kernel_name);
  } catch (const Diagnosed&) {
    // Recorded.
  }
  AIPU_RETURN_IF_ERROR(diagnostics.status());
  if (module.functions.empty())
    return internal_error(
        fmt::format("{}: the kernel \"{}\" failed without a message", *definition->file->name, definition->name));
  return module;
}

Result<tir::Module> compile_entry(std::string_view entry, const std::string& file,
                                  const std::shared_ptr<Environment>& environment, std::string_view kernel_name,
                                  Diagnostics& diagnostics) {
  const auto found = environment->lookup(entry);
  const auto* function = found ? std::get_if<CapturedFunction>(&found->value) : nullptr;
  if (function == nullptr) return not_found(fmt::format("{} defines no function \"{}\"", file, entry));
  return compile_function(*function, environment, kernel_name, diagnostics);
}

}  // namespace

Result<tir::Module> parse_kernel(const SourceText& source, std::string_view entry, const TemplateParams& params,
                                 std::string_view kernel_name) {
  Diagnostics diagnostics;
  std::shared_ptr<FileEnvironment> environment;
  try {
    ast::Module module = parse_source(make_source_file(source.file, source.text, source.first_line), diagnostics);
    std::map<std::string, ast::Module> sources;
    for (const auto& [name, text] : params.sources())
      sources[name] = parse_source(make_source_file(fmt::format("<{}>", name), text, 1), diagnostics);
    TemplateParams all = params;
    AIPU_RETURN_IF_ERROR(load_functions(params, diagnostics, &all));
    environment = std::make_shared<FileEnvironment>(std::move(module), all, sources);
    load_imports(*environment, source, all, sources, 0, diagnostics);
  } catch (const Diagnosed&) {
    return diagnostics.status();
  }
  return compile_entry(entry, source.file, environment, kernel_name, diagnostics);
}

Result<tir::Module> parse_kernel(const SourceText& source, std::string_view entry,
                                 std::shared_ptr<Environment> environment, std::string_view kernel_name) {
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

Result<Captured> parse_function(const SourceText& source, std::string_view name, std::shared_ptr<Environment> globals,
                                int line) {
  Diagnostics diagnostics;
  const SourceFilePtr file = make_source_file(source.file, source.text, source.first_line);
  try {
    if (name == "<lambda>") {
      std::vector<LambdaText> fitting = find_lambdas(file->text);
      std::erase_if(fitting, [&](const LambdaText& l) { return line != 0 && source.first_line + l.line != line; });
      if (fitting.empty()) return not_found(fmt::format("{} has no lambda in line {}", source.file, line));
      if (fitting.size() > 1) {
        return invalid_argument(
            fmt::format("{}:{}: several lambdas in one place can't be told apart; give the one that a kernel calls a "
                        "line of its own",
                        source.file, source.first_line + fitting[1].line));
      }
      const LambdaText& l = fitting[0];
      const ast::ExprPtr e = parse_expression(file, std::string_view(file->text).substr(l.begin, l.end - l.begin),
                                              {source.first_line + l.line, l.column}, diagnostics);
      if (const auto* lambda = e->as<ast::Lambda>())
        return Captured{CapturedFunction{lambda->function, std::move(globals)}};
      return not_found(fmt::format("{} has no lambda in line {}", source.file, line));
    }
    const ast::Module module = parse_source(file, diagnostics);
    ast::FunctionPtr found;
    const auto search = [&](const ast::Body& body) {
      for (const ast::StmtPtr& stmt : body) {
        const auto* function = stmt->as<ast::Function>();
        if (function != nullptr && function->function->name == name) found = function->function;
      }
    };
    search(module.body);
    for (const ast::StmtPtr& stmt : module.body) {
      if (const auto* block = stmt->as<ast::If>(); block != nullptr && found == nullptr) search(block->then_body);
    }
    if (found == nullptr) return not_found(fmt::format("{} defines no function \"{}\"", source.file, name));
    return Captured{CapturedFunction{std::move(found), std::move(globals)}};
  } catch (const Diagnosed&) {
    return diagnostics.status();
  }
}

Result<tir::Module> parse_kernel(const CapturedFunction& entry, std::string_view kernel_name) {
  Diagnostics diagnostics;
  return compile_function(entry, entry.globals, kernel_name, diagnostics);
}

Result<Captured> built_in_function(std::string_view file, std::string_view name, const TemplateParams& params) {
  const auto text_of = [](std::string_view wanted) -> std::optional<std::string> {
    for (const EmbeddedFile& embedded : kernels::embedded_templates()) {
      if (embedded.name == wanted) return std::string(embedded.text);
    }
    return std::nullopt;
  };
  SourceText source{std::string(file), text_of(file).value_or("")};
  source.import_module = [&](std::string_view module) { return text_of(str_cat(module, ".py")); };
  Diagnostics diagnostics;
  try {
    auto environment =
        std::make_shared<FileEnvironment>(parse_source(make_source_file(source.file, source.text, 1), diagnostics),
                                          params, std::map<std::string, ast::Module>());
    load_imports(*environment, source, params, {}, 0, diagnostics);
    if (auto function = environment->lookup(name)) return *std::move(function);
  } catch (const Diagnosed&) {
    return diagnostics.status();
  }
  return not_found(fmt::format("{} defines no function \"{}\"", file, name));
}

Result<tir::Module> parse_blocks(const CapturedFunction& entry, tir::BlockMarks* marks) {
  Diagnostics diagnostics;
  return compile_function(entry, entry.globals, "", diagnostics, marks);
}

}  // namespace aipu::dsl
