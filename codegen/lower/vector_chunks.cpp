#include "codegen/lower/vector_chunks.h"

#include <algorithm>
#include <bit>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {

namespace {

// From here on a masked move costs no more than another. Then the end of a vector is in a register as wide as those
// before it: a number that all lanes multiply by is loaded to all lanes once, where a narrower register takes another
// instruction for it, on a port that multiplications need. For float32 alone: what moves lanes of other elements, or
// divides integers, is better off without lanes that mean nothing.
constexpr int kMaskedBits = 512;

}  // namespace

bool ChunkPlan::fits(Type vector) const {
  return std::has_single_bit(static_cast<unsigned>(vector.lanes)) &&
         vector.lanes * dtype_bits(vector.element) <= vector_bits_;
}

bool ChunkPlan::is_long(int lanes) const {
  const std::vector<Chunk>& cut = chunks(lanes);
  return cut.size() > most_unrolled_ && !cut.back().padded() && cut.back().lanes == cut.front().lanes;
}

ChunkPlan::ChunkPlan(const Module& module, const Target& target, size_t most_unrolled)
    : vector_bits_(target.vector_bits), most_unrolled_(most_unrolled) {
  std::map<int, int> widest;  // bits of the widest element per number of lanes; a lane of a mask takes a byte
  std::set<int> others;       // numbers of lanes that elements other than float32 have
  const auto note = [&](Type type) {
    if (type.pointer) {
      any_wide_pointer_ |= is_wide_pointer(type);
    } else if (type.is_vector()) {
      widest[type.lanes] = std::max(widest[type.lanes], dtype_bits(type.element));
      if (type.element != DType::kF32 && !type.is_mask()) others.insert(type.lanes);
    }
  };
  for (const PrimFuncPtr& function : module.functions) {
    note(function->return_type);
    for (const VarPtr& param : function->params) note(param->type);
    walk(
        function->body,
        [&](const Expr& e) {
          note(e->type);
          // Sums of 16-bit floats are computed in float32.
          const auto* call = e->as<IntrinsicCall>();
          if (call != nullptr && call->intrinsic->name == "vrpadd" && dtype_bits(call->args[0]->type.element) == 16) {
            note(call->args[0]->type.with_element(DType::kF32));
          }
        },
        [&](const Stmt& s) {
          if (const auto* define = s->as<Define>()) note(define->var->type);
          if (const auto* alloc = s->as<Alloc>()) note(alloc->buffer->type);
        });
  }
  for (const auto& [lanes, bits] : widest) {
    const int most = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(vector_bits_ / bits, 2))));
    if (std::has_single_bit(static_cast<unsigned>(lanes)) && lanes <= most) continue;
    std::vector<Chunk>& cut = splits_[lanes];
    for (int offset = 0; offset < lanes;) {
      const int rest = lanes - offset;
      if (vector_bits_ >= kMaskedBits && offset > 0 && rest < most && 2 * rest >= most && !others.contains(lanes)) {
        cut.push_back({offset, most, rest});
        break;
      }
      const int valid = std::min(most, static_cast<int>(std::bit_floor(static_cast<unsigned>(rest))));
      cut.push_back({offset, std::max(valid, 2), valid});
      offset += valid;
    }
  }
}

}  // namespace aipu::tir
