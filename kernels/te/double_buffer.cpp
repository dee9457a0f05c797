#include "kernels/te/double_buffer.h"

#include <algorithm>
#include <optional>
#include <set>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/print.h"

namespace aipu::te {

namespace {

// What has been taken out of a loop's body.
struct Buffered {
  std::vector<Realize> memory;  // of each output, outermost first, without bodies
  Stmt filling;
};

std::set<const Operation*> stored_in(const Stmt& stmt) {
  std::set<const Operation*> found;
  const std::function<void(const Stmt&)> visit = [&](const Stmt& s) {
    if (!s) return;
    std::visit(Overloaded{
                   [&](const Store& n) { found.insert(n.tensor.op.get()); },
                   [&](const Seq& n) {
                     for (const Stmt& child : n.body) visit(child);
                   },
                   [&](const If& n) {
                     visit(n.then_body);
                     visit(n.else_body);
                   },
                   [](const PackedCall&) {},
                   [&](const auto& n) { visit(n.body); },
               },
               s->node);
  };
  visit(stmt);
  return found;
}

class DoubleBuffers {
 public:
  Result<Stmt> run(const Stmt& stmt) {
    Stmt done = visit(stmt);
    if (!error_.ok()) return std::move(error_);
    return done;
  }

 private:
  Stmt visit(const Stmt& stmt) {
    if (!stmt) return stmt;
    return std::visit(
        Overloaded{
            [&](const For& n) { return loop(n); },
            [&](const If& n) {
              return make_stmt(If{n.condition, visit(n.then_body), visit(n.else_body)});
            },
            [&](const While& n) {
              return make_stmt(While{n.condition, visit(n.body)});
            },
            [&](const Let& n) {
              return make_stmt(Let{n.var, n.value, visit(n.body)});
            },
            [&](const Realize& n) {
              return make_stmt(Realize{n.op, n.region, n.scope, n.alignment, visit(n.body), n.value_index});
            },
            [&](const Seq& n) {
              std::vector<Stmt> body;
              for (const Stmt& child : n.body) body.push_back(visit(child));
              return make_stmt(Seq{std::move(body)});
            },
            [&](const Pragma& n) {
              return make_stmt(Pragma{n.key, n.value, visit(n.body)});
            },
            [&](const auto&) { return stmt; },
        },
        stmt->node);
  }

  Stmt loop(const For& n) {
    Stmt body = visit(n.body);
    const std::set<const Operation*> computed = stored_in(body);
    std::vector<Stmt> all;
    std::vector<Realize> memory;
    for (;;) {
      Buffered found;
      body = take(body, &found);
      if (!found.filling) break;
      body = rotated(n, body, found, computed, &all, &memory);
    }
    all.push_back(make_stmt(For{n.var, n.extent, n.kind, n.thread, n.shared_out, std::move(body)}));
    Stmt made = sequence(std::move(all));
    for (auto m = memory.rbegin(); m != memory.rend(); ++m)
      made = make_stmt(Realize{m->op, m->region, m->scope, m->alignment, std::move(made)});
    return made;
  }

  // The body of a loop without the first memory that has halves, up to the loops in it.
  Stmt take(const Stmt& stmt, Buffered* found) {
    if (!stmt || found->filling) return stmt;
    return std::visit(
        Overloaded{
            [&](const Realize& n) -> Stmt {
              Stmt body = take(n.body, found);
              if (!found->filling) return stmt;
              // The pragma stands right inside of the memory of its outputs.
              if (found->memory.empty() || found->memory.front().op == n.op) {
                found->memory.insert(found->memory.begin(),
                                     Realize{n.op, n.region, n.scope, n.alignment, nullptr, n.value_index});
                return body;
              }
              return make_stmt(Realize{n.op, n.region, n.scope, n.alignment, std::move(body), n.value_index});
            },
            [&](const Seq& n) -> Stmt {
              std::vector<Stmt> body;
              for (const Stmt& child : n.body) body.push_back(take(child, found));
              return found->filling ? make_stmt(Seq{std::move(body)}) : stmt;
            },
            [&](const Pragma& n) -> Stmt {
              if (n.key == kDoubleBufferScope) {
                found->filling = n.body;
                return make_stmt(Seq{});
              }
              Stmt body = take(n.body, found);
              return found->filling ? make_stmt(Pragma{n.key, n.value, std::move(body)}) : stmt;
            },
            [&](const auto&) -> Stmt { return stmt; },
        },
        stmt->node);
  }

  // The body of loop `n` with memory in halves; what is filled before the loop, and the memory around both.
  Stmt rotated(const For& n, const Stmt& body, const Buffered& buffered, std::set<const Operation*> computed,
               std::vector<Stmt>* before, std::vector<Realize>* memory) {
    const std::string name = buffered.memory.empty() ? "" : buffered.memory.front().op->name;
    const auto refuse = [&](const auto&... why) {
      if (error_.ok()) error_ = unsupported(str_cat("double_buffer of stage '", name, "': ", why...));
      return body;
    };
    const std::string loop_name = n.var->as<Var>()->name;
    if (n.kind != LoopKind::kSerial && n.kind != LoopKind::kUnrolled)
      return refuse("loop '", loop_name, "' around it is not run one iteration after the other");
    for (const Operation* op : stored_in(buffered.filling)) computed.erase(op);
    for (const Tensor& tensor : tensors_used(buffered.filling)) {
      if (computed.contains(tensor.op.get()))
        return refuse("it reads '", tensor.name(), "', which loop '", loop_name, "' computes too");
    }
    const Type type = n.var->type;
    const auto number = [&](int64_t value) { return make_int(value, type); };
    BufferTargets targets;
    for (const Realize& m : buffered.memory) {
      const Tensor tensor{m.op, m.value_index};
      std::vector<Expr> shape = {make_int(2)}, base = {floormod(n.var, number(2))};
      for (const Range& range : box_of(m)) {
        if (uses(range.extent, n.var.get()))
          return refuse("its size depends on loop '", loop_name, "': ", to_text(range.extent));
        shape.push_back(range.extent);
        base.push_back(sub(make_int(0, range.min->type), range.min));
      }
      const Tensor halves{make_placeholder(tensor.name(), std::move(shape), tensor.type()), 0};
      targets[{tensor.op.get(), tensor.value_index}] = {halves, std::move(base)};
      std::vector<Alignment> alignment = m.alignment;
      if (!alignment.empty()) alignment.insert(alignment.begin(), Alignment{});
      memory->push_back({halves.op, {}, m.scope, std::move(alignment), nullptr});
    }
    const Stmt filling = bind_buffers(buffered.filling, targets, {});
    const auto filled_for = [&](const Expr& iteration) {
      return bind_buffers(filling, {}, {{n.var.get(), iteration}});
    };
    const Expr next = add(n.var, number(1));
    Stmt first = filled_for(number(0));
    if (const auto extent = as_int(n.extent); !extent || *extent < 1)
      first = make_stmt(If{less(number(0), n.extent), std::move(first)});
    before->push_back(std::move(first));
    return sequence({make_stmt(If{less(next, n.extent), filled_for(next)}), bind_buffers(body, targets, {})});
  }

  Status error_;
};

}  // namespace

Result<Stmt> inject_double_buffers(const Stmt& stmt) { return DoubleBuffers().run(stmt); }

}  // namespace aipu::te
