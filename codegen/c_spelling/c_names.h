// The words of C for element types and scopes.
#pragma once

#include <string_view>

#include "codegen/tir/type.h"

namespace aipu::tir {

std::string_view c_element(DType element);      // "uchar"
std::string_view scope_qualifier(Scope scope);  // "__global ", with the blank; empty for private

}  // namespace aipu::tir
