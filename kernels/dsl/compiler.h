// The typed translation of one kernel from syntax tree to TIR. One object per kernel; its methods are split by concept
// over the compile_*.cpp files.
//
// Errors: fail() records a diagnostic and throws Diagnosed; the statement loop of a kernel catches it and goes on with
// the next statement, so that several mistakes are reported at once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/block_marks.h"
#include "kernels/dsl/ast.h"
#include "kernels/dsl/diagnostics.h"
#include "kernels/dsl/environment.h"
#include "kernels/dsl/value.h"

namespace aipu::dsl {

struct CallArguments {
  ValueList positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

class FileEnvironment;

class Compiler {
 public:
  Compiler(std::shared_ptr<Environment> environment, Diagnostics& diagnostics);
  // The entry and all it calls. Throws Diagnosed, or returns with diagnostics recorded.
  tir::Module compile(const FunctionValue& entry, std::string_view kernel_name);
  // Has the marks of the blocks of what is compiled from now on written down.
  void mark_blocks(tir::BlockMarks* marks) { marks_ = marks; }

  // Without a kernel, for host_program.h. Throw Diagnosed; containers of the results live as long as the compiler.
  ValuePool& pool() { return pool_; }
  Value evaluate_at_top_level(const FunctionValue& file, const ast::ExprPtr& expr);
  Value call_at_top_level(const FunctionValue& function, const CallArguments& arguments);

  // Python's own functions (compile_builtins.cpp): all that the language knows by name, and who answers.
  struct Builtin {
    Value (Compiler::*call)(const std::string& name, CallArguments& arguments, Position position);
    bool left_to_python = false;  // where there is one
  };
  static const std::map<std::string_view, Builtin>& builtins();

 private:
  // --- frames, scopes, names (compiler.cpp) ---
  struct Binding {
    Value value;      // for a run-time variable its VarRef
    tir::VarPtr var;  // null: a compile-time value
    int block = 0;    // the run-time block it was bound in
    bool loop_variable = false;
    std::vector<tir::VarPtr> fields = {};  // of a run-time record: the variables of its leaves, in order
  };
  enum class LoopKind : uint8_t { kRuntime, kUnrolled, kHost };  // kHost: plain Python, unrolled, may break
  using Scope = std::unordered_map<std::string, Binding>;
  // One activation: a prim_func being compiled, or a function being inlined.
  struct Frame {
    FunctionKind kind = FunctionKind::kPrimFunc;
    ast::FunctionPtr definition;
    SourceFilePtr file;
    std::shared_ptr<Environment> globals;
    Frame* caller = nullptr;   // of an inlined function
    Position call_position;    // in the caller
    bool sees_caller = false;  // a macro that is not hygienic
    bool host = false;         // a plain function called with compile-time arguments only: plain Python
    int block = 0;             // the run-time block it was entered in
    std::vector<Scope> scopes;
    // around the statement at hand, innermost last; with the run-time block each is in
    std::vector<std::pair<LoopKind, int>> loops;
    Value result{NoneValue{}};
  };
  // A prim_func on its way to TIR.
  struct Function {
    std::string name;
    ast::FunctionPtr definition;
    std::vector<tir::VarPtr> params;
    std::vector<Value> parameter_types;  // per parameter of the source; None for S.meta_var
    tir::Type return_type;
    bool has_return_annotation = false;
    bool is_entry = false;
    std::vector<int64_t> meta_values;  // of its S.meta_var parameters, in order
    tir::InlineHint hint = tir::InlineHint::kNone;
    // What a local pointer variable may have been set to, for the stack pointer check.
    std::unordered_map<const tir::Var*, std::vector<tir::Expr>> pointer_roots;
  };
  struct StatementList {
    int block;
    std::vector<tir::Stmt> statements;
  };
  enum class Flow : uint8_t { kNext, kReturn, kBreak };
  class ScopeGuard;
  class BlockGuard;

  [[noreturn]] void fail(Position position, std::string_view text);
  [[noreturn]] void fail(Position position, const Status& status);
  template <typename T>
  T check(Position position, Result<T> result) {
    if (!result.ok()) fail(position, std::move(result).status());
    return std::move(result).value();
  }
  // Counts work (`amount`: elements of containers made), so that compile-time evaluation ends and stays within some
  // memory.
  void step(Position position, size_t amount = 1);
  // No kernel is being compiled: only compile-time values, and expressions that are extents of shapes.
  bool without_kernel() const { return blocks_.empty(); }
  bool exhausted() const { return steps_ > kMaxSteps; }
  Value make_list(ValueList items) { return pool_.list(std::move(items)); }
  Value make_tuple(ValueList items) { return pool_.tuple(std::move(items)); }
  Value make_iterable(std::string kind, ValueList arguments) {
    return {IterableValue{std::move(kind), pool_.add(std::move(arguments))}};
  }
  bool holds_run_time_value(const Value& value, std::set<const void*>& seen);
  void materialize_items(ValueList& items, const std::string& name, Position position, std::set<const void*>& seen);
  tir::SourceSpan span(Position position) const;

  Binding* find_local(Frame& frame, std::string_view name);
  Value lookup(const std::string& name, Position position);
  std::optional<Value> lookup_global(const std::shared_ptr<Environment>& globals, const std::string& name,
                                     Position position);
  Value top_level_value(const std::shared_ptr<Environment>& globals, const FileEnvironment& file,
                        const std::string& name, Position position);
  void bind(const std::string& name, Value value, tir::VarPtr var = nullptr);
  bool strict();                // without our extensions
  const std::string& target();  // the target's name as the environment gives it, "" when it doesn't

  void emit(tir::Stmt stmt);
  void emit(Position position, decltype(tir::StmtNode::node) node);
  tir::VarPtr define(const std::string& name, tir::Expr value, Position position, bool non_negative = false);
  // A name for `value` that can be used any number of times: itself when that costs nothing.
  tir::Expr materialize(const tir::Expr& value, const std::string& name, Position position);
  Value materialize(Value value, const std::string& name, Position position);
  static bool is_trivial(const tir::Expr& value);
  static bool reads_memory(const tir::Expr& value);  // or calls a function
  static bool has_effects(const tir::Expr& value);   // or may have some: calls, intrinsics that are not pure

  // --- functions (compile_functions.cpp) ---
  FunctionKind kind_of(const FunctionValue& function);
  Value evaluate_in_globals(const FunctionValue& function, const ast::ExprPtr& expr);
  Value in_globals(const FunctionValue& function, Position position, const std::function<Value()>& work);
  const Function& compile_prim_func(const FunctionValue& function, bool is_entry, std::string name,
                                    const std::vector<int64_t>& meta_values = {});
  Value call_prim_func(const FunctionValue& function, const CallArguments& arguments, Position position);
  Value inline_function(const FunctionValue& function, const CallArguments& arguments, Position position);
  Value local_function(const ast::FunctionPtr& definition, Position position);
  std::vector<std::pair<std::string, Value>> bind_python_arguments(const FunctionValue& function,
                                                                   const CallArguments& arguments, Position position);
  void check_plain_annotations(const FunctionValue& function, Position position);
  // A call of an embedder's object with compile-time arguments, by the embedder.
  Value call_host(const CapturedOpaque& callee, const CallArguments& arguments, Position position);
  std::optional<Value> operate_host(std::string_view operation, std::initializer_list<const Value*> operands,
                                    Position position);
  Value parameter_default(const FunctionValue& function, const ast::Parameter& parameter);
  tir::Type parameter_type(const Value& annotation, const std::string& parameter, const std::string& function,
                           Position position, bool* size_var);
  void check_returned_pointer(const tir::Expr& value, Position position);
  bool is_stack_pointer(const tir::Expr& value, std::set<const tir::Var*>& seen);

  // --- records (compile_records.cpp) ---
  Value record_type(const ast::ClassDef& definition, const FunctionValue& module);
  Value make_record(const std::shared_ptr<const RecordType>& type, const CallArguments& arguments, Position position);
  Value record_field(const RecordValue& record, const std::string& name, Position position);
  Value materialize_record(const RecordValue& record, const std::string& name, Position position);
  void assign_record(const std::string& name, const RecordValue& record, Position position);
  Binding record_variable(const std::string& name, const RecordValue& record, Position position);
  bool is_python_record(const RecordValue& record);   // made outside of a kernel
  std::vector<tir::Expr> leaves(const Value& value);  // of a record or list of a kernel, in order
  struct ParameterSite {
    Position position;
    bool restricted;
  };
  // The parameters that one of the source stands for, added to `function`; what the name is bound to.
  Value declare_parameter(const ParameterSite& site, const Value& annotation, const std::string& path,
                          Function& function);
  // An argument in messages: "2-th arg", and in those of types "2-th".
  struct ArgumentName {
    std::string what, place;
  };
  static ArgumentName field_name(const RecordType& type, const RecordType::Field& field);
  Value fit(const Value& type, const Value& value, const ArgumentName& name, Position position);
  tir::Expr fit_type(const tir::Type& type, const Value& value, const ArgumentName& name, Position position);
  void check_record_arguments(const FunctionValue& function, const std::vector<std::pair<std::string, Value>>& bound,
                              Position position);

  // --- statements (compile_statements.cpp, compile_control.cpp) ---
  Flow run_body(const ast::Body& body);
  Flow run_statement(const ast::Stmt& stmt);
  void poison_targets(const ast::Stmt& stmt);
  void assign(const ast::ExprPtr& target, Value value, Position position);
  void assign_name(const std::string& name, Value value, Position position);
  void set_variable(const tir::VarPtr& var, int declared, const tir::Expr& value, Position position);
  ValueList unpacked(const Value& value, Position position);
  void assign_tuple(const std::vector<ast::ExprPtr>& targets, ValueList values, Position position);
  void assign_statement(const ast::Assign& node, Position position);
  void augmented_assign(const ast::AugAssign& node, Position position);
  Flow if_statement(const ast::If& node, Position position);
  Flow for_statement(const ast::For& node, Position position);
  Flow unrolled_for(const ast::For& node, const ValueList& items, Position position, bool allow_break);
  void serial_for(const ast::For& node, const std::vector<const ast::Name*>& targets, const ValueList& bounds,
                  tir::ForKind kind, Position position);
  void grid_for(const ast::For& node, const std::vector<const ast::Name*>& targets, const ValueList& extents,
                size_t level, Position position);
  void while_statement(const ast::While& node, Position position);
  Flow with_statement(const ast::With& node, Position position);
  Flow return_statement(const ast::Return& node, Position position);
  std::string loop_variable_name(const ast::Name& target, Position position);
  // A bool known now, or a run-time bool.
  std::variant<bool, tir::Expr> condition(const Value& value, Position position);

  // --- expressions (compile_expressions.cpp) ---
  Value eval(const ast::ExprPtr& expr);
  Value eval_node(const ast::Expr& expr);
  // In order; when a later one needs statements, earlier ones that read memory are saved in variables first.
  ValueList eval_all(const std::vector<const ast::ExprPtr*>& exprs);
  // With the statements that it needs before it kept apart: an operand that may not be evaluated, or again and again.
  struct Guarded {
    Value value;
    std::vector<tir::Stmt> statements;
  };
  Guarded eval_guarded(const ast::ExprPtr& expr);
  ValueList eval_display(const std::vector<ast::ExprPtr>& elements);
  void save_before(size_t before, ValueList& values, Position position);
  Value logical(bool is_and, const Value& lhs, const std::function<Guarded(bool conditional)>& rhs, Position position);
  static bool is_float_operand(const Value& value);
  Value eval_compare(const ast::Compare& node, Position position);
  Value eval_bool_op(const ast::BoolOp& node, Position position);
  Value eval_conditional(const ast::Conditional& node, Position position);
  Value eval_comprehension(const ast::Comprehension& node, Position position);
  void run_clause(const ast::Comprehension& node, size_t clause, ValueList* out);
  std::string eval_fstring(const ast::FString& node);
  ValueList iterate(const Value& value, Position position);  // a compile-time iterable
  CallArguments eval_arguments(const ast::Call& node, Value* callee);
  Value eval_call(const ast::Call& node, Position position);
  Value call(const Value& callee, CallArguments arguments, Position position);

  // --- attributes and methods (compile_attributes.cpp) ---
  Value attribute(const ast::Attribute& node, Position position);
  Value script_attribute(const std::string& name, Position position);
  std::string no_script_attribute(std::string_view name);  // says which one is meant
  Value type_attribute(const TypeValue& type, const std::string& name, Position position);
  Value call_method(const MethodValue& method, CallArguments& arguments, Position position);
  Value call_type_method(const TypeValue& self, const std::string& name, CallArguments& arguments, Position position);

  // --- operators (compile_operators.cpp; constant_folding.cpp for Python values) ---
  tir::Expr to_expr(const Value& value, Position position);
  tir::Expr constant(double value, DType dtype);
  tir::Expr constant(int64_t value, DType dtype);
  // A value converted to a type as an assignment through memory does: cast, then broadcast.
  tir::Expr convert(const Value& value, tir::Type type, Position position);
  tir::Expr convert_element(const Value& value, DType dtype, Position position);
  Value binary(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position);
  Value compare(ast::CompareOp op, const Value& lhs, const Value& rhs, Position position);
  Value unary(ast::UnaryOp op, const Value& operand, Position position);
  Value pointer_arithmetic(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position);
  Value shift(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position);
  struct Matched {
    tir::Expr lhs, rhs;
  };
  Matched match_operands(const Value& lhs, const Value& rhs, Position position);
  static std::optional<tir::Expr> fold_identity(tir::BinaryOp op, const Matched& m);
  void refuse_bf16_scalars(std::initializer_list<Value> operands, Position position);
  void refuse_numpy_scalar(const Value& value, Position position);
  std::optional<Value> fold_binary(ast::BinaryOp op, const Value& lhs, const Value& rhs, Position position);
  std::optional<bool> fold_compare(ast::CompareOp op, const Value& lhs, const Value& rhs, Position position);
  bool values_equal(const Value& lhs, const Value& rhs, int depth = 0);
  static std::optional<bool> truth(const Value& value);  // null: a run-time value

  // --- memory (compile_memory.cpp) ---
  Value subscript(const Value& object, const std::vector<Value>& indices, bool tuple_index, Position position);
  void store(const ast::ExprPtr& target, const Value& object, const std::vector<Value>& indices, const Value& value,
             Position position);
  std::vector<Value> eval_indices(const ast::Subscript& node, Value* object);
  tir::Expr index_expr(const Value& index, Position position);
  tir::Expr pointer_of(const Value& value, Position position);
  void check_access(const tir::Expr& pointer, Position position);
  struct SliceAccess {
    tir::Expr pointer;
    int lanes;
    Value stride;
  };
  SliceAccess slice(const tir::Expr& pointer, const Value& slice, Position position);
  Value buffer_offset(const Buffer& buffer, const std::vector<Value>& indices, bool partial, Position position);
  tir::Expr element_index(const Buffer& buffer, const std::vector<Value>& indices, Position position);
  std::optional<int64_t> constant_difference(const Value& upper, const Value& lower);
  SliceAccess buffer_slice(const Buffer& buffer, const std::vector<Value>& indices, Position position);
  Value load_slice(const SliceAccess& access, Position position);
  tir::Expr lane_index(const tir::Type& type, const Value& index, Position position);
  std::optional<Value> array_slice(const Value& object, const std::vector<Value>& indices, Position position);
  Value python_subscript(const Value& object, const Value& index, Position position);
  Value allocate(CallArguments& arguments, bool as_pointer, Position position);
  Value allocate_const(CallArguments& arguments, Position position);
  Value match_buffer(CallArguments& arguments, Position position);
  std::vector<int64_t> constant_shape(const Value& shape, Position position);

  // --- S functions, intrinsics, Python's own (compile_script.cpp, _intrinsics.cpp, _cast.cpp, _builtins.cpp) ---
  using ScriptHandler = Value (Compiler::*)(CallArguments&, Position);
  static const std::map<std::string_view, ScriptHandler>& script_handlers();
  Value call_script(const std::string& name, CallArguments& arguments, Position position);
  Value call_intrinsic(const std::string& name, CallArguments& arguments, Position position);
  Value call_intrinsic(const tir::Intrinsic& row, ValueList operands,
                       std::vector<std::pair<std::string, Value>> keywords, Position position);
  const tir::Intrinsic* required_intrinsic(std::string_view name, Position position);
  Value call_builtin(const std::string& name, CallArguments& arguments, Position position);
  Value python_nothing(const std::string& name, CallArguments& arguments, Position position);
  Value python_extremum(const std::string& name, CallArguments& arguments, Position position);
  Value python_range(const std::string& name, CallArguments& arguments, Position position);
  Value python_zip(const std::string& name, CallArguments& arguments, Position position);
  Value python_list(const std::string& name, CallArguments& arguments, Position position);
  Value python_sum(const std::string& name, CallArguments& arguments, Position position);
  Value python_len(const std::string& name, CallArguments& arguments, Position position);
  Value python_reversed(const std::string& name, CallArguments& arguments, Position position);
  Value python_any(const std::string& name, CallArguments& arguments, Position position);
  Value python_str(const std::string& name, CallArguments& arguments, Position position);
  Value python_number(const std::string& name, CallArguments& arguments, Position position);
  Value python_unsupported(const std::string& name, CallArguments& arguments, Position position);
  // The result of the embedder's object as the one operand, if it is one.
  std::optional<Value> python_of_host(const std::string& name, CallArguments& arguments, Position position);
  Value cast_value(const Value& value, tir::Type type, Position position);
  Value construct(const TypeValue& type, CallArguments& arguments, Position position);
  Value simplified_cast(const Value& value, Position position);
  tir::Expr mask_expr(const Value& mask, Position position);
  tir::Expr mask_constant(const std::vector<bool>& bits);
  // Takes the arguments of a call by parameter names; a missing one without default is an error.
  std::vector<Value> take(const CallArguments& arguments, std::string_view function,
                          const std::vector<std::string_view>& names, size_t required, Position position);
  int64_t int_argument(const Value& value, std::string_view phrase, Position position);
  tir::Type pointee_argument(const Value& value, Position position);
  tir::Type type_argument(const Value& value, std::string_view name, Position position);

  Value s_ptr(CallArguments&, Position);
  Value s_alloc(CallArguments&, Position);
  Value s_alloc_buffer(CallArguments&, Position);
  Value s_alloc_const(CallArguments&, Position);
  Value s_match_buffer(CallArguments&, Position);
  // Names of TVM (compile_tvm_names.cpp).
  Value s_serial(CallArguments& arguments, Position position);
  Value s_thread_binding(CallArguments& arguments, Position position);
  Value s_if_then_else(CallArguments& arguments, Position position);
  Value s_select(CallArguments& arguments, Position position);
  Value s_truncdiv(CallArguments& arguments, Position position);
  Value s_truncmod(CallArguments& arguments, Position position);
  Value s_floordiv(CallArguments& arguments, Position position);
  Value s_floormod(CallArguments& arguments, Position position);
  struct Division {
    Value quotient, remainder;
  };
  Division integer_quotient(const Value& a, const Value& b, Position position);
  Value floored(const Value& a, const Value& b, bool quotient, Position position);
  Value extreme_number(std::string_view name, bool least, CallArguments& arguments, Position position);
  Value s_min_value(CallArguments& arguments, Position position);
  Value s_max_value(CallArguments& arguments, Position position);
  Value s_infinity(CallArguments& arguments, Position position);
  Value s_func_attr(CallArguments& arguments, Position position);
  Value s_evaluate(CallArguments& arguments, Position position);
  Value s_likely(CallArguments& arguments, Position position);
  Value s_assert(CallArguments& arguments, Position position);
  Value s_let(CallArguments& arguments, Position position);
  // Tiles in local memory (compile_stage.cpp).
  Value s_stage(CallArguments& arguments, Position position);
  Value staged_operands(const Value& list, std::string_view name, size_t most_numbers, Position position);
  const FunctionValue& stage_function(int64_t local_bytes, Position position);
  Value s_meta_var(CallArguments&, Position);
  Value s_tag(CallArguments&, Position);
  Value s_block(CallArguments&, Position);
  Value s_const_mask(CallArguments&, Position);
  Value s_cast(CallArguments&, Position);
  Value s_reinterpret(CallArguments&, Position);
  Value s_ceildiv(CallArguments&, Position);
  Value s_vsplit(CallArguments&, Position);
  Value s_alloc_events(CallArguments&, Position);
  Value s_max(CallArguments&, Position);
  Value s_min(CallArguments&, Position);
  Value s_pow(CallArguments&, Position);
  Value power(const Value& lhs, const Value& rhs, Position position);  // with the operand matching of operators
  Value s_grid(CallArguments&, Position);
  Value s_vectorized(CallArguments&, Position);
  Value s_tec_range(CallArguments&, Position);
  Value s_unroll(CallArguments&, Position);
  Value s_axis_spatial(CallArguments&, Position);
  Value s_axis_reduce(CallArguments&, Position);
  Value axis(const Value& value, bool reduction, const Value& extent, Position position);
  Value s_axis_remap(CallArguments&, Position);
  Value s_asm(CallArguments&, Position);
  Value scalar_extremum(std::string_view name, tir::BinaryOp op, CallArguments&, Position);

  // statements, expressions and container elements of a kernel, with everything unrolled
  static constexpr int64_t kMaxSteps = 1'500'000;

  ValuePool pool_;
  std::shared_ptr<Environment> environment_;
  Diagnostics& diagnostics_;
  Frame* frame_ = nullptr;
  Function* function_ = nullptr;
  std::vector<StatementList> blocks_;
  int next_block_ = 1;
  std::string name_hint_;  // the name being assigned: what an allocation will be called
  std::vector<std::pair<const ast::FunctionDef*, std::unique_ptr<Function>>> functions_;
  std::map<std::string, tir::PrimFuncPtr> compiled_;
  std::vector<std::string> compile_order_;
  std::set<const ast::FunctionDef*> in_progress_;
  std::map<std::pair<const Environment*, std::string>, Value> global_cache_;
  // top-level names whose values are being worked out
  std::set<std::pair<const Environment*, std::string>> evaluating_;
  std::unordered_set<const tir::Var*> dead_;  // variables of blocks that have been closed
  // keeps the variables in dead_ alive, so that no address comes twice
  std::vector<tir::VarPtr> kept_;
  // the inner loops of an S.grid, while its outer ones are open
  std::vector<std::function<void()>> grid_rest_;
  int64_t steps_ = 0;
  int call_depth_ = 0;
  std::optional<bool> strict_;
  std::optional<std::string> target_;
  tir::BlockMarks* marks_ = nullptr;                  // null: nobody asks
  int schedulable_blocks_ = 0;                        // `with S.block()` around the statement at hand
  std::map<int64_t, FunctionValue> stage_functions_;  // of templates/stage.py, by what its tiles may take
  // what S.size_i32(v) has just yielded: the variable it is assigned to is known to be >= 0
  tir::Expr size_value_;
};

// The top level of a source file, with parameters that win over its own assignments.
class FileEnvironment : public Environment, public std::enable_shared_from_this<FileEnvironment> {
 public:
  FileEnvironment(ast::Module module, const TemplateParams& params, std::map<std::string, ast::Module> sources);
  std::optional<Captured> lookup(std::string_view name) override;  // parameters and functions
  std::optional<ParameterCount> parameter_count(std::string_view parameter) override;
  // The value expression of the last top-level assignment to a name.
  ast::ExprPtr assignment(std::string_view name) const;
  // The class decorated as a record; null when there is none.
  ast::ClassPtr record(std::string_view name) const;
  const SourceFilePtr& file() const { return module_.file; }
  // What an import bound to a name: "aipu.script"; null when none did.
  const std::string* import(std::string_view name) const;
  // The modules whose text we have, and where a name imported from one of them is defined: (environment, its name
  // there).
  const std::map<std::string, std::string, std::less<>>& imports() const { return imports_; }
  void add_module(std::string name, std::shared_ptr<FileEnvironment> module) {
    modules_[std::move(name)] = std::move(module);
  }
  std::optional<std::pair<std::shared_ptr<FileEnvironment>, std::string>> imported(std::string_view name) const;

 private:
  ast::Module module_;
  std::map<std::string, ast::Module> sources_;  // kept: functions point into them
  std::map<std::string, Captured, std::less<>> params_;
  std::map<std::string, ParameterCount, std::less<>> counts_;
  std::map<std::string, ast::FunctionPtr, std::less<>> functions_;
  std::map<std::string, ast::ExprPtr, std::less<>> assignments_;
  std::map<std::string, ast::ClassPtr, std::less<>> records_;
  std::map<std::string, std::string, std::less<>> imports_;
  std::map<std::string, std::shared_ptr<FileEnvironment>, std::less<>> modules_;
};

// The functions of a source text on top of an embedder's environment, which answers for everything else.
class EmbeddedFileEnvironment : public FileEnvironment {
 public:
  EmbeddedFileEnvironment(ast::Module module, std::shared_ptr<Environment> outer)
      : FileEnvironment(std::move(module), TemplateParams(), {}), outer_(std::move(outer)) {}
  std::optional<Captured> lookup(std::string_view name) override {
    if (auto own = FileEnvironment::lookup(name)) return own;
    return outer_->lookup(name);
  }
  Result<Captured> attribute(const Captured& object, std::string_view name) override {
    return outer_->attribute(object, name);
  }
  Result<Captured> call(const Captured& function, const CapturedList& args,
                        const std::vector<std::pair<std::string, Captured>>& kwargs) override {
    return outer_->call(function, args, kwargs);
  }

 private:
  std::shared_ptr<Environment> outer_;
};

}  // namespace aipu::dsl
