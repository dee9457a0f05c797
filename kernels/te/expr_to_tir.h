// Expressions to TIR. Private to kernels/te.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "codegen/tir/stmt.h"
#include "kernels/te/arith/analyzer.h"
#include "kernels/te/stmt.h"

namespace aipu::te {

// What TIR calls an operation; kFloorDiv and kFloorMod are those toward zero.
tir::BinaryOp tir_op(BinaryOp op);
BinaryOp te_op(tir::BinaryOp op);  // the same backwards

class ExprToTir {
 public:
  // `load` makes an element of a tensor; the first error is kept.
  std::function<tir::Expr(const Tensor&, const std::vector<Expr>&)> load;
  std::function<tir::VarPtr(const Expr&)> variable;
  Analyzer* analyzer = nullptr;

  tir::Expr operator()(const Expr& expr);
  void fail(Status error) {
    if (error_.ok()) error_ = std::move(error);
  }
  const Status& error() const { return error_; }
  // Helpers that the expressions call.
  std::vector<tir::PrimFuncPtr> helpers() const;

 private:
  tir::Expr convert_binary(const Expr& expr, const struct Binary& n);
  tir::Expr floor_quotient(const Expr& expr, const struct Binary& n);
  tir::Expr convert_call(const Expr& expr, const struct Call& n);
  tir::Expr call_helper(const struct MathFunction& function, Type type, const std::vector<Expr>& operands);
  tir::Expr intrinsic(std::string_view name, Type type, std::vector<tir::Expr> args,
                      std::vector<std::pair<std::string, int64_t>> attributes = {});

  std::map<std::string, tir::PrimFuncPtr> helpers_;
  Status error_;
};

// The value of a store. A sum that grows by a product does so in one instruction, with one rounding.
Expr value_to_store(const Store& store);

}  // namespace aipu::te
