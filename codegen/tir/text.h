// The text form of TIR: prints and parses back to itself. It is the dump, the test input, the reproducer, and what
// aipu.bin carries for the interpreter.
#pragma once

#include <string>
#include <string_view>

#include "codegen/tir/stmt.h"
#include "runtime/base/meter.h"
#include "runtime/base/status.h"

namespace aipu::tir {

std::string print_module(const Module& module);
std::string print_expr(const Expr& expr);
std::string print_stmt(const Stmt& stmt);
// Safe on hostile text: bounded depth, a one-line error with line and column. The memory and time that it takes are
// counted by `meter`, if there is one.
Result<Module> parse_module(std::string_view text, Meter* meter = nullptr);

}  // namespace aipu::tir
