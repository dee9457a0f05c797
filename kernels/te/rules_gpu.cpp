#include "kernels/te/rules_gpu.h"

#include <algorithm>

#include "kernels/te/rules_analysis.h"
#include "kernels/te/visit.h"

namespace aipu::te {

namespace {

using Done = std::set<const Stage*>;

constexpr int64_t kWarp = 32;
constexpr int64_t kManyThreads = 64 * 1024;  // that keep a large GPU busy

// --- sums that threads of a block share ---

// The sums of `lanes` threads each, in the block's memory, and then of those. One thread per element (`own`) and, of
// the threads `across`, one per part.
struct Shares {
  IterVarPtr axis;  // the reduction that is dealt out
  size_t own = 0;   // the data axis over whose elements a block's threads go
  int64_t parts = 1, elements = 1;
  const char *part_tag = "threadIdx.x", *element_tag = "threadIdx.y";
};

Result<Done> share_sums(Schedule& schedule, const StagePtr& stage, const Shares& shares) {
  AIPU_ASSIGN_OR_RETURN(const auto dealt, stage->split(shares.axis, make_int(shares.parts), nullptr));
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.rfactor({stage->op, 0}, dealt.second, -1));
  const StagePtr partial = schedule.find(made.front().op.get());
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> cached, schedule.cache_write({{stage->op, 0}}, "local"));
  const StagePtr sums = schedule.find(cached.front().op.get());

  const std::vector<IterVarPtr> axes = stage->op->compute()->axis;
  std::vector<IterVarPtr> outside = axes;
  IterVarPtr inner;
  if (!axes.empty()) {
    AIPU_ASSIGN_OR_RETURN(const auto own, stage->split(axes[shares.own], make_int(shares.elements), nullptr));
    outside.erase(outside.begin() + static_cast<std::ptrdiff_t>(shares.own));
    outside.push_back(own.first);
    inner = own.second;
    std::vector<IterVarPtr> order = outside;
    order.push_back(inner);
    AIPU_RETURN_IF_ERROR(stage->reorder(order));
  }
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr block, stage->fuse_all(outside));
  AIPU_RETURN_IF_ERROR(bind_to(*stage, block, "blockIdx.x"));
  if (inner) AIPU_RETURN_IF_ERROR(bind_to(*stage, inner, shares.element_tag));
  AIPU_RETURN_IF_ERROR(sums->compute_at(stage, inner ? inner : block));

  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> added, schedule.cache_write({{partial->op, 0}}, "local"));
  partial->scope = "shared";
  AIPU_RETURN_IF_ERROR(partial->compute_at(stage, block));
  const std::vector<IterVarPtr> filled = partial->op->compute()->axis;
  if (inner) AIPU_RETURN_IF_ERROR(bind_to(*partial, filled[shares.own], shares.element_tag));
  AIPU_RETURN_IF_ERROR(bind_to(*partial, filled.back(), shares.part_tag));
  const StagePtr own_sums = schedule.find(added.front().op.get());
  AIPU_RETURN_IF_ERROR(own_sums->compute_at(partial, filled.back()));
  return Done{stage.get(), sums.get(), partial.get(), own_sums.get()};
}

// Rows whose elements are consecutive: a warp, or all threads of a block, for each.
Result<Done> share_rows(Schedule& schedule, const StagePtr& stage, const IterVarPtr& axis, const Knobs& knobs) {
  constexpr int64_t kSteps = 16;  // of a thread, at least, before more threads take part
  const std::vector<IterVarPtr>& data = stage->op->compute()->axis;
  Shares shares{axis};
  shares.own = data.size() - 1;
  while (shares.own > 0 && extent_of(data[shares.own]) == 1) --shares.own;
  const int64_t rows = elements_of(data).value_or(kManyThreads);
  const int64_t length = extent_of(axis).value_or(kManyThreads);
  shares.parts = std::min(kWarp, knobs.threads);
  while (shares.parts * 2 <= knobs.threads && rows * shares.parts < kManyThreads && shares.parts * kSteps < length)
    shares.parts *= 2;
  shares.elements = knobs.threads / shares.parts;
  return share_sums(schedule, stage, shares);
}

// Columns that are too few for a thread each: neighbours in a warp read neighbours, the warps of a block share them.
Result<Done> share_columns(Schedule& schedule, const StagePtr& stage, const IterVarPtr& axis) {
  constexpr int64_t kWarps = 16;
  Shares shares{axis};
  shares.own = stage->op->compute()->axis.size() - 1;
  shares.parts = kWarps;
  shares.elements = kWarp;
  std::swap(shares.part_tag, shares.element_tag);
  return share_sums(schedule, stage, shares);
}

// One number: many blocks have a part each, and another one adds up what they have.
Result<Done> share_all(Schedule& schedule, const StagePtr& stage, const Knobs& knobs) {
  constexpr int64_t kParts = 512, kLast = 16;
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr all, stage->fuse_all(stage->op->compute()->reduce_axis));
  AIPU_ASSIGN_OR_RETURN(const auto parts, stage->split(all, nullptr, make_int(kParts)));
  AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.rfactor({stage->op, 0}, parts.first, -1));
  const StagePtr partial = schedule.find(made.front().op.get());
  AIPU_ASSIGN_OR_RETURN(Done done, share_rows(schedule, partial, partial->op->compute()->reduce_axis.back(), knobs));
  Shares last{stage->op->compute()->reduce_axis.front()};
  last.parts = kLast;
  AIPU_ASSIGN_OR_RETURN(const Done rest, share_sums(schedule, stage, last));
  done.insert(rest.begin(), rest.end());
  return done;
}

// --- products ---

// What a sum of products reads for the rows and for the columns of its result; the tensors are absent where that is not
// all that it reads, or not in order.
struct Product {
  Tensor rows, columns;
  bool columns_lie_in_depth = false;  // each is consecutive
  bool is_one() const { return rows.op != nullptr && columns.op != nullptr; }
};

Product product_of(const Stage& sums, const std::vector<Expr>& body) {
  const Compute& compute = *sums.op->compute();
  Product product;
  bool others = false;
  const size_t rank = compute.axis.size();
  for_each_read(body, [&](const Read& read) {
    const bool row = read_uses(read, *compute.axis[rank - 2]), column = read_uses(read, *compute.axis[rank - 1]);
    const bool plain = std::all_of(read.indices.begin(), read.indices.end(),
                                   [](const Expr& index) { return index->as<Var>() != nullptr; });
    Tensor& place = row ? product.rows : product.columns;
    const Tensor tensor{read.op, read.value_index};
    others = others || !plain || row == column || !read_uses(read, *compute.reduce_axis.front()) ||
             (place.op != nullptr && place != tensor);
    place = tensor;
    if (column) product.columns_lie_in_depth = is_consecutive(read, *compute.reduce_axis.front());
  });
  return others || product.rows == product.columns ? Product{} : product;
}

bool is_product(const Compute& compute) {
  constexpr int64_t kLeast = 32, kMostBlocks = 65535;
  if (compute.axis.size() < 2 || compute.reduce_axis.size() != 1) return false;
  const auto batch = elements_of({compute.axis.begin(), compute.axis.end() - 2});
  const auto rows = extent_of(compute.axis[compute.axis.size() - 2]), columns = extent_of(compute.axis.back());
  const auto depth = extent_of(compute.reduce_axis.front());
  if (!batch || !rows || !columns || !depth) return false;
  return *batch <= kMostBlocks && *rows / kLeast <= kMostBlocks && std::min({*rows, *columns, *depth}) >= kLeast;
}

// A part of the result per block, whose parts of the factors lie in the block's memory, and a square of that per
// thread, in registers.
struct Squares {
  int64_t rows = 0, columns = 0, depth = 0, thread = 4;
};

// The first that divides an extent, so that nothing asks whether an element exists.
int64_t part_of(const IterVarPtr& axis, std::initializer_list<int64_t> sizes) {
  const int64_t extent = *extent_of(axis);
  const auto* fits = std::find_if(sizes.begin(), sizes.end(), [&](int64_t size) { return extent % size == 0; });
  return fits == sizes.end() ? *sizes.begin() : *fits;
}

Squares squares_of(const Compute& compute) {
  const std::initializer_list<int64_t> blocks = {64, 56, 48, 40, 32}, depths = {16, 8};
  return {part_of(compute.axis[compute.axis.size() - 2], blocks), part_of(compute.axis.back(), blocks),
          part_of(compute.reduce_axis.front(), depths)};
}

// The block's threads copy its part of a factor, neighbours what is consecutive.
Status copy_to_block(Schedule& schedule, const Tensor& factor, const Stage& reader, const StagePtr& parent,
                     const IterVarPtr& outer, const IterVarPtr& inner, const Squares& size, bool skewed) {
  AIPU_ASSIGN_OR_RETURN(const Tensor shared, schedule.cache_read(factor, "shared", {reader.op}));
  AIPU_ASSIGN_OR_RETURN(const Tensor local, schedule.cache_read(shared, "local", {reader.op}));
  AIPU_RETURN_IF_ERROR(schedule.find(local.op.get())->compute_at(parent, inner));
  const StagePtr copy = schedule.find(shared.op.get());
  AIPU_RETURN_IF_ERROR(copy->compute_at(parent, outer));
  const std::vector<IterVarPtr> axes = copy->op->compute()->axis;
  if (skewed) AIPU_RETURN_IF_ERROR(copy->storage_align(axes[axes.size() - 2], size.depth, 1));
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr all, copy->fuse_all(axes));
  AIPU_ASSIGN_OR_RETURN(const auto x, copy->split(all, make_int(size.columns / size.thread), nullptr));
  AIPU_ASSIGN_OR_RETURN(const auto y, copy->split(x.first, make_int(size.rows / size.thread), nullptr));
  AIPU_RETURN_IF_ERROR(bind_to(*copy, x.second, "threadIdx.x"));
  AIPU_RETURN_IF_ERROR(bind_to(*copy, y.second, "threadIdx.y"));
  return copy->annotate(y.first, IterKind::kUnrolled);
}

Result<Done> multiply_squares(Schedule& schedule, const Tiles& tiles, const Product& product) {
  const Squares size = squares_of(*tiles.sums->op->compute());
  Stage& result = *tiles.result;
  const std::vector<IterVarPtr> axes = result.op->compute()->axis;
  const IterVarPtr &rows = axes[axes.size() - 2], &columns = axes.back();
  AIPU_ASSIGN_OR_RETURN(const auto by, result.split(rows, make_int(size.rows), nullptr));
  AIPU_ASSIGN_OR_RETURN(const auto bx, result.split(columns, make_int(size.columns), nullptr));
  AIPU_ASSIGN_OR_RETURN(const auto ty, result.split(by.second, make_int(size.thread), nullptr));
  AIPU_ASSIGN_OR_RETURN(const auto tx, result.split(bx.second, make_int(size.thread), nullptr));
  AIPU_RETURN_IF_ERROR(result.reorder({by.first, bx.first, ty.first, tx.first, ty.second, tx.second}));
  if (axes.size() > 2) {
    AIPU_ASSIGN_OR_RETURN(const IterVarPtr batch, result.fuse_all({axes.begin(), axes.end() - 2}));
    AIPU_RETURN_IF_ERROR(bind_to(result, batch, "blockIdx.z"));
  }
  AIPU_RETURN_IF_ERROR(bind_to(result, by.first, "blockIdx.y"));
  AIPU_RETURN_IF_ERROR(bind_to(result, bx.first, "blockIdx.x"));
  AIPU_RETURN_IF_ERROR(bind_to(result, ty.first, "threadIdx.y"));
  AIPU_RETURN_IF_ERROR(bind_to(result, tx.first, "threadIdx.x"));

  const StagePtr& sums = tiles.sums;
  AIPU_RETURN_IF_ERROR(sums->compute_at(tiles.result, tx.first));
  const Compute compute = *sums->op->compute();
  const IterVarPtr row = compute.axis[compute.axis.size() - 2], column = compute.axis.back();
  AIPU_ASSIGN_OR_RETURN(const auto k, sums->split(compute.reduce_axis.front(), make_int(size.depth), nullptr));
  AIPU_RETURN_IF_ERROR(sums->reorder({k.first, k.second, row, column}));
  for (const IterVarPtr& axis : {k.second, row, column})
    AIPU_RETURN_IF_ERROR(sums->annotate(axis, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(copy_to_block(schedule, product.rows, *sums, sums, k.first, k.second, size, false));
  // Columns that lie one after the other are read side by side: at distances that are not in the same bank.
  AIPU_RETURN_IF_ERROR(
      copy_to_block(schedule, product.columns, *sums, sums, k.first, k.second, size, product.columns_lie_in_depth));
  Done done = {tiles.result.get(), sums.get()};
  for (const StagePtr& other : schedule.stages) {
    if (other->attach == Attach::kAt) done.insert(other.get());
  }
  return done;
}

// --- several sums per thread ---

// A data axis other than the last one over which something that is read stays the same, while other reads move.
size_t axis_of_sums(const Compute& compute, const std::vector<Expr>& body) {
  for (size_t d = compute.axis.size() - 1; d-- > 0;) {
    bool stays = false, moves = false;
    for_each_read(body, [&](const Read& read) {
      const bool uses_it = read_uses(read, *compute.axis[d]);
      stays = stays || (!uses_it && read_uses(read, *compute.axis.back()));
      moves = moves || (uses_it && !read_uses(read, *compute.axis.back()));
    });
    if (stays && moves) return d;
  }
  return compute.axis.size();
}

Result<Done> several_sums(const Tiles& tiles, size_t at, int64_t count, const Knobs& knobs) {
  Stage& result = *tiles.result;
  const std::vector<IterVarPtr> axes = result.op->compute()->axis;
  AIPU_ASSIGN_OR_RETURN(const auto rows, result.split(axes[at], make_int(count), nullptr));
  std::vector<IterVarPtr> outside = axes;
  outside[at] = rows.first;
  std::vector<IterVarPtr> order = outside;
  order.push_back(rows.second);
  AIPU_RETURN_IF_ERROR(result.reorder(order));
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr all, result.fuse_all(outside));
  AIPU_ASSIGN_OR_RETURN(const auto threads, result.split(all, make_int(knobs.threads), nullptr));
  AIPU_RETURN_IF_ERROR(bind_to(result, threads.first, "blockIdx.x"));
  AIPU_RETURN_IF_ERROR(bind_to(result, threads.second, "threadIdx.x"));
  AIPU_RETURN_IF_ERROR(result.annotate(rows.second, IterKind::kUnrolled));
  AIPU_RETURN_IF_ERROR(tiles.sums->compute_at(tiles.result, threads.second));
  const Compute& compute = *tiles.sums->op->compute();
  std::vector<IterVarPtr> inside = compute.reduce_axis;
  inside.push_back(compute.axis[at]);
  AIPU_RETURN_IF_ERROR(tiles.sums->reorder(inside));
  AIPU_RETURN_IF_ERROR(tiles.sums->annotate(compute.axis[at], IterKind::kUnrolled));
  return Done{tiles.result.get(), tiles.sums.get()};
}

int64_t sums_of_a_thread(const Compute& compute, size_t at) {
  const auto all = elements_of(compute.axis), extent = extent_of(compute.axis[at]);
  int64_t count = 8;
  while (count > 1 && (!all || *all / count < kManyThreads || *extent % count != 0)) count /= 2;
  return count;
}

// --- rows ---

// The threads of a block, to elements of a row one after the other.
Status deal_out(Stage& stage, const std::vector<IterVarPtr>& axes, int64_t threads) {
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr all, stage.fuse_all(axes));
  AIPU_ASSIGN_OR_RETURN(const auto dealt, stage.split(all, make_int(threads), nullptr));
  return bind_to(stage, dealt.second, "threadIdx.x");
}

std::vector<IterVarPtr> in_row(const Stage& stage, size_t rows) {
  const std::vector<IterVarPtr>& axes = stage.op->compute()->axis;
  return {axes.begin() + static_cast<std::ptrdiff_t>(std::min(rows, axes.size())), axes.end()};
}

// The bytes that members keep in a block's memory; absent where one is not known, or a row is short.
std::optional<int64_t> bytes_of_row(const std::vector<StagePtr>& members, size_t rows, int64_t threads) {
  int64_t bytes = 0;
  for (const StagePtr& member : members) {
    const Compute& compute = *member->op->compute();
    const auto elements = elements_of(in_row(*member, rows)), length = elements_of(compute.reduce_axis);
    const bool reduces = !compute.reduce_axis.empty();
    if (!elements || !length || compute.reduce_axis.size() > 1 || (reduces && *length < threads)) return std::nullopt;
    bytes += (reduces ? threads + kWarp : *elements) * static_cast<int64_t>(compute.body.front()->type.bytes());
  }
  return bytes;
}

// Adds up a row: each thread some elements, fewer threads what those have, one the rest.
Result<Done> sum_in_block(Schedule& schedule, const StagePtr& member, const StagePtr& out, const IterVarPtr& block,
                          int64_t threads) {
  constexpr int64_t kFew = 16;
  Done done = {member.get()};
  for (const int64_t parts : {threads, kFew}) {
    AIPU_ASSIGN_OR_RETURN(const auto dealt,
                          member->split(member->op->compute()->reduce_axis.back(), make_int(parts), nullptr));
    AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> made, schedule.rfactor({member->op, 0}, dealt.second, -1));
    const StagePtr partial = schedule.find(made.front().op.get());
    AIPU_ASSIGN_OR_RETURN(const std::vector<Tensor> added, schedule.cache_write({{partial->op, 0}}, "local"));
    const StagePtr own = schedule.find(added.front().op.get());
    const IterVarPtr part = partial->op->compute()->axis.back();
    partial->scope = "shared";
    AIPU_RETURN_IF_ERROR(partial->compute_at(out, block));
    AIPU_RETURN_IF_ERROR(bind_to(*partial, part, "threadIdx.x"));
    AIPU_RETURN_IF_ERROR(own->compute_at(partial, part));
    done.insert({partial.get(), own.get()});
  }
  return done;
}

// The outermost reduction axis that is worth to be dealt out; null: none.
IterVarPtr long_axis(const Compute& compute) {
  constexpr int64_t kLong = 64;
  for (const IterVarPtr& axis : compute.reduce_axis) {
    if (extent_of(axis).value_or(kLong) >= kLong) return axis;
  }
  return nullptr;
}

}  // namespace

Status bind_to(Stage& stage, const IterVarPtr& axis, const char* tag) {
  return stage.bind(axis, std::make_shared<IterVar>(IterVar{make_var(tag), std::nullopt, IterKind::kThreadIndex, tag}));
}

Result<Done> schedule_rows_on_gpu(Schedule& schedule, const StagePtr& out, const std::vector<StagePtr>& members,
                                  size_t rows, const Knobs& knobs) {
  constexpr int64_t kMostBytes = 40 * 1024;
  const auto bytes = bytes_of_row(members, rows, knobs.threads);
  if (!bytes || *bytes > kMostBytes) return Done{};
  const std::vector<IterVarPtr> axes = out->op->compute()->axis;
  AIPU_RETURN_IF_ERROR(deal_out(*out, in_row(*out, rows), knobs.threads));
  AIPU_ASSIGN_OR_RETURN(const IterVarPtr block,
                        out->fuse_all({axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(rows)}));
  AIPU_RETURN_IF_ERROR(bind_to(*out, block, "blockIdx.x"));
  Done done = {out.get()};
  for (const StagePtr& member : members) {
    if (member->op->compute()->reduce_axis.empty()) {
      AIPU_RETURN_IF_ERROR(deal_out(*member, in_row(*member, rows), knobs.threads));
      done.insert(member.get());
    } else {
      AIPU_ASSIGN_OR_RETURN(const Done sums, sum_in_block(schedule, member, out, block, knobs.threads));
      done.insert(sums.begin(), sums.end());
    }
    member->scope = "shared";
    AIPU_RETURN_IF_ERROR(member->compute_at(out, block));
  }
  return done;
}

Result<Done> schedule_reduction_on_gpu(Schedule& schedule, const StagePtr& stage, const Knobs& knobs) {
  const Compute compute = *stage->op->compute();
  if (stage->op->output_count() != 1) return Done{};
  if (compute.axis.empty()) {
    constexpr int64_t kMany = 2048;
    if (elements_of(compute.reduce_axis).value_or(kMany) < kMany) return Done{};
    return share_all(schedule, stage, knobs);
  }
  const Bodies bodies = schedule.bodies();
  const std::vector<Expr> body = bodies.at(stage.get());
  if (is_product(compute)) {
    if (const Product product = product_of(*stage, body); product.is_one()) {
      AIPU_ASSIGN_OR_RETURN(const Tiles tiles, tiles_of(schedule, stage, bodies));
      return multiply_squares(schedule, tiles, product);
    }
  }
  if (const size_t at = axis_of_sums(compute, body); at < compute.axis.size()) {
    if (const int64_t count = sums_of_a_thread(compute, at); count > 1) {
      AIPU_ASSIGN_OR_RETURN(const Tiles tiles, tiles_of(schedule, stage, bodies));
      return several_sums(tiles, at, count, knobs);
    }
  }
  const IterVarPtr consecutive = consecutive_reduction(compute, body);
  if (consecutive && extent_of(consecutive).value_or(kWarp) >= kWarp)
    return share_rows(schedule, stage, consecutive, knobs);
  const IterVarPtr far = long_axis(compute);
  if (!consecutive && far && elements_of(compute.axis).value_or(0) < kManyThreads * 4 &&
      extent_of(compute.axis.back()).value_or(kWarp) >= kWarp)
    return share_columns(schedule, stage, far);
  return Done{};
}

}  // namespace aipu::te
