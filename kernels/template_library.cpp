// The cache of instantiated templates.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "codegen/tir/index_width.h"
#include "codegen/tir/parameter_analysis.h"
#include "kernels/dsl/parse.h"
#include "kernels/dsl/source_names.h"
#include "kernels/plugin.h"
#include "runtime/base/embedded_file.h"
#include "runtime/base/file.h"

namespace aipu::kernels {

std::span<const EmbeddedFile> embedded_templates();

struct TemplateLibrary::Impl {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> sources;  // registered by plugins, by name
  std::map<std::string, std::shared_ptr<const tir::Module>> instances;
  std::map<std::string, std::set<std::string>> variants;  // by kind
  std::map<std::shared_ptr<const tir::Module>, std::vector<bool>> writes;
  std::map<std::string, std::shared_ptr<const dsl::SourceNames>> names_of;  // by file

  // The text of a template: a registered one, a built-in one, or a file. `built_in` tells whether it is one of ours.
  Result<std::string> source(std::string_view file, bool* built_in) {
    *built_in = false;
    {
      const std::lock_guard lock(mutex);
      if (const auto found = sources.find(file); found != sources.end()) return found->second;
    }
    for (const EmbeddedFile& embedded : embedded_templates()) {
      if (embedded.name != file) continue;
      *built_in = true;
      return std::string(embedded.text);
    }
    return read_text_file(std::string(file));
  }

  // All names that a source and what it imports mention, into `names`. A file's own are known since it was first asked
  // for.
  Status add_names(const std::string& file, const std::string& text, std::set<std::string, std::less<>>* names,
                   std::set<std::string>* seen) {
    if (!seen->insert(file).second) return {};
    std::shared_ptr<const dsl::SourceNames> own;
    {
      const std::lock_guard lock(mutex);
      if (const auto found = names_of.find(file); found != names_of.end()) own = found->second;
    }
    if (own == nullptr) {
      AIPU_ASSIGN_OR_RETURN(dsl::SourceNames found, dsl::names_in_source(file, text));
      own = std::make_shared<const dsl::SourceNames>(std::move(found));
      const std::lock_guard lock(mutex);
      names_of.try_emplace(file, own);
    }
    names->insert(own->names.begin(), own->names.end());
    for (const std::string& imported : own->imported_modules) {
      if (const auto source = module(imported)) AIPU_RETURN_IF_ERROR(add_names(imported + ".py", *source, names, seen));
    }
    return {};
  }

  // A parameter that nobody reads is a slip of whoever sets it. Which branches read it depends on the others.
  Status check_parameters_are_read(const std::string& file, const std::string& text,
                                   const dsl::TemplateParams& params) {
    std::set<std::string, std::less<>> names;
    std::set<std::string> seen;
    AIPU_RETURN_IF_ERROR(add_names(file, text, &names, &seen));
    const auto check = [&](const std::string& name) -> Status {
      if (dsl::is_compiler_option(name) || names.contains(name)) return {};
      return invalid_argument(
          fmt::format("{} has no template parameter \"{}\": neither it nor what it imports mentions "
                      "the name",
                      file, name));
    };
    for (const auto& [name, source] : params.sources()) {
      AIPU_RETURN_IF_ERROR(check(name));
      AIPU_ASSIGN_OR_RETURN(const dsl::SourceNames found, dsl::names_in_source(str_cat('<', name, '>'), source));
      names.insert(found.names.begin(), found.names.end());
    }
    for (const auto& [name, value] : params.values()) AIPU_RETURN_IF_ERROR(check(name));
    return {};
  }

  // What `from name import ...` can reach: other templates, not the file system.
  std::optional<std::string> module(std::string_view name) {
    const std::string file = std::string(name) + ".py";
    {
      const std::lock_guard lock(mutex);
      if (const auto found = sources.find(file); found != sources.end()) return found->second;
    }
    for (const EmbeddedFile& embedded : embedded_templates()) {
      if (embedded.name == file) return std::string(embedded.text);
    }
    return std::nullopt;
  }
};

TemplateLibrary::TemplateLibrary() : impl_(std::make_unique<Impl>()) {}
TemplateLibrary::~TemplateLibrary() = default;

std::vector<bool> TemplateLibrary::writes(const std::shared_ptr<const tir::Module>& module, size_t argument_count) {
  const std::lock_guard lock(impl_->mutex);
  const auto [known, fresh] = impl_->writes.try_emplace(module);
  if (fresh) known->second = tir::written_parameters(*module);
  std::vector<bool> writes = known->second;
  writes.resize(argument_count);
  return writes;
}

bool TemplateLibrary::is_among_first(const std::string& kind, const std::string& variant, size_t limit) {
  const std::lock_guard lock(impl_->mutex);
  std::set<std::string>& known = impl_->variants[kind];
  if (known.size() < limit) known.insert(variant);
  return known.contains(variant);
}

void TemplateLibrary::add_source(std::string name, std::string text) {
  const std::lock_guard lock(impl_->mutex);
  impl_->names_of.erase(name);
  impl_->sources[std::move(name)] = std::move(text);
}

Result<std::shared_ptr<const tir::Module>> TemplateLibrary::instantiate(std::string_view file, std::string_view entry,
                                                                        const dsl::TemplateParams& params,
                                                                        std::string_view kernel_name,
                                                                        bool wide_indices) {
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", file, entry, kernel_name, wide_indices, params.text());
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto found = impl_->instances.find(key); found != impl_->instances.end()) return found->second;
  }
  bool built_in = false;
  AIPU_ASSIGN_OR_RETURN(std::string text, impl_->source(file, &built_in));
  AIPU_RETURN_IF_ERROR(impl_->check_parameters_are_read(std::string(file), text, params));
  dsl::TemplateParams all = params;
  // The planner never lets a template's tensors overlap, unless the template says that it works in place.
  if (built_in && !params.values().contains("__no_restrict__")) all.set("__restrict__", true);
  dsl::SourceText source{std::string(file), std::move(text)};
  source.import_module = [&](std::string_view module) { return impl_->module(module); };
  AIPU_ASSIGN_OR_RETURN(tir::Module module, dsl::parse_kernel(source, entry, all, kernel_name));
  if (built_in && wide_indices) module = tir::widen_indices(module);
  auto instance = std::make_shared<const tir::Module>(std::move(module));
  // Two threads may have parsed the same template; the first one's module is everybody's.
  const std::lock_guard lock(impl_->mutex);
  return impl_->instances.try_emplace(key, std::move(instance)).first->second;
}

}  // namespace aipu::kernels
