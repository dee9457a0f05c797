#include "codegen/timing/timing_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

double& at(CycleCounts& counts, CycleClass c) { return counts[static_cast<size_t>(c)]; }
double at(const CycleCounts& counts, CycleClass c) { return counts[static_cast<size_t>(c)]; }

bool is_local(Scope scope) { return scope == Scope::kLsram || scope == Scope::kPrivate || scope == Scope::kShared; }

void add_access(const CostFigures& costs, Scope scope, double accesses, CycleCounts* counts) {
  const double each = scope == Scope::kShared ? costs.shared_access
                      : is_local(scope)       ? costs.local_access
                                              : costs.global_access;
  at(*counts, is_local(scope) ? CycleClass::kLocalMemory : CycleClass::kGlobalMemory) += each * accesses;
}

// Whether the lanes of an access follow each other: it has a stride, which is 1.
bool is_contiguous(const IntrinsicCall& call) {
  const Expr* stride = operand_of(call, "stride");
  return stride != nullptr && as_int(*stride).value_or(0) == 1;
}

void add_intrinsic(const CostFigures& costs, const IntrinsicCall& call, const Type& type, CycleCounts* counts) {
  bool vector = type.is_vector();
  int lanes = type.is_vector() ? type.lanes : 1;
  for (const Expr& arg : call.args) {
    if (arg == nullptr || !arg->type.is_vector()) continue;
    vector = true;
    lanes = std::max(lanes, static_cast<int>(arg->type.lanes));
  }
  const CycleClass unit = vector ? CycleClass::kVector : CycleClass::kScalar;
  const auto pointer =
      std::find_if(call.args.begin(), call.args.end(), [](const Expr& a) { return a != nullptr && a->type.pointer; });
  switch (call.intrinsic->cost) {
    case CostClass::kArithmetic:
      at(*counts, unit) += 1;
      break;
    case CostClass::kDivide:
      at(*counts, unit) += vector ? costs.vector_divide : costs.scalar_divide;
      break;
    case CostClass::kTranscendental:
      at(*counts, CycleClass::kMath) += costs.math;
      break;
    case CostClass::kReduction:
      at(*counts, CycleClass::kVector) += costs.reduction;
      break;
    case CostClass::kMatrix:
      at(*counts, CycleClass::kVector) += costs.matrix;
      break;
    case CostClass::kMemory:
      add_access(costs, pointer != call.args.end() ? (*pointer)->type.scope : Scope::kGlobal, 1, counts);
      if (!is_contiguous(call)) at(*counts, CycleClass::kVector) += lanes;
      break;
    case CostClass::kTransfer:
      at(*counts, CycleClass::kDma) += costs.commands.dma_setup;
      break;
    case CostClass::kBarrier:
      at(*counts, CycleClass::kSync) += costs.barrier;
      break;
    case CostClass::kEvent:
      at(*counts, CycleClass::kSync) += costs.event;
      break;
    case CostClass::kPrint:
      at(*counts, CycleClass::kControl) += costs.print;
      break;
    case CostClass::kFree:
      break;
  }
}

// The cycles of evaluating an expression once, all operands included.
void add_expression(const CostFigures& costs, const Expr& root, CycleCounts* counts) {
  if (root == nullptr) return;
  walk(root, [&](const Expr& e) {
    const CycleClass unit = e->type.is_vector() ? CycleClass::kVector : CycleClass::kScalar;
    if (const auto* b = e->as<Binary>()) {
      const bool divides = b->op == BinaryOp::kDiv || b->op == BinaryOp::kMod;
      const bool vector = b->lhs->type.is_vector();
      at(*counts, vector ? CycleClass::kVector : CycleClass::kScalar) += !divides ? 1
                                                                         : vector ? costs.vector_divide
                                                                                  : costs.scalar_divide;
    } else if (e->as<Unary>() != nullptr || e->as<Broadcast>() != nullptr) {
      at(*counts, unit) += 1;
    } else if (e->as<Cast>() != nullptr) {
      if (!e->type.pointer) at(*counts, unit) += 1;
    } else if (e->as<Select>() != nullptr) {
      at(*counts, CycleClass::kControl) += costs.branch;
    } else if (const auto* literal = e->as<VectorLiteral>()) {
      at(*counts, CycleClass::kVector) += static_cast<double>(literal->lanes.size());
    } else if (const auto* load = e->as<Load>()) {
      add_access(costs, load->pointer->type.scope, 1, counts);
    } else if (e->as<LaneRead>() != nullptr) {
      at(*counts, CycleClass::kVector) += costs.lane_access;
    } else if (e->as<FunctionCall>() != nullptr) {
      at(*counts, CycleClass::kControl) += costs.call;
    } else if (const auto* call = e->as<IntrinsicCall>()) {
      add_intrinsic(costs, *call, e->type, counts);
    }
  });
}

// Whether control can leave a statement for a place behind the following one.
bool may_leave(const Stmt& stmt) {
  bool leaves = stmt->as<Return>() != nullptr || stmt->as<Break>() != nullptr;
  for_each_child(
      stmt, [](const Expr&) {},
      [&](const Stmt& child) {
        if (child != nullptr) leaves = leaves || may_leave(child);
      });
  return leaves;
}

double overlapped(const CycleCounts& c) {
  const double scalar = at(c, CycleClass::kScalar) + at(c, CycleClass::kControl);
  const double vector = at(c, CycleClass::kVector) + at(c, CycleClass::kMath);
  return std::max(scalar, vector) + at(c, CycleClass::kLocalMemory) + at(c, CycleClass::kGlobalMemory) +
         at(c, CycleClass::kDma) + at(c, CycleClass::kSync);
}

CycleCounts cycles_of(const InstrumentedKernel::Block& block) {
  CycleCounts whole = {};
  for (const InstrumentedKernel::Piece& piece : block.pieces) {
    for (size_t c = 0; c < kCycleClasses; ++c) whole[c] += piece.cycles[c];
  }
  return whole;
}

// The first counters of a kernel with asynchronous copies, in ticks: when its code and its DMA engine are done with
// what they have got so far, and the last transfer of each event.
constexpr int kClock = 0, kEngine = 1, kEvents = 2, kMostEvents = 4, kTimelineCounters = kEvents + kMostEvents;
constexpr int kTicks = 16;        // of a cycle
constexpr int kByteScale = 1024;  // ticks per byte are a ratio of integers
int64_t in_ticks(double cycles) { return std::llround(cycles * kTicks); }

// The rows that take events wait for them; a transfer takes the one that it sets.
bool waits_for_events(const IntrinsicCall& call) {
  return call.intrinsic->cost == CostClass::kEvent && !call.intrinsic->params.empty() &&
         call.intrinsic->params.front().name == "events";
}

// A call that the order of code and transfers in time depends on.
bool is_timed(const Expr& expr) {
  const auto* call = expr->as<IntrinsicCall>();
  return expr->as<FunctionCall>() != nullptr ||
         (call != nullptr && (call->intrinsic->cost == CostClass::kTransfer ||
                              call->intrinsic->cost == CostClass::kBarrier || waits_for_events(*call)));
}

bool takes_time(const Stmt& stmt) {
  bool found = false;
  walk(
      stmt, [&](const Expr& e) { found = found || is_timed(e); }, [](const Stmt&) {});
  return found;
}

bool has_asynchronous(const Module& module) {
  bool found = false;
  const auto visit = [&](const Expr& e) {
    const auto* call = e->as<IntrinsicCall>();
    found =
        found || (call != nullptr && call->intrinsic->cost == CostClass::kTransfer && call->intrinsic->asynchronous);
  };
  for (const PrimFuncPtr& function : module.functions) walk(function->body, visit, [](const Stmt&) {});
  return found;
}

class Instrumenter {
 public:
  explicit Instrumenter(const CostFigures& costs) { kernel_.costs = costs; }
  InstrumentedKernel run(const Module& lowered) {
    if (has_asynchronous(lowered)) {
      kernel_.timeline = true;
      kernel_.counter_count = kTimelineCounters;
    }
    for (size_t f = 0; f < lowered.functions.size(); ++f) {
      const PrimFunc& function = *lowered.functions[f];
      auto result = std::make_shared<PrimFunc>(function);
      auto parameter = std::make_shared<Var>();
      parameter->name = "counters";
      parameter->type = Type::pointer_to(DType::kI64, 1, Scope::kGlobal);
      result->params.push_back(parameter);
      counters_ = parameter;
      if (f == 0) {
        // counters + tec * count: the count is known at the end, so its expression is put in place then.
        auto own = std::make_shared<Var>();
        own->name = "tec_counters";
        own->type = parameter->type;
        counters_ = own;
        entry_base_ = parameter;
      }
      Stmt body = rewrite_body(function.body, 0);
      result->body = std::move(body);
      kernel_.module.functions.push_back(std::move(result));
      if (f == 0) entry_counters_ = counters_;
    }
    finish_entry();
    if (kernel_.timeline) put_block_costs();
    return std::move(kernel_);
  }

 private:
  const CostFigures& costs() const { return kernel_.costs; }
  uint32_t line_of(const SourceSpan& span) {
    const auto key = std::make_pair(span.file == nullptr ? std::string() : *span.file, span.line);
    const auto [it, is_new] = line_index_.try_emplace(key, static_cast<uint32_t>(kernel_.lines.size()));
    if (is_new) kernel_.lines.push_back({span.file, span.line});
    return it->second;
  }

  // counters[index] += amount
  Stmt count(int64_t index, const Expr& amount) const {
    const Expr base = var_ref(counters_);
    const Expr position = int_imm(index);
    return make_stmt(Store{base, position, binary(BinaryOp::kAdd, load(base, position), amount)});
  }

  // A new block, whose counting goes to `out`.
  size_t open_block(std::vector<Stmt>* out) {
    kernel_.blocks.push_back({kernel_.counter_count, {}});
    out->push_back(count(kernel_.counter_count, int_imm(1, DType::kI64)));
    ++kernel_.counter_count;
    if (kernel_.timeline) {
      // What it costs is known once all its pieces are: put_block_costs().
      auto cost = std::make_shared<Var>();
      cost->name = "block_cost";
      cost->type = Type::scalar(DType::kI64);
      block_costs_.push_back(cost);
      out->push_back(count(kClock, var_ref(cost)));
    }
    return kernel_.blocks.size() - 1;
  }

  void put_block_costs() {
    class Replacer : public Mutator {
     public:
      std::map<const Var*, int64_t> values;
      using Mutator::mutate;
      Expr mutate(const Expr& expr) override {
        const auto* ref = expr->as<VarRef>();
        const auto found = ref == nullptr ? values.end() : values.find(ref->var.get());
        return found == values.end() ? mutate_children(expr) : int_imm(found->second, DType::kI64);
      }
    } replacer;
    for (size_t b = 0; b < kernel_.blocks.size(); ++b)
      replacer.values[block_costs_[b].get()] = in_ticks(overlapped(cycles_of(kernel_.blocks[b])));
    for (PrimFuncPtr& function : kernel_.module.functions) {
      auto copy = std::make_shared<PrimFunc>(*function);
      copy->body = replacer.mutate(copy->body);
      function = std::move(copy);
    }
  }

  // counters[a] = max(counters[a], counters[b])
  static Stmt raise(const Expr& base, const Expr& a, const Expr& b) {
    return make_stmt(Store{base, a, binary(BinaryOp::kMax, load(base, a), load(base, b))});
  }
  static Expr event_clock(const Expr& event) {
    return binary(BinaryOp::kAdd, int_imm(kEvents), binary(BinaryOp::kBitAnd, event, int_imm(kMostEvents - 1)));
  }

  // What a transfer or a wait does to the clocks of the TEC's code and of its DMA engine, which takes one transfer
  // after the other.
  void keep_time(const IntrinsicCall& call, std::vector<Stmt>* out) {
    const Expr base = var_ref(counters_), clock = int_imm(kClock), engine = int_imm(kEngine);
    if (call.intrinsic->cost == CostClass::kTransfer) {
      const auto [bytes, rows] = extent_of(call);
      const npu_timing::Figures& figures = costs().commands;
      const int64_t ratio = std::llround(kTicks * kByteScale / figures.dma_bytes_per_cycle);
      Expr cycles = binary(BinaryOp::kDiv, binary(BinaryOp::kMul, bytes, int_imm(ratio, DType::kI64)),
                           int_imm(kByteScale, DType::kI64));
      cycles =
          binary(BinaryOp::kAdd, cycles, binary(BinaryOp::kMul, rows, int_imm(in_ticks(figures.dma_row), DType::kI64)));
      cycles = binary(BinaryOp::kAdd, cycles, int_imm(in_ticks(figures.dma_latency), DType::kI64));
      out->push_back(raise(base, engine, clock));
      out->push_back(count(kEngine, cycles));
      if (call.intrinsic->asynchronous) {
        out->push_back(raise(base, event_clock(*operand_of(call, "event")), engine));
      } else {
        out->push_back(raise(base, clock, engine));
      }
    } else if (call.intrinsic->cost == CostClass::kBarrier) {
      out->push_back(raise(base, clock, engine));
    } else if (waits_for_events(call)) {
      for (const Expr& event : call.args) {
        if (event != nullptr) out->push_back(raise(base, clock, event_clock(event)));
      }
    }
  }

  void charge(size_t block, const SourceSpan& span, const CycleCounts& cycles) {
    if (std::all_of(cycles.begin(), cycles.end(), [](double c) { return c == 0; })) return;
    kernel_.blocks[block].pieces.push_back({line_of(span), cycles});
  }

  static CycleCounts control(double cycles) {
    CycleCounts counts = {};
    at(counts, CycleClass::kControl) = cycles;
    return counts;
  }

  // A body with a counter of its own. `overhead`: control cycles each time it runs, at `span`.
  Stmt rewrite_body(const Stmt& body, double overhead, const Expr& condition = nullptr, const SourceSpan& span = {}) {
    std::vector<Stmt> statements;
    size_t current = open_block(&statements);
    CycleCounts extra = control(overhead);
    add_expression(costs(), condition, &extra);
    charge(current, span, extra);
    append(body, &current, &statements);
    return block(std::move(statements));
  }

  // Statements in order; blocks that are mere scopes stay scopes.
  void append(const Stmt& stmt, size_t* current, std::vector<Stmt>* out) {
    if (const auto* scope = stmt->as<Block>()) {
      for (size_t i = 0; i < scope->body.size(); ++i) {
        const Stmt& inner = scope->body[i];
        if (inner->as<Block>() != nullptr) {
          std::vector<Stmt> nested;
          append(inner, current, &nested);
          out->push_back(block(std::move(nested)));
        } else {
          append(inner, current, out);
        }
        if (i + 1 < scope->body.size() && (may_leave(inner) || (kernel_.timeline && takes_time(inner))))
          *current = open_block(out);
      }
      return;
    }
    CycleCounts cycles = {};
    if (const auto* loop = stmt->as<For>()) {
      for (const Expr& bound : {loop->start, loop->stop, loop->step}) add_expression(costs(), bound, &cycles);
      at(cycles, CycleClass::kControl) += costs().branch;
      charge(*current, stmt->span, cycles);
      For copy = *loop;
      for (Expr* bound : {&copy.start, &copy.stop, &copy.step}) *bound = rewrite_calls(*bound);
      copy.body = rewrite_body(loop->body, costs().loop_step, nullptr, stmt->span);
      out->push_back(make_stmt(std::move(copy), stmt->span));
      return;
    }
    if (const auto* loop = stmt->as<While>()) {
      add_expression(costs(), loop->condition, &cycles);
      at(cycles, CycleClass::kControl) += costs().branch;
      charge(*current, stmt->span, cycles);
      While copy = *loop;
      copy.condition = rewrite_calls(loop->condition);
      copy.body = rewrite_body(loop->body, costs().branch, loop->condition, stmt->span);
      out->push_back(make_stmt(std::move(copy), stmt->span));
      return;
    }
    if (const auto* choice = stmt->as<If>()) {
      add_expression(costs(), choice->condition, &cycles);
      at(cycles, CycleClass::kControl) += costs().branch;
      charge(*current, stmt->span, cycles);
      If copy = *choice;
      copy.condition = rewrite_calls(choice->condition);
      copy.then_body = rewrite_body(choice->then_body, 0);
      if (choice->else_body != nullptr) copy.else_body = rewrite_body(choice->else_body, 0);
      out->push_back(make_stmt(std::move(copy), stmt->span));
      return;
    }
    for_each_child(
        stmt, [&](const Expr& e) { add_expression(costs(), e, &cycles); }, [](const Stmt&) {});
    if (const auto* store = stmt->as<Store>()) add_access(costs(), store->pointer->type.scope, 1, &cycles);
    if (stmt->as<LaneWrite>() != nullptr) at(cycles, CycleClass::kVector) += costs().lane_access;
    charge(*current, stmt->span, cycles);
    if (const auto* evaluate = stmt->as<Evaluate>()) {
      if (const auto* call = evaluate->value->as<IntrinsicCall>(); call != nullptr) {
        if (call->intrinsic->cost == CostClass::kTransfer) count_transfer(*call, stmt->span, out);
        if (kernel_.timeline) keep_time(*call, out);
      }
    }
    out->push_back(CallRewriter(*this).mutate(stmt));
  }

  // Bytes and rows that a transfer moves.
  static std::pair<Expr, Expr> extent_of(const IntrinsicCall& call) {
    // What has no source fills memory, and counts scalars.
    const Type pointee = call.args[0]->type.pointee();
    const bool fills = operand_of(call, "src") == nullptr;
    const int64_t element = std::max<int64_t>(1, (fills ? pointee.with_lanes(1) : pointee).bytes());
    // What is absent counts as 1.
    Expr bytes = int_imm(element, DType::kI64), rows = int_imm(1, DType::kI64);
    for (const IntrinsicParam& param : call.intrinsic->params) {
      const Expr* value = operand_of(call, param.name);
      if (param.extent == TransferExtent::kNone || value == nullptr || !(*value)->type.is_scalar()) continue;
      const Expr count = cast(Type::scalar(DType::kI64), *value);
      bytes = binary(BinaryOp::kMul, bytes, count);
      if (param.extent == TransferExtent::kRow) rows = binary(BinaryOp::kMul, rows, count);
    }
    return {bytes, rows};
  }

  void count_transfer(const IntrinsicCall& call, const SourceSpan& span, std::vector<Stmt>* out) {
    const Intrinsic& row = *call.intrinsic;
    kernel_.transfers.push_back({kernel_.counter_count, line_of(span), std::string(row.name), row.asynchronous});
    const int64_t first = kernel_.counter_count;
    kernel_.counter_count += 3;
    const auto [bytes, rows] = extent_of(call);
    out->push_back(count(first, int_imm(1, DType::kI64)));
    out->push_back(count(first + 1, bytes));
    out->push_back(count(first + 2, rows));
  }

  // Passes the counters on to sub-functions.
  class CallRewriter : public Mutator {
   public:
    explicit CallRewriter(const Instrumenter& owner) : owner_(owner) {}
    using Mutator::mutate;
    Expr mutate(const Expr& expr) override {
      Expr inner = mutate_children(expr);
      const auto* call = inner->as<FunctionCall>();
      if (call == nullptr) return inner;
      FunctionCall with = *call;
      with.args.push_back(var_ref(owner_.counters_));
      return make_expr(inner->type, std::move(with), inner->span);
    }

   private:
    const Instrumenter& owner_;
  };
  Expr rewrite_calls(const Expr& expr) { return expr == nullptr ? expr : CallRewriter(*this).mutate(expr); }

  void finish_entry() {
    auto entry = std::make_shared<PrimFunc>(*kernel_.module.functions.front());
    auto id = intrinsic_call("get_local_id", {});
    const Expr offset = binary(BinaryOp::kMul, std::move(id).value(), int_imm(kernel_.counter_count));
    const Stmt define = make_stmt(Define{entry_counters_, binary(BinaryOp::kAdd, var_ref(entry_base_), offset)});
    entry->body = block({define, entry->body});
    kernel_.module.functions.front() = std::move(entry);
  }

  InstrumentedKernel kernel_;
  std::vector<VarPtr> block_costs_;  // placeholders, per block
  VarPtr counters_, entry_base_, entry_counters_;
  std::map<std::pair<std::string, int>, uint32_t> line_index_;
};

}  // namespace

std::string_view cycle_class_name(CycleClass c) {
  static constexpr std::string_view kNames[kCycleClasses] = {"scalar",       "vector",        "math", "control",
                                                             "local memory", "global memory", "DMA",  "sync"};
  return kNames[static_cast<size_t>(c)];
}

double CycleEstimate::LineCost::total() const {
  double sum = 0;
  for (const double c : classes) sum += c;
  return sum;
}

Result<InstrumentedKernel> instrument(const Module& lowered, const CostFigures& costs) {
  if (lowered.functions.empty()) return invalid_argument("there is no kernel to instrument");
  Instrumenter instrumenter(costs);
  InstrumentedKernel kernel = instrumenter.run(lowered);
  AIPU_RETURN_IF_ERROR(verify(kernel.module));
  return kernel;
}

CycleEstimate estimate(const InstrumentedKernel& kernel, std::span<const int64_t> counters) {
  const npu_timing::Figures& figures = kernel.costs.commands;
  CycleEstimate result;
  const size_t count = static_cast<size_t>(kernel.counter_count);
  std::vector<CycleCounts> lines(kernel.lines.size(), CycleCounts{});
  int64_t all_bytes = 0;
  for (const InstrumentedKernel::Transfer& t : kernel.transfers)
    result.transfers.push_back({t.name, kernel.lines[t.line].line, t.asynchronous, 0, 0, 0});
  for (size_t tec = 0; count > 0 && (tec + 1) * count <= counters.size(); ++tec) {
    const auto own = counters.subspan(tec * count, count);
    CycleEstimate::Tec row;
    double code = 0;
    for (const InstrumentedKernel::Block& block : kernel.blocks) {
      const double runs = static_cast<double>(own[static_cast<size_t>(block.counter)]);
      const CycleCounts whole = cycles_of(block);
      for (const InstrumentedKernel::Piece& piece : block.pieces) {
        for (size_t c = 0; c < kCycleClasses; ++c) lines[piece.line][c] += runs * piece.cycles[c];
      }
      for (size_t c = 0; c < kCycleClasses; ++c) row.classes[c] += runs * whole[c];
      code += runs * overlapped(whole);
    }
    for (size_t k = 0; k < kernel.transfers.size(); ++k) {
      const InstrumentedKernel::Transfer& t = kernel.transfers[k];
      const int64_t runs = own[static_cast<size_t>(t.first_counter)];
      const int64_t bytes = own[static_cast<size_t>(t.first_counter) + 1];
      const int64_t rows = own[static_cast<size_t>(t.first_counter) + 2];
      const double cycles =
          figures.transfer_cycles(static_cast<double>(runs), static_cast<double>(rows), static_cast<double>(bytes));
      (t.asynchronous ? row.async_cycles : row.dma_cycles) += cycles;
      if (!t.asynchronous) at(lines[t.line], CycleClass::kDma) += cycles;
      row.dma_bytes += bytes;
      result.transfers[k].runs += runs;
      result.transfers[k].bytes += bytes;
      result.transfers[k].cycles += cycles;
    }
    row.code_cycles = code;
    row.cycles = figures.launch + code + row.dma_cycles;
    if (kernel.timeline)
      row.cycles = figures.launch + static_cast<double>(std::max(own[kClock], own[kEngine])) / kTicks;
    all_bytes += row.dma_bytes;
    result.compute_cycles = std::max(result.compute_cycles, row.code_cycles);
    result.dma_cycles = std::max(result.dma_cycles, row.dma_cycles + row.async_cycles);
    result.cycles = std::max(result.cycles, row.cycles);
    result.tecs.push_back(row);
  }
  const double shared_dma = static_cast<double>(all_bytes) / figures.global_bytes_per_cycle;
  const double shared = figures.launch + shared_dma;
  result.dma_cycles = std::max(result.dma_cycles, shared_dma);
  result.bandwidth_bound = shared > result.cycles;
  result.cycles = std::max(result.cycles, shared);
  for (size_t i = 0; i < lines.size(); ++i) {
    CycleEstimate::LineCost cost{kernel.lines[i].file == nullptr ? "" : *kernel.lines[i].file, kernel.lines[i].line,
                                 lines[i]};
    if (cost.total() > 0) result.lines.push_back(std::move(cost));
  }
  std::sort(result.lines.begin(), result.lines.end(),
            [](const auto& a, const auto& b) { return std::tie(a.file, a.line) < std::tie(b.file, b.line); });
  return result;
}

}  // namespace aipu::tir
