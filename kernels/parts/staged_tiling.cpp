#include "kernels/parts/staged_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "kernels/parts/rounding.h"
#include "kernels/parts/staging.h"

namespace aipu::kernels {
namespace {

using graph::Dim;

constexpr int kBuffers = kStagedProductBuffers;
// Of 32 bits: the language's dot products are of multiples of that many.
constexpr int kLeastLanes = 8;
constexpr int64_t kSumBytes = 4;
// Start and scale.
constexpr int64_t kColumnConstants = 2;
// Of an operand of the epilogue that is the same for all results, and of a column of another one; as in the template.
constexpr int64_t kScalarBytes = 64, kColumnBytes = 8;
constexpr int64_t kMostPixels = 128;
// Of rows of pixels whose number is known when running.
constexpr int64_t kOpenPixels = 48;
// Buffers begin at multiples of it.
constexpr int64_t kBufferBytes = 64;
// Cycles around the inner loop: of a chunk, of a register tile, of its results' vector of columns, of a vector of them.
constexpr double kChunkTurn = 80, kTileTurn = 3, kVectorTurn = 8, kResult = 11;
// Counters and addresses of a step, beside one address per access.
constexpr double kStepTurn = 4;
// Of the call for tiles that are alike.
constexpr double kRunTurn = 20;
// Further numbers of blocks that are tried after the least one that fits.
constexpr int kMoreBlocks = 4;

double number(int64_t n) { return static_cast<double>(n); }

class Tiling {
 public:
  Tiling(const tir::Target& target, const SpatialGeometry& geometry, const ProductShape& shape)
      : target_(target), costs_(target.costs.value_or(tir::CostFigures())), axis_(geometry.axes[2]), shape_(shape) {
    element_bytes_ = static_cast<int64_t>(dtype_bytes(shape.element));
    result_bytes_ = static_cast<int64_t>(dtype_bytes(shape.result));
    plan_.lanes = std::max(target.lanes(32), kLeastLanes);
    plan_.depth = plan_.lanes * kSumBytes / element_bytes_;
    plan_.lines = geometry.axes[0].kernel * geometry.axes[1].kernel;
    plan_.pool_bytes = target.lsram_bytes();
    width_ = axis_.out.constant();
    rows_ = (geometry.batch * geometry.axes[0].out * geometry.axes[1].out).constant();
    const SpatialAxis &plane = geometry.axes[0], &line = geometry.axes[1];
    line_stride_ = line.stride;
    line_kernel_ = line.kernel;
    has_lines_ = plane.kernel == 1 && line.dilation == 1;
    if (plane.kernel == 1 && line.dilation == 1) height_out_ = line.out.constant().value_or(0);
    if (width_) width_ = std::max<int64_t>(*width_, 1);
    const int64_t reached = (width_.value_or(1) - 1) * axis_.stride + (axis_.kernel - 1) * axis_.dilation + 1;
    has_further_columns_ = !width_ || axis_.in != Dim(reached);
    if (width_) inner_end_ = reached - shape_.right;
  }

  std::optional<StagedProduct> best() {
    for (const int64_t taps : std::set<int64_t>{1, axis_.kernel}) {
      // Taps are part of the depth where their columns of pixels follow each other.
      if (taps == 1 && axis_.kernel > 1 && axis_.dilation > 1) continue;
      for (int64_t columns = 1; columns <= plan_.lanes; columns *= 2) {
        plan_.taps = taps;
        plan_.columns = columns;
        plan_.stride = taps == 1 ? 1 : axis_.stride;
        plan_.dilation = taps == 1 ? 1 : axis_.dilation;
        plan_.run = taps == 1 ? plan_.lines * axis_.kernel : plan_.lines;
        height_ = 0;
        while (registers(height_ + 1) <= target_.vector_registers && height_ < kMostPixels) ++height_;
        // What is so far from a tile's first column would count as the next row's.
        while (height_ > 0 && (height_ - 1) * plan_.stride + (taps - 1) * plan_.dilation >= InnerColumns::kNoEnd)
          --height_;
        if (height_ == 0) continue;
        for (const int64_t pixels : segments()) {
          plan_.pixels = pixels;
          for (const int64_t rows : rows_of_units()) {
            plan_.rows = rows;
            plan_.unit_lines = rows == 1 ? plan_.lines : (rows - 1) * line_stride_ + line_kernel_;
            cut_unit();
            choose_blocks();
          }
        }
      }
    }
    if (best_cycles_ < 0) return std::nullopt;
    best_.text = fmt::format(
        "segments of {} pixels x {} rows x {} columns, register tiles of {} pixels x {} columns x {} taps, {} blocks "
        "of {} "
        "channels, weights in {} parts, {} of {} bytes of {}; a part computes {:.0f} cycles, moves {:.0f}",
        best_.pixels, best_.rows, best_.panel(), best_.heights.front(), best_.columns, best_.taps, best_.blocks,
        best_.block, best_.parts, bytes_of(best_), target_.lsram_bytes(), target_.memory(tir::Reach::kTec)->name,
        compute_, transfer_);
    return best_;
  }

 private:
  // What a step of a register tile reads and multiplies: columns of pixels, and pairs of a pixel and a tap.
  struct Reach {
    int64_t columns = 0, pairs = 0;
  };
  Reach reach(int64_t height, int64_t split, const InnerColumns& inner) const {
    std::set<int64_t> columns;
    Reach found;
    const int64_t own = split == 0 ? height : split;
    for (int64_t i = 0; i < own; ++i) {
      for (int64_t tap = 0; tap < plan_.taps; ++tap) {
        const int64_t column = i * plan_.stride + tap * plan_.dilation;
        if (column < inner.left || column >= inner.end) continue;
        columns.insert(column);
        ++found.pairs;
      }
    }
    found.columns = static_cast<int64_t>(columns.size());
    if (split > 0) {
      const Reach next = reach(height - split, 0, plan_.inner);
      found = {found.columns + next.columns, found.pairs + next.pairs};
    }
    return found;
  }
  // The sums, a vector of what is not held, and of weights and the pixels under a tap what is less.
  int64_t registers(int64_t height) const {
    return height * plan_.columns + std::min(plan_.taps * plan_.columns, height) + 1;
  }
  int64_t tiles() const { return plan_.lanes / plan_.columns; }

  // Numbers of pixels that cut a row into equal segments.
  std::vector<int64_t> segments() const {
    if (!width_) return {kOpenPixels, kOpenPixels / 2, kOpenPixels / 4, kOpenPixels / 8};
    constexpr int64_t kLong = 256, kStep = 8;
    std::vector<int64_t> sizes;
    for (int64_t size = std::min(*width_, kMostPixels); size >= 1;
         size -= *width_ > kLong && size > kStep ? kStep : 1) {
      const int64_t equal = ceil_of(*width_, ceil_of(*width_, size));
      if (sizes.empty() || sizes.back() != equal) sizes.push_back(equal);
    }
    return sizes;
  }

  // Rows of results that a unit may have: all units have as many, and segments are equal.
  std::vector<int64_t> rows_of_units() const {
    std::vector<int64_t> counts = {1};
    const bool shares = plan_.taps > 1 && width_ && *width_ % plan_.pixels == 0;
    for (int64_t rows = 2; shares && rows <= height_out_ && rows * plan_.pixels <= kMostPixels; ++rows)
      if (height_out_ % rows == 0) counts.push_back(rows);
    return counts;
  }

  // The columns under a tile that begins in column `first` of a segment.
  InnerColumns columns_from(int64_t first, int64_t pixels) const {
    InnerColumns inner;
    if (plan_.taps == 1) return inner;
    // Of several segments the first one begins with the image, the last one ends with it.
    inner.left = std::max<int64_t>(0, shape_.left - first * plan_.stride);
    const int64_t begin = (*width_ - plan_.pixels + first) * plan_.stride;
    const int64_t end = inner_end_ - begin;
    const int64_t reached = (pixels - 1) * plan_.stride + (plan_.taps - 1) * plan_.dilation + 1;
    if (end < reached) inner.end = end;
    if (!plan_.is_row && inner.left > 0) inner.end = InnerColumns::kNoEnd;
    return inner;
  }

  // The tiles of a unit's pixels, where all units are alike.
  void cut_unit() {
    plan_.runs.clear();
    plan_.is_row = width_ && *width_ == plan_.pixels;
    plan_.inner = {};
    if (!width_ || *width_ % plan_.pixels != 0) return;
    if (plan_.is_row && plan_.taps > 1) plan_.inner = {shape_.left, inner_end_};
    // The pixels of all rows follow each other, or each row has its own tiles.
    const int64_t pixels = plan_.pixels * plan_.rows;
    std::vector<PixelRun> of_unit, of_rows;
    add_runs(0, pixels, &of_unit);
    for (int64_t row = 0; row < plan_.rows; ++row) add_runs(row * plan_.pixels, plan_.pixels, &of_rows);
    plan_.runs = step_cycles(of_unit) < step_cycles(of_rows) ? std::move(of_unit) : std::move(of_rows);
  }

  void add_runs(int64_t first, int64_t count, std::vector<PixelRun>* runs) const {
    const int64_t high = std::min(height_, plan_.pixels);
    const int64_t end = first + count, tiles = ceil_of(count, high), low = count / tiles;
    for (int64_t higher = count - low * tiles; first < end; --higher) {
      const int64_t height = low + (higher > 0 ? 1 : 0), column = first % plan_.pixels;
      const int64_t left = plan_.pixels - column;
      PixelRun run{height, left < height ? left : 0, 1, first, {}, false, false};
      run.inner = columns_from(column, run.split == 0 ? height : run.split);
      const int64_t row = first / plan_.pixels, last_row = row + (run.split == 0 ? 0 : 1);
      run.top = last_row * line_stride_ < shape_.top;
      run.bottom = (plan_.rows - 1 - row) * line_stride_ < shape_.bottom;
      PixelRun* before = runs->empty() ? nullptr : &runs->back();
      if (column != 0 && before != nullptr && before->height == height && before->split == 0 && run.split == 0 &&
          before->inner.are_all() && run.inner.are_all()) {
        ++before->count;
      } else {
        runs->push_back(run);
      }
      first += height;
    }
  }

  // Cycles of a step of a tile of all columns.
  double step_cycles(const std::vector<PixelRun>& runs) const {
    double cycles = 0;
    for (const PixelRun& run : runs) cycles += number(run.count) * step_cycles(run);
    return cycles;
  }
  double step_cycles(const PixelRun& run) const {
    const double edge = step_cycles(reach(run.height, run.split, run.inner));
    if (plan_.is_row || run.inner.are_all()) return edge;
    // One of the segments has it.
    const double segments = number(*width_ / plan_.pixels);
    return (edge + (segments - 1) * step_cycles(reach(run.height, run.split, {}))) / segments;
  }
  double step_cycles(const Reach& read) const {
    const auto loads = number(plan_.taps * plan_.columns + read.columns);
    return std::max(number(read.pairs * plan_.columns), loads + kStepTurn) + loads * costs_.local_access;
  }

  // Heights of the tiles that `pixels` are cut into.
  std::vector<std::pair<int64_t, int64_t>> cut(int64_t pixels) const {
    const int64_t count = ceil_of(pixels, height_), low = pixels / count, higher = pixels - low * count;
    std::vector<std::pair<int64_t, int64_t>> parts;
    if (higher > 0) parts.emplace_back(low + 1, higher);
    if (higher < count) parts.emplace_back(low, count - higher);
    return parts;
  }
  int64_t last_segment() const { return width_ ? *width_ - (ceil_of(*width_, plan_.pixels) - 1) * plan_.pixels : 1; }

  void choose_blocks() {
    int fitting = 0;
    int64_t last = 0;
    for (int64_t count = 1; count <= shape_.group_in && fitting < kMoreBlocks; ++count) {
      int64_t block = ceil_of(shape_.group_in, count);
      if (block > plan_.depth) block = rounded_up(block, plan_.depth);
      if (block == last) continue;
      last = block;
      plan_.block = block;
      plan_.blocks = ceil_of(shape_.group_in, block);
      bool fits = false;
      const int64_t most = ceil_of(shape_.group_out, plan_.lanes);
      for (const int64_t vectors : {1, 2, 3, 4, 6, 8, 12, 16}) {
        if (vectors > most) break;
        plan_.vectors = vectors;
        const int64_t tiles_of_panel = vectors * tiles();
        for (int64_t parts = 1; parts <= (plan_.blocks == 1 ? 1 : tiles_of_panel); parts *= 2) {
          if (tiles_of_panel % parts != 0) break;
          plan_.parts = parts;
          fits = consider() || fits;
        }
      }
      if (fits) ++fitting;
    }
  }

  int64_t bytes_of(const StagedProduct& plan) const {
    return (kBuffers * plan.x_capacity + plan.w_buffers * plan.w_capacity) * element_bytes_ +
           plan.sum_capacity * kSumBytes + plan.out_buffers * plan.out_capacity * (result_bytes_ + shape_.extra_bytes) +
           rounded_up(kColumnConstants * plan.panel() * kSumBytes, kBufferBytes) +
           shape_.column_extras * kColumnBytes * plan.panel() + shape_.scalar_extras * kScalarBytes;
  }

  // Cycles of `count` register tiles, of one part of a block.
  double compute_tiles(const PixelRun& run) const {
    const int64_t height = run.height, count = run.count;
    const double local = costs_.local_access, pair = is_floating(shape_.element) ? 3 : 1;
    const double steps =
        number(ceil_of(shape_.group_in * plan_.run, plan_.depth)) / number(plan_.blocks) * share_of_lines(run);
    const double tiles_of_part = number(plan_.vectors * tiles()) / number(plan_.parts);
    const double columns = number(plan_.columns);
    const double h = number(height);
    // Of float16 the first turn takes one instruction.
    const double first_turn = shape_.element == DType::kF16 ? (pair - 1) * columns / 2 : 0;
    const double folded = plan_.columns == 1 ? 0 : h * ((columns - 1) * pair - first_turn);
    const double tile = steps * step_cycles(run) + folded + kTileTurn;
    const double folds = h * (number(tiles() - 1) * pair + kResult) + kVectorTurn;
    const double vectors = number(plan_.vectors);
    if (plan_.blocks == 1) {
      // All tiles but the last one wait, in memory if there are not enough registers.
      const bool is_held = registers(height) + height * (tiles() - 1) <= target_.vector_registers;
      const double waiting = is_held ? 0 : h * 2 * local * number(tiles() - 1);
      return number(count) * (tiles_of_part * tile + vectors * (waiting + folds));
    }
    const double stored = vectors * (h * number(tiles()) * local + folds) / number(plan_.blocks * plan_.parts);
    return number(count) * (tiles_of_part * (tile + h * (1 + 2 * local)) + stored);
  }

  // Whether lines of pixels are apart: they are whole vectors of each block.
  bool lines_apart() const {
    constexpr int64_t kMostSteps = 65536;  // so many that the template finds their line without a division
    const int64_t rest = shape_.group_in - (plan_.blocks - 1) * plan_.block, steps = plan_.block / plan_.depth;
    return has_lines_ && plan_.unit_lines > 1 && plan_.taps > 1 && !plan_.runs.empty() &&
           plan_.block % plan_.depth == 0 && rest % plan_.depth == 0 && plan_.lines * steps * steps < kMostSteps;
  }
  // Whether lines of the border are left out.
  bool skips_lines() const { return shape_.top + shape_.bottom > 0 && lines_apart(); }
  // Transfers of a block's pixels for a unit, and their rows.
  int64_t copies_of_pixels() const {
    const bool all = shape_.groups == 1 && plan_.blocks == 1;
    return lines_apart() && (all || (plan_.is_row && !has_further_columns_)) ? 1 : plan_.unit_lines;
  }
  int64_t rows_of_pixels(int64_t span) const {
    return lines_apart() && shape_.groups == 1 && plan_.blocks == 1 ? plan_.unit_lines : plan_.unit_lines * span;
  }

  // Of the lines of the windows, those that a run takes, all units together.
  double share_of_lines(const PixelRun& run) const {
    if (!skips_lines() || height_out_ == 0) return 1;
    const double units = number(height_out_ / plan_.rows);
    // A border may have more lines than a window.
    const int64_t above = run.top ? std::min(shape_.top, plan_.lines) : 0,
                  below = run.bottom ? std::min(shape_.bottom, plan_.lines) : 0;
    return std::max(0.0, 1 - number(above + below) / number(plan_.lines) / units);
  }

  // Of one part of a block for a unit, whose segments have that many pixels.
  double compute(int64_t pixels) const {
    double cycles = 0;
    if (!plan_.runs.empty()) {
      for (const PixelRun& run : plan_.runs) cycles += kRunTurn + compute_tiles(run);
    } else {
      for (const auto& [height, count] : cut(pixels)) {
        PixelRun run;
        run.height = height;
        run.count = count;
        cycles += kRunTurn + compute_tiles(run);
      }
    }
    const double of_unit = number(plan_.blocks * plan_.parts);
    const double copies = 1 + number(copies_of_pixels()) / number(plan_.parts) + copies_of_results() / of_unit;
    return cycles + kChunkTurn + costs_.commands.dma_setup * copies;
  }

  // Of a unit, results and what the epilogue reads beside them.
  double copies_of_results() const {
    const double rows = width_ && plan_.pixels == *width_ ? 1 : number(plan_.rows);
    return rows * (shape_.extra_bytes > 0 ? 2 : 1);
  }

  bool consider() {
    // Weights that stay for all units of a panel are waited for when the next panel begins, if they have one buffer.
    plan_.w_buffers = kBuffers;
    // The results of a unit of several steps have left when the next one's are there.
    plan_.out_buffers = plan_.blocks == 1 ? kBuffers : 1;
    bool fits = consider_buffers();
    if (plan_.blocks == 1) {
      plan_.w_buffers = 1;
      fits = consider_buffers() || fits;
    }
    return fits;
  }

  bool consider_buffers() {
    const int64_t whole = kBufferBytes / element_bytes_;
    const int64_t span = (plan_.pixels - 1) * axis_.stride + (axis_.kernel - 1) * axis_.dilation + 1;
    const int64_t x = span * plan_.unit_lines * plan_.block;
    const int64_t steps = ceil_of(plan_.block * plan_.run, plan_.depth);
    const int64_t w = steps * plan_.vectors * tiles() / plan_.parts * plan_.taps * plan_.columns * plan_.depth;
    // A vector may be read that begins in x, unless lines are whole vectors.
    plan_.x_capacity = rounded_up(x + (lines_apart() ? 0 : plan_.depth), whole);
    plan_.w_capacity = rounded_up(w, whole);
    const int64_t sums =
        plan_.blocks == 1 ? height_ * (tiles() - 1) : plan_.rows * plan_.pixels * plan_.vectors * tiles();
    const int64_t results = plan_.rows * plan_.pixels * plan_.panel();
    plan_.sum_capacity = rounded_up(sums * plan_.lanes, kBufferBytes / kSumBytes);
    plan_.out_capacity = rounded_up(results, kBufferBytes);
    if (bytes_of(plan_) > target_.lsram_bytes()) return false;

    const npu_timing::Figures& figures = costs_.commands;
    const double parts = number(plan_.parts), steps_of_unit = parts * number(plan_.blocks);
    // Weights of a whole panel come once.
    const int64_t panels = ceil_of(shape_.group_out, plan_.panel());
    const double tecs = std::max(1, target_.all_tecs());
    double panels_of_unit = 1, panels_of_tec = 1;
    if (plan_.blocks == 1 && width_ && rows_) {
      const double units = number(std::max<int64_t>(*rows_ / plan_.rows, 1) * ceil_of(*width_, plan_.pixels));
      panels_of_tec = std::max(1.0, number(panels * shape_.groups) / tecs);
      panels_of_unit = std::min(1.0, panels_of_tec / std::max(1.0, units * number(panels * shape_.groups) / tecs));
    }
    const double bytes = number(element_bytes_) * (number(x) / parts + number(w) * panels_of_unit) +
                         number((result_bytes_ + shape_.extra_bytes) * results) / steps_of_unit;
    const double copies = number(copies_of_pixels()) / parts + 1 + copies_of_results() / steps_of_unit;
    const double rows = number(rows_of_pixels(span)) / parts + 1 + number(plan_.rows * plan_.pixels) / steps_of_unit;
    const double transfer =
        std::max(figures.transfer_cycles(copies, rows, bytes), bytes * tecs / figures.global_bytes_per_cycle);
    const double full = compute(plan_.pixels);
    double cycles = std::max(full, transfer) / number(plan_.pixels);
    double imbalance = 1;
    if (width_) {
      const int64_t segments = ceil_of(*width_, plan_.pixels);
      cycles = number(segments - 1) * std::max(full, transfer) + std::max(compute(last_segment()), transfer);
      if (rows_) {
        const int64_t units = std::max<int64_t>(*rows_ / plan_.rows, 1) * segments * panels * shape_.groups;
        imbalance = number(rounded_up(units, std::max(1, target_.all_tecs()))) / number(units);
      }
    }
    // Of a row of results, as units have different numbers of them.
    cycles *= number(panels * plan_.blocks * plan_.parts) * imbalance / number(plan_.rows);
    if (plan_.w_buffers == 1 && rows_) {
      const double stall = figures.transfer_cycles(1, 1, number(element_bytes_ * w));
      cycles += stall * panels_of_tec * tecs / number(std::max<int64_t>(*rows_, 1));
    }
    if (best_cycles_ >= 0 && cycles >= best_cycles_) return true;
    best_cycles_ = cycles;
    compute_ = full;
    transfer_ = transfer;
    best_ = plan_;
    best_.lines_apart = lines_apart();
    best_.skips_lines = skips_lines();
    const int64_t rest = shape_.group_in - (plan_.blocks - 1) * plan_.block;
    best_.masked = is_floating(shape_.element) &&
                   (plan_.block * plan_.run % plan_.depth != 0 || rest * plan_.run % plan_.depth != 0);
    std::set<int64_t, std::greater<>> heights;
    if (!plan_.runs.empty()) {
      for (const PixelRun& run : plan_.runs) heights.insert(run.height);
    } else if (width_) {
      for (const int64_t pixels : {plan_.pixels, last_segment()})
        for (const auto& [height, count] : cut(pixels)) heights.insert(height);
    } else {
      for (int64_t height = std::min(height_, plan_.pixels); height >= 1; --height) heights.insert(height);
    }
    best_.heights.assign(heights.begin(), heights.end());
    return true;
  }

  const tir::Target& target_;
  tir::CostFigures costs_;
  const SpatialAxis& axis_;
  ProductShape shape_;
  StagedProduct plan_, best_;
  int64_t element_bytes_ = 1, result_bytes_ = 1, height_ = 1;
  // Along the height of images; results only where the windows of several rows may lie side by side.
  int64_t line_stride_ = 1, line_kernel_ = 1, height_out_ = 0;
  bool has_further_columns_ = true;  // than a row's windows reach
  bool has_lines_ = false;           // windows are planes whose lines follow each other
  int64_t inner_end_ = 0;            // of the columns of pixels under a row of results, where their border begins
  std::optional<int64_t> width_, rows_;
  double best_cycles_ = -1, compute_ = 0, transfer_ = 0;
};

}  // namespace

bool has_staged_products(const tir::Target& target, DType element) {
  if (!has_staging(target)) return false;
  switch (element) {
    case DType::kI8:
    case DType::kU8:
      return target.dot_products == tir::DotProducts::kAll;
    case DType::kF16:
      return target.f16_dot_products;
    default:
      return element == DType::kF32;
  }
}

Status describe_epilogue(const SetupContext& context, const AnchorArithmetic& arithmetic, ProductShape* shape) {
  const graph::Graph& graph = context.graph();
  shape->result = graph.type(stored_value(context)).dtype;
  AIPU_ASSIGN_OR_RETURN(const std::vector<graph::ValueId> operands, epilogue_operands(context, arithmetic));
  for (const graph::ValueId value : operands) {
    const std::string_view mode = operand_mode(graph.type(value).shape, graph.type(context.anchor().outputs[0]).shape);
    if (mode == "full") shape->extra_bytes += static_cast<int64_t>(dtype_bytes(graph.type(value).dtype));
    shape->column_extras += mode == "column" ? 1 : 0;
    shape->scalar_extras += mode == "scalar" ? 1 : 0;
  }
  return {};
}

namespace {

// Pixels of the border behind the image that windows reach, if they are known.
std::optional<int64_t> reached_border(const SpatialAxis& axis) {
  const auto last =
      ((axis.out - 1) * Dim(axis.stride) + (axis.kernel - 1) * axis.dilation + 1 - axis.pad_begin - axis.in).constant();
  return last ? std::optional(std::max<int64_t>(0, *last)) : std::nullopt;
}

}  // namespace

void trim_border(SpatialGeometry* geometry) {
  for (SpatialAxis& axis : geometry->axes)
    if (const auto reached = reached_border(axis)) axis.pad_end = *reached;
}

void describe_border(const SpatialGeometry& padded, ProductShape* shape) {
  const SpatialAxis &plane = padded.axes[0], &line = padded.axes[1], &column = padded.axes[2];
  if (plane.kernel > 1 || has_padding({padded.batch, padded.channels, padded.out_channels, {plane, {}, {}}})) return;
  shape->top = line.pad_begin.constant_or(0);
  shape->bottom = reached_border(line).value_or(0);
  shape->left = column.pad_begin.constant_or(0);
  shape->right = reached_border(column).value_or(0);
}

std::optional<StagedProduct> plan_staged_product(const tir::Target& target, const SpatialGeometry& geometry,
                                                 const ProductShape& shape) {
  if (!has_staged_products(target, shape.element) || has_padding(geometry)) return std::nullopt;
  if (shape.group_in < 1 || shape.group_out < 1) return std::nullopt;
  return Tiling(target, geometry, shape).best();
}

}  // namespace aipu::kernels
