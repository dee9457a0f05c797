// What a kernel's source says beyond its TIR: which scopes are schedulable blocks, which of their variables are axes,
// and the indices of buffers before they are made one. Only who schedules blocks asks for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/tir/stmt.h"

namespace aipu::tir {

// Nodes of a module by their addresses. Each entry holds its node, so that no address comes twice.
struct BlockMarks {
  struct Block {
    Stmt scope;
    std::string name;
  };
  struct Axis {
    Expr value;  // in the definition of the axis
    bool reduction;
    Expr extent;  // null: that of the loop whose variable the value is
  };
  struct Access {
    Expr index;  // of the load or store
    std::string buffer;
    std::vector<Expr> shape, indices;
  };
  std::map<const StmtNode*, Block> blocks;
  std::map<const ExprNode*, Axis> axes;
  std::map<const ExprNode*, Access> accesses;
};

}  // namespace aipu::tir
