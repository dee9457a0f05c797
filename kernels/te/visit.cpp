#include "kernels/te/visit.h"

#include <cstdio>

#include "kernels/te/operation.h"

namespace aipu::te {

void for_each_child(const Expr& expr, const std::function<void(const Expr&)>& visit) {
  const auto all = [&](const std::vector<Expr>& list) {
    for (const Expr& e : list) visit(e);
  };
  match(
      expr, [](const IntImm&) {}, [](const FloatImm&) {}, [](const StringImm&) {}, [](const Var&) {},
      [&](const Binary& n) {
        visit(n.a);
        visit(n.b);
      },
      [&](const Not& n) { visit(n.a); },
      [&](const Select& n) {
        visit(n.condition);
        visit(n.true_value);
        visit(n.false_value);
      },
      [&](const Cast& n) { visit(n.value); }, [&](const Call& n) { all(n.args); },
      [&](const Read& n) { all(n.indices); },
      [&](const Reduce& n) {
        all(n.source);
        visit(n.condition);
        all(n.init);
      });
}

void walk(const Expr& expr, const std::function<void(const Expr&)>& visit) {
  for_each_child(expr, [&](const Expr& child) { walk(child, visit); });
  visit(expr);
}

namespace {

// The list with its elements rewritten; whether one of them changed.
bool rewrite_all(std::vector<Expr>* list, const Change& change) {
  bool changed = false;
  for (Expr& e : *list) {
    Expr next = rewrite(e, change);
    changed |= next != e;
    e = std::move(next);
  }
  return changed;
}

}  // namespace

Expr rewrite(const Expr& expr, const Change& change) {
  if (!expr) return expr;
  if (Expr changed = change(expr)) return changed;
  return match(
      expr, [&](const IntImm&) { return expr; }, [&](const FloatImm&) { return expr; },
      [&](const StringImm&) { return expr; }, [&](const Var&) { return expr; },
      [&](const Binary& n) {
        Expr a = rewrite(n.a, change), b = rewrite(n.b, change);
        return a == n.a && b == n.b ? expr : make_binary(n.op, a, b);
      },
      [&](const Not& n) {
        Expr a = rewrite(n.a, change);
        return a == n.a ? expr : make_not(a);
      },
      [&](const Select& n) {
        Expr c = rewrite(n.condition, change), t = rewrite(n.true_value, change), f = rewrite(n.false_value, change);
        return c == n.condition && t == n.true_value && f == n.false_value ? expr
                                                                           : make_expr(expr->type, Select{c, t, f});
      },
      [&](const Cast& n) {
        Expr v = rewrite(n.value, change);
        return v == n.value ? expr : make_cast(expr->type, v);
      },
      [&](const Call& n) {
        auto args = n.args;
        const bool changed = rewrite_all(&args, change);
        if (n.name == "likely" && as_int(args[0])) return args[0];
        return changed ? make_expr(expr->type, Call{n.name, std::move(args)}) : expr;
      },
      [&](const Read& n) {
        auto indices = n.indices;
        return rewrite_all(&indices, change) ? make_expr(expr->type, Read{n.op, n.value_index, std::move(indices)})
                                             : expr;
      },
      [&](const Reduce& n) {
        Reduce copy = n;
        bool changed = rewrite_all(&copy.source, change);
        changed |= rewrite_all(&copy.init, change);
        copy.condition = rewrite(n.condition, change);
        changed |= copy.condition != n.condition;
        Combiner combiner = *n.combiner;  // which may use the data axes
        bool combines = rewrite_all(&combiner.result, change);
        combines |= rewrite_all(&combiner.identity, change);
        if (combines) copy.combiner = std::make_shared<Combiner>(std::move(combiner));
        changed |= combines;
        return changed ? make_expr(expr->type, std::move(copy)) : expr;
      });
}

Expr substitute(const Expr& expr, const Substitution& values) {
  if (values.empty()) return expr;
  return rewrite(expr, [&](const Expr& e) -> Expr {
    if (e->as<Var>() == nullptr) return nullptr;
    const auto found = values.find(e.get());
    return found == values.end() ? nullptr : make_cast(e->type, found->second);
  });
}

bool uses_any(const Expr& expr, const std::function<bool(const ExprNode*)>& is_one_of) {
  bool found = false;
  if (expr) walk(expr, [&](const Expr& e) { found |= e->as<Var>() != nullptr && is_one_of(e.get()); });
  return found;
}

namespace {

std::string address(const void* pointer) {
  char text[24];
  std::snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

std::string keys(const std::vector<Expr>& list) {
  std::string text;
  for (const Expr& e : list) text += structural_key(e) + ",";
  return text;
}

}  // namespace

std::string structural_key(const Expr& expr) {
  if (!expr) return "-";
  const std::string type = type_text(expr->type);
  return match(
      expr, [&](const IntImm& n) { return std::to_string(n.value) + ":" + type; },
      [&](const FloatImm& n) {
        char text[40];
        std::snprintf(text, sizeof(text), "%a", n.value);
        return text + (":" + type);
      },
      [](const StringImm& n) { return "'" + n.value + "'"; },
      [](const Var& n) {
        char text[24];
        std::snprintf(text, sizeof(text), "#%012llu", static_cast<unsigned long long>(n.id));
        return n.name + text;
      },
      [](const Binary& n) {
        return "(" + structural_key(n.a) + " " + std::string(binary_row(n.op).node) + " " + structural_key(n.b) + ")";
      },
      [](const Not& n) { return "!" + structural_key(n.a); },
      [](const Select& n) {
        return "select(" + structural_key(n.condition) + "," + structural_key(n.true_value) + "," +
               structural_key(n.false_value) + ")";
      },
      [&](const Cast& n) { return type + "(" + structural_key(n.value) + ")"; },
      [&](const Call& n) { return n.name + ":" + type + "(" + keys(n.args) + ")"; },
      [](const Read& n) {
        return "read" + address(n.op.get()) + "." + std::to_string(n.value_index) + "[" + keys(n.indices) + "]";
      },
      [](const Reduce& n) {
        std::string axes;
        for (const IterVarPtr& axis : n.axis) axes += address(axis.get());
        return "reduce" + address(n.combiner.get()) + "." + std::to_string(n.value_index) + "(" + keys(n.source) + ";" +
               axes + ";" + structural_key(n.condition) + ";" + keys(n.init) + ")";
      });
}

}  // namespace aipu::te
