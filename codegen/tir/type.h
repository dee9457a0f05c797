// The type of a TIR value: a scalar, a vector of any number of lanes, a mask (vector of bool), or a pointer.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/dtype.h"

namespace aipu::tir {

// Where a pointer points. kGlobal1..3 are further base addresses; kGlobal1 marks constant (weight) tensors.
enum class Scope : uint8_t { kGlobal, kGlobal1, kGlobal2, kGlobal3, kLsram, kShared, kPrivate, kConstant };

std::string_view scope_name(Scope scope);  // the DSL spelling: "global.1", "lsram", ...

struct Type {
  DType element = DType::kVoid;
  int32_t lanes = 1;  // > 1: a vector. For a pointer these two describe what it points to.
  bool pointer = false;
  Scope scope = Scope::kPrivate;  // meaningful for pointers only

  static Type scalar(DType element) { return {element, 1, false, Scope::kPrivate}; }
  static Type vector(DType element, int lanes) { return {element, lanes, false, Scope::kPrivate}; }
  static Type pointer_to(DType element, int lanes, Scope scope) { return {element, lanes, true, scope}; }
  static Type void_type() { return {}; }

  bool is_void() const { return !pointer && element == DType::kVoid; }
  bool is_scalar() const { return !pointer && lanes == 1 && element != DType::kVoid; }
  bool is_vector() const { return !pointer && lanes > 1; }
  bool is_mask() const { return is_vector() && element == DType::kBool; }
  Type pointee() const { return {element, lanes, false, Scope::kPrivate}; }
  Type with_element(DType e) const { return {e, lanes, pointer, scope}; }
  Type with_lanes(int n) const { return {element, n, pointer, scope}; }
  // of the value or of the pointee
  int64_t bytes() const { return static_cast<int64_t>(dtype_bytes(element)) * lanes; }

  friend bool operator==(const Type&, const Type&) = default;

  std::string text() const;  // "int32", "float32x8", "global float32*"
};

}  // namespace aipu::tir
