#include "codegen/tir/verifier.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/text.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

constexpr int kMaxLanes = 1 << 16;
constexpr int64_t kMaxAllocBytes = int64_t{1} << 30;
constexpr int kMaxDepth = 2000;

class Verifier {
 public:
  Verifier(const Module& module, Meter* meter) : module_(module), meter_(meter) {}

  Status run() {
    if (module_.functions.empty()) return invalid_model("TIR: the module has no functions");
    for (const PrimFuncPtr& function : module_.functions) {
      if (!function) return invalid_model("TIR: a null function");
      if (!functions_.emplace(function->name, function.get()).second)
        return invalid_model(fmt::format("TIR: function '{}' is defined twice", function->name));
    }
    for (const PrimFuncPtr& function : module_.functions) {
      function_ = function.get();
      scopes_.clear();
      declared_.clear();
      verify_function();
      if (!error_.ok()) return std::move(error_).context(fmt::format("TIR: {}", function->name));
    }
    check_recursion();
    return std::move(error_);
  }

 private:
  void fail(std::string_view message) {
    if (!error_.ok()) return;
    std::string where;
    if (stmt_) {
      where = print_stmt(stmt_);
      where = where.substr(0, std::min(where.find('\n'), where.find("  @\"")));
      if (where.size() > 160) where = where.substr(0, 157) + "...";
      if (stmt_->span.file) where = fmt::format("{}:{}: {}", *stmt_->span.file, stmt_->span.line, where);
    }
    error_ = invalid_model(where.empty() ? std::string(message) : fmt::format("{}: in `{}`", message, where));
  }
  bool check(bool condition, std::string_view message) {
    if (!condition) fail(message);
    return condition;
  }

  bool check_time() {
    if (meter_ != nullptr && error_.ok()) error_ = meter_->check_time_often();
    return error_.ok();
  }
  const PrimFunc* find(const std::string& name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }

  void verify_function() {
    stmt_ = nullptr;
    scopes_.emplace_back();
    const bool is_entry = function_ == module_.functions.front().get();
    for (const VarPtr& param : function_->params) {
      if (!check(param != nullptr, "a null parameter")) return;
      check(param->type.pointer || (value_type(param->type) && (!is_entry || param->type.lanes == 1)),
            fmt::format("parameter '{}' can't have type {}", param->name, param->type.text()));
      declare(param);
    }
    check(!is_entry || function_->return_type.is_void(), "an entry returns nothing");
    check(function_->return_type.is_void() || value_type(function_->return_type) || function_->return_type.pointer,
          "a bad return type");
    check(function_->body != nullptr, "no body");
    verify(function_->body, 0, 0);
  }

  static bool value_type(Type type) {
    return !type.pointer && is_computed(type.element) && type.lanes >= 1 && type.lanes <= kMaxLanes;
  }

  // Also of what a pointer points to: the product of a count and a pointee's bytes has to fit into 64 bits.
  bool check_lanes(Type type) {
    return check(type.lanes >= 1 && type.lanes <= kMaxLanes, fmt::format("the type {}", type.text()));
  }
  void declare(const VarPtr& var) {
    if (!check(var != nullptr, "a null variable") || !check_lanes(var->type)) return;
    if (!declared_.insert(var.get()).second) return fail(fmt::format("variable '{}' is declared twice", var->name));
    scopes_.back().push_back(var.get());
    visible_.insert(var.get());
  }
  void use(const VarPtr& var) {
    if (!check(var != nullptr, "a null variable")) return;
    if (!visible_.contains(var.get())) fail(fmt::format("variable '{}' is used outside its scope", var->name));
  }
  struct Scope {
    explicit Scope(Verifier& v) : verifier(v) { verifier.scopes_.emplace_back(); }
    ~Scope() {
      for (const Var* var : verifier.scopes_.back()) verifier.visible_.erase(var);
      verifier.scopes_.pop_back();
    }
    Verifier& verifier;
  };

  void verify(const Stmt& stmt, int loops, int depth) {
    if (!error_.ok() || !check(stmt != nullptr, "a null statement")) return;
    if (!check(depth < kMaxDepth, "nested too deeply") || !check_time()) return;
    const Stmt outer = stmt_;
    if (!stmt->as<Block>()) stmt_ = stmt;
    match(
        stmt,
        [&](const Define& n) {
          verify(n.value, 0);
          if (error_.ok() && check(n.var != nullptr, "a null variable")) {
            check(n.var->type == n.value->type, fmt::format("a variable of type {} is given a value of type {}",
                                                            n.var->type.text(), n.value->type.text()));
            declare(n.var);
          }
        },
        [&](const Assign& n) {
          use(n.var);
          verify(n.value, 0);
          if (error_.ok()) {
            const bool same_pointer =
                n.var->type.pointer && n.value->type.pointer && n.var->type.pointee() == n.value->type.pointee();
            check(n.var->type == n.value->type || same_pointer,
                  fmt::format("a variable of type {} is assigned a value of type {}", n.var->type.text(),
                              n.value->type.text()));
            check(!allocs_.contains(n.var.get()), "a buffer can't be assigned");
          }
        },
        [&](const LaneWrite& n) {
          use(n.var);
          verify(n.index, 0);
          verify(n.value, 0);
          if (!error_.ok()) return;
          check(n.var->type.is_vector(), "a lane of something that is no vector");
          check_index(n.index);
          check(n.value->type == Type::scalar(n.var->type.element), "the type of a lane");
          check_constant_lane(n.index, n.var->type.lanes);
        },
        [&](const Store& n) {
          verify(n.pointer, 0);
          verify(n.index, 0);
          verify(n.value, 0);
          if (!error_.ok()) return;
          check(n.pointer->type.pointer && n.pointer->type.element != DType::kVoid,
                "a store needs a pointer to a value");
          check_index(n.index);
          check(n.value->type == n.pointer->type.pointee(),
                fmt::format("{} is stored through {}", n.value->type.text(), n.pointer->type.text()));
          check(n.pointer->type.scope != tir::Scope::kConstant, "a store to constant memory");
        },
        [&](const Alloc& n) {
          if (!check(n.buffer != nullptr && n.buffer->type.pointer && value_type(n.buffer->type.pointee()),
                     "a buffer needs a pointer type"))
            return;
          const auto scope = n.buffer->type.scope;
          check(scope == tir::Scope::kPrivate || scope == tir::Scope::kLsram || scope == tir::Scope::kShared ||
                    scope == tir::Scope::kConstant,
                "a buffer can't be in this scope");
          const int64_t bytes = n.buffer->type.bytes();
          if (check(n.count >= 1 && n.count <= kMaxAllocBytes / bytes, "the size of a buffer")) {
            check(scope == tir::Scope::kConstant ? static_cast<int64_t>(n.data.size()) == bytes * n.count
                                                 : n.data.empty(),
                  "a constant buffer has exactly its data, another has none");
          }
          allocs_.insert(n.buffer.get());
          declare(n.buffer);
        },
        [&](const For& n) {
          verify(n.start, 0);
          verify(n.stop, 0);
          verify(n.step, 0);
          if (!error_.ok() || !check(n.var != nullptr, "a null variable")) return;
          const Type type = n.var->type;
          check(type.is_scalar() && is_integer(type.element), "a loop variable is an integer");
          check(n.start->type == type && n.stop->type == type && n.step->type == type,
                "the types of the bounds of a loop");
          if (const auto step = as_int(n.step)) check(*step > 0, "the step of a loop is positive");
          if (n.kind == ForKind::kVectorized || n.kind == ForKind::kUnrolled) {
            const auto start = as_int(n.start), stop = as_int(n.stop);
            check(start && stop && as_int(n.step), "a loop to be unrolled or vectorised has constant bounds");
          }
          if (n.kind == ForKind::kTec) check(as_int(n.step) == 1, "a TEC loop has step 1");
          const Scope scope(*this);
          declare(n.var);
          verify(n.body, n.kind == ForKind::kSerial ? loops + 1 : 0, depth + 1);
        },
        [&](const While& n) {
          verify(n.condition, 0);
          if (!error_.ok()) return;
          check(n.condition->type == Type::scalar(DType::kBool), "a condition is a scalar bool");
          verify(n.body, loops + 1, depth + 1);
        },
        [&](const If& n) {
          verify(n.condition, 0);
          if (!error_.ok()) return;
          check(n.condition->type == Type::scalar(DType::kBool), "a condition is a scalar bool");
          verify(n.then_body, loops, depth + 1);
          if (n.else_body) verify(n.else_body, loops, depth + 1);
        },
        [&](const Evaluate& n) { verify(n.value, 0); },
        [&](const Return& n) {
          if (n.value) verify(n.value, 0);
          if (!error_.ok()) return;
          const Type type = n.value ? n.value->type : Type::void_type();
          check(type == function_->return_type,
                fmt::format("a function that returns {} returns {}", function_->return_type.text(), type.text()));
        },
        [&](const Break&) { check(loops > 0, "a break outside a loop"); },
        [&](const Block& n) {
          const Scope scope(*this);
          for (const Stmt& child : n.body) verify(child, loops, depth + 1);
        },
        [&](const Comment&) {});
    if (error_.ok()) stmt_ = outer;
  }

  void check_index(const Expr& index) {
    check(index->type.is_scalar() && is_signed_int(index->type.element), "an index is a signed integer");
  }
  void check_constant_lane(const Expr& index, int lanes) {
    if (const auto lane = as_int(index)) check(*lane >= 0 && *lane < lanes, fmt::format("lane {} of {}", *lane, lanes));
  }

  void verify(const Expr& e, int depth) {
    if (!error_.ok() || !check(e != nullptr, "a null expression")) return;
    if (!check(depth < kMaxDepth, "nested too deeply") || !check_time()) return;
    for_each_child(e, [&](const Expr& child) { verify(child, depth + 1); });
    if (error_.ok() && check_lanes(e->type)) check_node(*e);
  }

  void typed(const ExprNode& e, Type expected, std::string_view what) {
    check(e.type == expected, fmt::format("{} has type {} instead of {}", what, e.type.text(), expected.text()));
  }

  void check_node(const ExprNode& e) {
    const Type type = e.type;
    const auto present = [&](const Expr& child) { return check(child != nullptr, "a null expression"); };
    std::visit(
        Overloaded{
            [&](const IntImm& n) {
              check(type.is_scalar() && (is_integer(type.element) || is_bool(type.element)),
                    "the type of an integer constant");
              check(wrap_int(n.value, type.element) == n.value,
                    fmt::format("{} does not fit {}", n.value, type.text()));
            },
            [&](const FloatImm& n) {
              check(type.is_scalar() && is_floating(type.element), "the type of a floating constant");
              const double rounded = round_float(n.value, type.element);
              check(rounded == n.value || (rounded != rounded && n.value != n.value),
                    fmt::format("{} is no {}", n.value, type.text()));
            },
            [&](const StringImm&) { typed(e, Type::scalar(DType::kString), "a string"); },
            [&](const VarRef& n) {
              use(n.var);
              if (error_.ok()) typed(e, n.var->type, "a variable");
            },
            [&](const Unary& n) {
              if (!present(n.operand)) return;
              typed(e, n.operand->type, "a unary operation");
              if (n.op == UnaryOp::kNot)
                check(type == Type::scalar(DType::kBool), "'not' is for scalar bools");
              else
                check(!type.pointer && (is_integer(type.element) || is_bool(type.element)),
                      "'~' is for integers, bools and masks");
            },
            [&](const Binary& n) {
              if (present(n.lhs) && present(n.rhs)) check_binary(e, n);
            },
            [&](const Select& n) {
              if (!present(n.condition) || !present(n.if_true) || !present(n.if_false)) return;
              check(n.condition->type == Type::scalar(DType::kBool), "the condition of a select is a scalar bool");
              check(n.if_true->type == n.if_false->type, "the arms of a select have one type");
              typed(e, n.if_true->type, "a select");
            },
            [&](const Cast& n) {
              if (!present(n.operand)) return;
              const Type from = n.operand->type;
              if (type.pointer || from.pointer) {
                check(type.pointer && from.pointer, "a cast between a pointer and a value");
              } else {
                check(value_type(type) && value_type(from) && from.lanes == type.lanes,
                      fmt::format("a cast from {} to {}", from.text(), type.text()));
              }
            },
            [&](const Broadcast& n) {
              if (!present(n.scalar)) return;
              check(n.scalar->type.is_scalar() && value_type(type), "a broadcast is of a scalar");
              typed(e, n.scalar->type.with_lanes(type.lanes), "a broadcast");
            },
            [&](const VectorLiteral& n) {
              check(type.is_vector() && value_type(type) && n.lanes.size() == static_cast<size_t>(type.lanes),
                    "the lanes of a vector literal");
              for (const Expr& lane : n.lanes) {
                if (present(lane)) check(lane->type == type.with_lanes(1), "the type of a lane of a vector literal");
              }
            },
            [&](const Load& n) {
              if (!present(n.pointer) || !present(n.index)) return;
              check(n.pointer->type.pointer && value_type(n.pointer->type.pointee()),
                    "a load needs a pointer to a value");
              check_index(n.index);
              typed(e, n.pointer->type.pointee(), "a load");
            },
            [&](const AddressOf& n) {
              use(n.var);
              if (!error_.ok()) return;
              check(value_type(n.var->type), "the address of a scalar or vector variable only");
              typed(e, Type::pointer_to(n.var->type.element, n.var->type.lanes, tir::Scope::kPrivate), "an address");
            },
            [&](const LaneRead& n) {
              if (!present(n.vector) || !present(n.index)) return;
              check(n.vector->type.is_vector(), "a lane of something that is no vector");
              check_index(n.index);
              check_constant_lane(n.index, n.vector->type.lanes);
              typed(e, n.vector->type.with_lanes(1), "a lane");
            },
            [&](const IntrinsicCall& n) { check_intrinsic(e, n); },
            [&](const FunctionCall& n) {
              const PrimFunc* callee = find(n.function);
              if (!check(callee != nullptr, fmt::format("there is no function '{}'", n.function))) return;
              check(callee != module_.functions.front().get(), "current not support entry function as subroutines");
              typed(e, callee->return_type, "a call");
              if (!check(n.args.size() == callee->params.size(),
                         fmt::format("'{}' is called with {} arguments", n.function, n.args.size())))
                return;
              for (size_t i = 0; i < n.args.size(); ++i) {
                if (!present(n.args[i])) continue;
                const Type a = n.args[i]->type, p = callee->params[i]->type;
                check(a == p,
                      fmt::format("argument {} of '{}' has type {} instead of {}", i, n.function, a.text(), p.text()));
              }
            },
        },
        e.node);
  }

  void check_binary(const ExprNode& e, const Binary& n) {
    const Type a = n.lhs->type, b = n.rhs->type;
    const std::string_view symbol = binary_op_symbol(n.op);
    typed(e, binary_type(n.op, a), symbol);
    if (a.pointer) {
      if (is_comparison(n.op)) {
        check(b.pointer, fmt::format("'{}' of a pointer and a value", symbol));
      } else {
        check(n.op == BinaryOp::kAdd || n.op == BinaryOp::kSub, fmt::format("'{}' of a pointer", symbol));
        check(a.element != DType::kVoid, "The void pointer can't be moved.");
        check_index(n.rhs);
      }
      return;
    }
    if (!check(a == b, fmt::format("'{}' of {} and {}", symbol, a.text(), b.text()))) return;
    check(value_type(a), fmt::format("'{}' of {}", symbol, a.text()));
    const bool boolean = is_bool(a.element), integer = is_integer(a.element);
    switch (n.op) {
      case BinaryOp::kAnd:
      case BinaryOp::kOr:
        check(boolean && a.lanes == 1, fmt::format("'{}' of {}", symbol, a.text()));
        break;
      case BinaryOp::kBitAnd:
      case BinaryOp::kBitOr:
      case BinaryOp::kBitXor:
        check(boolean || integer, fmt::format("'{}' of {}", symbol, a.text()));
        break;
      case BinaryOp::kShl:
      case BinaryOp::kShr:
      case BinaryOp::kMod:
        check(integer, fmt::format("'{}' of {}", symbol, a.text()));
        break;
      case BinaryOp::kEq:
      case BinaryOp::kNe:
        break;
      default:
        check(!boolean, fmt::format("'{}' of {}", symbol, a.text()));
        break;
    }
  }

  // The type rule of the intrinsic must accept the operands as they are and give the type of the call.
  void check_intrinsic(const ExprNode& e, const IntrinsicCall& n) {
    if (!check(n.intrinsic != nullptr, "a null intrinsic")) return;
    for (const Expr& arg : n.args) check(arg != nullptr, "a null operand");
    if (!error_.ok()) return;
    for (size_t i = 1; i < n.attributes.size(); ++i)
      check(n.attributes[i - 1].first < n.attributes[i].first, "attributes are sorted by name");
    for (const auto& [name, value] : n.attributes) {
      bool known = false;
      for (const IntrinsicParam& param : n.intrinsic->params) {
        if (param.name != name || param.kind != ParamKind::kAttribute) continue;
        known = true;
        if (!param.choices.empty())
          check(value >= 0 && value < static_cast<int64_t>(param.choices.size()),
                fmt::format("attribute {}={}", name, value));
        if (name == "lanes") check(value >= 0 && value <= kMaxLanes, fmt::format("attribute {}={}", name, value));
        if (name == "dtype") {
          const Type type = type_of_attribute(value);
          check(value_type(type) || type.pointer, fmt::format("attribute {}={}", name, value));
        }
      }
      check(known, fmt::format("S.{} has no attribute '{}'", n.intrinsic->name, name));
    }
    if (!error_.ok()) return;
    std::vector<Expr> args = n.args;
    Expr mask = n.mask, pass_through = n.pass_through;
    auto attributes = n.attributes;
    InferInput input{&args, std::vector<bool>(args.size(), false), &mask, &pass_through, &attributes};
    const Result<Type> type = n.intrinsic->infer(input);
    if (!type.ok()) return fail(fmt::format("S.{}: {}", n.intrinsic->name, type.status().message()));
    typed(e, *type, fmt::format("S.{}", n.intrinsic->name));
    check(args == n.args && mask == n.mask && pass_through == n.pass_through,
          fmt::format("S.{}: operands that still need conversions", n.intrinsic->name));
    check(e.type.is_void() || value_type(e.type) || e.type.pointer, "the type of an intrinsic");
  }

  // The functions that each one calls, once each.
  std::vector<const PrimFunc*> callees_of(const PrimFunc& function) const {
    std::vector<const PrimFunc*> callees;
    std::unordered_set<const PrimFunc*> seen;
    walk(
        function.body,
        [&](const Expr& e) {
          const auto* call = e->as<FunctionCall>();
          const PrimFunc* callee = call == nullptr ? nullptr : find(call->function);
          if (callee != nullptr && seen.insert(callee).second) callees.push_back(callee);
        },
        [](const Stmt&) {});
    return callees;
  }

  // Depth-first over the calls, with a stack of its own: a chain of calls is as long as a file likes. What is `active`
  // and not on the stack any more is known to come to an end.
  void check_recursion() {
    if (!error_.ok()) return;
    struct Visit {
      const PrimFunc* function;
      std::vector<const PrimFunc*> callees;
    };
    std::unordered_map<const PrimFunc*, bool> active;  // of those that have been entered
    std::vector<Visit> stack;
    const auto enter = [&](const PrimFunc* function) {
      const auto [entry, is_new] = active.emplace(function, true);
      if (is_new) {
        stack.push_back({function, callees_of(*function)});
      } else if (entry->second) {
        stmt_ = nullptr;
        fail(fmt::format("TIR: function '{}' calls itself", function->name));
      }
    };
    for (const PrimFuncPtr& function : module_.functions) {
      if (!active.contains(function.get())) enter(function.get());
      while (!stack.empty() && error_.ok()) {
        if (stack.back().callees.empty()) {
          active[stack.back().function] = false;
          stack.pop_back();
        } else {
          const PrimFunc* callee = stack.back().callees.back();
          stack.back().callees.pop_back();
          enter(callee);
        }
      }
    }
  }

  const Module& module_;
  const PrimFunc* function_ = nullptr;
  Stmt stmt_;
  Status error_;
  Meter* meter_;
  std::unordered_map<std::string, const PrimFunc*> functions_;
  std::vector<std::vector<const Var*>> scopes_;
  std::unordered_set<const Var*> visible_, declared_, allocs_;
};

}  // namespace

Status verify(const Module& module, Meter* meter) { return Verifier(module, meter).run(); }

}  // namespace aipu::tir
