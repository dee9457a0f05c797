// What rules ask of reductions: which axes reads use, which elements are consecutive, who reads the sums.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kernels/te/schedule.h"

namespace aipu::te {

using Bodies = std::map<const Stage*, std::vector<Expr>>;

void for_each_read(const std::vector<Expr>& bodies, const std::function<void(const Read&)>& visit);

// Whether the element moves by one in memory when the axis moves by one.
bool is_consecutive(const Read& read, const IterVar& axis);
bool read_uses(const Read& read, const IterVar& axis);
std::optional<int64_t> extent_of(const IterVarPtr& axis);
std::optional<int64_t> elements_of(std::span<const IterVarPtr> axes);  // absent where an extent is not known

// The reduction axis whose elements are consecutive where no data axis has such; null: another way is better.
IterVarPtr consecutive_reduction(const Compute& compute, const std::vector<Expr>& bodies);

// A stage that holds the sums of a tile in registers while it goes over the reduction axes, and one that has the tiles
// written to where they belong: the only one that reads the sums, if it does element by element and is an output.
struct Tiles {
  StagePtr sums, result;
};
Result<Tiles> tiles_of(Schedule& schedule, const StagePtr& stage, const Bodies& bodies);

}  // namespace aipu::te
