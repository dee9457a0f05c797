#include "kernels/te/rules_reduction.h"

#include <algorithm>
#include <span>

#include "kernels/te/arith/analyzer.h"
#include "kernels/te/rules_analysis.h"
#include "kernels/te/rules_gpu.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

// The most of `wanted`, half of it, ... down to 2 that divides an extent; 1 where it is not known.
int64_t lanes_for(const IterVarPtr& axis, int64_t wanted) {
  const auto extent = extent_of(axis);
  if (!extent) return wanted;  // with a mask
  int64_t lanes = wanted;
  while (lanes > 4 && *extent % lanes != 0) lanes /= 2;
  return *extent % lanes == 0 ? lanes : std::min(wanted, std::max<int64_t>(*extent, 1));
}

// On a CPU, of a row that vectors do not divide: longer ones that do, of registers that are nearly all full, so that no
// mask is computed. `lanes` where there are none.
int64_t long_lanes(int64_t count, int64_t lanes) {
  constexpr int64_t kMost = 256;
  constexpr double kWaste = 1.06;
  int64_t best = lanes;
  double least = kWaste / static_cast<double>(lanes);
  for (int64_t wide = lanes + lanes / 2; count % lanes != 0 && wide <= std::min(count, kMost); wide += lanes / 2) {
    const int64_t registers = (wide + lanes - 1) / lanes;
    const double per_element = static_cast<double>(registers) / static_cast<double>(wide);
    if (count % wide != 0 || per_element >= least) continue;
    least = per_element;
    best = wide;
  }
  return best;
}

// Vectors of a nest; on an NPU several at once, so that a loop's arithmetic is for more than one.
Status vectorize(Stage& stage, const std::vector<IterVarPtr>& axes, int64_t lanes, Machine machine) {
  if (axes.empty()) return {};
  int64_t count = 1;
  for (const IterVarPtr& axis : axes) count *= extent_of(axis).value_or(0);
  if (machine == Machine::kCpu) lanes = long_lanes(count, lanes);
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr fused, stage.fuse_all(axes));
  AIPU_ASSIGN_OR_RETURN(const auto parts, stage.split(fused, make_int(lanes), nullptr));
  for (const int64_t together : {4, 5, 3, 2}) {
    if (machine != Machine::kCompass || count == 0 || count % (lanes * together) != 0) continue;
    AIPU_ASSIGN_OR_RETURN(const auto groups, stage.split(parts.first, make_int(together), nullptr));
    AIPU_RETURN_IF_ERROR(stage.annotate(groups.second, IterKind::kUnrolled));
    break;
  }
  return stage.annotate(parts.second, IterKind::kVectorized);
}

// Makes the reduction over an axis one over its first `factor` elements, of which a new stage makes the sums with all
// others.
Result<StagePtr> sum_beside(Schedule& schedule, const StagePtr& stage, const IterVarPtr& axis, int64_t factor,
                            int64_t lanes, bool unrolls) {
  constexpr int64_t kMany = 16;
  AIPU_ASSIGN_OR_RETURN(const auto parts, stage->split(axis, make_int(factor), nullptr));
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.rfactor({stage->op, 0}, parts.second, -1));
  StagePtr partial = schedule.find(made.front().op.get());
  const Compute& compute = *partial->op->compute();
  AIPU_ASSIGN_OR_RETURN(const auto vectors,
                        partial->split(compute.axis.back(), make_int(std::min(lanes, factor)), nullptr));
  std::vector<IterVarPtr> order = compute.reduce_axis;
  order.insert(order.end(), {vectors.first, vectors.second});
  AIPU_RETURN_IF_ERROR(partial->reorder(order));
  for (const IterVarPtr& few : compute.reduce_axis) {  // so that what is added up is in registers
    if (unrolls && extent_of(few).value_or(kMany) < kMany)
      AIPU_RETURN_IF_ERROR(partial->annotate(few, IterKind::kUnrolled));
  }
  AIPU_RETURN_IF_ERROR(partial->annotate(vectors.first, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(partial->annotate(vectors.second, IterKind::kVectorized));
  partial->scope = "local";
  return partial;
}

// Partial sums side by side: the elements of a row as vectors, several at once so that an addition does not wait for
// the one before, then fewer and fewer. The stages that make them; none where a row is too short for it.
Result<std::vector<StagePtr>> sum_by_vectors(Schedule& schedule, const StagePtr& stage, const IterVarPtr& axis,
                                             int64_t lanes) {
  constexpr int64_t kVectors = 4, kLast = 4;
  const auto extent = extent_of(axis);
  std::vector<StagePtr> stages;
  if (stage->op->output_count() != 1 || (extent && *extent < 2 * lanes)) return stages;
  int64_t factor = lanes * kVectors;  // with a mask where it does not divide the extent, and nothing near it does
  for (const int64_t width : {lanes, lanes / 2}) {
    bool fits = !extent;
    for (int64_t f = lanes * (kVectors + 1) / width * width; extent && width > 1 && f >= lanes * 2 && !fits;
         f -= width) {
      if (*extent % f != 0) continue;
      fits = true;
      factor = f;
      lanes = width;
    }
    if (fits) break;
  }
  IterVarPtr rest = axis;
  for (const int64_t width : {factor, lanes, kLast}) {
    if (!stages.empty() && (factor <= width || factor % width != 0)) continue;
    factor = width;
    AIPU_ASSIGN_OR_RETURN(const StagePtr partial, sum_beside(schedule, stage, rest, factor, lanes, !stages.empty()));
    stages.push_back(partial);
    rest = stage->op->compute()->reduce_axis.back();
  }
  if (factor <= kLast * 2) AIPU_RETURN_IF_ERROR(stage->annotate(rest, IterKind::kUnrolled));
  return stages;
}

struct TileSize {
  int64_t lanes = 1, vectors = 1, rows = 1;
};

// Loads per multiply-add become few when a tile has many rows and many vectors in a row.
TileSize tile_size(const IterVarPtr& last, const IterVarPtr& row, const Knobs& knobs) {
  constexpr int64_t kMaxColumns = 64, kMaxRows = 8;
  const auto columns = extent_of(last), rows = row ? extent_of(row) : std::optional<int64_t>(1);
  // One long vector, of whole registers and a part of one, is better than short vectors.
  const bool in_one = columns && *columns > knobs.lanes && *columns <= kMaxColumns && *columns % knobs.lanes != 0;
  TileSize best{in_one ? *columns : lanes_for(last, knobs.lanes), 1, 1};
  const int64_t registers = in_one ? (*columns + knobs.lanes - 1) / knobs.lanes : 1;  // of a vector
  double least = 1e9;
  for (int64_t vectors = 1; vectors * best.lanes <= std::max(kMaxColumns, best.lanes); ++vectors) {
    if (vectors > 1 && (!columns || *columns % (vectors * best.lanes) != 0)) continue;  // no masks inside
    for (int64_t height = 1; height <= kMaxRows; ++height) {
      if (height > 1 && (!rows || *rows % height != 0)) continue;
      if (vectors * registers * height > knobs.sums) continue;
      // A number that all lanes multiply by comes with the multiplication.
      const auto across = static_cast<double>(vectors * registers), down = static_cast<double>(height);
      const double cost = (across + 0.4 * down) / (across * down);
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

// A compute without reductions that is no output and has one reader.
bool is_of_one(const Schedule& schedule, const Stage& producer) {
  const Compute* compute = producer.op->compute();
  if (compute == nullptr || compute->call || !compute->reduce_axis.empty() || producer.is_output) return false;
  if (producer.attach != Attach::kRoot || producer.op->output_count() != 1) return false;
  int readers = 0;
  for (const StagePtr& stage : schedule.stages) {
    const std::vector<Tensor> inputs = tensors_read(*stage->op);
    readers += std::any_of(inputs.begin(), inputs.end(),
                           [&](const Tensor& t) { return schedule.find(t.op.get()).get() == &producer; });
  }
  return readers == 1;
}

// What a reduction reads, copied to memory of its own where a loop of another stage begins: in the order in which it is
// used, and near.
Status copy_reads(Schedule& schedule, const StagePtr& reader, const std::vector<Tensor>& tensors,
                  const StagePtr& parent, const IterVarPtr& loop, Machine machine, int64_t lanes) {
  for (const Tensor& tensor : tensors) {
    const std::string scope = machine == Machine::kCompass ? "lsram" : "local";
    if (const StagePtr producer = schedule.find(tensor.op.get()); is_of_one(schedule, *producer)) {
      producer->scope = scope;  // computed there itself
      AIPU_RETURN_IF_ERROR(producer->compute_at(parent, loop));
      continue;
    }
    const std::vector<Tensor> inputs = tensors_read(*reader->op);
    const auto is_it = [&](const Tensor& t) {
      return t.value_index == tensor.value_index && schedule.find(t.op.get())->op == tensor.op;
    };
    if (std::none_of(inputs.begin(), inputs.end(), is_it)) continue;  // what is inlined reads it
    AIPU_ASSIGN_OR_RETURN(const Tensor copy, schedule.cache_read(tensor, scope, {reader->op}));
    const StagePtr stage = schedule.find(copy.op.get());
    AIPU_RETURN_IF_ERROR(stage->compute_at(parent, loop));
    if (machine == Machine::kCompass) continue;  // the copy is a transfer
    AIPU_RETURN_IF_ERROR(vectorize(*stage, {stage->op->compute()->axis.back()}, lanes, machine));
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
    AIPU_RETURN_IF_ERROR(result.annotate(rows.second, IterKind::kUnrolled));
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
  constexpr int64_t kShort = 9;  // steps of inner reduction loops, such as a kernel's
  int64_t steps = 1;
  for (size_t r = compute.reduce_axis.size(); r-- > 1;) {
    steps *= extent_of(compute.reduce_axis[r]).value_or(kShort + 1);
    if (steps > kShort) break;
    AIPU_RETURN_IF_ERROR(sums.annotate(compute.reduce_axis[r], IterKind::kUnrolled));
  }
  if (has_rows) AIPU_RETURN_IF_ERROR(sums.annotate(compute.axis[at], IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(sums.annotate(vectors.first, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(sums.annotate(vectors.second, IterKind::kVectorized));
  if (in_panels || machine == Machine::kCompass) {
    const Copies copies = worth_copying(schedule, before, body, at, size, machine);
    AIPU_RETURN_IF_ERROR(copy_reads(schedule, tiles.sums, copies.panel, tiles.result, panel, machine, knobs.lanes));
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
    return std::any_of(members.begin(), members.end(), [&](const StagePtr& m) { return m == schedule.find(op); });
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

using Rest = std::span<const IterVarPtr>;

Rest behind(const std::vector<IterVarPtr>& axes, size_t rows) {
  return Rest(axes).subspan(std::min(rows, axes.size()));
}

// What rows are made of, and what they have in common, in the memory of a TEC.
struct RowCopies {
  bool fit = false;
  std::vector<Tensor> common, of_row;
};
RowCopies row_copies(const Schedule& schedule, const StagePtr& out, const std::vector<StagePtr>& members, size_t rows,
                     const Bodies& bodies) {
  constexpr int64_t kLsramBytes = 28 * 1024;
  RowCopies copies;
  const auto own = elements_of(behind(out->op->compute()->axis, rows));
  if (!own) return copies;
  int64_t bytes = *own * static_cast<int64_t>(Tensor{out->op, 0}.type().bytes());
  bool known = true;
  for (const StagePtr& member : members) {
    const auto count = elements_of(behind(member->op->compute()->axis, rows));
    known = known && count;
    if (known) bytes += *count * static_cast<int64_t>(Tensor{member->op, 0}.type().bytes());
  }
  std::vector<Tensor> seen;
  for (const auto& [stage, body] : bodies) {
    const auto& axis = stage->op->compute()->axis;
    for_each_read(body, [&](const Read& read) {
      const Tensor tensor{schedule.find(read.op.get())->op, read.value_index};
      if (!tensor.op->is_placeholder() || std::find(seen.begin(), seen.end(), tensor) != seen.end()) return;
      seen.push_back(tensor);
      size_t same = 0;
      while (same < rows && same < read.indices.size() && same < axis.size() && read.indices[same] == axis[same]->var)
        ++same;
      if (same != rows && same != 0) return;  // part of a row's place: read where it is
      int64_t count = 1;
      for (size_t d = same; d < tensor.shape().size(); ++d) {
        const auto extent = as_int(tensor.shape()[d]);
        known = known && extent;
        count *= extent.value_or(0);
      }
      bytes += count * static_cast<int64_t>(tensor.type().bytes());
      (same == rows ? copies.of_row : copies.common).push_back(tensor);
    });
  }
  copies.fit = known && bytes <= kLsramBytes;
  return copies;
}

Status copy_to_tec(Schedule& schedule, const std::vector<Tensor>& tensors, const StagePtr& parent,
                   const IterVarPtr& loop) {
  for (const Tensor& tensor : tensors) {
    std::vector<OperationPtr> readers;
    for (const StagePtr& stage : schedule.stages) {
      const std::vector<Tensor> inputs = tensors_read(*stage->op);
      if (stage->attach != Attach::kInline && std::find(inputs.begin(), inputs.end(), tensor) != inputs.end())
        readers.push_back(stage->op);
    }
    if (readers.empty()) continue;  // of what is inlined alone
    AIPU_ASSIGN_OR_RETURN(const Tensor copy, schedule.cache_read(tensor, "lsram", readers));
    AIPU_RETURN_IF_ERROR(schedule.find(copy.op.get())->compute_at(parent, loop));
  }
  return {};
}

// Rows in parallel. On an NPU each TEC has a block of them, and its memory what they need.
Result<std::set<const Stage*>> schedule_members(Schedule& schedule, const StagePtr& out,
                                                const std::vector<StagePtr>& members, size_t rows, const Bodies& bodies,
                                                Machine machine, const Knobs& knobs) {
  const RowCopies copies =
      machine == Machine::kCompass ? row_copies(schedule, out, members, rows, bodies) : RowCopies{};
  StagePtr values = out;
  if (copies.fit) {
    AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.cache_write({{out->op, 0}}, "lsram"));
    values = schedule.find(made.front().op.get());
  }
  const std::vector<IterVarPtr> axes = out->op->compute()->axis;
  const std::vector<IterVarPtr> outside(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(rows));
  AIPU_ASSIGN_OR_RETURN(IterVarPtr row, out->fuse_all(outside));
  IterVarPtr block = row;
  if (copies.fit) {
    AIPU_ASSIGN_OR_RETURN(const auto parts, out->split(row, nullptr, make_int(knobs.blocks)));
    block = parts.first;
    row = parts.second;
  }
  AIPU_RETURN_IF_ERROR(out->annotate(block, IterKind::kParallelized));
  const auto as_vectors = [&](Stage& stage) {
    const Rest rest = behind(stage.op->compute()->axis, rows);
    return vectorize(stage, {rest.begin(), rest.end()}, knobs.lanes, machine);
  };
  AIPU_RETURN_IF_ERROR(as_vectors(*values));
  if (values != out) AIPU_RETURN_IF_ERROR(values->compute_at(out, row));
  std::set<const Stage*> done = {out.get(), values.get()};
  for (const StagePtr& member : members) {
    const Compute& compute = *member->op->compute();
    done.insert(member.get());
    if (compute.reduce_axis.empty()) {
      if (copies.fit && compute.axis.size() > rows) member->scope = "lsram";
      AIPU_RETURN_IF_ERROR(as_vectors(*member));
    } else if (const IterVarPtr axis = consecutive_reduction(compute, bodies.at(member.get()))) {
      AIPU_ASSIGN_OR_RETURN(const auto partials, sum_by_vectors(schedule, member, axis, knobs.lanes));
      for (const StagePtr& partial : partials) {
        AIPU_RETURN_IF_ERROR(partial->compute_at(out, row));
        done.insert(partial.get());
      }
    }
    AIPU_RETURN_IF_ERROR(member->compute_at(out, row));
  }
  if (copies.fit) {
    AIPU_RETURN_IF_ERROR(copy_to_tec(schedule, copies.common, out, block));
    AIPU_RETURN_IF_ERROR(copy_to_tec(schedule, copies.of_row, out, row));
    for (const StagePtr& stage : schedule.stages) {
      if (stage->attach == Attach::kAt) done.insert(stage.get());
    }
  }
  return done;
}

}  // namespace

Result<std::set<const Stage*>> schedule_rows(Schedule& schedule, Machine machine, const Knobs& knobs) {
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
    if (!compute.reduce_axis.empty() && elements_of(behind(compute.axis, rows)) != 1) return none;
  }
  if (machine == Machine::kGpu) return schedule_rows_on_gpu(schedule, out, members, rows, knobs);
  return schedule_members(schedule, out, members, rows, bodies, machine, knobs);
}

Result<std::set<const Stage*>> schedule_reduction(Schedule& schedule, const StagePtr& stage, Machine machine,
                                                  const Knobs& knobs) {
  const Bodies bodies = schedule.bodies();
  const std::vector<Expr> body = bodies.at(stage.get());
  const Compute before = *stage->op->compute();
  std::set<const Stage*> done = {stage.get()};
  if (const IterVarPtr axis = consecutive_reduction(before, body)) {
    AIPU_ASSIGN_OR_RETURN(const auto partials, sum_by_vectors(schedule, stage, axis, knobs.lanes));
    for (const StagePtr& partial : partials) done.insert(partial.get());
    const std::vector<IterVarPtr> data = stage->op->compute()->axis;
    if (data.empty()) return done;
    AIPU_ASSIGN_OR_RETURN(const IterVarPtr fused, stage->fuse_all(data));
    AIPU_RETURN_IF_ERROR(stage->annotate(fused, IterKind::kParallelized));
    for (const StagePtr& partial : partials) AIPU_RETURN_IF_ERROR(partial->compute_at(stage, fused));
    if (machine == Machine::kCompass && !partials.empty()) {
      const Copies copies = worth_copying(schedule, before, body, data.size(), {}, machine);
      AIPU_RETURN_IF_ERROR(copy_reads(schedule, partials.front(), copies.panel, stage, fused, machine, knobs.lanes));
      for (const StagePtr& other : schedule.stages) {
        if (other->attach == Attach::kAt) done.insert(other.get());
      }
    }
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
