// What is known about index arithmetic: canonical forms, ranges of variables, proofs. Index arithmetic does not
// overflow; "cannot prove" never means "is false".
//
// Extents are assumed to be at least 0, and a divisor to be at least 1: what divides by an extent of 0 is never run.
#pragma once

#include <vector>

#include "kernels/te/arith/poly.h"
#include "kernels/te/expr.h"

namespace aipu::te {

// The values from `lo` to `hi`, both included; null: unbounded.
struct Interval {
  Expr lo, hi;
  bool bounded() const { return lo != nullptr && hi != nullptr; }
};

class Analyzer {
 public:
  // A variable and its range, in the scope of those that have been bound before.
  void bind(const Expr& var, const Range& range);
  void assume_non_negative(const Expr& var);

  // The shortest form of an index or a condition.
  Expr simplify(const Expr& expr);
  // Of a value: its indices and the conditions in it. Data of type int32 wraps and is left as it is.
  Expr simplify_value(const Expr& expr);

  bool prove(const Expr& condition);
  bool prove_equal(const Expr& a, const Expr& b);
  bool prove_le(const Expr& a, const Expr& b);
  bool prove_lt(const Expr& a, const Expr& b);
  ConstBound bound(const Expr& expr);

  // The values of an index while `var` has the values `of_var`, which do not depend on it.
  Interval interval(const Expr& expr, const Expr& var, const Interval& of_var);
  Interval hull(const Interval& a, const Interval& b);

  // A key that expressions share that are equal by canonical form.
  std::string key(const Expr& expr);

 private:
  struct Bounds {
    std::optional<Poly> lo, hi;
  };
  struct Known {
    Expr var;
    Poly lo, hi;
    ConstBound bound;
  };

  Poly normal(const Expr& expr);
  Poly normal_binary(const Expr& expr, const Binary& n);
  Poly normal_extremum(const Expr& expr, const Binary& n);
  Poly atom(const Expr& expr);
  Expr build(const Poly& poly, Type type);
  Expr build_monomial(const Monomial& monomial, Type type);
  Type type_of(const Poly& poly) const;

  Poly divide(const Poly& p, const Poly& d);
  Poly modulo(const Poly& p, const Poly& d);
  Poly divide_constant(const Poly& p, int64_t c);
  Poly modulo_constant(const Poly& p, int64_t c);
  Poly quotient_atom(BinaryOp op, const Poly& p, const Poly& d);
  bool split_by_gcd(const Poly& p, int64_t c, int64_t* g, Poly* multiple, Poly* rest);
  bool in_range_of(const Poly& r, const Poly& d);
  Poly recombine(Poly p);
  bool recombine_once(Poly* p);

  ConstBound bound(const Poly& p);
  ConstBound bound_of_atom(const Expr& atom);
  ConstBound bound_of_binary(const Binary& n);
  bool is_non_negative(const Poly& p);
  bool is_non_negative_now(const Poly& p);

  Bounds interval(const Poly& p, const Known& var);
  Bounds interval_of_atom(const Expr& atom, const Known& var);
  Bounds interval_of_quotient(const Binary& n, const Known& var);
  Bounds hull(const Bounds& a, const Bounds& b);
  std::optional<Poly> extremum(BinaryOp op, const Poly& a, const Poly& b);
  Expr simplify_part(const Expr& e);
  Expr simplify_condition(const Expr& expr, const Binary& n);

  std::map<std::string, Expr> atoms_;
  std::vector<Known> known_;                      // outermost first
  std::map<const ExprNode*, ConstBound> bounds_;  // of variables
  int depth_ = 0;                                 // of proofs within proofs
};

}  // namespace aipu::te
