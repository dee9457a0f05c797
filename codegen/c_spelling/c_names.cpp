#include "codegen/c_spelling/c_names.h"

namespace aipu::tir {

std::string_view c_element(DType element) {
  switch (element) {
    case DType::kVoid:
      return "void";
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "char";
    case DType::kU8:
      return "uchar";
    case DType::kI16:
      return "short";
    case DType::kU16:
      return "ushort";
    case DType::kI32:
      return "int";
    case DType::kU32:
      return "uint";
    case DType::kI64:
      return "long";
    case DType::kU64:
      return "ulong";
    case DType::kF16:
      return "half";
    case DType::kBF16:
      return "bf16";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kString:
      return "char";
  }
  return "void";
}

std::string_view scope_qualifier(Scope scope) {
  switch (scope) {
    case Scope::kGlobal:
    case Scope::kGlobal1:
    case Scope::kGlobal2:
    case Scope::kGlobal3:
      return "__global ";
    case Scope::kLsram:
      return "__lsram ";
    case Scope::kShared:
      return "__local ";
    case Scope::kPrivate:
      return "";
    case Scope::kConstant:
      return "__constant ";
  }
  return "";
}

}  // namespace aipu::tir
