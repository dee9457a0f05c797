#include <bit>
#include <cstdint>
#include <unordered_map>

#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// Compares trees; with `rename`, a variable of `a` may correspond to another one of `b` that is declared at the same
// place and looks the same.
class Comparison {
 public:
  explicit Comparison(bool rename) : rename_(rename) {}

  bool declare(const VarPtr& a, const VarPtr& b) {
    if (!rename_) return a == b;
    if (!a || !b) return a == b;
    if (a->name != b->name || a->type != b->type || a->restrict_ != b->restrict_ || a->non_negative != b->non_negative)
      return false;
    partner_[a.get()] = b.get();
    return true;
  }

  bool same(const VarPtr& a, const VarPtr& b) const {
    if (!rename_) return a == b;
    const auto found = partner_.find(a.get());
    return found != partner_.end() ? found->second == b.get() : a == b;
  }

  bool equal(const Expr& a, const Expr& b) {
    if (a == b && !rename_) return true;
    if (!a || !b) return a == b;
    if (a->type != b->type || a->node.index() != b->node.index()) return false;
    const auto all = [&](const std::vector<Expr>& x, const std::vector<Expr>& y) {
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!equal(x[i], y[i])) return false;
      }
      return true;
    };
    return match(
        a, [&](const IntImm& n) { return n.value == b->as<IntImm>()->value; },
        [&](const FloatImm& n) {
          return std::bit_cast<uint64_t>(n.value) == std::bit_cast<uint64_t>(b->as<FloatImm>()->value);
        },
        [&](const StringImm& n) { return n.value == b->as<StringImm>()->value; },
        [&](const VarRef& n) { return same(n.var, b->as<VarRef>()->var); },
        [&](const Unary& n) { return n.op == b->as<Unary>()->op && equal(n.operand, b->as<Unary>()->operand); },
        [&](const Binary& n) {
          const Binary& m = *b->as<Binary>();
          return n.op == m.op && equal(n.lhs, m.lhs) && equal(n.rhs, m.rhs);
        },
        [&](const Select& n) {
          const Select& m = *b->as<Select>();
          return equal(n.condition, m.condition) && equal(n.if_true, m.if_true) && equal(n.if_false, m.if_false);
        },
        [&](const Cast& n) { return equal(n.operand, b->as<Cast>()->operand); },
        [&](const Broadcast& n) { return equal(n.scalar, b->as<Broadcast>()->scalar); },
        [&](const VectorLiteral& n) { return all(n.lanes, b->as<VectorLiteral>()->lanes); },
        [&](const Load& n) { return equal(n.pointer, b->as<Load>()->pointer) && equal(n.index, b->as<Load>()->index); },
        [&](const AddressOf& n) { return same(n.var, b->as<AddressOf>()->var); },
        [&](const LaneRead& n) {
          return equal(n.vector, b->as<LaneRead>()->vector) && equal(n.index, b->as<LaneRead>()->index);
        },
        [&](const IntrinsicCall& n) {
          const IntrinsicCall& m = *b->as<IntrinsicCall>();
          return n.intrinsic == m.intrinsic && n.attributes == m.attributes && all(n.args, m.args) &&
                 equal(n.mask, m.mask) && equal(n.pass_through, m.pass_through);
        },
        [&](const FunctionCall& n) {
          return n.function == b->as<FunctionCall>()->function && all(n.args, b->as<FunctionCall>()->args);
        });
  }

  bool equal(const Stmt& a, const Stmt& b) {
    if (a == b && !rename_) return true;
    if (!a || !b) return a == b;
    if (a->node.index() != b->node.index()) return false;
    return match(
        a,
        [&](const Define& n) {
          const Define& m = *b->as<Define>();
          return equal(n.value, m.value) && declare(n.var, m.var);
        },
        [&](const Assign& n) { return same(n.var, b->as<Assign>()->var) && equal(n.value, b->as<Assign>()->value); },
        [&](const LaneWrite& n) {
          const LaneWrite& m = *b->as<LaneWrite>();
          return same(n.var, m.var) && equal(n.index, m.index) && equal(n.value, m.value);
        },
        [&](const Store& n) {
          const Store& m = *b->as<Store>();
          return equal(n.pointer, m.pointer) && equal(n.index, m.index) && equal(n.value, m.value);
        },
        [&](const Alloc& n) {
          const Alloc& m = *b->as<Alloc>();
          return n.count == m.count && n.data == m.data && declare(n.buffer, m.buffer);
        },
        [&](const For& n) {
          const For& m = *b->as<For>();
          return n.kind == m.kind && equal(n.start, m.start) && equal(n.stop, m.stop) && equal(n.step, m.step) &&
                 declare(n.var, m.var) && equal(n.body, m.body);
        },
        [&](const While& n) {
          return equal(n.condition, b->as<While>()->condition) && equal(n.body, b->as<While>()->body);
        },
        [&](const If& n) {
          const If& m = *b->as<If>();
          return equal(n.condition, m.condition) && equal(n.then_body, m.then_body) && equal(n.else_body, m.else_body);
        },
        [&](const Evaluate& n) { return equal(n.value, b->as<Evaluate>()->value); },
        [&](const Return& n) { return equal(n.value, b->as<Return>()->value); }, [&](const Break&) { return true; },
        [&](const Block& n) {
          const Block& m = *b->as<Block>();
          if (n.body.size() != m.body.size()) return false;
          for (size_t i = 0; i < n.body.size(); ++i) {
            if (!equal(n.body[i], m.body[i])) return false;
          }
          return true;
        },
        [&](const Comment& n) { return n.text == b->as<Comment>()->text; });
  }

 private:
  bool rename_;
  std::unordered_map<const Var*, const Var*> partner_;
};

Stmt as_block(const Stmt& body) { return body && !body->as<Block>() ? block({body}) : body; }

}  // namespace

bool structurally_equal(const Expr& a, const Expr& b) { return Comparison(false).equal(a, b); }
bool structurally_equal(const Stmt& a, const Stmt& b) { return Comparison(false).equal(a, b); }

bool structurally_equal(const Module& a, const Module& b) {
  if (a.functions.size() != b.functions.size()) return false;
  for (size_t i = 0; i < a.functions.size(); ++i) {
    const PrimFunc& f = *a.functions[i];
    const PrimFunc& g = *b.functions[i];
    if (f.name != g.name || f.return_type != g.return_type || f.inline_hint != g.inline_hint ||
        f.params.size() != g.params.size())
      return false;
    Comparison comparison(true);
    for (size_t k = 0; k < f.params.size(); ++k) {
      if (!comparison.declare(f.params[k], g.params[k])) return false;
    }
    if (!comparison.equal(as_block(f.body), as_block(g.body))) return false;
  }
  return true;
}

}  // namespace aipu::tir
