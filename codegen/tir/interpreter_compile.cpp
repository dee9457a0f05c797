#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "codegen/intrinsics/lane_types.h"
#include "codegen/tir/interpreter_code.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

constexpr int64_t kMaxFrameBytes = int64_t{1} << 29;
// Slots with this bit are offsets in the constants, which are placed after the rest of the frame at the end.
constexpr uint32_t kConstantSlot = 0x80000000u;
constexpr int64_t kSlotAlignment = 32;

int64_t aligned(int64_t offset, int64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

class Compiler {
 public:
  Compiler(const Module& module, Meter* meter) : program_(std::make_shared<InterpreterProgram>()), meter_(meter) {
    program_->module = module;
  }

  Result<std::shared_ptr<const InterpreterProgram>> run() {
    const Module& module = program_->module;
    program_->regions.push_back({RegionPlan::Kind::kFrame, 0, 0});  // region 0: null
    on_chip_ = plan_on_chip_memory(module);
    program_->needs.lsram_bytes = on_chip_.lsram_bytes;
    program_->needs.shared_bytes = on_chip_.shared_bytes;
    const PrimFunc& entry = module.entry();
    for (size_t i = 0; i < entry.params.size(); ++i) {
      const bool is_pointer = entry.params[i]->type.pointer;
      program_->argument_regions.push_back(
          is_pointer ? add_region({RegionPlan::Kind::kArgument, static_cast<int64_t>(i), 0}) : 0);
    }
    for (const PrimFuncPtr& function : module.functions) {
      FunctionInfo& info = functions_[function->name];
      for (const VarPtr& param : function->params) info.params.push_back(slot_for(param));
      if (!function->return_type.is_void()) info.result = new_slot(function->return_type);
    }
    program_->param_slots = functions_[entry.name].params;
    for (const PrimFuncPtr& function : module.functions) {
      compile(*function);
      AIPU_RETURN_IF_ERROR(std::move(error_));
      if (too_big_)
        return out_of_range(
            fmt::format("TIR: '{}' needs more than {} bytes of private memory", entry.name, kMaxFrameBytes));
    }
    for (const auto& [instruction, name] : calls_) {
      program_->code[instruction].target = functions_[name].start;
      program_->code[instruction].number = functions_[name].work;
    }
    relocate();
    return std::shared_ptr<const InterpreterProgram>(std::move(program_));
  }

 private:
  struct FunctionInfo {
    std::vector<uint32_t> params;
    uint32_t result = 0;
    int32_t start = 0;
    int64_t work = 0;  // of its instructions, each once
  };

  // More memory or time than there may be stops the compilation, as does too large a frame.
  void take(size_t bytes) {
    if (meter_ == nullptr || too_big_) return;
    error_ = meter_->take(static_cast<int64_t>(bytes));
    if (error_.ok()) error_ = meter_->check_time_often();
    too_big_ = !error_.ok();
  }

  // ---- slots ----

  uint32_t allocate(int64_t bytes, int64_t alignment = kSlotAlignment) {
    top_ = aligned(top_, alignment);
    const int64_t offset = top_;
    top_ += bytes;
    high_ = std::max(high_, top_);
    if (high_ > kMaxFrameBytes) {
      too_big_ = true;
      top_ = 0;
      return 0;
    }
    return static_cast<uint32_t>(offset);
  }
  uint32_t new_slot(Type type) {
    return allocate(std::max<int64_t>(value_bytes(type), 1),
                    value_bytes(type) <= 8 && !type.pointer ? 8 : kSlotAlignment);
  }

  uint32_t slot_for(const VarPtr& var) {
    take(64);
    const uint32_t slot = new_slot(var->type);
    slots_[var.get()] = slot;
    return slot;
  }

  uint32_t constant(const void* data, int64_t bytes) {
    std::string key(static_cast<const char*>(data), static_cast<size_t>(bytes));
    const auto [entry, is_new] = constants_.try_emplace(std::move(key), 0);
    if (is_new) {
      take(64 + 3 * static_cast<size_t>(bytes));  // the key, and what a growing vector has to spare
      if (too_big_) return kConstantSlot;
      const int64_t offset = aligned(static_cast<int64_t>(program_->constants.size()), kSlotAlignment);
      if (offset + bytes > kMaxFrameBytes) {
        too_big_ = true;
        return kConstantSlot;
      }
      program_->constants.resize(static_cast<size_t>(offset + bytes));
      std::memcpy(program_->constants.data() + offset, data, static_cast<size_t>(bytes));
      entry->second = kConstantSlot | static_cast<uint32_t>(offset);
    }
    return entry->second;
  }
  uint32_t constant(const LaneValue& value) {
    return constant(value.bytes.data(), static_cast<int64_t>(value.bytes.size()));
  }

  uint32_t add_region(RegionPlan plan) {
    take(2 * sizeof(RegionPlan));
    program_->regions.push_back(plan);
    return static_cast<uint32_t>(program_->regions.size() - 1);
  }

  // The value of a constant expression.
  static std::optional<LaneValue> fold(const Expr& e) {
    if (const auto* imm = e->as<IntImm>()) {
      LaneValue value(e->type);
      value.set_int(0, imm->value);
      return value;
    }
    if (const auto* imm = e->as<FloatImm>()) {
      LaneValue value(e->type);
      value.set_float(0, imm->value);
      return value;
    }
    if (const auto* splat = e->as<Broadcast>()) {
      const std::optional<LaneValue> scalar = fold(splat->scalar);
      if (!scalar) return std::nullopt;
      LaneValue value(e->type);
      const size_t bytes = dtype_bytes(e->type.element);
      for (int i = 0; i < e->type.lanes; ++i)
        std::memcpy(value.bytes.data() + static_cast<size_t>(i) * bytes, scalar->bytes.data(), bytes);
      return value;
    }
    if (const auto* literal = e->as<VectorLiteral>()) {
      LaneValue value(e->type);
      const size_t bytes = dtype_bytes(e->type.element);
      for (size_t i = 0; i < literal->lanes.size(); ++i) {
        const std::optional<LaneValue> lane = fold(literal->lanes[i]);
        if (!lane) return std::nullopt;
        std::memcpy(value.bytes.data() + i * bytes, lane->bytes.data(), bytes);
      }
      return value;
    }
    return std::nullopt;
  }

  // ---- instructions ----

  // In about a nanosecond each; what depends on values is counted when running (MachineState::spend).
  static int64_t work_of(const Instruction& instruction, bool is_intrinsic) {
    if (is_intrinsic) return 50 + 8 * int64_t{instruction.site->result.lanes};
    return 2 + std::max(instruction.n, 0) / 4 + std::max<int64_t>(instruction.number, 0) / 32;
  }

  size_t emit(Instruction instruction) {
    take(2 * (sizeof(Instruction) + sizeof(void*)));
    work_ += work_of(instruction, instruction.run == ops::intrinsic());
    program_->code.push_back(instruction);
    program_->where.push_back(current_);
    return program_->code.size() - 1;
  }
  int32_t here() const { return static_cast<int32_t>(program_->code.size()); }
  void land(size_t jump) { program_->code[jump].target = here(); }

  void emit_copy(uint32_t dst, uint32_t from, int64_t bytes) {
    if (dst != from) emit({.run = ops::copy(), .dst = dst, .a = from, .number = bytes});
  }

  // The slot that holds the value of `e`: a variable's, a constant's, or a new temporary.
  uint32_t value(const Expr& e) {
    if (const auto* ref = e->as<VarRef>()) return slots_.at(ref->var.get());
    if (const std::optional<LaneValue> folded = fold(e)) return constant(*folded);
    if (const auto* address = e->as<AddressOf>()) {
      const Pointer pointer{address_regions_.at(address->var.get()), 0, 0};
      return constant(&pointer, sizeof(pointer));
    }
    const uint32_t slot = new_slot(e->type);
    into(e, slot);
    return slot;
  }

  // Computes `e` into `dst`, which may be the slot of a variable that `e` reads: it is written last.
  void into(const Expr& e, uint32_t dst) {
    const Type type = e->type;
    const auto copy_value = [&] { emit_copy(dst, value(e), value_bytes(type)); };
    match(
        e, [&](const IntImm&) { copy_value(); }, [&](const FloatImm&) { copy_value(); }, [&](const StringImm&) {},
        [&](const VarRef&) { copy_value(); }, [&](const AddressOf&) { copy_value(); },
        [&](const Unary& n) {
          const uint32_t a = value(n.operand);
          emit({.run = ops::unary_not(n.op == UnaryOp::kNot ? DType::kBool : type.element),
                .dst = dst,
                .a = a,
                .n = type.lanes});
        },
        [&](const Binary& n) { binary(n, type, dst); },
        [&](const Select& n) {
          const uint32_t condition = value(n.condition);
          const size_t to_else = emit({.run = ops::jump_if(false), .a = condition});
          into(n.if_true, dst);
          const size_t to_end = emit({.run = ops::jump()});
          land(to_else);
          into(n.if_false, dst);
          land(to_end);
        },
        [&](const Cast& n) { convert(n.operand, type, dst); },
        [&](const Broadcast& n) {
          if (fold(e)) return copy_value();
          const uint32_t a = value(n.scalar);
          emit({.run = ops::broadcast(type.element), .dst = dst, .a = a, .n = type.lanes});
        },
        [&](const VectorLiteral& n) {
          if (fold(e)) return copy_value();
          std::vector<uint32_t> lanes;
          for (const Expr& lane : n.lanes) lanes.push_back(value(lane));
          const auto bytes = static_cast<uint32_t>(dtype_bytes(type.element));
          for (uint32_t i = 0; i < lanes.size(); ++i) emit_copy(dst + i * bytes, lanes[i], bytes);
        },
        [&](const Load& n) {
          const uint32_t pointer = value(n.pointer), index = value(n.index);
          emit({.run = ops::load(type.bytes(), n.index->type.element),
                .dst = dst,
                .a = pointer,
                .b = index,
                .number = type.bytes()});
        },
        [&](const LaneRead& n) {
          const uint32_t vector = value(n.vector), index = value(n.index);
          const auto bytes = static_cast<int64_t>(dtype_bytes(type.element));
          emit({.run = ops::lane_read(bytes, n.index->type.element),
                .dst = dst,
                .a = vector,
                .b = index,
                .n = n.vector->type.lanes});
        },
        [&](const IntrinsicCall& n) { intrinsic(n, type, dst); },
        [&](const FunctionCall& n) {
          const FunctionInfo& callee = functions_.at(n.function);
          std::vector<uint32_t> args;
          for (const Expr& arg : n.args) args.push_back(value(arg));
          for (size_t i = 0; i < args.size(); ++i) emit_copy(callee.params[i], args[i], value_bytes(n.args[i]->type));
          take(sizeof(calls_.front()) + n.function.size());
          calls_.emplace_back(emit({.run = ops::call(), .n = 1}), n.function);
          if (!type.is_void()) emit_copy(dst, callee.result, value_bytes(type));
        });
  }

  void binary(const Binary& n, Type type, uint32_t dst) {
    if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) {
      const bool shortcut = n.op == BinaryOp::kOr;
      const uint32_t lhs = value(n.lhs);
      const size_t skip = emit({.run = ops::jump_if(shortcut), .a = lhs});
      into(n.rhs, dst);
      const size_t to_end = emit({.run = ops::jump()});
      land(skip);
      const uint8_t result = shortcut;
      emit_copy(dst, constant(&result, 1), 1);
      land(to_end);
      return;
    }
    const Type operands = n.lhs->type;
    const uint32_t a = value(n.lhs), b = value(n.rhs);
    if (operands.pointer) {
      if (is_comparison(n.op)) {
        emit({.run = ops::pointer_compare(n.op), .dst = dst, .a = a, .b = b});
      } else {
        emit({.run = ops::pointer_add(n.rhs->type.element, n.op == BinaryOp::kSub),
              .dst = dst,
              .a = a,
              .b = b,
              .number = operands.bytes()});
      }
      return;
    }
    const Handler handler =
        is_comparison(n.op) ? ops::compare(n.op, operands.element) : ops::binary(n.op, operands.element, type.lanes);
    emit({.run = handler, .dst = dst, .a = a, .b = b, .n = operands.lanes});
  }

  void convert(const Expr& operand, Type type, uint32_t dst) {
    const uint32_t a = value(operand);
    if (type.pointer) return emit_copy(dst, a, sizeof(Pointer));
    if (const Handler handler = ops::convert(type.element, operand->type.element)) {
      emit({.run = handler, .dst = dst, .a = a, .n = type.lanes});
      return;
    }
    static const IntrinsicCall kCast{find_intrinsic("cast"), {}, nullptr, nullptr, {}};
    auto site = std::make_unique<CallSite>();
    site->call = &kCast;
    site->result = type;
    site->operands = {{operand->type, a}};
    emit({.run = ops::intrinsic(), .dst = dst, .site = site.get()});
    program_->sites.push_back(std::move(site));
  }

  // An instruction of its own for the intrinsics that matter for speed.
  bool hot_intrinsic(const IntrinsicCall& n, Type type, uint32_t dst) {
    const std::string_view name = n.intrinsic->name;
    const auto attribute = [&](std::string_view key) { return n.attribute(key); };
    static const std::unordered_map<std::string_view, BinaryOp> kBinary = {
        {"vadd", BinaryOp::kAdd},  {"vsub", BinaryOp::kSub},    {"vmul", BinaryOp::kMul}, {"vand", BinaryOp::kBitAnd},
        {"vor", BinaryOp::kBitOr}, {"vxor", BinaryOp::kBitXor}, {"max", BinaryOp::kMax},  {"min", BinaryOp::kMin},
        {"vceq", BinaryOp::kEq},   {"vcneq", BinaryOp::kNe},    {"vcge", BinaryOp::kGe},  {"vcgt", BinaryOp::kGt},
        {"vcle", BinaryOp::kLe},   {"vclt", BinaryOp::kLt}};
    if (name == "get_local_id" || name == "get_local_size") {
      emit({.run = name == "get_local_id" ? ops::tec_id() : ops::tec_count(), .dst = dst});
      return true;
    }
    if (name == "vsel") {
      const uint32_t a = value(n.args[0]), b = value(n.args[1]), c = value(n.args[2]);
      emit({.run = ops::select_lanes(type.element), .dst = dst, .a = a, .b = b, .c = c, .n = type.lanes});
      return true;
    }
    if (n.mask) return false;
    if (const auto found = kBinary.find(name); found != kBinary.end()) {
      if (attribute("saturate") != 0 || n.args[0]->type != n.args[1]->type) return false;
      const BinaryOp op = found->second;
      if (!is_comparison(op) && type != n.args[0]->type) return false;
      binary(Binary{op, n.args[0], n.args[1]}, type, dst);
      return true;
    }
    if (name == "fma") {
      const Handler handler = ops::fma(type.element, type.lanes);
      if (handler == nullptr) return false;
      const uint32_t a = value(n.args[0]), b = value(n.args[1]), c = value(n.args[2]);
      emit({.run = handler, .dst = dst, .a = a, .b = b, .c = c, .n = type.lanes});
      return true;
    }
    if (name == "vbcast") {
      const uint32_t a = value(n.args[0]);
      emit({.run = ops::broadcast(type.element), .dst = dst, .a = a, .n = type.lanes});
      return true;
    }
    if (name == "vload" && as_int(n.args[1]) == 1) {
      const uint32_t a = value(n.args[0]);
      emit({.run = ops::vector_load(), .dst = dst, .a = a, .number = type.bytes()});
      return true;
    }
    if (name == "vstore" && as_int(n.args[2]) == 1) {
      const uint32_t stored = value(n.args[0]), pointer = value(n.args[1]);
      emit({.run = ops::vector_store(), .a = pointer, .c = stored, .number = n.args[0]->type.bytes()});
      return true;
    }
    if (name == "prefetch") {
      if (n.args[0]->as<VarRef>() == nullptr) value(n.args[0]);  // for its effects
      return true;
    }
    return false;
  }

  void intrinsic(const IntrinsicCall& n, Type type, uint32_t dst) {
    if (hot_intrinsic(n, type, dst)) return;
    take(2 * sizeof(CallSite) + n.args.size() * 3 * sizeof(std::pair<Type, uint32_t>));
    auto site = std::make_unique<CallSite>();
    site->call = &n;
    site->result = type;
    bool overlaps = false;
    const auto operand = [&](const Expr& e) {
      const uint32_t slot = e->as<StringImm>() ? 0 : value(e);
      overlaps |= slot == dst && !e->as<StringImm>();
      return slot;
    };
    for (const Expr& arg : n.args) {
      const uint32_t slot = operand(arg);
      site->operands.emplace_back(arg->type, slot);
    }
    if (n.mask) {
      site->has_mask = true;
      site->mask = operand(n.mask);
    }
    if (n.pass_through) {
      site->has_pass_through = true;
      site->pass_through_type = n.pass_through->type;
      site->pass_through = operand(n.pass_through);
    }
    const uint32_t result = overlaps && !type.is_void() ? new_slot(type) : dst;
    emit({.run = ops::intrinsic(), .dst = result, .site = site.get()});
    program_->sites.push_back(std::move(site));
    if (!type.is_void()) emit_copy(dst, result, value_bytes(type));
    if (n.intrinsic->name == "barrier") program_->needs.uses_barrier = true;
  }

  // ---- statements ----

  // What a round of a loop costs: counted from its beginning.
  struct Round {
    int32_t statements;
    int64_t work;
  };
  Round mark() const { return {statements_, work_}; }
  Round since(Round begin) const { return {std::max(statements_ - begin.statements, 1), work_ - begin.work + 1}; }

  void statement(const Stmt& stmt) {
    if (too_big_) return;
    const StmtNode* outer = current_;
    if (!stmt->as<Block>()) current_ = stmt.get();
    statements_ += stmt->as<Block>() || stmt->as<Comment>() ? 0 : 1;
    const int64_t top = top_;
    // What a statement needed is free after it, except the variable that it declares.
    const auto release = [&] { top_ = top; };
    match(
        stmt,
        [&](const Define& n) {
          const auto address = address_regions_.find(n.var.get());
          if (address == address_regions_.end()) {
            const uint32_t slot = slot_for(n.var);
            const int64_t after = top_;
            into(n.value, slot);
            top_ = after;
          } else {
            into(n.value, slots_.at(n.var.get()));
            release();
          }
        },
        [&](const Assign& n) {
          into(n.value, slots_.at(n.var.get()));
          release();
        },
        [&](const LaneWrite& n) {
          const uint32_t written = value(n.value), index = value(n.index);
          const auto bytes = static_cast<int64_t>(dtype_bytes(n.var->type.element));
          emit({.run = ops::lane_write(bytes, n.index->type.element),
                .dst = slots_.at(n.var.get()),
                .b = index,
                .c = written,
                .n = n.var->type.lanes});
          release();
        },
        [&](const Store& n) {
          const uint32_t pointer = value(n.pointer), index = value(n.index), stored = value(n.value);
          const int64_t bytes = n.value->type.bytes();
          emit({.run = ops::store(bytes, n.index->type.element),
                .a = pointer,
                .b = index,
                .c = stored,
                .number = bytes});
          release();
        },
        [&](const Alloc&) {},
        [&](const For& n) {
          for_loop(n);
          release();
        },
        [&](const While& n) {
          const int32_t begin = here();
          const Round before = mark();
          const uint32_t condition = value(n.condition);
          const size_t exit = emit({.run = ops::jump_if(false), .a = condition});
          breaks_.emplace_back();
          statement(n.body);
          const Round round = since(before);
          emit({.run = ops::loop_jump(), .n = round.statements, .target = begin, .number = round.work});
          land(exit);
          land_breaks();
          release();
        },
        [&](const If& n) {
          const uint32_t condition = value(n.condition);
          const size_t to_else = emit({.run = ops::jump_if(false), .a = condition});
          statement(n.then_body);
          if (n.else_body) {
            const size_t to_end = emit({.run = ops::jump()});
            land(to_else);
            statement(n.else_body);
            land(to_end);
          } else {
            land(to_else);
          }
          release();
        },
        [&](const Evaluate& n) {
          if (n.value->type.is_void())
            into(n.value, 0);
          else
            value(n.value);
          release();
        },
        [&](const Return& n) {
          if (n.value) into(n.value, function_->result);
          emit({.run = ops::return_()});
          release();
        },
        [&](const Break&) { breaks_.back().push_back(emit({.run = ops::jump()})); },
        [&](const Block& n) {
          for (const Stmt& child : n.body) statement(child);
          release();
        },
        [&](const Comment&) {});
    if (work_ - looked_at_ > kWorkBetweenLooks) {
      const int64_t done = work_ - looked_at_;
      looked_at_ = work_;
      emit({.run = ops::work(), .number = done});
    }
    current_ = outer;
  }

  void land_breaks() {
    for (const size_t jump : breaks_.back()) land(jump);
    breaks_.pop_back();
  }

  void for_loop(const For& n) {
    const DType element = n.var->type.element;
    const uint32_t var = address_regions_.contains(n.var.get()) ? slots_.at(n.var.get()) : slot_for(n.var);
    // The bounds are evaluated once; a variable may change in the body.
    const auto kept = [&](const Expr& bound) {
      if (!bound->as<VarRef>()) return value(bound);
      const uint32_t slot = new_slot(bound->type);
      into(bound, slot);
      return slot;
    };
    into(n.start, var);
    const uint32_t stop = kept(n.stop), step = kept(n.step);
    if (n.kind == ForKind::kTec) {
      const uint32_t id = new_slot(Type::scalar(DType::kI32));
      const uint32_t first = kept(n.start), inside = new_slot(Type::scalar(DType::kBool));
      emit({.run = ops::tec_id(), .dst = id});
      convert(make_expr(Type::scalar(DType::kI32), VarRef{tec_var(id)}), n.var->type, var);
      emit({.run = ops::compare(BinaryOp::kGe, element), .dst = inside, .a = var, .b = first, .n = 1});
      const size_t before = emit({.run = ops::jump_if(false), .a = inside});
      emit({.run = ops::compare(BinaryOp::kLt, element), .dst = inside, .a = var, .b = stop, .n = 1});
      const size_t after = emit({.run = ops::jump_if(false), .a = inside});
      statement(n.body);
      land(before);
      land(after);
      return;
    }
    const size_t enter = emit({.run = ops::loop_enter(element), .dst = var, .a = stop, .b = step});
    const int32_t body = here();
    const Round before = mark();
    breaks_.emplace_back();
    statement(n.body);
    const Round round = since(before);
    emit({.run = ops::loop_next(element),
          .dst = var,
          .a = stop,
          .b = step,
          .n = round.statements,
          .target = body,
          .number = round.work});
    land(enter);
    land_breaks();
  }

  // A nameless variable at a slot.
  VarPtr tec_var(uint32_t slot) {
    auto var = std::make_shared<Var>(Var{"tec", Type::scalar(DType::kI32)});
    slots_[var.get()] = slot;
    nameless_.push_back(var);
    return var;
  }

  void compile(const PrimFunc& function) {
    function_ = &functions_[function.name];
    function_->start = here();
    const Round before = mark();
    current_ = nullptr;
    // Variables whose address is taken and buffers have a place of their own.
    std::unordered_map<const Var*, VarPtr> addressed;
    walk(
        function.body,
        [&](const Expr& e) {
          if (const auto* address = e->as<AddressOf>()) addressed.emplace(address->var.get(), address->var);
        },
        [&](const Stmt& s) {
          if (const auto* alloc = s->as<Alloc>()) buffer(*alloc);
        });
    for (const auto& [var, pointer] : addressed) {
      const auto param = slots_.find(var);
      const uint32_t slot = param != slots_.end() ? param->second : slot_for(pointer);
      address_regions_[var] = add_region({RegionPlan::Kind::kFrame, slot, var->type.bytes()});
    }
    if (too_big_) return;
    statement(function.body);
    emit({.run = ops::return_()});
    function_->work = since(before).work;
    top_ = high_;
  }

  void buffer(const Alloc& alloc) {
    if (too_big_) return;
    const int64_t bytes = alloc.buffer->type.bytes() * alloc.count;
    RegionPlan plan{RegionPlan::Kind::kFrame, 0, bytes};
    switch (alloc.buffer->type.scope) {
      case Scope::kLsram:
        plan.kind = RegionPlan::Kind::kLsram;
        plan.offset = on_chip_.offsets.at(alloc.buffer.get());
        break;
      case Scope::kShared:
        plan.kind = RegionPlan::Kind::kShared;
        plan.offset = on_chip_.offsets.at(alloc.buffer.get());
        break;
      case Scope::kConstant:
        plan.kind = RegionPlan::Kind::kConstant;
        plan.data = alloc.data.data();
        break;
      default:
        plan.offset = allocate(bytes, 64);
        break;
    }
    const Pointer pointer{add_region(plan), 0, 0};
    slots_[alloc.buffer.get()] = constant(&pointer, sizeof(pointer));
  }

  void relocate() {
    const auto base = static_cast<uint32_t>(aligned(high_, 64));
    const auto fix = [&](uint32_t& slot) {
      if (slot & kConstantSlot) slot = base + (slot & ~kConstantSlot);
    };
    for (Instruction& in : program_->code) {
      fix(in.dst);
      fix(in.a);
      fix(in.b);
      fix(in.c);
    }
    for (const auto& site : program_->sites) {
      for (auto& [type, slot] : site->operands) fix(slot);
      fix(site->mask);
      fix(site->pass_through);
    }
    program_->frame_bytes = base + static_cast<int64_t>(program_->constants.size());
  }

  std::shared_ptr<InterpreterProgram> program_;
  OnChipMemory on_chip_;
  std::unordered_map<std::string, FunctionInfo> functions_;
  FunctionInfo* function_ = nullptr;
  const StmtNode* current_ = nullptr;
  int64_t top_ = 0, high_ = 0;
  bool too_big_ = false;
  Meter* meter_;
  Status error_;
  // Straight code of more work than this has a look at the clock in between; loops and calls have their own.
  static constexpr int64_t kWorkBetweenLooks = 1 << 20;
  int32_t statements_ = 0;
  int64_t work_ = 0, looked_at_ = 0;
  std::unordered_map<const Var*, uint32_t> slots_;
  std::unordered_map<const Var*, uint32_t> address_regions_;
  std::unordered_map<std::string, uint32_t> constants_;
  std::vector<std::pair<size_t, std::string>> calls_;
  std::vector<std::vector<size_t>> breaks_;
  std::vector<VarPtr> nameless_;
};

}  // namespace

Result<std::shared_ptr<const InterpreterProgram>> compile_for_interpreter(const Module& module, Meter* meter) {
  AIPU_RETURN_IF_ERROR(verify(module, meter));
  return Compiler(module, meter).run();
}

}  // namespace aipu::tir
