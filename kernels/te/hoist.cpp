#include "kernels/te/hoist.h"

#include <algorithm>
#include <map>
#include <vector>

#include "codegen/tir/visit.h"

namespace aipu::te {

namespace {

constexpr size_t kMostVectors = 4;  // each is a register over all of the loop

// The private array of which all lanes are an element, at a constant place; null: another vector.
const tir::Var* array_of(const tir::Expr& e) {
  const auto* vector = e->as<tir::Broadcast>();
  const auto* load = vector == nullptr ? nullptr : vector->scalar->as<tir::Load>();
  const auto* array = load == nullptr ? nullptr : load->pointer->as<tir::VarRef>();
  if (array == nullptr || !tir::as_int(load->index)) return nullptr;
  return array->var->type.scope == tir::Scope::kPrivate ? array->var.get() : nullptr;
}

class Hoist : public tir::Mutator {
 public:
  explicit Hoist(const tir::Stmt& loop) {
    std::map<const tir::Var*, int> not_read;  // mentions of an array other than as what is read
    std::vector<tir::Expr> found;
    tir::walk(
        loop,
        [&](const tir::Expr& e) {
          if (const auto* ref = e->as<tir::VarRef>()) ++not_read[ref->var.get()];
          if (const auto* address = e->as<tir::AddressOf>()) ++not_read[address->var.get()];
          const auto* load = e->as<tir::Load>();
          const auto* read = load == nullptr ? nullptr : load->pointer->as<tir::VarRef>();
          if (read != nullptr) --not_read[read->var.get()];
          if (array_of(e) != nullptr) found.push_back(e);
        },
        [&](const tir::Stmt& s) {
          if (const auto* alloc = s->as<tir::Alloc>()) ++not_read[alloc->buffer.get()];
        });
    for (const tir::Expr& e : found) {
      if (not_read[array_of(e)] != 0 || hoisted_.size() == kMostVectors || variable(e)) continue;
      hoisted_.emplace_back(e, std::make_shared<tir::Var>(tir::Var{"all", e->type}));
    }
  }

  tir::Stmt run(const tir::Stmt& loop) {
    if (hoisted_.empty()) return loop;
    std::vector<tir::Stmt> all;
    for (const auto& [value, var] : hoisted_) all.push_back(tir::make_stmt(tir::Define{var, value}));
    all.push_back(mutate(loop));
    return tir::block(std::move(all));
  }

  using Mutator::mutate;
  tir::Expr mutate(const tir::Expr& e) override {
    if (const tir::VarPtr var = array_of(e) == nullptr ? nullptr : variable(e)) return tir::var_ref(var);
    return mutate_children(e);
  }

 private:
  tir::VarPtr variable(const tir::Expr& e) const {
    const auto found = std::find_if(hoisted_.begin(), hoisted_.end(),
                                    [&](const auto& h) { return tir::structurally_equal(h.first, e); });
    return found == hoisted_.end() ? nullptr : found->second;
  }

  std::vector<std::pair<tir::Expr, tir::VarPtr>> hoisted_;
};

}  // namespace

tir::Stmt hoist_broadcasts(const tir::Stmt& loop) {
  const auto* serial = loop->as<tir::For>();
  return serial != nullptr && serial->kind == tir::ForKind::kSerial ? Hoist(loop).run(loop) : loop;
}

}  // namespace aipu::te
