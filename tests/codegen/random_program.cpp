#include "tests/codegen/random_program.h"

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/intrinsics/lanes.h"

namespace aipu::tir::testing {
namespace {

const DType kElements[] = {DType::kU8,  DType::kI8,  DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                           DType::kI64, DType::kF16, DType::kF32, DType::kF64, DType::kBF16};
const int kLanes[] = {2, 3, 4, 5, 7, 8, 11, 16, 20, 24, 32, 33, 48, 64};

class Generator {
 public:
  Generator(uint64_t seed, const RandomProgramOptions& options) : random_(seed), options_(options) {}

  Module run() {
    Module module;
    // Helpers first, so that the entry can call them; the entry must be functions[0].
    std::vector<PrimFuncPtr> helpers;
    for (int k = 0; k < 2; ++k) helpers.push_back(helper(k));
    auto entry = std::make_shared<PrimFunc>();
    entry->name = "entry";
    for (const DType element : kElements) {
      buffers_.push_back(
          make_var("b_" + std::string(dtype_name(element)), Type::pointer_to(element, 1, Scope::kGlobal)));
      entry->params.push_back(buffers_.back());
    }
    n_ = make_var("n", Type::scalar(DType::kI32));
    entry->params.push_back(n_);
    vars_ = {n_};
    entry->return_type = Type::void_type();
    entry->body = body(options_.statements, 2);
    module.functions.push_back(entry);
    module.functions.insert(module.functions.end(), helpers.begin(), helpers.end());
    return module;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  VarPtr make_var(std::string name, Type type) {
    auto var = std::make_shared<Var>();
    var->name = std::move(name);
    var->type = type;
    return var;
  }

  DType any_element() {
    while (true) {
      const DType element = kElements[pick(std::size(kElements))];
      if (options_.long_elements || dtype_bits(element) < 64) return element;
    }
  }
  Type any_type() {
    const DType element = chance(10) ? DType::kBool : any_element();
    if (!options_.wide_vectors || chance(25)) return Type::scalar(element);
    return Type::vector(element, lanes());
  }
  int lanes() {
    // A few sizes per program, so that values meet.
    if (sizes_.empty()) {
      for (int k = 0; k < 2; ++k) sizes_.push_back(kLanes[pick(std::size(kLanes))]);
    }
    return sizes_[static_cast<size_t>(pick(2))];
  }

  PrimFuncPtr helper(int k) {
    auto function = std::make_shared<PrimFunc>();
    function->name = "helper" + std::to_string(k);
    const Type type = any_type();
    function->return_type = type;
    for (int i = 0; i < 2; ++i) function->params.push_back(make_var("p" + std::to_string(i), type));
    vars_ = function->params;
    std::vector<Stmt> statements;
    const VarPtr local = make_var("local", type);
    statements.push_back(make_stmt(Define{local, expr(type, 2)}));
    vars_.push_back(local);
    statements.push_back(make_stmt(If{condition(1), make_stmt(Return{expr(type, 2)}), nullptr}));
    statements.push_back(make_stmt(Return{expr(type, 2)}));
    function->body = block(std::move(statements));
    helper_types_.push_back(type);
    vars_.clear();
    return function;
  }

  // ---- expressions ----

  Expr constant(DType element) {
    if (is_bool(element)) return bool_imm(chance(50));
    if (is_floating(element)) return float_imm((pick(2001) - 1000) / 64.0, element);
    const int64_t corners[] = {0, 1, -1, 2, 7, 127, 128, 255, 32767, -32768, INT32_MAX, INT32_MIN, INT64_MIN};
    return int_imm(chance(40) ? corners[pick(std::size(corners))] : pick(100) - 50, element);
  }
  Expr small(int limit) { return int_imm(pick(limit)); }

  // A non-negative int32 below `limit`, not known at compile time.
  Expr bounded(int limit, int depth) {
    const Expr value = expr(Type::scalar(DType::kI32), depth - 1);
    return binary(BinaryOp::kMod, binary(BinaryOp::kBitAnd, value, int_imm(0x7fff)), int_imm(limit));
  }

  Expr condition(int depth) { return expr(Type::scalar(DType::kBool), depth); }

  VarPtr variable_of(Type type) {
    std::vector<VarPtr> fitting;
    for (const VarPtr& var : vars_) {
      if (var->type == type) fitting.push_back(var);
    }
    return fitting.empty() ? nullptr : fitting[static_cast<size_t>(pick(static_cast<int>(fitting.size())))];
  }

  Expr leaf(Type type) {
    if (chance(70)) {
      if (const VarPtr var = variable_of(type)) return var_ref(var);
    }
    if (type.lanes > 1 && chance(30)) {
      std::vector<Expr> all;
      for (int i = 0; i < type.lanes; ++i) all.push_back(constant(type.element));
      return make_expr(type, VectorLiteral{std::move(all)});
    }
    return broadcast(constant(type.element), type.lanes);
  }

  // A pointer to `elements` elements of a buffer.
  Expr place(DType element, int64_t elements) {
    for (size_t k = 0; k < buffers_.size(); ++k) {
      if (buffers_[k]->type.element != element) continue;
      const int64_t room = static_cast<int64_t>(kRandomBufferBytes / dtype_bytes(element)) - elements;
      const Expr base = var_ref(buffers_[k]);
      return binary(BinaryOp::kAdd, base,
                    chance(50) ? int_imm(pick(static_cast<int>(room))) : bounded(static_cast<int>(room), 1));
    }
    return nullptr;
  }

  Expr expr(Type type, int depth) {
    if (depth <= 0) return leaf(type);
    for (int attempt = 0; attempt < 4; ++attempt) {
      if (Expr e = node(type, depth)) return e;
    }
    return leaf(type);
  }

  Expr node(Type type, int depth) {
    const bool is_vector = type.lanes > 1, boolean = is_bool(type.element), floating = is_floating(type.element);
    switch (pick(12)) {
      case 0: {
        if (boolean) break;
        const BinaryOp ops[] = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul,
                                BinaryOp::kMin, BinaryOp::kMax, BinaryOp::kDiv};
        const BinaryOp op = ops[pick(std::size(ops))];
        if (op == BinaryOp::kDiv && !is_vector && !floating)
          return binary(op, expr(type, depth - 1),
                        binary(BinaryOp::kBitOr, expr(type, depth - 1), int_imm(1, type.element)));
        return binary(op, expr(type, depth - 1), expr(type, depth - 1));
      }
      case 1: {
        if (floating) break;
        const BinaryOp ops[] = {BinaryOp::kBitAnd, BinaryOp::kBitOr, BinaryOp::kBitXor, BinaryOp::kShl, BinaryOp::kShr};
        return binary(ops[pick(boolean ? 3 : 5)], expr(type, depth - 1), expr(type, depth - 1));
      }
      case 2: {
        if (!boolean) break;
        const BinaryOp ops[] = {BinaryOp::kEq, BinaryOp::kNe, BinaryOp::kLt,
                                BinaryOp::kLe, BinaryOp::kGt, BinaryOp::kGe};
        const Type operands = type.with_element(any_element());
        return binary(ops[pick(6)], expr(operands, depth - 1), expr(operands, depth - 1));
      }
      case 3:
        return cast(type, expr(type.with_element(any_element()), depth - 1));
      case 4:
        if (is_vector) return broadcast(expr(type.with_lanes(1), depth - 1), type.lanes);
        if (boolean && chance(50)) return make_expr(type, Unary{UnaryOp::kNot, expr(type, depth - 1)});
        if (boolean)
          return binary(chance(50) ? BinaryOp::kAnd : BinaryOp::kOr, expr(type, depth - 1), expr(type, depth - 1));
        break;
      case 5:
        return make_expr(type, Select{condition(depth - 1), expr(type, depth - 1), expr(type, depth - 1)});
      case 6:
        if (boolean || buffers_.empty()) break;
        if (is_vector) return load_vector(type, depth);
        return load(place(type.element, 8), chance(50) ? small(8) : bounded(8, depth));
      case 7:
        for (size_t k = 0; k < helper_types_.size() && !buffers_.empty(); ++k) {
          if (helper_types_[k] != type) continue;
          return make_expr(type,
                           FunctionCall{"helper" + std::to_string(k), {expr(type, depth - 1), expr(type, depth - 1)}});
        }
        break;
      case 8:
        if (is_vector || !options_.wide_vectors) break;
        return scalar_of_vector(type, depth);
      default:
        return is_vector ? vector_intrinsic(type, depth) : Expr();
    }
    return nullptr;
  }

  Expr made(Result<Expr> result, Type type) { return result.ok() && (*result)->type == type ? *result : Expr(); }

  Expr load_vector(Type type, int depth) {
    const Type mask = type.with_element(DType::kBool);
    const Expr lane_mask = chance(40) ? expr(mask, depth - 1) : Expr();
    switch (pick(3)) {
      case 0:
        return made(
            intrinsic_call("vload", {place(type.element, type.lanes), nullptr}, {{"lanes", type.lanes}}, lane_mask),
            type);
      case 1: {
        const int stride = 1 + pick(3);
        const Expr run_time = binary(BinaryOp::kAdd, bounded(3, depth), int_imm(1));
        return made(
            intrinsic_call("vload", {place(type.element, 3 * type.lanes), chance(50) ? int_imm(stride) : run_time},
                           {{"lanes", type.lanes}}, lane_mask),
            type);
      }
      default: {
        const Expr pointer =
            cast(Type::pointer_to(type.element, type.lanes, Scope::kGlobal), place(type.element, 2 * type.lanes));
        return load(chance(50) ? pointer : binary(BinaryOp::kAdd, pointer, small(2)), int_imm(0));
      }
    }
  }

  Expr scalar_of_vector(Type type, int depth) {
    const Type vector = Type::vector(type.element, lanes());
    switch (pick(4)) {
      case 0:
        return make_expr(type, LaneRead{expr(vector, depth - 1), int_imm(pick(vector.lanes))});
      case 1:
        return make_expr(type, LaneRead{expr(vector, depth - 1), bounded(vector.lanes, depth)});
      case 2:
        if (!is_bool(type.element)) break;
        return made(intrinsic_call(chance(50) ? "vall" : "vany", {expr(vector, depth - 1)}), type);
      default: {
        if (is_bool(type.element)) break;
        const char* names[] = {"vrpadd", "vrpmax", "vrpmin"};
        const Expr lane_mask = chance(40) ? expr(vector.with_element(DType::kBool), depth - 1) : Expr();
        const Result<Expr> sum = intrinsic_call(names[pick(3)], {expr(vector, depth - 1)}, {}, lane_mask);
        if (!sum.ok() || (*sum)->type.element != type.element || !(*sum)->type.is_vector()) break;
        return make_expr(type, LaneRead{*sum, int_imm(0)});
      }
    }
    return nullptr;
  }

  Expr vector_intrinsic(Type type, int depth) {
    const Type mask = type.with_element(DType::kBool);
    const bool boolean = is_bool(type.element);
    const int n = type.lanes;
    const auto x = [&] { return expr(type, depth - 1); };
    const auto of = [&](Type other) { return expr(other, depth - 1); };
    const Expr m = chance(50) ? of(mask) : Expr();
    const Expr r = m && chance(70) ? of(type) : Expr();
    switch (pick(26)) {
      case 0: {
        const char* names[] = {"vadd", "vsub", "vmul", "max", "min"};
        return made(intrinsic_call(names[pick(5)], {x(), x()}, {}, m, r), type);
      }
      case 1:
        return made(intrinsic_call(chance(50) ? "vadd" : "vsub", {x(), x()}, {{"saturate", 1}}, m, r), type);
      case 2:
        return made(intrinsic_call(chance(50) ? "vdiv" : "vmod", {x(), x()}, {}, m), type);
      case 3:
        return made(intrinsic_call("abs", {x()}, {}, m), type);
      case 4:
        return made(
            intrinsic_call("clip", {x(), broadcast(constant(type.element), n), broadcast(constant(type.element), n)},
                           {}, m),
            type);
      case 5:
        return made(intrinsic_call("fma", {x(), x(), x()}, {}, m), type);
      case 6:
        return made(intrinsic_call("vsel", {x(), x()}, {}, of(mask)), type);
      case 7: {
        const char* names[] = {"vand", "vor", "vxor"};
        return made(intrinsic_call(names[pick(3)], {x(), x()}, {}, m), type);
      }
      case 8:
        return made(intrinsic_call(chance(50) ? "vsl" : "vsr", {x(), x()}, {}, m, r), type);
      case 9:
        return made(intrinsic_call("vrevs", {x()}), type);
      case 10: {
        const int part = pick(5);
        if (part == 0)
          return n % 2 == 0 && n > 2
                     ? made(intrinsic_call("vzip", {of(type.with_lanes(n / 2)), of(type.with_lanes(n / 2))},
                                           {{"part", 0}}),
                            type)
                     : Expr();
        return made(intrinsic_call("vzip", {x(), x()}, {{"part", part}}), type);
      }
      case 11: {
        const int part = pick(5);
        if (part == 0)
          return n % 2 == 0 && n > 2
                     ? made(intrinsic_call("vconcat", {of(type.with_lanes(n / 2)), of(type.with_lanes(n / 2))},
                                           {{"part", 0}}),
                            type)
                     : Expr();
        return made(intrinsic_call("vconcat", {x(), x()}, {{"part", part}}), type);
      }
      case 12:
        return made(intrinsic_call("vpart", {of(type.with_lanes(n * 3))}, {{"index", pick(3)}, {"lanes", n}}), type);
      case 13:
        return made(intrinsic_call("vsldl", {x(), x(), int_imm(pick(n))}), type);
      case 14:
        return made(intrinsic_call("vshfl", {x(), chance(50) ? int_imm(pick(n)) : bounded(n, depth)}), type);
      case 15:
        return made(intrinsic_call("vreplic", {x(), chance(50) ? int_imm(pick(n)) : bounded(n, depth)}), type);
      case 16:
        return made(intrinsic_call("vbcast", {of(type.with_lanes(1))}, {{"lanes", n}}, m), type);
      case 17: {
        const char* names[] = {"vrpadd", "vrpmax", "vrpmin"};
        const bool wide_sum = type.element == DType::kF32 && chance(50);
        return made(intrinsic_call(names[pick(3)], {of(wide_sum ? Type::vector(DType::kF16, n * 2) : type)}, {},
                                   wide_sum ? Expr() : m),
                    type);
      }
      case 18: {
        const DType other = any_element();
        const int bits = n * dtype_bits(type.element);
        if (boolean || bits % dtype_bits(other) != 0 || bits / dtype_bits(other) < 2) return nullptr;
        return made(intrinsic_call("reinterpret", {of(Type::vector(other, bits / dtype_bits(other)))},
                                   {{"dtype", attribute_of_type(type)}}),
                    type);
      }
      case 19:
        return boolean ? made(intrinsic_call("tail_mask", {bounded(n + 1, depth)}, {{"lanes", n}}), type) : Expr();
      case 20: {
        if (!boolean) return made(intrinsic_call("rint", {x()}, {}, m), type);
        const Type operands = type.with_element(chance(50) ? DType::kF32 : DType::kF16);
        const char* names[] = {"isnan", "isinf", "isfinite"};
        return made(intrinsic_call(names[pick(3)], {of(operands)}, {}, m), type);
      }
      case 21: {
        if (!boolean) return nullptr;
        const char* names[] = {"vceq", "vcneq", "vcge", "vcgt", "vcle", "vclt"};
        const Type operands = type.with_element(any_element());
        return made(intrinsic_call(names[pick(6)], {of(operands), of(operands)}, {}, m), type);
      }
      case 22: {
        if (boolean || buffers_.empty()) return nullptr;
        const Type indices = Type::vector(DType::kI16, n);
        const Expr inside = binary(BinaryOp::kBitAnd, of(indices), broadcast(int_imm(0x3f, DType::kI16), n));
        return made(intrinsic_call("vload_gather", {place(type.element, 64), inside}, {}, m), type);
      }
      case 23: {
        const char* names[] = {"exp", "sqrt", "floor", "tanh"};
        return made(intrinsic_call(names[pick(4)], {x()}), type);
      }
      case 24: {
        const char* names[] = {"vaddh", "vsubh", "vmaxh", "vminh"};
        return made(intrinsic_call(names[pick(4)], {x(), x()}), type);
      }
      default: {
        // Dot products need multiples of 256 bits.
        if (type.element != DType::kI32 || n % 8 != 0) return nullptr;
        if (chance(50))
          return made(
              intrinsic_call("vdot", {of(Type::vector(DType::kI16, n * 2)), of(Type::vector(DType::kI16, n * 2))}),
              type);
        return made(
            intrinsic_call("vqdpa", {x(), of(Type::vector(DType::kI8, n * 4)), of(Type::vector(DType::kI8, n * 4))}),
            type);
      }
    }
  }

  // ---- statements ----

  Stmt body(int statements, int nesting) {
    const size_t scope = vars_.size();
    std::vector<Stmt> result;
    for (int k = 0; k < statements; ++k) statement(result, nesting);
    vars_.resize(scope);
    return block(std::move(result));
  }

  void statement(std::vector<Stmt>& out, int nesting) {
    const int depth = 3;
    switch (pick(10)) {
      case 0:
      case 1:
      case 2: {
        const Type type = any_type();
        const VarPtr var = make_var("v" + std::to_string(counter_++), type);
        out.push_back(make_stmt(Define{var, expr(type, depth)}));
        vars_.push_back(var);
        return;
      }
      case 3: {
        const VarPtr var = vars_[static_cast<size_t>(pick(static_cast<int>(vars_.size())))];
        if (counters_.contains(var.get())) return;
        out.push_back(make_stmt(Assign{var, expr(var->type, depth)}));
        return;
      }
      case 4: {
        const VarPtr var = vars_[static_cast<size_t>(pick(static_cast<int>(vars_.size())))];
        if (!var->type.is_vector()) return;
        const Expr index = chance(50) ? int_imm(pick(var->type.lanes)) : bounded(var->type.lanes, depth);
        out.push_back(make_stmt(LaneWrite{var, index, expr(var->type.with_lanes(1), depth - 1)}));
        return;
      }
      case 5:
        if (nesting > 0)
          out.push_back(
              make_stmt(If{condition(depth), body(3, nesting - 1), chance(50) ? body(2, nesting - 1) : nullptr}));
        return;
      case 6: {
        if (nesting == 0) return;
        const VarPtr var = make_var("i" + std::to_string(counter_++), Type::scalar(DType::kI32));
        counters_.insert(var.get());
        vars_.push_back(var);
        const bool constant_bounds = chance(50);
        const int trips = pick(4);
        const ForKind kind = constant_bounds && chance(40) ? ForKind::kUnrolled : ForKind::kSerial;
        Stmt inner = body(3, nesting - 1);
        vars_.pop_back();
        const Expr stop = constant_bounds ? int_imm(trips) : bounded(4, 1);
        out.push_back(make_stmt(For{var, int_imm(0), stop, int_imm(1), kind, inner}));
        return;
      }
      case 7: {
        // while (counter < k and condition)
        if (nesting == 0) return;
        const VarPtr var = make_var("w" + std::to_string(counter_++), Type::scalar(DType::kI32));
        counters_.insert(var.get());
        vars_.push_back(var);
        out.push_back(make_stmt(Define{var, int_imm(0)}));
        const Expr going = binary(BinaryOp::kAnd, binary(BinaryOp::kLt, var_ref(var), int_imm(3)), condition(depth));
        std::vector<Stmt> inner = body(2, nesting - 1)->as<Block>()->body;
        if (chance(30)) inner.push_back(make_stmt(If{condition(1), make_stmt(Break{}), nullptr}));
        inner.push_back(make_stmt(Assign{var, binary(BinaryOp::kAdd, var_ref(var), int_imm(1))}));
        out.push_back(make_stmt(While{going, block(std::move(inner))}));
        return;
      }
      default:
        store(out, depth);
        return;
    }
  }

  void store(std::vector<Stmt>& out, int depth) {
    Type type = any_type();
    if (is_bool(type.element)) return;
    if (!type.is_vector()) {
      out.push_back(make_stmt(Store{place(type.element, 8), small(8), expr(type, depth)}));
      return;
    }
    const Expr mask = chance(50) ? expr(type.with_element(DType::kBool), depth - 1) : Expr();
    if (chance(30)) {
      const Expr pointer =
          cast(Type::pointer_to(type.element, type.lanes, Scope::kGlobal), place(type.element, 3 * type.lanes));
      out.push_back(make_stmt(Store{pointer, chance(50) ? small(3) : bounded(3, depth), expr(type, depth)}));
      return;
    }
    if (chance(20)) {
      const Type indices = Type::vector(DType::kU16, type.lanes);
      const Expr inside =
          binary(BinaryOp::kBitAnd, expr(indices, depth - 1), broadcast(int_imm(0x3f, DType::kU16), type.lanes));
      const Result<Expr> scatter =
          intrinsic_call("vstore_scatter", {expr(type, depth), place(type.element, 64), inside}, {}, mask);
      if (scatter.ok()) out.push_back(make_stmt(Evaluate{*scatter}));
      return;
    }
    const Expr stride = chance(60)   ? Expr()
                        : chance(50) ? int_imm(1 + pick(3))
                                     : binary(BinaryOp::kAdd, bounded(3, depth), int_imm(1));
    const Result<Expr> stored =
        intrinsic_call("vstore", {expr(type, depth), place(type.element, 3 * type.lanes), stride}, {}, mask);
    if (stored.ok()) out.push_back(make_stmt(Evaluate{*stored}));
  }

  std::mt19937_64 random_;
  RandomProgramOptions options_;
  std::vector<VarPtr> buffers_, vars_;
  std::vector<Type> helper_types_;
  std::vector<int> sizes_;
  VarPtr n_;
  std::set<const Var*> counters_;  // of loops: never assigned
  int counter_ = 0;
};

}  // namespace

Module random_program(uint64_t seed, const RandomProgramOptions& options) { return Generator(seed, options).run(); }

Result<std::vector<std::vector<std::byte>>> run_random_program(const Module& module, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::byte>> buffers;
  std::vector<InterpreterArgument> arguments;
  for (const DType element : kElements) {
    std::vector<std::byte>& buffer = buffers.emplace_back(kRandomBufferBytes);
    const Type type = Type::scalar(element);
    for (size_t i = 0; i < kRandomBufferBytes / dtype_bytes(element); ++i) {
      if (is_floating(element))
        write_float_lane(type, buffer.data(), static_cast<int64_t>(i),
                         (static_cast<double>(random() % 4001) - 2000) / 32);
      else
        write_int_lane(type, buffer.data(), static_cast<int64_t>(i),
                       static_cast<int64_t>(random() % 3 == 0 ? random() : random() % 64));
    }
  }
  for (auto& buffer : buffers) arguments.push_back({buffer.data(), buffer.size(), 0, true});
  arguments.push_back({nullptr, 0, random() % 100, false});
  InterpreterOptions options;
  options.max_steps = 2000000;
  AIPU_RETURN_IF_ERROR(interpret_all(module, 1, arguments, options));
  return buffers;
}

bool same_buffers(const std::vector<std::vector<std::byte>>& a, const std::vector<std::vector<std::byte>>& b,
                  std::string& where) {
  for (size_t k = 0; k < a.size(); ++k) {
    const Type type = Type::scalar(kElements[k]);
    const size_t bytes = dtype_bytes(type.element);
    for (size_t i = 0; i * bytes < a[k].size(); ++i) {
      if (std::memcmp(a[k].data() + i * bytes, b[k].data() + i * bytes, bytes) == 0) continue;
      const double x = read_float_lane(type, a[k].data(), static_cast<int64_t>(i)),
                   y = read_float_lane(type, b[k].data(), static_cast<int64_t>(i));
      if (std::isnan(x) && std::isnan(y)) continue;
      where = std::string(dtype_name(type.element)) + "[" + std::to_string(i) + "]: " + std::to_string(x) + " vs. " +
              std::to_string(y);
      return false;
    }
  }
  return true;
}

}  // namespace aipu::tir::testing
