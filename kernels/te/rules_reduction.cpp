#include "kernels/te/rules_reduction.h"

#include <algorithm>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

using Bodies = std::map<const Stage*, std::vector<Expr>>;

void for_each_read(const std::vector<Expr>& bodies, const std::function<void(const Read&)>& visit) {
  for (const Expr& body : bodies) {
    walk(body, [&](const Expr& e) {
      if (const Read* read = e->as<Read>()) visit(*read);
    });
  }
}

// Whether the element moves by one in memory when the axis moves by one.
bool is_consecutive(const Read& read, const IterVar& axis) {
  if (read.indices.empty()) return false;
  for (size_t d = 0; d + 1 < read.indices.size(); ++d) {
    if (uses(read.indices[d], axis.var.get())) return false;
  }
  const Expr& last = read.indices.back();
  if (!uses(last, axis.var.get())) return false;
  const Expr next = substitute(last, {{axis.var.get(), add(axis.var, make_int(1, axis.var->type))}});
  return Analyzer().prove_equal(sub(next, last), make_int(1, last->type));
}

bool read_uses(const Read& read, const IterVar& axis) {
  return std::any_of(read.indices.begin(), read.indices.end(),
                     [&](const Expr& index) { return uses(index, axis.var.get()); });
}

std::optional<int64_t> extent_of(const IterVarPtr& axis) { return as_int(axis->dom->extent); }

// The most of `wanted`, half of it, ... down to 2 that divides an extent; 1 where it is not known.
int64_t lanes_for(const IterVarPtr& axis, int64_t wanted) {
  const auto extent = extent_of(axis);
  if (!extent) return wanted;  // with a mask
  int64_t lanes = wanted;
  while (lanes > 4 && *extent % lanes != 0) lanes /= 2;
  return *extent % lanes == 0 ? lanes : std::min(wanted, std::max<int64_t>(*extent, 1));
}

Status vectorize(Stage& stage, const std::vector<IterVarPtr>& axes, int64_t lanes) {
  if (axes.empty()) return {};
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr fused, stage.fuse_all(axes));
  AIPU_ASSIGN_OR_RETURN(const auto parts, stage.split(fused, make_int(lanes), nullptr));
  return stage.annotate(parts.second, IterKind::kVectorized);
}

// The reduction axis whose elements are consecutive where no data axis has such; null: another way is better.
IterVarPtr consecutive_reduction(const Compute& compute, const std::vector<Expr>& bodies) {
  IterVarPtr found;
  bool data = false;
  for_each_read(bodies, [&](const Read& read) {
    for (const IterVarPtr& axis : compute.reduce_axis) {
      if (is_consecutive(read, *axis)) found = axis;
    }
    data = data || (!compute.axis.empty() && is_consecutive(read, *compute.axis.back()));
  });
  return data ? nullptr : found;
}

// Partial sums side by side: the elements of a row as vectors, which are added up in the end. Null where a row is too
// short for it. `place`: where the sums are made; null: at the reduction itself.
Result<StagePtr> sum_by_vectors(Schedule& schedule, const StagePtr& stage, const IterVarPtr& axis, int64_t lanes) {
  constexpr int64_t kVectors = 4;  // at once, so that an addition does not wait for the one before
  const auto extent = extent_of(axis);
  if (stage->op->output_count() != 1 || (extent && *extent < 2 * lanes)) return StagePtr{};
  int64_t factor = lanes * kVectors;
  if (extent) {
    while (factor > 4 && *extent % factor != 0) factor -= factor > lanes ? lanes : factor / 2;
    if (*extent % factor != 0) factor = lanes;
  }
  AIPU_ASSIGN_OR_RETURN(const auto parts, stage->split(axis, make_int(factor), nullptr));
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.rfactor({stage->op, 0}, parts.second, -1));
  const StagePtr partial = schedule.find(made.front().op.get());
  const Compute& compute = *partial->op->compute();
  AIPU_ASSIGN_OR_RETURN(const auto vectors,
                        partial->split(compute.axis.back(), make_int(std::min(lanes, factor)), nullptr));
  std::vector<IterVarPtr> order = compute.reduce_axis;
  order.insert(order.end(), {vectors.first, vectors.second});
  AIPU_RETURN_IF_ERROR(partial->reorder(order));
  AIPU_RETURN_IF_ERROR(partial->annotate(vectors.first, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(partial->annotate(vectors.second, IterKind::kVectorized));
  partial->scope = "local";
  return partial;
}

// A stage that holds the sums of a tile in registers while it goes over the reduction axes, and one that has the tiles
// written to where they belong.
struct Tiles {
  StagePtr sums, result;
};

struct TileSize {
  int64_t lanes = 1, vectors = 1, rows = 1;
};

// Loads per multiply-add become few when a tile has many rows and many vectors in a row.
TileSize tile_size(const IterVarPtr& last, const IterVarPtr& row, const Knobs& knobs) {
  constexpr int64_t kMaxColumns = 64, kMaxRows = 8;
  TileSize best{lanes_for(last, knobs.lanes), 1, 1};
  double least = 1e9;
  const auto columns = extent_of(last), rows = row ? extent_of(row) : std::optional<int64_t>(1);
  for (int64_t vectors = 1; vectors * best.lanes <= std::max(kMaxColumns, best.lanes); ++vectors) {
    if (vectors > 1 && (!columns || *columns % (vectors * best.lanes) != 0)) continue;  // no masks inside
    for (int64_t height = 1; height <= kMaxRows; ++height) {
      if (height > 1 && (!rows || *rows % height != 0)) continue;
      if (vectors * height > knobs.sums) continue;
      // A number that all lanes multiply by comes with the multiplication.
      const double cost = (static_cast<double>(vectors) + 0.4 * static_cast<double>(height)) /
                          static_cast<double>(vectors * height);
      if (cost >= least) continue;
      least = cost;
      best.vectors = vectors;
      best.rows = height;
    }
  }
  return best;
}

// A data axis other than the last one over which vectors that a reduction reads stay the same; null: none.
size_t row_axis(const Compute& compute, const std::vector<Expr>& bodies) {
  const IterVar& last = *compute.axis.back();
  for (size_t d = compute.axis.size() - 1; d-- > 0;) {
    bool stays = false;
    for_each_read(bodies, [&](const Read& read) {
      stays = stays || (is_consecutive(read, last) && !read_uses(read, *compute.axis[d]));
    });
    if (stays && extent_of(compute.axis[d]) != 1) return d;
  }
  return compute.axis.size();
}

// The only stage that reads the sums, element by element, and is an output.
StagePtr elementwise_reader(const Schedule& schedule, const StagePtr& stage, const Bodies& bodies) {
  StagePtr reader;
  for (const StagePtr& other : schedule.stages) {
    const auto body = bodies.find(other.get());
    if (body == bodies.end()) continue;
    bool reads = false, own = other->op->compute()->reduce_axis.empty();
    for_each_read(body->second, [&](const Read& read) {
      if (read.op != stage->op) return;
      const auto& axis = other->op->compute()->axis;
      reads = true;
      own = own && axis.size() == read.indices.size();
      for (size_t d = 0; own && d < axis.size(); ++d) own = read.indices[d] == axis[d]->var;
    });
    if (!reads) continue;
    if (!own || reader || !other->is_output || other->op->output_count() != 1) return nullptr;
    reader = other;
  }
  return reader;
}

Result<Tiles> tiles_of(Schedule& schedule, const StagePtr& stage, const Bodies& bodies) {
  if (!stage->is_output) {
    if (const StagePtr reader = elementwise_reader(schedule, stage, bodies)) {
      stage->scope = "local";
      return Tiles{stage, reader};
    }
  }
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.cache_write({{stage->op, 0}}, "local"));
  return Tiles{schedule.find(made.front().op.get()), stage};
}

// What a reduction reads, copied to memory of its own where a loop of another stage begins: in the order in which it is
// used, and near.
Status copy_reads(Schedule& schedule, const StagePtr& reader, const std::vector<Tensor>& tensors, const StagePtr& parent,
                  const IterVarPtr& loop, Machine machine, int64_t lanes) {
  for (const Tensor& tensor : tensors) {
    const std::string scope = machine == Machine::kCompass ? "lsram" : "local";
    AIPU_ASSIGN_OR_RETURN(const Tensor copy, schedule.cache_read(tensor, scope, {reader->op}));
    const StagePtr stage = schedule.find(copy.op.get());
    AIPU_RETURN_IF_ERROR(stage->compute_at(parent, loop));
    if (machine == Machine::kCompass) continue;  // the copy is a transfer
    AIPU_RETURN_IF_ERROR(vectorize(*stage, {stage->op->compute()->axis.back()}, lanes));
  }
  return {};
}

// The elements of a tensor that a tile needs over all of the reduction; absent where it is not known.
std::optional<int64_t> elements_needed(const Read& read, const Compute& compute, const std::vector<int64_t>& tile) {
  int64_t count = 1;
  for (const Expr& index : read.indices) {
    Analyzer analyzer;
    Interval range{index, index};
    const auto widen = [&](const IterVarPtr& axis, int64_t extent) {
      if (!range.bounded() || !uses(index, axis->var.get())) return;
      const Interval values{make_int(0, axis->var->type), make_int(extent - 1, axis->var->type)};
      const Interval low = analyzer.interval(range.lo, axis->var, values);
      const Interval high = analyzer.interval(range.hi, axis->var, values);
      range = {low.lo, high.hi};
    };
    for (size_t d = 0; d < compute.axis.size(); ++d) widen(compute.axis[d], tile[d]);
    for (const IterVarPtr& axis : compute.reduce_axis) {
      const auto extent = extent_of(axis);
      if (!extent) return std::nullopt;
      widen(axis, *extent);
    }
    if (!range.bounded()) return std::nullopt;
    const auto extent = as_int(analyzer.simplify(sub(range.hi, range.lo)));
    if (!extent) return std::nullopt;
    count *= *extent + 1;
  }
  return count;
}

// The tensors that are worth a copy: of which a tile's part is small, and which the reduction reads more than once.
struct Copies {
  std::vector<Tensor> panel, tile;  // for all tiles of a panel, for one
};
Copies worth_copying(const Schedule& schedule, const Compute& compute, const std::vector<Expr>& body, size_t row,
                     const TileSize& size, Machine machine) {
  constexpr int64_t kCpuBytes = 128 * 1024, kLsramBytes = 24 * 1024;
  int64_t left = machine == Machine::kCompass ? kLsramBytes : kCpuBytes;
  std::vector<int64_t> tile(compute.axis.size(), 1);
  tile.back() = size.lanes * size.vectors;
  Copies copies;
  std::vector<Tensor> seen;
  for_each_read(body, [&](const Read& read) {
    const Tensor tensor{schedule.find(read.op.get())->op, read.value_index};
    if (std::find(seen.begin(), seen.end(), tensor) != seen.end() || tensor.type().lanes != 1) return;
    seen.push_back(tensor);
    const bool by_row = row < compute.axis.size() && read_uses(read, *compute.axis[row]);
    if (by_row && machine != Machine::kCompass) return;
    std::vector<int64_t> part = tile;
    if (by_row) part[row] = size.rows;
    const auto elements = elements_needed(read, compute, part);
    const auto bytes = static_cast<int64_t>(tensor.type().bytes());
    if (!elements || *elements * bytes > left) return;
    left -= *elements * bytes;
    (by_row ? copies.tile : copies.panel).push_back(tensor);
  });
  return copies;
}

// Panels of columns in parallel, in each tile after tile, a tile's sums over the reduction axes in registers.
Result<std::set<const Stage*>> sum_by_tiles(Schedule& schedule, const StagePtr& stage, const std::vector<Expr>& body,
                                            const Bodies& bodies, Machine machine, const Knobs& knobs) {
  constexpr int64_t kWorthAPanel = 4;  // tiles that have it in common
  const Compute before = *stage->op->compute();
  const size_t at = row_axis(before, body);
  AIPU_ASSIGN_OR_RETURN(const Tiles tiles, tiles_of(schedule, stage, bodies));
  const std::vector<IterVarPtr> axes = tiles.result->op->compute()->axis;
  const bool has_rows = at < axes.size();
  const TileSize size = tile_size(axes.back(), has_rows ? axes[at] : nullptr, knobs);
  Stage& result = *tiles.result;
  std::vector<IterVarPtr> outside, order, inside;
  int64_t panels = 1;
  for (size_t d = 0; d + 1 < axes.size(); ++d) {
    if (d == at) continue;
    outside.push_back(axes[d]);
    panels *= extent_of(axes[d]).value_or(64);
  }
  AIPU_ASSIGN_OR_RETURN(const auto columns, result.split(axes.back(), make_int(size.lanes * size.vectors), nullptr));
  outside.push_back(columns.first);
  panels *= extent_of(axes.back()).value_or(1024) / (size.lanes * size.vectors);
  IterVarPtr tile;
  bool in_panels = false;
  if (has_rows) {
    AIPU_ASSIGN_OR_RETURN(const auto rows, result.split(axes[at], make_int(size.rows), nullptr));
    in_panels = panels >= knobs.panels && extent_of(axes[at]).value_or(64) / size.rows >= kWorthAPanel;
    (in_panels ? inside : outside).push_back(rows.first);
    tile = rows.first;
    inside.push_back(rows.second);
    if (in_panels) AIPU_RETURN_IF_ERROR(result.annotate(rows.second, IterKind::kUnrolled));
  }
  inside.push_back(columns.second);
  order = outside;
  order.insert(order.end(), inside.begin(), inside.end());
  AIPU_RETURN_IF_ERROR(result.reorder(order));
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr panel, result.fuse_all(outside));
  AIPU_RETURN_IF_ERROR(result.annotate(panel, IterKind::kParallelized));
  AIPU_ASSIGN_OR_RETURN(const auto written, result.split(columns.second, make_int(size.lanes), nullptr));
  AIPU_RETURN_IF_ERROR(result.annotate(written.first, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(result.annotate(written.second, IterKind::kVectorized));
  if (!in_panels) tile = panel;

  Stage& sums = *tiles.sums;
  AIPU_RETURN_IF_ERROR(sums.compute_at(tiles.result, tile));
  const Compute& compute = *sums.op->compute();
  AIPU_ASSIGN_OR_RETURN(const auto vectors, sums.split(compute.axis.back(), make_int(size.lanes), nullptr));
  std::vector<IterVarPtr> loops = compute.reduce_axis;
  if (has_rows) loops.push_back(compute.axis[at]);
  loops.insert(loops.end(), {vectors.first, vectors.second});
  AIPU_RETURN_IF_ERROR(sums.reorder(loops));
  if (has_rows) AIPU_RETURN_IF_ERROR(sums.annotate(compute.axis[at], IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(sums.annotate(vectors.first, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(sums.annotate(vectors.second, IterKind::kVectorized));
  if (in_panels || machine == Machine::kCompass) {
    const Copies copies = worth_copying(schedule, before, body, at, size, machine);
    AIPU_RETURN_IF_ERROR(
        copy_reads(schedule, tiles.sums, copies.panel, tiles.result, panel, machine, knobs.lanes));
    AIPU_RETURN_IF_ERROR(copy_reads(schedule, tiles.sums, copies.tile, tiles.result, tile, machine, knobs.lanes));
  }
  std::set<const Stage*> done = {tiles.sums.get(), tiles.result.get()};
  for (const StagePtr& other : schedule.stages) {
    if (other->attach == Attach::kAt) done.insert(other.get());
  }
  return done;
}

// The leading axes of an output that everything it needs has in common with it; 0 where there is nothing of the kind.
size_t common_rows(const Schedule& schedule, const StagePtr& out, const std::vector<StagePtr>& members,
                   const Bodies& bodies) {
  const auto is_member = [&](const Operation* op) {
    return std::any_of(members.begin(), members.end(),
                       [&](const StagePtr& m) { return m == schedule.find(op); });
  };
  size_t rows = out->op->compute()->axis.size() - 1;
  for (const auto& [stage, body] : bodies) {
    const auto& axis = stage->op->compute()->axis;
    for_each_read(body, [&](const Read& read) {
      if (!is_member(read.op.get())) return;
      size_t same = 0;
      while (same < read.indices.size() && same < axis.size() && read.indices[same] == axis[same]->var) ++same;
      rows = std::min(rows, same);
    });
  }
  return rows;
}

}  // namespace

Result<std::set<const Stage*>> schedule_rows(Schedule& schedule, Machine /*machine*/, const Knobs& knobs) {
  const std::set<const Stage*> none;
  StagePtr out;
  std::vector<StagePtr> members;
  bool reduces = false;
  const Bodies bodies = schedule.bodies();
  for (const StagePtr& stage : schedule.stages) {
    const Compute* compute = stage->op->compute();
    if (stage->op->is_placeholder() || stage->attach == Attach::kInline) continue;
    if (compute == nullptr || compute->call || stage->op->output_count() != 1) return none;
    if (stage->is_output) {
      if (out || !compute->reduce_axis.empty() || compute->axis.size() < 2) return none;
      out = stage;
    } else {
      members.push_back(stage);
      reduces = reduces || !compute->reduce_axis.empty();
    }
  }
  if (!out || !reduces) return none;
  const size_t rows = common_rows(schedule, out, members, bodies);
  if (rows == 0) return none;
  for (const StagePtr& member : members) {
    const Compute& compute = *member->op->compute();
    if (!compute.reduce_axis.empty() && compute.axis.size() > rows) return none;
  }
  const std::vector<IterVarPtr> axes = out->op->compute()->axis;
  const std::vector<IterVarPtr> outside(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(rows));
  const std::vector<IterVarPtr> inside(axes.begin() + static_cast<std::ptrdiff_t>(rows), axes.end());
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr row, out->fuse_all(outside));
  AIPU_RETURN_IF_ERROR(out->annotate(row, IterKind::kParallelized));
  const int64_t lanes = inside.size() == 1 ? lanes_for(inside.front(), knobs.lanes) : knobs.lanes;
  AIPU_RETURN_IF_ERROR(vectorize(*out, inside, lanes));
  std::set<const Stage*> done = {out.get()};
  for (const StagePtr& member : members) {
    const Compute& compute = *member->op->compute();
    done.insert(member.get());
    if (compute.reduce_axis.empty()) {
      const std::vector<IterVarPtr> own(compute.axis.begin() + static_cast<std::ptrdiff_t>(std::min(rows, compute.axis.size())), compute.axis.end());
      AIPU_RETURN_IF_ERROR(vectorize(*member, own, own.size() == 1 ? lanes_for(own.front(), knobs.lanes) : knobs.lanes));
    } else if (const IterVarPtr axis = consecutive_reduction(compute, bodies.at(member.get()))) {
      AIPU_ASSIGN_OR_RETURN(const StagePtr partial, sum_by_vectors(schedule, member, axis, knobs.lanes));
      if (partial) {
        AIPU_RETURN_IF_ERROR(partial->compute_at(out, row));
        done.insert(partial.get());
      }
    }
    AIPU_RETURN_IF_ERROR(member->compute_at(out, row));
  }
  return done;
}

Result<std::set<const Stage*>> schedule_reduction(Schedule& schedule, const StagePtr& stage, Machine machine,
                                                  const Knobs& knobs) {
  const Bodies bodies = schedule.bodies();
  const std::vector<Expr> body = bodies.at(stage.get());
  std::set<const Stage*> done = {stage.get()};
  if (const IterVarPtr axis = consecutive_reduction(*stage->op->compute(), body)) {
    AIPU_ASSIGN_OR_RETURN(const StagePtr partial, sum_by_vectors(schedule, stage, axis, knobs.lanes));
    if (partial) done.insert(partial.get());
    const std::vector<IterVarPtr> data = stage->op->compute()->axis;
    if (data.empty()) return done;
    AIPU_ASSIGN_OR_RETURN(const IterVarPtr fused, stage->fuse_all(data));
    AIPU_RETURN_IF_ERROR(stage->annotate(fused, IterKind::kParallelized));
    if (partial) AIPU_RETURN_IF_ERROR(partial->compute_at(stage, fused));
    return done;
  }
  const std::vector<IterVarPtr> data = stage->op->compute()->axis;
  if (data.empty()) return done;
  const auto last = extent_of(data.back());
  if (stage->op->output_count() == 1 && (!last || *last >= 4))
    return sum_by_tiles(schedule, stage, body, bodies, machine, knobs);
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr fused, stage->fuse_all(data));
  AIPU_RETURN_IF_ERROR(stage->annotate(fused, IterKind::kParallelized));
  return done;
}

}  // namespace aipu::te
