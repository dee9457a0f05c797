// Dim: a symbolic integer expression; the extent of an axis, an element of a shape tensor, a kernel's scalar argument.
//
// A Dim is a constant, a named symbol, or + - * floordiv ceildiv mod min max eq lt select of Dims. Construction keeps a
// normal form (a sum of products of atoms, sorted), so that equal polynomials compare equal: (N+1)*2 == 2*N+2, and
// N*6/2... divides exactly where that is provable. Symbols are interned by name within a process; what binds a symbol
// (a compile-time --shape, an input's extent, an element of a tensor at run time) is recorded by the Graph (graph.h,
// Symbol), not here. Symbols stand for values >= 0 unless their name begins with '$' (see Dim::symbol). Constants cost
// no allocation. A constant sum or product that overflows 64 bits, and an expression that grows beyond kMaxDimSize
// terms, becomes floordiv(1, 0): an error when it is evaluated, never a wrong number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::graph {

struct DimNode;

enum class DimOp : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kCeilDiv, kMod, kMin, kMax, kEq, kLt, kSelect };

class Dim {
 public:
  Dim() : Dim(0) {}
  Dim(int64_t value) : value_(value) {}                 // NOLINT: implicit on purpose, shapes are written {n, 3, 224}
  Dim(int value) : Dim(static_cast<int64_t>(value)) {}  // NOLINT
  // `may_be_negative`: an element of a run-time tensor; its name gets a '$' in front, unless it has one. A plain extent
  // is known to be >= 0.
  static Dim symbol(std::string_view name, bool may_be_negative = false);

  bool is_constant() const { return node_ == nullptr; }
  std::optional<int64_t> constant() const { return node_ == nullptr ? std::optional<int64_t>(value_) : std::nullopt; }
  int64_t constant_or(int64_t otherwise) const { return constant().value_or(otherwise); }

  DimOp op() const;
  const std::string& symbol_name() const;    // of a kSymbol
  const std::vector<Dim>& operands() const;  // of the others, as they print
  int size() const;                          // operators and leaves, written out

  // Inclusive bounds where provable from the structure.
  std::optional<int64_t> lower_bound() const;
  std::optional<int64_t> upper_bound() const;

  // "N", "2*N + 1", "floordiv(N + 1, 2)"; parses back.
  std::string text() const;
  static Result<Dim> parse(std::string_view text);

  // Replaces symbols by what `lookup` returns for them (nullopt: keep).
  Dim substitute(const std::function<std::optional<Dim>(const std::string&)>& lookup) const;
  void collect_symbols(std::vector<std::string>* names) const;  // appends each once

  friend bool operator==(const Dim& a, const Dim& b);
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim& operator+=(const Dim& b) { return *this = *this + b; }
  Dim& operator*=(const Dim& b) { return *this = *this * b; }

 private:
  friend struct DimNode;
  explicit Dim(std::shared_ptr<const DimNode> node) : node_(std::move(node)) {}
  int64_t value_ = 0;                    // where node_ is null
  std::shared_ptr<const DimNode> node_;  // null: a constant
};

inline constexpr int kMaxDimSize = 4000;  // operators and leaves of an expression, written out

// rounds toward minus infinity; division by zero evaluates to an error at bind time
Dim floordiv(const Dim& a, const Dim& b);
Dim ceildiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);  // a - b*floordiv(a, b)
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim eq(const Dim& a, const Dim& b);  // 1 or 0
Dim lt(const Dim& a, const Dim& b);
Dim select(const Dim& condition, const Dim& if_nonzero, const Dim& if_zero);

using Shape = std::vector<Dim>;

Dim element_count(const Shape& shape);
bool is_static(const Shape& shape);
std::optional<std::vector<int64_t>> static_shape(const Shape& shape);
std::string shape_text(const Shape& shape);  // "[N,3,224,224]"
Result<Shape> parse_shape(std::string_view text);

}  // namespace aipu::graph
