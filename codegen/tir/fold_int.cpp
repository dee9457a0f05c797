#include "codegen/tir/fold_int.h"

#include <algorithm>

#include "codegen/intrinsics/lane_types.h"

namespace aipu::tir {

std::optional<int64_t> fold_int(BinaryOp op, DType dtype, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool is_u = is_unsigned_int(dtype) || is_bool(dtype);
  const int bits = dtype_bits(dtype);
  switch (op) {
    case BinaryOp::kAdd:
      return static_cast<int64_t>(ua + ub);
    case BinaryOp::kSub:
      return static_cast<int64_t>(ua - ub);
    case BinaryOp::kMul:
      return static_cast<int64_t>(ua * ub);
    case BinaryOp::kDiv:
      if (b == 0) return std::nullopt;
      if (is_u) return static_cast<int64_t>(ua / ub);
      // The quotient that does not fit saturates.
      if (b == -1)
        return wrap_int(static_cast<int64_t>(0 - ua), dtype) == a && a != 0 ? static_cast<int64_t>(~ua)
                                                                            : static_cast<int64_t>(0 - ua);
      return a / b;
    case BinaryOp::kMod:
      if (b == 0) return std::nullopt;
      if (is_u) return static_cast<int64_t>(ua % ub);
      return b == -1 ? 0 : a % b;
    case BinaryOp::kMin:
      return is_u ? static_cast<int64_t>(std::min(ua, ub)) : std::min(a, b);
    case BinaryOp::kMax:
      return is_u ? static_cast<int64_t>(std::max(ua, ub)) : std::max(a, b);
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      return static_cast<int64_t>(ua << (ub & static_cast<uint64_t>(scalar_shift_bits(bits) - 1)));
    case BinaryOp::kShr: {
      const uint64_t count = ub & static_cast<uint64_t>(scalar_shift_bits(bits) - 1);
      return is_u ? static_cast<int64_t>(ua >> count) : a >> count;
    }
    case BinaryOp::kAnd:
      return a != 0 && b != 0;
    case BinaryOp::kOr:
      return a != 0 || b != 0;
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return is_u ? ua < ub : a < b;
    case BinaryOp::kLe:
      return is_u ? ua <= ub : a <= b;
    case BinaryOp::kGt:
      return is_u ? ua > ub : a > b;
    case BinaryOp::kGe:
      return is_u ? ua >= ub : a >= b;
  }
  return std::nullopt;
}

}  // namespace aipu::tir
