#include <iterator>

#include "graph/ops/op_list.h"

namespace aipu::graph {

std::vector<OpDef> builtin_ops() {
  std::vector<OpDef> ops;
  const auto add = [&](std::vector<OpDef> family) {
    ops.insert(ops.end(), std::make_move_iterator(family.begin()), std::make_move_iterator(family.end()));
  };
#define AIPU_ADD(family) add(family##_ops());
  AIPU_OP_FAMILIES(AIPU_ADD)
#undef AIPU_ADD
  return ops;
}

}  // namespace aipu::graph
