// How calls of intrinsics are spelled where the C that is compiled and the C that is read agree: one row per intrinsic.
// A dialect has rows of its own for what it says in another way.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/expr.h"

namespace aipu::tir {

class PrinterShell;

// One call being printed.
struct SpelledCall {
  PrinterShell& printer;
  const IntrinsicCall& call;
  const Type& type;
  const std::string& destination;  // the C of what the value is assigned to; "" if that is not known

  size_t count() const { return call.args.size(); }
  const Expr& arg_expr(size_t i) const { return call.args[i]; }
  const Type& arg_type(size_t i) const { return call.args[i]->type; }
  std::string arg(size_t i) const;
  std::string args(std::string_view separator = ", ") const;
  int64_t attribute(std::string_view name, int64_t value = 0) const { return call.attribute(name, value); }
  // The lanes of the operands decide the mask's; accumulators come first and have fewer.
  int mask_lanes() const;
  std::string mask() const;
  bool all_lanes() const;
  std::string inactive() const;  // what the lanes are whose mask is off
  std::string type_text() const;
  // The name that the attribute `part` stands for. The choices come from the row itself, so that their order is the
  // table's business.
  std::string_view part() const;
};

using CallPrinter = std::function<std::string(const SpelledCall&)>;

struct CallSpelling {
  CallPrinter print;
  std::vector<std::string> words;  // what it calls: no variable may have that name
};

CallSpelling with_r(std::string name);  // name(r, operands, m)
CallSpelling with_mask(
    std::string name);                 // name(operands, m): inactive lanes are fixed by the first operand or the row
CallSpelling plain(std::string name);  // name(operands)
CallSpelling mask_operand(std::string name);  // name(vectors, m): the mask is the last operand of the call
CallSpelling bitwise(std::string name);       // with_r, of masks with_mask

// The row of an intrinsic; null if its spelling is the dialect's.
const CallSpelling* shared_spelling(std::string_view intrinsic);
// The words of all rows.
std::set<std::string, std::less<>> spelling_words();

}  // namespace aipu::tir
