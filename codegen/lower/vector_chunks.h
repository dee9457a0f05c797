// How vectors of any width are cut into registers. Private to the lowering.
#pragma once

#include <map>
#include <vector>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir {

// Lanes [offset, offset + valid) of a vector, held in a vector of `lanes` lanes (a power of two); lanes beyond `valid`
// are undefined.
struct Chunk {
  int offset;
  int lanes;
  int valid;
  bool padded() const { return valid < lanes; }
};

constexpr int kNativeBits = 256;  // of the vectors that the language calls native

// One cut per lane count and module: all vectors of L lanes are cut alike, by the widest element that occurs with L
// lanes, so that the lanes of values of different element types stay together (a cast or a mask never crosses
// registers).
class ChunkPlan {
 public:
  // Vectors of more than `most_unrolled` registers are worked on in loops.
  ChunkPlan(const Module& module, const Target& target, size_t most_unrolled);

  // Whether vectors of this type are held in several (or padded) registers.
  bool is_split(Type type) const { return type.is_vector() && splits_.contains(type.lanes); }
  bool any_split() const { return !splits_.empty() || any_wide_pointer_; }
  int register_lanes(DType element) const { return vector_bits_ / dtype_bits(element); }
  bool has_native_registers() const { return vector_bits_ >= kNativeBits; }
  const std::vector<Chunk>& chunks(int lanes) const { return splits_.at(lanes); }
  // Whether vectors of that many lanes are worked on in loops: their registers are many, and all alike.
  bool is_long(int lanes) const;
  // Whether C has a vector type for the pointee; pointers to others become pointers to scalars.
  bool is_wide_pointer(Type type) const { return type.pointer && type.lanes > 1 && !fits(type.pointee()); }
  Type lowered_pointer(Type type) const {
    return is_wide_pointer(type) ? Type::pointer_to(type.element, 1, type.scope) : type;
  }

 private:
  bool fits(Type vector) const;
  int vector_bits_;
  size_t most_unrolled_;
  bool any_wide_pointer_ = false;
  std::map<int, std::vector<Chunk>> splits_;
};

}  // namespace aipu::tir
