// What evaluating an expression may do beside giving a value, and what the value may depend on.
#pragma once

#include "codegen/tir/expr.h"

namespace aipu::tir {

// Whether it is itself a call that may do more than give a value; its operands are not looked at.
bool has_effect(const Expr& e);

// Whether no call in it has an effect: it has one value however often it is evaluated within one expression.
bool is_repeatable(const Expr& e);

// Whether it reads memory, or has an effect: its value may be another at another place.
bool depends_on_memory(const Expr& e);

}  // namespace aipu::tir
