#include "codegen/lower/split_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/vector_chunks.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

using Chunks = std::vector<Expr>;

Expr index64(int64_t value) { return int_imm(value, DType::kI64); }

Expr zero_of(Type type) {
  Expr zero = is_floating(type.element) ? float_imm(0, type.element) : int_imm(0, type.element);
  return broadcast(std::move(zero), type.lanes);
}

// Reads memory or calls functions: not to be moved behind a store, or done twice.
bool depends_on_memory(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& child) {
    const auto* call = child->as<IntrinsicCall>();
    found |= child->as<Load>() || child->as<FunctionCall>() || (call != nullptr && !call->intrinsic->pure);
  });
  return found;
}

bool mentions(const Expr& e, const std::unordered_set<const Var*>& vars) {
  bool found = false;
  walk(e, [&](const Expr& child) {
    const auto* ref = child->as<VarRef>();
    found |= ref != nullptr && vars.contains(ref->var.get());
  });
  return found;
}

// Rewrites one function. Statements are appended to out_ as they come out; what an expression needs before it (temporaries, loops' conditions) goes there too.
class Splitter {
 public:
  Splitter(const Module& module, const ChunkPlan& plan, Status& error) : module_(module), plan_(plan), error_(error) {}

  PrimFuncPtr run(const PrimFunc& function) {
    find_addressed(function);
    auto result = std::make_shared<PrimFunc>(function);
    result->params.clear();
    std::vector<Stmt> body;
    out_ = &body;
    for (const VarPtr& param : function.params) add_param(*result, param);
    // A result that is several registers is stored where the caller says.
    if (plan_.is_split(function.return_type)) {
      result_pointer_ = new_var("result", memory_pointer(function.return_type));
      result->params.push_back(result_pointer_);
      result->return_type = Type::void_type();
    } else {
      result->return_type = lower_type(function.return_type);
    }
    statements(function.body, body);
    result->body = block(std::move(body));
    return result;
  }

 private:
  void fail(const Expr& at, std::string_view message) {
    if (!error_.ok()) return;
    std::string where;
    if (at && at->span.file) where = fmt::format("{}:{}: ", *at->span.file, at->span.line);
    error_ = unsupported(fmt::format("{}{}", where, message));
  }

  Type lower_type(Type type) const { return type.pointer ? plan_.lowered_pointer(type) : type; }
  const std::vector<Chunk>& cut(Type type) const { return plan_.chunks(type.lanes); }
  static Type chunk_type(Type type, const Chunk& chunk) { return Type::vector(type.element, chunk.lanes); }

  // ---- variables ----

  VarPtr new_var(std::string name, Type type) const {
    auto var = std::make_shared<Var>();
    var->name = std::move(name);
    var->type = type;
    return var;
  }

  void emit(decltype(StmtNode::node) node) { out_->push_back(make_stmt(std::move(node), span_)); }

  Expr define(std::string name, Expr value) {
    const VarPtr var = new_var(std::move(name), value->type);
    emit(Define{var, std::move(value)});
    return var_ref(var);
  }

  // A value that may be mentioned several times.
  Expr bind(Expr value) {
    if (value->as<IntImm>() || value->as<FloatImm>() || value->as<VarRef>()) return value;
    return define("t", std::move(value));
  }

  void find_addressed(const PrimFunc& function) {
    walk(
        function.body,
        [&](const Expr& e) {
          if (const auto* address = e->as<AddressOf>(); address && plan_.is_split(address->var->type)) addressed_.insert(address->var.get());
        },
        [](const Stmt&) {});
  }

  void add_param(PrimFunc& result, const VarPtr& param) {
    if (plan_.is_split(param->type)) {
      std::vector<VarPtr> parts = make_parts(*param);
      result.params.insert(result.params.end(), parts.begin(), parts.end());
      if (!addressed_.contains(param.get())) {
        parts_[param.get()] = std::move(parts);
        return;
      }
      const VarPtr memory = allocate(param->name, param->type);
      memories_[param.get()] = memory;
      Chunks values;
      for (const VarPtr& part : parts) values.push_back(var_ref(part));
      store_chunks(values, cut(param->type), param->type, var_ref(memory));
      return;
    }
    const Type type = lower_type(param->type);
    VarPtr lowered = param;
    if (type != param->type) {
      auto changed = std::make_shared<Var>(*param);
      changed->type = type;
      lowered = renamed_[param.get()] = changed;
    }
    result.params.push_back(lowered);
  }

  std::vector<VarPtr> make_parts(const Var& var) const {
    std::vector<VarPtr> parts;
    const std::vector<Chunk>& chunks = cut(var.type);
    for (size_t k = 0; k < chunks.size(); ++k) parts.push_back(new_var(fmt::format("{}_{}", var.name, k), chunk_type(var.type, chunks[k])));
    return parts;
  }

  // Private memory holds the lanes of a mask as bytes.
  static Type memory_pointer(Type type) { return Type::pointer_to(is_bool(type.element) ? DType::kU8 : type.element, 1, Scope::kPrivate); }

  // Private memory for the lanes of a vector, with room for the padding of its last register.
  VarPtr allocate(const std::string& name, Type type, int64_t lanes = 0) {
    const VarPtr buffer = new_var(name + "_lanes", memory_pointer(type));
    emit(Alloc{buffer, (lanes == 0 ? type.lanes : lanes) + 1, {}});
    return buffer;
  }

  VarPtr renamed(const VarPtr& var) const {
    const auto found = renamed_.find(var.get());
    return found == renamed_.end() ? var : found->second;
  }

  // ---- memory ----

  static Expr move(const Expr& pointer, int64_t elements) {
    return elements == 0 ? pointer : binary(BinaryOp::kAdd, pointer, index64(elements));
  }
  static Expr move(const Expr& pointer, Expr elements) {
    if (const auto constant = as_int(elements)) return move(pointer, *constant);
    return binary(BinaryOp::kAdd, pointer, cast(Type::scalar(DType::kI64), std::move(elements)));
  }

  Expr call(std::string_view name, std::vector<Expr> operands, std::vector<std::pair<std::string, int64_t>> attributes = {}, Expr mask = nullptr,
            Expr pass_through = nullptr) {
    Result<Expr> result = intrinsic_call(name, operands, std::move(attributes), std::move(mask), std::move(pass_through), span_);
    if (result.ok()) return *result;
    if (error_.ok()) error_ = std::move(result).status();
    return int_imm(0);
  }

  static Expr literal_mask(int lanes, int valid) {
    std::vector<Expr> bits;
    for (int i = 0; i < lanes; ++i) bits.push_back(bool_imm(i < valid));
    return make_expr(Type::vector(DType::kBool, lanes), VectorLiteral{std::move(bits)});
  }
  // The mask of an access to memory: the given one without the padding.
  Expr access_mask(const Chunk& chunk, const Expr& mask) const {
    if (!chunk.padded()) return mask;
    const Expr inside = literal_mask(chunk.lanes, chunk.valid);
    return mask ? binary(BinaryOp::kBitAnd, mask, inside) : inside;
  }

  Expr load_chunk(const Expr& pointer, const Chunk& chunk, Type type, Expr mask = nullptr, Expr stride = nullptr) {
    Expr base = pointer;
    if (base->type.element != type.element || base->type.lanes != 1) base = cast(Type::pointer_to(type.element, 1, base->type.scope), base);
    return call("vload", {std::move(base), std::move(stride)}, {{"lanes", chunk.lanes}}, access_mask(chunk, mask));
  }
  void store_chunk(const Expr& value, const Expr& pointer, const Chunk& chunk, Expr mask = nullptr, Expr stride = nullptr) {
    emit(Evaluate{call("vstore", {value, pointer, std::move(stride)}, {}, access_mask(chunk, mask))});
  }
  // Lanes of a mask as bytes and back.
  Expr to_bytes(const Expr& mask) {
    const Type type = mask->type.with_element(DType::kU8);
    return call("vsel", {broadcast(int_imm(1, DType::kU8), type.lanes), zero_of(type)}, {}, mask);
  }
  static Expr from_bytes(const Expr& bytes) { return binary(BinaryOp::kNe, bytes, zero_of(bytes->type)); }

  void store_chunks(const Chunks& values, const std::vector<Chunk>& chunks, Type type, const Expr& pointer) {
    for (size_t k = 0; k < chunks.size(); ++k) {
      store_chunk(is_bool(type.element) ? to_bytes(values[k]) : values[k], move(pointer, chunks[k].offset), chunks[k]);
    }
  }
  Expr load_lanes(const Expr& pointer, const Chunk& chunk, Type type) {
    const bool boolean = is_bool(type.element);
    // Padding is loaded too: the memory is one lane longer.
    const Chunk whole{chunk.offset, chunk.lanes, chunk.lanes};
    const Expr loaded = load_chunk(move(pointer, chunk.offset), whole, boolean ? type.with_element(DType::kU8) : type);
    return boolean ? from_bytes(loaded) : loaded;
  }
  Chunks load_all(const Expr& pointer, Type type) {
    Chunks result;
    for (const Chunk& chunk : cut(type)) result.push_back(bind_chunk(load_lanes(pointer, chunk, type)));
    return result;
  }
  Expr bind_chunk(Expr value) { return value->as<VarRef>() || value->as<Broadcast>() ? value : define("v", std::move(value)); }

  // ---- expressions ----

  // An expression that is no split vector.
  Expr scalar(const Expr& e) {
    if (!e || !error_.ok()) return e;
    return match(
        e, [&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; }, [&](const StringImm&) { return e; },
        [&](const VarRef& n) { return renamed(n.var) == n.var ? e : var_ref(renamed(n.var)); },
        [&](const AddressOf& n) {
          if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) {
            return cast(lower_type(e->type), var_ref(memory->second));
          }
          return e;
        },
        [&](const Unary& n) { return make_expr(e->type, Unary{n.op, scalar(n.operand)}, e->span); },
        [&](const Binary& n) { return scalar_binary(e, n); }, [&](const Select& n) { return scalar_select(e, n.condition, n.if_true, n.if_false); },
        [&](const Cast& n) { return cast(lower_type(e->type), scalar(n.operand), e->span); },
        [&](const Broadcast& n) { return make_expr(e->type, Broadcast{scalar(n.scalar)}, e->span); },
        [&](const VectorLiteral& n) {
          std::vector<Expr> lanes;
          for (const Expr& lane : n.lanes) lanes.push_back(scalar(lane));
          return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
        },
        [&](const Load& n) {
          if (!plan_.is_wide_pointer(n.pointer->type)) {
            Expr pointer = scalar(n.pointer);
            return make_expr(e->type, Load{std::move(pointer), scalar(n.index)}, e->span);
          }
          // A vector that fits, through a pointer that C has no type for: does not happen, the pointee is the vector.
          fail(e, "a load of a vector through a pointer to another width");
          return e;
        },
        [&](const LaneRead& n) { return lane_read(e, n); }, [&](const IntrinsicCall& n) { return scalar_intrinsic(e, n); },
        [&](const FunctionCall& n) {
          std::vector<Expr> args = arguments(n);
          return make_expr(lower_type(e->type), FunctionCall{n.function, std::move(args)}, e->span);
        });
  }

  std::vector<Expr> arguments(const FunctionCall& n) {
    std::vector<Expr> args;
    for (const Expr& arg : n.args) {
      if (plan_.is_split(arg->type)) {
        for (Expr& chunk : split(arg)) args.push_back(std::move(chunk));
      } else {
        args.push_back(scalar(arg));
      }
    }
    return args;
  }

  // A pointer to vectors that C has no type for moves by their lanes.
  Expr scaled_index(const Expr& index, Type pointer) {
    Expr lowered = scalar(index);
    if (!plan_.is_wide_pointer(pointer)) return lowered;
    if (const auto constant = as_int(lowered)) return index64(*constant * pointer.lanes);
    return binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), std::move(lowered)), index64(pointer.lanes));
  }

  Expr scalar_binary(const Expr& e, const Binary& n) {
    if (n.lhs->type.pointer && !is_comparison(n.op)) {
      Expr pointer = scalar(n.lhs);
      return binary(n.op, std::move(pointer), scaled_index(n.rhs, n.lhs->type), e->span);
    }
    if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) {
      // What the right side needs must not be done when the left side decides.
      std::vector<Stmt> before;
      Expr lhs = scalar(n.lhs);
      Expr rhs = into(before, [&] { return scalar(n.rhs); });
      if (before.empty()) return make_expr(e->type, Binary{n.op, std::move(lhs), std::move(rhs)}, e->span);
      const VarPtr result = new_var("t", e->type);
      emit(Define{result, std::move(lhs)});
      before.push_back(make_stmt(Assign{result, std::move(rhs)}, span_));
      Expr condition = var_ref(result);
      if (n.op == BinaryOp::kOr) condition = make_expr(e->type, Unary{UnaryOp::kNot, std::move(condition)});
      emit(If{std::move(condition), block(std::move(before)), nullptr});
      return var_ref(result);
    }
    Expr lhs = scalar(n.lhs);
    return make_expr(e->type, Binary{n.op, std::move(lhs), scalar(n.rhs)}, e->span);
  }

  template <typename F>
  Expr into(std::vector<Stmt>& statements, F&& f) {
    std::vector<Stmt>* outer = std::exchange(out_, &statements);
    Expr result = f();
    out_ = outer;
    return result;
  }

  Expr scalar_select(const Expr& e, const Expr& condition, const Expr& if_true, const Expr& if_false) {
    std::vector<Stmt> then_body, else_body;
    Expr test = scalar(condition);
    Expr a = into(then_body, [&] { return scalar(if_true); });
    Expr b = into(else_body, [&] { return scalar(if_false); });
    if (then_body.empty() && else_body.empty()) return make_expr(lower_type(e->type), Select{std::move(test), std::move(a), std::move(b)}, e->span);
    if (e->type.pointer) {
      fail(e, "a conditional pointer whose arms compute wide vectors");
      return e;
    }
    const VarPtr result = new_var("t", e->type);
    emit(Define{result, zero_of(e->type)});
    then_body.push_back(make_stmt(Assign{result, std::move(a)}, span_));
    else_body.push_back(make_stmt(Assign{result, std::move(b)}, span_));
    emit(If{std::move(test), block(std::move(then_body)), block(std::move(else_body))});
    return var_ref(result);
  }

  Expr lane_read(const Expr& e, const LaneRead& n) {
    const Type type = n.vector->type;
    if (!plan_.is_split(type)) {
      Expr vector = scalar(n.vector);
      return make_expr(e->type, LaneRead{std::move(vector), scalar(n.index)}, e->span);
    }
    const Chunks values = split(n.vector);
    if (const auto lane = as_int(n.index)) {
      for (size_t k = 0; k < values.size(); ++k) {
        const Chunk& chunk = cut(type)[k];
        if (*lane < chunk.offset + chunk.valid) return make_expr(e->type, LaneRead{values[k], int_imm(*lane - chunk.offset)}, e->span);
      }
    }
    const Expr index = bind(scalar(n.index));
    const Expr pointer = spill(values, type);
    const Expr lane = load(pointer, index, e->span);
    return is_bool(type.element) ? binary(BinaryOp::kNe, lane, int_imm(0, DType::kU8)) : lane;
  }

  // The lanes in private memory.
  Expr spill(const Chunks& values, Type type, int64_t room = 0) {
    const Expr pointer = var_ref(allocate("t", type, room));
    store_chunks(values, cut(type), type, pointer);
    return pointer;
  }

  // ---- split vectors ----

  Chunks split(const Expr& e) {
    const Type type = e->type;
    const std::vector<Chunk>& chunks = cut(type);
    if (!error_.ok()) {
      Chunks nothing;
      for (const Chunk& chunk : chunks) nothing.push_back(zero_of(chunk_type(type, chunk)));
      return nothing;
    }
    // One expression per register.
    const auto each = [&](const auto& make) {
      Chunks result;
      for (size_t k = 0; k < chunks.size(); ++k) result.push_back(make(k, chunks[k], chunk_type(type, chunks[k])));
      return result;
    };
    return match(
        e, [&](const IntImm&) { return Chunks(); }, [&](const FloatImm&) { return Chunks(); }, [&](const StringImm&) { return Chunks(); },
        [&](const AddressOf&) { return Chunks(); }, [&](const LaneRead&) { return Chunks(); },
        [&](const VarRef& n) {
          if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) return load_all(var_ref(memory->second), type);
          const std::vector<VarPtr>& parts = parts_.at(n.var.get());
          return each([&](size_t k, const Chunk&, Type) { return var_ref(parts[k]); });
        },
        [&](const Unary& n) {
          const Chunks operand = split(n.operand);
          return each([&](size_t k, const Chunk&, Type t) { return make_expr(t, Unary{n.op, operand[k]}, e->span); });
        },
        [&](const Binary& n) {
          const Chunks lhs = split(n.lhs), rhs = split(n.rhs);
          return each([&](size_t k, const Chunk&, Type t) { return make_expr(t, Binary{n.op, lhs[k], rhs[k]}, e->span); });
        },
        [&](const Select& n) { return split_select(e, n); },
        [&](const Cast& n) {
          const Chunks operand = split(n.operand);
          return each([&](size_t k, const Chunk&, Type t) { return make_expr(t, Cast{operand[k]}, e->span); });
        },
        [&](const Broadcast& n) {
          const Expr lane = bind(scalar(n.scalar));
          return each([&](size_t, const Chunk&, Type t) { return make_expr(t, Broadcast{lane}, e->span); });
        },
        [&](const VectorLiteral& n) {
          std::vector<Expr> lanes;
          for (const Expr& lane : n.lanes) lanes.push_back(scalar(lane));
          return each([&](size_t, const Chunk& chunk, Type t) {
            std::vector<Expr> part(lanes.begin() + chunk.offset, lanes.begin() + chunk.offset + chunk.valid);
            while (static_cast<int>(part.size()) < chunk.lanes) part.push_back(zero_of(t.with_lanes(1)));
            return make_expr(t, VectorLiteral{std::move(part)}, e->span);
          });
        },
        [&](const Load& n) {
          const Expr pointer = wide_pointer(n.pointer, n.index);
          return each([&](size_t, const Chunk& chunk, Type t) { return load_chunk(move(pointer, chunk.offset), chunk, t); });
        },
        [&](const IntrinsicCall& n) { return split_intrinsic(e, n); },
        [&](const FunctionCall& n) {
          const Expr memory = var_ref(allocate("t", type));
          std::vector<Expr> args = arguments(n);
          args.push_back(memory);
          emit(Evaluate{make_expr(Type::void_type(), FunctionCall{n.function, std::move(args)}, e->span)});
          return load_all(memory, type);
        });
  }

  // The address of element `index` of a pointer to vectors, as a pointer to scalars.
  Expr wide_pointer(const Expr& pointer, const Expr& index) {
    const Type type = pointer->type;
    Expr base = scalar(pointer);
    Expr offset;
    if (plan_.is_wide_pointer(type)) {
      offset = scaled_index(index, type);
    } else {
      Expr lowered = scalar(index);
      if (const auto constant = as_int(lowered)) offset = index64(*constant * type.lanes);
      else offset = binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), std::move(lowered)), index64(type.lanes));
      base = cast(Type::pointer_to(type.element, 1, type.scope), std::move(base));
    }
    if (as_int(offset) == 0) return bind(std::move(base));
    return bind(binary(BinaryOp::kAdd, std::move(base), std::move(offset)));
  }

  Chunks split_select(const Expr& e, const Select& n) {
    const Type type = e->type;
    std::vector<Stmt> then_body, else_body;
    Expr test = bind(scalar(n.condition));
    Chunks a, b;
    into(then_body, [&] { return a = split(n.if_true), nullptr; });
    into(else_body, [&] { return b = split(n.if_false), nullptr; });
    const auto simple = [](const Chunks& values) {
      return std::all_of(values.begin(), values.end(), [](const Expr& v) { return !depends_on_memory(v); });
    };
    Chunks result;
    if (then_body.empty() && else_body.empty() && simple(a) && simple(b)) {
      for (size_t k = 0; k < a.size(); ++k) result.push_back(make_expr(a[k]->type, Select{test, a[k], b[k]}, e->span));
      return result;
    }
    for (size_t k = 0; k < a.size(); ++k) {
      const VarPtr part = new_var("v", chunk_type(type, cut(type)[k]));
      emit(Define{part, zero_of(part->type)});
      then_body.push_back(make_stmt(Assign{part, a[k]}, span_));
      else_body.push_back(make_stmt(Assign{part, b[k]}, span_));
      result.push_back(var_ref(part));
    }
    emit(If{std::move(test), block(std::move(then_body)), block(std::move(else_body))});
    return result;
  }

  // ---- intrinsics ----

  bool any_split(const IntrinsicCall& n, Type result) const {
    const auto is_split = [&](const Expr& e) { return e && plan_.is_split(e->type); };
    return plan_.is_split(result) || is_split(n.mask) || is_split(n.pass_through) || std::any_of(n.args.begin(), n.args.end(), is_split);
  }

  // An intrinsic whose result is no split vector.
  Expr scalar_intrinsic(const Expr& e, const IntrinsicCall& n) {
    const std::string_view name = n.intrinsic->name;
    if (!any_split(n, e->type)) return plain_intrinsic(e, n);
    const Type operand = n.args.empty() ? Type::void_type() : n.args[0]->type;
    if (name == "vall" || name == "vany") {
      const Chunks masks = split(n.args[0]);
      Expr result;
      for (size_t k = 0; k < masks.size(); ++k) {
        const Chunk& chunk = cut(operand)[k];
        Expr mask = masks[k];
        // Padding must not decide.
        if (chunk.padded() && name == "vany") mask = binary(BinaryOp::kBitAnd, mask, literal_mask(chunk.lanes, chunk.valid));
        if (chunk.padded() && name == "vall") mask = binary(BinaryOp::kBitOr, mask, make_expr(mask->type, Unary{UnaryOp::kBitNot, literal_mask(chunk.lanes, chunk.valid)}));
        const Expr part = call(name, {mask});
        result = result ? binary(name == "vall" ? BinaryOp::kBitAnd : BinaryOp::kBitOr, result, part) : part;
      }
      return result;
    }
    if (name == "vstore") {
      Chunks values = split(n.args[0]);
      for (Expr& value : values) {
        if (depends_on_memory(value)) value = bind_chunk(value);
      }
      const Chunks masks = split_mask(n.mask);
      const Expr pointer = bind(element_pointer(n.args[1], operand.element)), stride = bind(scalar(n.args[2]));
      for (size_t k = 0; k < values.size(); ++k) {
        const Chunk& chunk = cut(operand)[k];
        store_chunk(values[k], move(pointer, strided(stride, chunk.offset)), chunk, masks.empty() ? nullptr : masks[k], stride);
      }
      return nothing();
    }
    if (name == "vstore_scatter") {
      Chunks values = split(n.args[0]);
      for (Expr& value : values) {
        if (depends_on_memory(value)) value = bind_chunk(value);
      }
      const Chunks indices = split(n.args[2]), masks = split_mask(n.mask);
      const Expr pointer = bind(element_pointer(n.args[1], operand.element));
      for (size_t k = 0; k < values.size(); ++k) {
        emit(Evaluate{call(name, {values[k], pointer, indices[k]}, {}, access_mask(cut(operand)[k], masks.empty() ? nullptr : masks[k]))});
      }
      return nothing();
    }
    if (const std::optional<Pieces> pieces = pieces_of(e, n)) {
      // All of the result in one register.
      const Chunk whole{0, e->type.lanes, e->type.lanes};
      return gather_chunk(*pieces, e->type, whole, [&](int i) { return i; });
    }
    fail(e, fmt::format("S.{} on \"{}\": wider than a register of this target, and it can't be split", name, operand.text()));
    return e;
  }

  // Stands for a void expression whose effects are in the statements before it.
  static Expr nothing() { return nullptr; }

  // As it was, with lowered operands.
  Expr plain_intrinsic(const Expr& e, const IntrinsicCall& n) {
    IntrinsicCall lowered = n;
    for (Expr& arg : lowered.args) arg = scalar(arg);
    lowered.mask = scalar(n.mask);
    lowered.pass_through = scalar(n.pass_through);
    scale_dma(e, n, lowered);
    if (n.intrinsic->name == "vload" && lowered.args[0]->type != n.args[0]->type) set_attribute(lowered, "lanes", e->type.lanes);
    return make_expr(lower_type(e->type), std::move(lowered), e->span);
  }

  static void set_attribute(IntrinsicCall& n, std::string_view name, int64_t value) {
    for (auto& [key, number] : n.attributes) {
      if (key == name) {
        number = value;
        return;
      }
    }
    n.attributes.emplace_back(std::string(name), value);
    std::sort(n.attributes.begin(), n.attributes.end());
  }

  // Copies count elements of the pointer: of a pointer that became one to scalars there are more.
  void scale_dma(const Expr& e, const IntrinsicCall& n, IntrinsicCall& lowered) {
    const std::string_view name = n.intrinsic->name;
    if (!name.starts_with("dma_") && name != "async_dma_copy") return;
    const Type type = n.args[0]->type;
    if (!plan_.is_wide_pointer(type)) return;
    std::vector<size_t> counts;
    if (name == "dma_copy" || name == "async_dma_copy") counts = {2, 3, 5};
    if (name == "dma_memset") counts = {2};
    if (name == "dma_upsample") counts = {4, 6, 7};
    if (counts.empty()) return fail(e, fmt::format("S.{} of \"{}\": no register of this target holds such a vector", name, type.text()));
    for (const size_t i : counts) lowered.args[i] = binary(BinaryOp::kMul, lowered.args[i], int_imm(type.lanes));
  }

  Chunks split_mask(const Expr& mask) { return mask ? split(mask) : Chunks(); }

  static Expr strided(const Expr& stride, int lanes) {
    if (const auto constant = as_int(stride)) return index64(*constant * lanes);
    return lanes == 0 ? index64(0) : binary(BinaryOp::kMul, cast(Type::scalar(DType::kI64), stride), index64(lanes));
  }

  Expr element_pointer(const Expr& pointer, DType element) {
    const Expr lowered = scalar(pointer);
    return cast(Type::pointer_to(element, 1, pointer->type.scope), lowered);
  }

  Chunks split_intrinsic(const Expr& e, const IntrinsicCall& n) {
    const Type type = e->type;
    const std::vector<Chunk>& chunks = cut(type);
    const std::string_view name = n.intrinsic->name;
    Chunks result;
    if (name == "vload") {
      const Expr pointer = bind(element_pointer(n.args[0], type.element)), stride = bind(scalar(n.args[1]));
      const Chunks masks = split_mask(n.mask);
      for (size_t k = 0; k < chunks.size(); ++k) {
        const Chunk& chunk = chunks[k];
        result.push_back(load_chunk(move(pointer, strided(stride, chunk.offset)), chunk, chunk_type(type, chunk), masks.empty() ? nullptr : masks[k], stride));
      }
      return result;
    }
    if (name == "tail_mask") {
      const Expr count = bind(scalar(n.args[0]));
      for (const Chunk& chunk : chunks) {
        Expr rest = chunk.offset == 0 ? count : binary(BinaryOp::kSub, count, int_imm(chunk.offset));
        if (const auto constant = as_int(count)) {
          rest = int_imm(std::min<int64_t>(std::max<int64_t>(*constant - chunk.offset, 0), chunk.lanes));
        } else {
          rest = binary(BinaryOp::kMin, binary(BinaryOp::kMax, rest, int_imm(0)), int_imm(chunk.lanes));
        }
        result.push_back(call(name, {rest}, {{"lanes", chunk.lanes}}));
      }
      return result;
    }
    if (name == "vbcast") {
      const Expr lane = bind(scalar(n.args[0]));
      const Chunks masks = split_mask(n.mask);
      for (size_t k = 0; k < chunks.size(); ++k) result.push_back(call(name, {lane}, {{"lanes", chunks[k].lanes}}, masks.empty() ? nullptr : masks[k]));
      return result;
    }
    if (name == "vrpadd" || name == "vrpmax" || name == "vrpmin") return split_reduction(e, n);
    const bool elementwise_cast = name == "cast" && n.args.size() == 1 && n.args[0]->type.lanes == type.lanes;
    const bool elementwise_bits = name == "reinterpret" && n.args[0]->type.lanes == type.lanes;
    if (n.intrinsic->splitting == Splitting::kElementwise || elementwise_cast || elementwise_bits) return split_elementwise(e, n);
    if (const std::optional<Pieces> pieces = pieces_of(e, n)) return gather_all(*pieces, type, [](int i) { return i; });
    fail(e, fmt::format("S.{} giving \"{}\": wider than a register of this target, and it can't be split", name, type.text()));
    for (const Chunk& chunk : chunks) result.push_back(zero_of(chunk_type(type, chunk)));
    return result;
  }

  Chunks split_elementwise(const Expr& e, const IntrinsicCall& n) {
    const Type type = e->type;
    std::vector<Chunks> operands;
    for (const Expr& arg : n.args) {
      if (plan_.is_split(arg->type)) {
        operands.push_back(split(arg));
      } else {
        const Expr one = bind(scalar(arg));
        operands.emplace_back(cut(type).size(), one);
      }
    }
    const Chunks masks = split_mask(n.mask), pass_through = split_mask(n.pass_through);
    Chunks result;
    for (size_t k = 0; k < cut(type).size(); ++k) {
      const Chunk& chunk = cut(type)[k];
      std::vector<Expr> args;
      for (const Chunks& operand : operands) args.push_back(operand[k]);
      Expr mask = masks.empty() ? nullptr : masks[k];
      if (!n.intrinsic->pure) mask = access_mask(chunk, mask);
      auto attributes = n.attributes;
      for (auto& [key, value] : attributes) {
        if (key == "dtype") value = attribute_of_type(chunk_type(type, chunk));
      }
      result.push_back(call(n.intrinsic->name, std::move(args), std::move(attributes), std::move(mask), pass_through.empty() ? nullptr : pass_through[k]));
    }
    return result;
  }

  // Registers are combined from the upper half into the lower half, as the intrinsic does with lanes: the result is the same to the bit.
  Chunks split_reduction(const Expr& e, const IntrinsicCall& n) {
    const std::string_view name = n.intrinsic->name;
    const Type operand = n.args[0]->type;
    if (!plan_.is_split(operand)) {
      fail(e, fmt::format("S.{} of \"{}\" has a result wider than a register of this target", name, operand.text()));
      return Chunks(cut(e->type).size(), int_imm(0));
    }
    const Expr lane = reduce(e, n);
    Chunks result;
    for (const Chunk& chunk : cut(e->type)) {
      const Type type = chunk_type(e->type, chunk);
      Expr value = zero_of(type);
      if (chunk.offset == 0) {
        const VarPtr var = new_var("v", type);
        emit(Define{var, value});
        emit(LaneWrite{var, int_imm(0), lane});
        value = var_ref(var);
      }
      result.push_back(value);
    }
    return result;
  }

  // The scalar that a reduction of a split vector yields, in the element type of the result.
  Expr reduce(const Expr& e, const IntrinsicCall& n) {
    const std::string_view name = n.intrinsic->name;
    const Type operand = n.args[0]->type;
    const DType element = e->type.element;
    if (n.attribute("return_idx") != 0) {
      fail(e, fmt::format("S.{} with return_idx of \"{}\": wider than a register of this target", name, operand.text()));
      return zero_of(Type::scalar(element));
    }
    Expr identity = zero_of(Type::scalar(element));
    if (name != "vrpadd") {
      const bool max = name == "vrpmax";
      if (is_floating(element)) {
        identity = float_imm(max ? -__builtin_inf() : __builtin_inf(), element);
      } else if (is_signed_int(element)) {
        const int64_t low = dtype_bits(element) == 64 ? INT64_MIN : -(int64_t{1} << (dtype_bits(element) - 1));
        identity = int_imm(max ? low : ~low, element);
      } else {
        identity = int_imm(max ? 0 : -1, element);
      }
    }
    const std::vector<Chunk>& chunks = cut(operand);
    const Chunks values = split(n.args[0]), masks = split_mask(n.mask);
    // Whole registers of `most` lanes, padded with the identity up to a power of two of them.
    const int most = chunks.front().lanes;
    const auto total = static_cast<int>(std::bit_ceil(static_cast<unsigned>(operand.lanes)));
    const Type whole = Type::vector(element, most);
    Chunks parts;
    for (size_t k = 0; k < values.size(); ++k) {
      const Chunk& chunk = chunks[k];
      Expr value = cast(Type::vector(element, chunk.lanes), values[k]);
      const Expr mask = access_mask(chunk, masks.empty() ? nullptr : masks[k]);
      if (mask) value = call("vsel", {value, broadcast(identity, chunk.lanes)}, {}, mask);
      if (chunk.lanes != most) {
        // The rests go together into one register, through memory.
        const Expr pointer = var_ref(allocate("t", whole));
        store_chunk(broadcast(identity, most), pointer, {0, most, most});
        for (size_t r = k; r < values.size(); ++r) {
          Expr rest = cast(Type::vector(element, chunks[r].lanes), values[r]);
          const Expr rest_mask = access_mask(chunks[r], masks.empty() ? nullptr : masks[r]);
          if (rest_mask) rest = call("vsel", {rest, broadcast(identity, chunks[r].lanes)}, {}, rest_mask);
          store_chunk(rest, move(pointer, chunks[r].offset - chunk.offset), chunks[r]);
        }
        parts.push_back(bind_chunk(load_chunk(pointer, {0, most, most}, whole)));
        break;
      }
      parts.push_back(bind_chunk(value));
    }
    while (static_cast<int>(parts.size()) * most < total) parts.push_back(broadcast(identity, most));
    const BinaryOp op = name == "vrpadd" ? BinaryOp::kAdd : name == "vrpmax" ? BinaryOp::kMax : BinaryOp::kMin;
    for (size_t half = parts.size() / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) parts[k] = bind_chunk(binary(op, parts[k], parts[k + half]));
    }
    return bind(make_expr(Type::scalar(element), LaneRead{call(name, {parts[0]}), int_imm(0)}));
  }

  // ---- rearrangements: lanes of the operands, in another order ----

  // A sequence of registers; `lanes` of them are meaningful, one after the other.
  struct Pieces {
    Type type;  // element; lanes: of all together
    Chunks values;
    std::vector<Chunk> chunks;
  };

  Pieces whole_pieces(const std::vector<Expr>& operands) {
    Pieces pieces;
    pieces.type = operands[0]->type;
    pieces.type.lanes = 0;
    for (const Expr& operand : operands) {
      const bool is_split = plan_.is_split(operand->type);
      Chunks values = is_split ? split(operand) : Chunks{scalar(operand)};
      for (Expr& value : values) value = bind_chunk(value);  // each may be taken several times
      const std::vector<Chunk> chunks = is_split ? cut(operand->type) : std::vector<Chunk>{{0, operand->type.lanes, operand->type.lanes}};
      for (size_t k = 0; k < values.size(); ++k) {
        pieces.values.push_back(values[k]);
        pieces.chunks.push_back({pieces.type.lanes + chunks[k].offset, chunks[k].lanes, chunks[k].valid});
      }
      pieces.type.lanes += operand->type.lanes;
    }
    return pieces;
  }

  void add_piece(Pieces& pieces, Expr value) {
    const int lanes = value->type.lanes;
    pieces.type = value->type.with_lanes(pieces.type.lanes + lanes);
    pieces.chunks.push_back({pieces.type.lanes - lanes, lanes, lanes});
    pieces.values.push_back(std::move(value));
  }

  Expr spill(const Pieces& pieces, int64_t room = 0) {
    const Expr pointer = var_ref(allocate("t", pieces.type, room));
    store_chunks(pieces.values, pieces.chunks, pieces.type, pointer);
    return pointer;
  }

  // The register `chunk` of a value whose lane i is lane from(i) of the pieces.
  template <typename From>
  Expr gather_chunk(const Pieces& pieces, Type type, const Chunk& chunk, From from, Expr* memory = nullptr) {
    const int first = from(chunk.offset);
    const int step = chunk.valid > 1 ? from(chunk.offset + 1) - first : 1;
    bool regular = true;
    for (int i = 0; i < chunk.valid; ++i) regular &= from(chunk.offset + i) == first + i * step;
    if (regular && step == 1) {
      for (size_t k = 0; k < pieces.chunks.size(); ++k) {
        const Chunk& piece = pieces.chunks[k];
        if (piece.offset == first && piece.lanes == chunk.lanes && piece.valid >= chunk.valid) return pieces.values[k];
      }
    }
    Expr own;
    Expr& pointer = memory ? *memory : own;
    if (!pointer) pointer = spill(pieces);
    const bool boolean = is_bool(type.element);
    const Type element = boolean ? type.with_element(DType::kU8) : type;
    Expr value;
    if (regular && step == 1) {
      value = load_chunk(move(pointer, first), chunk, chunk_type(element, chunk));
    } else if (regular && step > 1) {
      value = load_chunk(move(pointer, first), chunk, chunk_type(element, chunk), nullptr, int_imm(step));
    } else if (regular && step == 0) {
      value = broadcast(bind(load(pointer, int_imm(first))), chunk.lanes);
    } else {
      std::vector<Expr> lanes;
      for (int i = 0; i < chunk.lanes; ++i) lanes.push_back(load(pointer, int_imm(from(chunk.offset + std::min(i, chunk.valid - 1)))));
      value = make_expr(chunk_type(element, chunk), VectorLiteral{std::move(lanes)});
    }
    return bind_chunk(boolean ? from_bytes(value) : value);
  }

  template <typename From>
  Chunks gather_all(const Pieces& pieces, Type type, From from) {
    Chunks result;
    Expr memory;
    for (const Chunk& chunk : cut(type)) result.push_back(gather_chunk(pieces, type, chunk, from, &memory));
    return result;
  }

  // The same lanes as one piece list for any result type.
  template <typename From>
  Pieces rearranged(const Pieces& pieces, Type type, From from) {
    Pieces result;
    result.type = type.with_lanes(0);
    Expr memory;
    const std::vector<Chunk> chunks = plan_.is_split(type) ? cut(type) : std::vector<Chunk>{{0, type.lanes, type.lanes}};
    for (const Chunk& chunk : chunks) result.values.push_back(gather_chunk(pieces, type, chunk, from, &memory));
    result.chunks = chunks;
    result.type = type;
    return result;
  }

  // What an intrinsic that moves lanes yields, as pieces in order; nothing if it is none of these.
  std::optional<Pieces> pieces_of(const Expr& e, const IntrinsicCall& n) {
    const std::string_view name = n.intrinsic->name;
    const Type type = e->type, operand = n.args.empty() ? Type::void_type() : n.args[0]->type;
    const int lanes = operand.lanes;
    const int64_t part = n.attribute("part");
    if (name == "vrpadd" || name == "vrpmax" || name == "vrpmin") {
      const Expr lane = reduce(e, n);
      const VarPtr var = new_var("v", type);
      emit(Define{var, zero_of(type)});
      emit(LaneWrite{var, int_imm(0), lane});
      Pieces pieces;
      pieces.type.lanes = 0;
      add_piece(pieces, var_ref(var));
      return pieces;
    }
    if (name == "vconcat") {
      const Pieces all = whole_pieces(n.args);
      const int half = lanes / 2;
      return rearranged(all, type, [=](int i) {
        if (part == 0) return i;
        const int base = i / half * lanes, k = i % half;
        return base + (part == 1 ? k : part == 2 ? half + k : part == 3 ? 2 * k : 2 * k + 1);
      });
    }
    if (name == "vzip") {
      const Pieces all = whole_pieces(n.args);
      const int half = lanes / 2;
      return rearranged(all, type, [=](int i) {
        const int base = i % 2 * lanes, k = i / 2;
        return base + (part == 2 ? half + k : part == 3 ? 2 * k : part == 4 ? 2 * k + 1 : k);
      });
    }
    if (name == "vpart") {
      const auto first = static_cast<int>(n.attribute("index") * n.attribute("lanes"));
      return rearranged(whole_pieces(n.args), type, [=](int i) { return first + i; });
    }
    if (name == "vrevs") return rearranged(whole_pieces(n.args), type, [=](int i) { return lanes - 1 - i; });
    if (name == "vsldl") {
      const auto shift = static_cast<int>(as_int(n.args[2]).value_or(0));
      return rearranged(whole_pieces({n.args[0], n.args[1]}), type, [=](int i) { return i + shift; });
    }
    if (name == "vshfl") {
      if (const auto shift = as_int(n.args[1])) {
        return rearranged(whole_pieces({n.args[0]}), type, [=](int i) { return static_cast<int>((i + *shift) % lanes); });
      }
      // Twice in memory, read from the shift on.
      const Pieces twice = whole_pieces({n.args[0], n.args[0]});
      const Expr shift = binary(BinaryOp::kMod, scalar(n.args[1]), int_imm(lanes));
      const Expr inside = bind(binary(BinaryOp::kMod, binary(BinaryOp::kAdd, shift, int_imm(lanes)), int_imm(lanes)));
      const Expr pointer = bind(move(spill(twice), inside));
      Pieces result;
      result.type = type;
      result.chunks = cut(type);
      result.values = load_all(pointer, type);
      return result;
    }
    if (name == "vreplic") {
      const Pieces all = whole_pieces({n.args[0]});
      if (const auto index = as_int(n.args[1])) return rearranged(all, type, [=](int) { return static_cast<int>(*index); });
      const Expr index = scalar(n.args[1]);
      Expr lane = load(spill(all), index);
      if (is_bool(type.element)) lane = binary(BinaryOp::kNe, lane, int_imm(0, DType::kU8));
      lane = bind(lane);
      Pieces result;
      result.type = type;
      result.chunks = cut(type);
      for (const Chunk& chunk : result.chunks) result.values.push_back(broadcast(lane, chunk.lanes));
      return result;
    }
    if (name == "reinterpret" && !operand.pointer && !type.pointer) {
      // The same bytes, as other lanes.
      const Pieces all = whole_pieces({n.args[0]});
      const Expr memory = cast(Type::pointer_to(type.element, 1, Scope::kPrivate), spill(all, lanes + 16));
      const Expr pointer = bind(memory);
      Pieces result;
      result.type = type;
      if (!plan_.is_split(type)) {
        result.chunks = {{0, type.lanes, type.lanes}};
        result.values = {bind_chunk(type.is_vector() ? load_chunk(pointer, result.chunks[0], type) : load(pointer, int_imm(0)))};
      } else {
        result.chunks = cut(type);
        result.values = load_all(pointer, type);
      }
      return result;
    }
    if (name == "cast") return cast_pieces(e, n);
    if (name == "vaddh" || name == "vsubh" || name == "vmaxh" || name == "vminh") {
      const Pieces all = whole_pieces(n.args);
      const Pieces even = rearranged(all, type, [](int i) { return 2 * i; });
      const Pieces odd = rearranged(all, type, [](int i) { return 2 * i + 1; });
      Pieces result = even;
      for (size_t k = 0; k < result.values.size(); ++k) {
        const std::vector<Expr> pair = {even.values[k], odd.values[k]};
        if (name == "vaddh" || name == "vsubh") result.values[k] = bind_chunk(call(name == "vaddh" ? "vadd" : "vsub", pair, {{"saturate", 1}}));
        else result.values[k] = bind_chunk(call(name == "vmaxh" ? "max" : "min", pair));
      }
      return result;
    }
    const bool dot = name == "vdot" || name == "vqdot", accumulating = name == "vdpa" || name == "vqdpa";
    if (dot || accumulating || name == "vnsr" || name == "vnsrsr") return registerwise(e, n, accumulating);
    return std::nullopt;
  }

  // Intrinsics that combine neighbouring lanes, register by register: each gives its part of the result.
  std::optional<Pieces> registerwise(const Expr& e, const IntrinsicCall& n, bool accumulating) {
    const Type type = e->type;
    const size_t first = accumulating ? 1 : 0;
    const Type operand = n.args[first]->type;
    const std::vector<Chunk> chunks = plan_.is_split(operand) ? cut(operand) : std::vector<Chunk>{{0, operand.lanes, operand.lanes}};
    const auto values_of = [&](const Expr& value) { return plan_.is_split(value->type) ? split(value) : Chunks{bind_chunk(scalar(value))}; };
    const Chunks x = values_of(n.args[first]), y = values_of(n.args[first + 1]);
    const Chunks masks = n.mask ? values_of(n.mask) : Chunks();
    Pieces acc;
    if (accumulating) acc = whole_pieces({n.args[0]});
    Pieces result;
    result.type = type.with_lanes(0);
    for (size_t k = 0; k < chunks.size(); ++k) {
      const Chunk& chunk = chunks[k];
      const int out_lanes = static_cast<int>(static_cast<int64_t>(chunk.lanes) * type.lanes / operand.lanes);
      if (chunk.padded() || out_lanes < 2) return std::nullopt;
      std::vector<Expr> args = {x[k], y[k]};
      if (accumulating) {
        const int start = result.type.lanes;
        args.insert(args.begin(), gather_chunk(acc, type, {start, out_lanes, out_lanes}, [](int i) { return i; }));
      }
      auto made = intrinsic_call(n.intrinsic->name, args, n.attributes, masks.empty() ? nullptr : masks[k], nullptr, span_);
      if (!made.ok()) return std::nullopt;
      add_piece(result, bind_chunk(*made));
    }
    return result;
  }

  // Casts that take a part of the lanes, or several vectors.
  std::optional<Pieces> cast_pieces(const Expr& e, const IntrinsicCall& n) {
    const Type type = e->type, from = n.args[0]->type;
    const auto part = static_cast<int>(n.attribute("part"));
    const Pieces all = whole_pieces(n.args);
    const int lanes = from.lanes, given = all.type.lanes;
    const auto source = [=](int i) {
      switch (part) {
        case 2: return lanes / 2 + i;      // high
        case 3: return 2 * i;              // even
        case 4: return 2 * i + 1;          // odd
        case 6: return lanes / 4 + i;      // lh
        case 7: return lanes / 2 + i;      // hl
        case 8: return lanes / 4 * 3 + i;  // hh
        default: return std::min(i, given - 1);
      }
    };
    // In steps that both types fit.
    const int step = std::min(plan_.register_lanes(from.element), plan_.register_lanes(type.element));
    const std::vector<std::pair<std::string, int64_t>> attributes = {{"dtype", attribute_of_type(Type::scalar(type.element))},
                                                                     {"saturate", n.attribute("saturate")}};
    Pieces result;
    result.type = type.with_lanes(0);
    Expr memory;
    const std::vector<Chunk> chunks = plan_.is_split(type) ? cut(type) : std::vector<Chunk>{{0, type.lanes, type.lanes}};
    for (const Chunk& chunk : chunks) {
      const int each = std::min(step, chunk.lanes);
      for (int offset = chunk.offset; offset < chunk.offset + chunk.lanes; offset += each) {
        Expr value = call("cast", {gather_chunk(all, from, {offset, each, each}, source, &memory)}, attributes);
        // Lanes that nothing was given for are 0.
        const int filled = std::min(std::max(given - offset, 0), each);
        if (part == 0 && filled < each) value = call("vsel", {value, zero_of(value->type)}, {}, literal_mask(each, filled));
        result.values.push_back(bind_chunk(value));
        result.chunks.push_back({offset, each, each});
      }
    }
    result.type = type;
    return result;
  }

  // ---- statements ----

  void statements(const Stmt& stmt, std::vector<Stmt>& into_body) {
    std::vector<Stmt>* outer = std::exchange(out_, &into_body);
    if (const auto* body = stmt->as<Block>()) {
      for (const Stmt& child : body->body) statement(child);
    } else {
      statement(stmt);
    }
    out_ = outer;
  }
  Stmt body_of(const Stmt& stmt) {
    std::vector<Stmt> result;
    statements(stmt, result);
    return make_stmt(Block{std::move(result)}, stmt->span);
  }

  // Assigns all parts of a variable; none may read a part that was assigned before it.
  void assign_parts(const std::vector<VarPtr>& parts, Chunks values) {
    std::unordered_set<const Var*> assigned;
    bool ordered = true;
    for (size_t k = 0; k < parts.size(); ++k) {
      ordered &= !mentions(values[k], assigned);
      assigned.insert(parts[k].get());
    }
    if (!ordered) {
      for (Expr& value : values) value = value->as<Broadcast>() ? value : define("v", value);
    }
    for (size_t k = 0; k < parts.size(); ++k) {
      const auto* same = values[k]->as<VarRef>();
      if (same == nullptr || same->var != parts[k]) emit(Assign{parts[k], values[k]});
    }
  }

  void statement(const Stmt& stmt) {
    if (!error_.ok()) return;
    const SourceSpan outer_span = span_;
    span_ = stmt->span;
    match(
        stmt,
        [&](const Define& n) {
          const Type type = n.var->type;
          if (!plan_.is_split(type)) {
            Expr value = scalar(n.value);
            VarPtr var = n.var;
            if (value && value->type != type) {
              auto changed = std::make_shared<Var>(*n.var);
              changed->type = value->type;
              var = renamed_[n.var.get()] = changed;
            }
            emit(Define{var, std::move(value)});
            return;
          }
          const Chunks values = split(n.value);
          if (addressed_.contains(n.var.get())) {
            const VarPtr memory = memories_[n.var.get()] = allocate(n.var->name, type);
            store_chunks(values, cut(type), type, var_ref(memory));
            return;
          }
          const std::vector<VarPtr> parts = parts_[n.var.get()] = make_parts(*n.var);
          for (size_t k = 0; k < parts.size(); ++k) emit(Define{parts[k], values[k]});
        },
        [&](const Assign& n) {
          if (!plan_.is_split(n.var->type)) {
            Expr value = scalar(n.value);
            emit(Assign{renamed(n.var), std::move(value)});
            return;
          }
          const Chunks values = split(n.value);
          if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) {
            store_chunks(bound(values), cut(n.var->type), n.var->type, var_ref(memory->second));
            return;
          }
          assign_parts(parts_.at(n.var.get()), values);
        },
        [&](const LaneWrite& n) { lane_write(n); },
        [&](const Store& n) {
          const Type type = n.value->type;
          if (!plan_.is_split(type)) {
            Expr pointer = scalar(n.pointer);
            Expr index = scalar(n.index);
            emit(Store{std::move(pointer), std::move(index), scalar(n.value)});
            return;
          }
          Chunks values = split(n.value);
          for (Expr& value : values) {
            if (depends_on_memory(value)) value = bind_chunk(value);
          }
          const Expr pointer = wide_pointer(n.pointer, n.index);
          for (size_t k = 0; k < values.size(); ++k) store_chunk(values[k], move(pointer, cut(type)[k].offset), cut(type)[k]);
        },
        [&](const Alloc& n) {
          const Type type = lower_type(n.buffer->type);
          if (type == n.buffer->type) {
            out_->push_back(stmt);
            return;
          }
          auto buffer = std::make_shared<Var>(*n.buffer);
          buffer->type = type;
          renamed_[n.buffer.get()] = buffer;
          emit(Alloc{buffer, n.count * n.buffer->type.lanes, n.data});
        },
        [&](const For& n) {
          Expr start = scalar(n.start), stop = scalar(n.stop), step = scalar(n.step);
          emit(For{n.var, std::move(start), std::move(stop), std::move(step), n.kind, body_of(n.body)});
        },
        [&](const While& n) {
          std::vector<Stmt> before;
          Expr condition = into(before, [&] { return scalar(n.condition); });
          if (before.empty()) {
            emit(While{std::move(condition), body_of(n.body)});
            return;
          }
          // What the condition needs is done in every round.
          before.push_back(make_stmt(If{make_expr(condition->type, Unary{UnaryOp::kNot, condition}), make_stmt(Break{}, span_), nullptr}, span_));
          statements(n.body, before);
          emit(While{bool_imm(true), block(std::move(before))});
        },
        [&](const If& n) {
          Expr condition = scalar(n.condition);
          Stmt then_body = body_of(n.then_body);
          emit(If{std::move(condition), std::move(then_body), n.else_body ? body_of(n.else_body) : nullptr});
        },
        [&](const Evaluate& n) {
          if (plan_.is_split(n.value->type)) {
            for (const Expr& value : split(n.value)) emit(Evaluate{value});
          } else if (Expr value = scalar(n.value)) {
            emit(Evaluate{std::move(value)});
          }
        },
        [&](const Return& n) {
          if (n.value && plan_.is_split(n.value->type)) {
            const Type type = n.value->type;
            const Chunks values = bound(split(n.value));
            store_chunks(values, cut(type), type, var_ref(result_pointer_));
            emit(Return{nullptr});
            return;
          }
          Expr value = scalar(n.value);
          emit(Return{std::move(value)});
        },
        [&](const Break&) { out_->push_back(stmt); }, [&](const Block&) { out_->push_back(body_of(stmt)); }, [&](const Comment&) { out_->push_back(stmt); });
    span_ = outer_span;
  }

  Chunks bound(Chunks values) {
    for (Expr& value : values) {
      if (depends_on_memory(value)) value = bind_chunk(value);
    }
    return values;
  }

  void lane_write(const LaneWrite& n) {
    const Type type = n.var->type;
    Expr index = scalar(n.index), value = scalar(n.value);
    if (!plan_.is_split(type)) {
      emit(LaneWrite{n.var, std::move(index), std::move(value)});
      return;
    }
    if (is_bool(type.element) && (memories_.contains(n.var.get()) || !as_int(index))) {
      value = make_expr(Type::scalar(DType::kU8), Cast{value});
    }
    if (const auto memory = memories_.find(n.var.get()); memory != memories_.end()) {
      emit(Store{var_ref(memory->second), std::move(index), std::move(value)});
      return;
    }
    const std::vector<VarPtr>& parts = parts_.at(n.var.get());
    if (const auto lane = as_int(index)) {
      for (size_t k = 0; k < parts.size(); ++k) {
        const Chunk& chunk = cut(type)[k];
        if (*lane >= chunk.offset + chunk.valid) continue;
        emit(LaneWrite{parts[k], int_imm(*lane - chunk.offset), std::move(value)});
        return;
      }
    }
    Chunks values;
    for (const VarPtr& part : parts) values.push_back(var_ref(part));
    value = bind(std::move(value));
    index = bind(std::move(index));
    const Expr pointer = spill(values, type);
    emit(Store{pointer, std::move(index), std::move(value)});
    assign_parts(parts, load_all(pointer, type));
  }

  const Module& module_;
  const ChunkPlan& plan_;
  Status& error_;
  std::vector<Stmt>* out_ = nullptr;
  SourceSpan span_;
  VarPtr result_pointer_;
  std::unordered_set<const Var*> addressed_;                       // split variables whose address is taken: they live in memory
  std::unordered_map<const Var*, VarPtr> memories_;                // ... here
  std::unordered_map<const Var*, std::vector<VarPtr>> parts_;      // the registers of other split variables
  std::unordered_map<const Var*, VarPtr> renamed_;                 // pointers that changed their type
};

}  // namespace

Result<Module> split_vectors(const Module& module, const Target& target) {
  const ChunkPlan plan(module, target);
  if (!plan.any_split()) return module;
  Module result;
  Status error;
  for (const PrimFuncPtr& function : module.functions) {
    result.functions.push_back(Splitter(module, plan, error).run(*function));
    if (!error.ok()) return std::move(error).context(function->name);
  }
  return result;
}

}  // namespace aipu::tir
