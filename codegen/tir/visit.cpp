#include "codegen/tir/visit.h"

namespace aipu::tir {

Expr Mutator::mutate(const Expr& expr) { return mutate_children(expr); }
Stmt Mutator::mutate(const Stmt& stmt) { return mutate_children(stmt); }

Expr Mutator::mutate_children(const Expr& expr) {
  if (!expr) return expr;
  bool changed = false;
  const auto visit = [&](const Expr& child) {
    if (!child) return child;
    Expr result = mutate(child);
    changed |= result != child;
    return result;
  };
  const auto visit_all = [&](const std::vector<Expr>& children) {
    std::vector<Expr> result;
    result.reserve(children.size());
    for (const Expr& child : children) result.push_back(visit(child));
    return result;
  };
  const auto rebuilt = [&](auto node) { return changed ? make_expr(expr->type, std::move(node), expr->span) : expr; };
  return match(
      expr, [&](const IntImm&) { return expr; }, [&](const FloatImm&) { return expr; },
      [&](const StringImm&) { return expr; }, [&](const VarRef&) { return expr; },
      [&](const AddressOf&) { return expr; },
      [&](const Unary& n) {
        return rebuilt(Unary{n.op, visit(n.operand)});
      },
      [&](const Binary& n) {
        Expr lhs = visit(n.lhs);
        return rebuilt(Binary{n.op, std::move(lhs), visit(n.rhs)});
      },
      [&](const Select& n) {
        Expr condition = visit(n.condition);
        Expr if_true = visit(n.if_true);
        return rebuilt(Select{std::move(condition), std::move(if_true), visit(n.if_false)});
      },
      [&](const Cast& n) { return rebuilt(Cast{visit(n.operand)}); },
      [&](const Broadcast& n) { return rebuilt(Broadcast{visit(n.scalar)}); },
      [&](const VectorLiteral& n) { return rebuilt(VectorLiteral{visit_all(n.lanes)}); },
      [&](const Load& n) {
        Expr pointer = visit(n.pointer);
        return rebuilt(Load{std::move(pointer), visit(n.index)});
      },
      [&](const LaneRead& n) {
        Expr vector = visit(n.vector);
        return rebuilt(LaneRead{std::move(vector), visit(n.index)});
      },
      [&](const IntrinsicCall& n) {
        std::vector<Expr> args = visit_all(n.args);
        Expr mask = visit(n.mask);
        return rebuilt(
            IntrinsicCall{n.intrinsic, std::move(args), std::move(mask), visit(n.pass_through), n.attributes});
      },
      [&](const FunctionCall& n) {
        return rebuilt(FunctionCall{n.function, visit_all(n.args)});
      });
}

Stmt Mutator::mutate_children(const Stmt& stmt) {
  if (!stmt) return stmt;
  bool changed = false;
  const auto visit = [&](const auto& child) {
    if (!child) return child;
    auto result = mutate(child);
    changed |= result != child;
    return result;
  };
  const auto rebuilt = [&](auto node) { return changed ? make_stmt(std::move(node), stmt->span) : stmt; };
  return match(
      stmt,
      [&](const Define& n) {
        return rebuilt(Define{n.var, visit(n.value)});
      },
      [&](const Assign& n) {
        return rebuilt(Assign{n.var, visit(n.value)});
      },
      [&](const LaneWrite& n) {
        Expr index = visit(n.index);
        return rebuilt(LaneWrite{n.var, std::move(index), visit(n.value)});
      },
      [&](const Store& n) {
        Expr pointer = visit(n.pointer);
        Expr index = visit(n.index);
        return rebuilt(Store{std::move(pointer), std::move(index), visit(n.value)});
      },
      [&](const Alloc&) { return stmt; },
      [&](const For& n) {
        Expr start = visit(n.start);
        Expr stop = visit(n.stop);
        Expr step = visit(n.step);
        return rebuilt(For{n.var, std::move(start), std::move(stop), std::move(step), n.kind, visit(n.body)});
      },
      [&](const While& n) {
        Expr condition = visit(n.condition);
        return rebuilt(While{std::move(condition), visit(n.body)});
      },
      [&](const If& n) {
        Expr condition = visit(n.condition);
        Stmt then_body = visit(n.then_body);
        return rebuilt(If{std::move(condition), std::move(then_body), visit(n.else_body)});
      },
      [&](const Evaluate& n) { return rebuilt(Evaluate{visit(n.value)}); },
      [&](const Return& n) { return rebuilt(Return{visit(n.value)}); }, [&](const Break&) { return stmt; },
      [&](const Block& n) {
        std::vector<Stmt> body;
        body.reserve(n.body.size());
        for (const Stmt& child : n.body) {
          // A null result removes the statement.
          if (Stmt result = visit(child)) body.push_back(std::move(result));
        }
        return rebuilt(Block{std::move(body)});
      },
      [&](const Comment&) { return stmt; });
}

void for_each_child(const Expr& expr, const std::function<void(const Expr&)>& visit) {
  const auto one = [&](const Expr& child) {
    if (child) visit(child);
  };
  match(
      expr, [](const IntImm&) {}, [](const FloatImm&) {}, [](const StringImm&) {}, [](const VarRef&) {},
      [](const AddressOf&) {}, [&](const Unary& n) { one(n.operand); },
      [&](const Binary& n) {
        one(n.lhs);
        one(n.rhs);
      },
      [&](const Select& n) {
        one(n.condition);
        one(n.if_true);
        one(n.if_false);
      },
      [&](const Cast& n) { one(n.operand); }, [&](const Broadcast& n) { one(n.scalar); },
      [&](const VectorLiteral& n) {
        for (const Expr& lane : n.lanes) one(lane);
      },
      [&](const Load& n) {
        one(n.pointer);
        one(n.index);
      },
      [&](const LaneRead& n) {
        one(n.vector);
        one(n.index);
      },
      [&](const IntrinsicCall& n) {
        for (const Expr& arg : n.args) one(arg);
        one(n.mask);
        one(n.pass_through);
      },
      [&](const FunctionCall& n) {
        for (const Expr& arg : n.args) one(arg);
      });
}

void for_each_child(const Stmt& stmt, const std::function<void(const Expr&)>& visit_expr,
                    const std::function<void(const Stmt&)>& visit_stmt) {
  const auto expr = [&](const Expr& child) {
    if (child) visit_expr(child);
  };
  const auto body = [&](const Stmt& child) {
    if (child) visit_stmt(child);
  };
  match(
      stmt, [&](const Define& n) { expr(n.value); }, [&](const Assign& n) { expr(n.value); },
      [&](const LaneWrite& n) {
        expr(n.index);
        expr(n.value);
      },
      [&](const Store& n) {
        expr(n.pointer);
        expr(n.index);
        expr(n.value);
      },
      [](const Alloc&) {},
      [&](const For& n) {
        expr(n.start);
        expr(n.stop);
        expr(n.step);
        body(n.body);
      },
      [&](const While& n) {
        expr(n.condition);
        body(n.body);
      },
      [&](const If& n) {
        expr(n.condition);
        body(n.then_body);
        body(n.else_body);
      },
      [&](const Evaluate& n) { expr(n.value); }, [&](const Return& n) { expr(n.value); }, [](const Break&) {},
      [&](const Block& n) {
        for (const Stmt& child : n.body) body(child);
      },
      [](const Comment&) {});
}

void walk(const Expr& expr, const std::function<void(const Expr&)>& visit_expr) {
  if (!expr) return;
  visit_expr(expr);
  for_each_child(expr, [&](const Expr& child) { walk(child, visit_expr); });
}

void walk(const Stmt& stmt, const std::function<void(const Expr&)>& visit_expr,
          const std::function<void(const Stmt&)>& visit_stmt) {
  if (!stmt) return;
  visit_stmt(stmt);
  for_each_child(
      stmt, [&](const Expr& child) { walk(child, visit_expr); },
      [&](const Stmt& child) { walk(child, visit_expr, visit_stmt); });
}

}  // namespace aipu::tir
