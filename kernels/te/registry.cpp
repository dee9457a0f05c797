#include "kernels/te/registry.h"

#include <algorithm>
#include <utility>

namespace aipu::te {

FunctionRegistry& FunctionRegistry::global() {
  static auto* registry = new FunctionRegistry;  // never destroyed: functions of Python outlive the interpreter's end
  return *registry;
}

Status FunctionRegistry::add(std::string_view name, PackedFunctionPtr function, bool replace) {
  PackedFunctionPtr last;  // dropped without the lock, which is released first: its end may run anything
  const std::scoped_lock lock(mutex_);
  auto& place = functions_[std::string(name)];
  if (place && !replace)
    return invalid_argument(str_cat("a function '", name, "' is registered already; override=True replaces it"));
  last = std::exchange(place, std::move(function));
  return {};
}

PackedFunctionPtr FunctionRegistry::find(std::string_view name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = functions_.find(std::string(name));
  return found == functions_.end() ? nullptr : found->second;
}

bool FunctionRegistry::remove(std::string_view name) {
  PackedFunctionPtr last;  // as in add()
  const std::scoped_lock lock(mutex_);
  const auto found = functions_.find(std::string(name));
  if (found == functions_.end()) return false;
  last = std::move(found->second);
  functions_.erase(found);
  return true;
}

std::vector<std::string> FunctionRegistry::names() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, function] : functions_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<PackedValue> FunctionRegistry::call(std::string_view name, const std::vector<PackedValue>& args) const {
  const PackedFunctionPtr function = find(name);
  if (!function) return invalid_argument(str_cat("there is no registered function '", name, "'"));
  return function->call(args);
}

}  // namespace aipu::te
