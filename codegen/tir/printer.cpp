#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/text.h"
#include "codegen/tir/text_names.h"

namespace aipu::tir {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (u < 0x20 || u >= 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

// "4T4F": the runs of a constant mask; "" for other literals.
std::string mask_text(const VectorLiteral& literal) {
  std::string runs;
  for (size_t i = 0, end = 0; i < literal.lanes.size(); i = end) {
    const auto lane = as_int(literal.lanes[i]);
    if (!lane || literal.lanes[i]->type.element != DType::kBool) return "";
    while (end < literal.lanes.size() && as_int(literal.lanes[end]) == lane) ++end;
    runs += fmt::format("{}{}", end - i, *lane != 0 ? 'T' : 'F');
  }
  return runs;
}

// The shortest text that the parser reads as this value.
std::string float_text(double value, DType dtype) {
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    return bits == 0x7ff8000000000000u ? "nan" : fmt::format("nan(0x{:x})", bits);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (dtype != DType::kF64) {
    const std::string shorter = fmt::format("{}", static_cast<float>(value));
    double read = 0;
    std::from_chars(shorter.data(), shorter.data() + shorter.size(), read);
    if (round_float(read, dtype) == value) text = shorter;
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  std::string module(const Module& module) {
    for (const PrimFuncPtr& function : module.functions) {
      if (!out_.empty()) out_ += '\n';
      print(*function);
    }
    return std::move(out_);
  }
  std::string expr(const Expr& e) {
    print(e);
    return std::move(out_);
  }
  std::string stmt(const Stmt& s) {
    print(s, 0);
    return std::move(out_);
  }

 private:
  void text(std::string_view piece) { out_ += piece; }

  void reference(const VarPtr& var) {
    if (!var) return text("?");
    const auto [entry, is_new] = ids_.try_emplace(var.get(), static_cast<int>(ids_.size()));
    text(is_plain_name(var->name) ? var->name : quoted(var->name));
    text(fmt::format("#{}", entry->second));
  }

  void declaration(const VarPtr& var) {
    reference(var);
    if (!var) return;
    text(": ");
    text(var->type.text());
    if (var->restrict_) text(" restrict");
    if (var->non_negative) text(" nonneg");
  }

  void list(const std::vector<Expr>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text(", ");
      print(items[i]);
    }
  }

  void print(const Expr& e) {
    if (!e) return text("none");
    const bool other_type = implied_type(*e) != e->type;
    if (other_type) text(fmt::format("(type {} : ", e->type.text()));
    print_node(e, other_type);
    if (other_type) text(")");
  }

  void print_node(const Expr& e, bool other_type) {
    match(
        e,
        [&](const IntImm& n) {
          if (other_type) return text(fmt::format("{}:int64", n.value));
          if (e->type.element == DType::kBool) return text(n.value != 0 ? "true" : "false");
          text(fmt::format("{}", n.value));
          if (e->type.element != DType::kI32) text(fmt::format(":{}", dtype_name(e->type.element)));
        },
        [&](const FloatImm& n) {
          const DType element = other_type ? DType::kF64 : e->type.element;
          text(float_text(n.value, element));
          if (element != DType::kF32) text(fmt::format(":{}", dtype_name(element)));
        },
        [&](const StringImm& n) { text(quoted(n.value)); }, [&](const VarRef& n) { reference(n.var); },
        [&](const Unary& n) {
          text(n.op == UnaryOp::kNot ? "!" : "~");
          print(n.operand);
        },
        [&](const Binary& n) {
          text("(");
          print(n.lhs);
          text(fmt::format(" {} ", binary_op_symbol(n.op)));
          print(n.rhs);
          text(")");
        },
        [&](const Select& n) {
          text("(");
          print(n.condition);
          text(" ? ");
          print(n.if_true);
          text(" : ");
          print(n.if_false);
          text(")");
        },
        [&](const Cast& n) {
          text(fmt::format("cast<{}>(", e->type.text()));
          print(n.operand);
          text(")");
        },
        [&](const Broadcast& n) {
          text(fmt::format("broadcast<{}>(", e->type.lanes));
          print(n.scalar);
          text(")");
        },
        [&](const VectorLiteral& n) {
          if (const std::string mask = mask_text(n); !mask.empty() && !other_type)
            return text(fmt::format("\"{}\":{}", mask, e->type.text()));
          text("[");
          list(n.lanes);
          text("]");
        },
        [&](const Load& n) {
          text("load(");
          print(n.pointer);
          text(", ");
          print(n.index);
          text(")");
        },
        [&](const AddressOf& n) {
          text("addr(");
          reference(n.var);
          text(")");
        },
        [&](const LaneRead& n) {
          text("lane(");
          print(n.vector);
          text(", ");
          print(n.index);
          text(")");
        },
        [&](const IntrinsicCall& n) {
          text(fmt::format("S.{}<{}>(", n.intrinsic ? n.intrinsic->name : "?", e->type.text()));
          list(n.args);
          std::string_view separator = n.args.empty() ? "" : ", ";
          if (n.mask) {
            text(separator);
            text("mask=");
            print(n.mask);
            separator = ", ";
          }
          if (n.pass_through) {
            text(separator);
            text("r=");
            print(n.pass_through);
            separator = ", ";
          }
          for (const auto& [name, value] : n.attributes) {
            text(fmt::format("{}.{}={}", separator, name, value));
            separator = ", ";
          }
          text(")");
        },
        [&](const FunctionCall& n) {
          text(
              fmt::format("call<{}> {}(", e->type.text(), is_plain_name(n.function) ? n.function : quoted(n.function)));
          list(n.args);
          text(")");
        });
  }

  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  void end_line(const SourceSpan& span) {
    if (span.file) text(fmt::format("  @{}:{}:{}", quoted(*span.file), span.line, span.column));
    text("\n");
  }

  void body(const Stmt& statement, int depth) {
    if (!statement) return;
    if (const auto* inner = statement->as<Block>()) {
      for (const Stmt& child : inner->body) print(child, depth);
    } else {
      print(statement, depth);
    }
  }

  // " {", the span, the statements, "}".
  void braces(const Stmt& statement, int depth, const SourceSpan& span) {
    text(" {");
    end_line(span);
    body(statement, depth + 1);
    indent(depth);
    text("}");
  }

  void print(const Stmt& statement, int depth) {
    indent(depth);
    if (!statement) return text("none\n");
    const SourceSpan& span = statement->span;
    match(
        statement,
        [&](const Define& n) {
          text("let ");
          declaration(n.var);
          text(" = ");
          print(n.value);
          end_line(span);
        },
        [&](const Assign& n) {
          text("set ");
          reference(n.var);
          text(" = ");
          print(n.value);
          end_line(span);
        },
        [&](const LaneWrite& n) {
          text("setlane ");
          reference(n.var);
          text("[");
          print(n.index);
          text("] = ");
          print(n.value);
          end_line(span);
        },
        [&](const Store& n) {
          text("store ");
          print(n.pointer);
          text("[");
          print(n.index);
          text("] = ");
          print(n.value);
          end_line(span);
        },
        [&](const Alloc& n) {
          text("alloc ");
          declaration(n.buffer);
          text(fmt::format(" [{}]", n.count));
          if (!n.data.empty()) {
            text(" = x\"");
            for (const std::byte b : n.data) text(fmt::format("{:02x}", static_cast<unsigned>(b)));
            text("\"");
          }
          end_line(span);
        },
        [&](const For& n) {
          text(fmt::format("for {} ", kForKindNames[static_cast<size_t>(n.kind)]));
          declaration(n.var);
          text(" = ");
          print(n.start);
          text(" to ");
          print(n.stop);
          text(" step ");
          print(n.step);
          braces(n.body, depth, span);
          text("\n");
        },
        [&](const While& n) {
          text("while ");
          print(n.condition);
          braces(n.body, depth, span);
          text("\n");
        },
        [&](const If& n) {
          text("if ");
          print(n.condition);
          braces(n.then_body, depth, span);
          if (n.else_body) {
            text(" else");
            braces(n.else_body, depth, {});
          }
          text("\n");
        },
        [&](const Evaluate& n) {
          text("eval ");
          print(n.value);
          end_line(span);
        },
        [&](const Return& n) {
          text("return");
          if (n.value) {
            text(" ");
            print(n.value);
          }
          end_line(span);
        },
        [&](const Break&) {
          text("break");
          end_line(span);
        },
        [&](const Block&) {
          text("block");
          braces(statement, depth, span);
          text("\n");
        },
        [&](const Comment& n) {
          text(fmt::format("comment {}", quoted(n.text)));
          end_line(span);
        });
  }

  void print(const PrimFunc& function) {
    ids_.clear();
    text(fmt::format("func {}(", is_plain_name(function.name) ? function.name : quoted(function.name)));
    for (size_t i = 0; i < function.params.size(); ++i) {
      if (i > 0) text(", ");
      declaration(function.params[i]);
    }
    text(fmt::format(") -> {}", function.return_type.text()));
    if (function.inline_hint != InlineHint::kNone)
      text(fmt::format(" {}", kInlineHintNames[static_cast<size_t>(function.inline_hint)]));
    braces(function.body, 0, {});
    text("\n");
  }

  std::string out_;
  std::unordered_map<const Var*, int> ids_;
};

}  // namespace

std::string print_module(const Module& module) { return Printer().module(module); }
std::string print_expr(const Expr& expr) { return Printer().expr(expr); }
std::string print_stmt(const Stmt& stmt) { return Printer().stmt(stmt); }

}  // namespace aipu::tir
