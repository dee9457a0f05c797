#include "kernels/launch.h"

#include <fmt/format.h>

#include <map>

namespace aipu::kernels {
namespace {

std::string kernel_text(const tir::PrimFunc& entry) {
  const auto& file = entry.span.file;
  return file == nullptr ? fmt::format("kernel \"{}\"", entry.name)
                         : fmt::format("kernel \"{}\" ({}:{})", entry.name, *file, entry.span.line);
}

std::string kind_text(const KernelArgument& argument) {
  if (std::holds_alternative<PointerArgument>(argument)) return "a tensor";
  return std::holds_alternative<ScalarArgument>(argument) ? "an integer" : "a floating-point number";
}

bool fits(const KernelArgument& argument, const tir::Type& type) {
  if (type.pointer) return std::holds_alternative<PointerArgument>(argument);
  if (is_floating(type.element)) return std::holds_alternative<FloatArgument>(argument);
  return std::holds_alternative<ScalarArgument>(argument);
}

}  // namespace

KernelArguments& KernelArguments::argument(std::string name, KernelArgument value) {
  named_.emplace_back(std::move(name), std::move(value));
  return *this;
}

KernelArguments& KernelArguments::scalars(const NamedScalars& values) {
  for (const auto& [name, value] : values) scalar(name, value);
  return *this;
}

KernelArguments& KernelArguments::list(std::string_view name, const std::vector<KernelArgument>& elements) {
  for (size_t i = 0; i < elements.size(); ++i) argument(fmt::format("{}[{}]", name, i), elements[i]);
  return *this;
}

KernelArguments& KernelArguments::scalar_list(std::string_view name, const std::vector<graph::Dim>& elements) {
  for (size_t i = 0; i < elements.size(); ++i) scalar(fmt::format("{}[{}]", name, i), elements[i]);
  return *this;
}

KernelArguments& KernelArguments::record(std::string_view name, const NamedScalars& fields) {
  for (const auto& [field, value] : fields) scalar(fmt::format("{}.{}", name, field), value);
  return *this;
}

Result<std::vector<KernelArgument>> KernelArguments::resolve(const tir::PrimFunc& entry) const {
  const auto error = [&](std::string text) {
    return invalid_argument(fmt::format("{}: {}", kernel_text(entry), std::move(text)));
  };
  std::map<std::string_view, const KernelArgument*> given;
  for (const auto& [name, value] : named_) {
    if (!given.emplace(name, &value).second) return error(fmt::format("parameter \"{}\" is given twice", name));
  }
  std::vector<KernelArgument> arguments;
  for (const tir::VarPtr& parameter : entry.params) {
    const std::string& name = parameter->source_name();
    const auto found = given.find(name);
    if (found == given.end()) return error(fmt::format("parameter \"{}\" is given nothing", name));
    if (!fits(*found->second, parameter->type)) {
      return error(fmt::format("parameter \"{}\" is {}, it is given {}", name, parameter->type.text(),
                               kind_text(*found->second)));
    }
    arguments.push_back(*found->second);
    given.erase(found);
  }
  if (!given.empty()) return error(fmt::format("there is no parameter \"{}\"", given.begin()->first));
  return arguments;
}

KernelArgument* KernelLaunch::find_argument(std::string_view parameter) {
  const auto& params = kernel->entry().params;
  for (size_t i = 0; i < params.size() && i < arguments.size(); ++i) {
    if (params[i]->source_name() == parameter) return &arguments[i];
  }
  return nullptr;
}

}  // namespace aipu::kernels
