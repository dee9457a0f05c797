#include "codegen/tir/type.h"

namespace aipu::tir {

std::string_view scope_name(Scope scope) {
  switch (scope) {
    case Scope::kGlobal:
      return "global";
    case Scope::kGlobal1:
      return "global.1";
    case Scope::kGlobal2:
      return "global.2";
    case Scope::kGlobal3:
      return "global.3";
    case Scope::kLsram:
      return "lsram";
    case Scope::kShared:
      return "shared";
    case Scope::kPrivate:
      return "private";
    case Scope::kConstant:
      return "constant";
  }
  return "?";
}

std::string Type::text() const {
  std::string result;
  if (pointer) {
    result += scope_name(scope);
    result += ' ';
  }
  result += dtype_name(element);
  if (lanes != 1) {
    result += 'x';
    result += std::to_string(lanes);
  }
  if (pointer) result += '*';
  return result;
}

}  // namespace aipu::tir
