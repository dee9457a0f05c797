// The words of C for types, names and constants.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "codegen/tir/type.h"

namespace aipu::tir {

std::string_view c_element(DType element);      // "uchar"
std::string_view scope_qualifier(Scope scope);  // "__global ", with the blank; empty for private
std::string c_type(const Type& type);           // "float8"; of a pointer "__global float8*"

std::string c_number(int64_t value, DType dtype);
std::string c_number(double value, DType dtype);
std::string c_string(std::string_view text);  // with quotes

// The mask of all lanes, "ALL_TRUE_w" of 8.
std::string all_true(int lanes);

// `name` as a variable or function may be called: no keyword, type or function of C, and none of `reserved`.
std::string c_identifier(std::string_view name, const std::set<std::string, std::less<>>& reserved);

// `words` and those that are C++'s alone: what compiles a kernel takes it for C++.
std::set<std::string, std::less<>> with_cxx_words(std::set<std::string, std::less<>> words);

}  // namespace aipu::tir
