// Spellings of intrinsic calls that the C that is compiled and the C that is read have in common.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/expr.h"

namespace aipu::tir {

// Call is one call being printed: its type, count(), arg(i), args(), arg_type(i), attribute(name), mask(), all_lanes()
// and inactive() (the lanes that are off).
template <typename Call>
struct CallSpellings {
  using Printer = std::function<std::string(const Call&)>;

  // name(r, operands, m)
  static Printer with_r(std::string name) {
    return [name](const Call& c) { return fmt::format("{}({}, {}, {})", name, c.inactive(), c.args(), c.mask()); };
  }
  // name(operands, m): inactive lanes are fixed by the first operand or by the intrinsic.
  static Printer with_mask(std::string name) {
    return [name](const Call& c) { return fmt::format("{}({}, {})", name, c.args(), c.mask()); };
  }
  // name(operands)
  static Printer plain(std::string name) {
    return [name](const Call& c) { return fmt::format("{}({})", name, c.args()); };
  }
  // A function of C on scalars, the vector form on vectors.
  static Printer scalar_or(std::string scalar, Printer vector) {
    return [scalar, vector](const Call& c) {
      return c.type.is_scalar() ? fmt::format("{}({})", scalar, c.args()) : vector(c);
    };
  }
  // exp(x) on scalars, vexp(x) on vectors.
  static Printer math(std::string name) {
    return [name](const Call& c) { return fmt::format("{}{}({})", c.type.is_scalar() ? "" : "v", name, c.args()); };
  }
  // The operator where it says it all, else the function.
  static Printer add_like(std::string symbol, std::string name) {
    return [symbol, name](const Call& c) {
      const bool same = c.arg_type(0) == c.type && c.arg_type(1) == c.type;
      if (c.all_lanes() && same && c.attribute("saturate") == 0)
        return fmt::format("({} {} {})", c.arg(0), symbol, c.arg(1));
      return with_r(c.attribute("saturate") != 0 ? name + "s" : name)(c);
    };
  }
  // __vceq on integers, __vqeq on floats.
  static Printer compare(std::string condition) {
    return [condition](const Call& c) {
      const bool is_float = is_floating(c.arg_type(0).element);
      const std::string name = is_float && condition == "neq" ? "ne" : condition;
      return with_mask(fmt::format("__v{}{}", is_float ? 'q' : 'c', name))(c);
    };
  }
  static Printer shift(std::function<std::string(const Call&)> name) {
    return [name](const Call& c) { return c.all_lanes() ? plain(name(c))(c) : with_r(name(c))(c); };
  }
  // name(vectors, m): the mask is the last operand of the call.
  static Printer mask_operand(std::string name) {
    return [name](const Call& c) {
      std::string text = name + "(";
      for (size_t i = 0; i + 1 < c.count(); ++i) text += c.arg(i) + ", ";
      return text + c.p.mask_or_all(c.call.args.back(), c.arg_type(0).lanes) + ")";
    };
  }
  // The choice names come from the row itself, so that the order is the table's business.
  static std::string_view part_of(const Call& c) {
    for (const IntrinsicParam& param : c.call.intrinsic->params) {
      if (param.name != "part") continue;
      const int64_t index = c.attribute("part", param.default_value);
      if (index >= 0 && index < static_cast<int64_t>(param.choices.size()))
        return param.choices[static_cast<size_t>(index)];
    }
    return "all";
  }
};

}  // namespace aipu::tir
