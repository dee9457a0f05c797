// Rewrites one function for registers; the pass is split_vectors.h. Private to the lowering.
//
// Statements are appended to out_ as they come out; what an expression needs before it (temporaries, the rounds of a
// condition) goes there too. scalar() rewrites an expression that is no split vector, split() gives one expression per
// register for one that is. The parts: split_vectors.cpp (functions and statements), split_expressions.cpp (variables,
// memory, expressions), split_intrinsics.cpp, split_rearrangements.cpp (intrinsics that move lanes), split_loops.cpp
// (vectors of very many registers).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/vector_chunks.h"
#include "codegen/tir/effects.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {

using Chunks = std::vector<Expr>;  // the registers of a vector, in order

inline Expr index64(int64_t value) { return int_imm(value, DType::kI64); }
Expr zero_of(Type type);

class VectorSplitter {
 public:
  VectorSplitter(const ChunkPlan& plan, Status& error) : plan_(plan), error_(error) {}

  PrimFuncPtr run(const PrimFunc& function);

 private:
  void fail(const Expr& at, std::string_view message);

  Type lower_type(Type type) const { return type.pointer ? plan_.lowered_pointer(type) : type; }
  const std::vector<Chunk>& cut(Type type) const { return plan_.chunks(type.lanes); }
  static Type chunk_type(Type type, const Chunk& chunk) { return Type::vector(type.element, chunk.lanes); }

  // ---- variables ----

  VarPtr new_var(std::string name, Type type) const;

  void emit(decltype(StmtNode::node) node) { out_->push_back(make_stmt(std::move(node), span_)); }

  Expr define(std::string name, Expr value);

  // A value that may be mentioned several times.
  Expr bind(Expr value);

  void find_addressed(const PrimFunc& function);
  bool lives_in_memory(const VarPtr& var) const { return addressed_.contains(var.get()) || is_looped(var->type); }

  void add_param(PrimFunc& result, const VarPtr& param);

  std::vector<VarPtr> make_parts(const Var& var) const;

  // Private memory holds the lanes of a mask as bytes.
  static Type memory_pointer(Type type) {
    return Type::pointer_to(is_bool(type.element) ? DType::kU8 : type.element, 1, Scope::kPrivate);
  }

  // Private memory for the lanes of a vector, with room for the padding of its last register.
  VarPtr allocate(const std::string& name, Type type, int64_t lanes = 0);

  VarPtr renamed(const VarPtr& var) const;

  // ---- memory ----

  static Expr move(const Expr& pointer, int64_t elements);
  static Expr move(const Expr& pointer, Expr elements);

  Expr call(std::string_view name, std::vector<Expr> operands,
            std::vector<std::pair<std::string, int64_t>> attributes = {}, Expr mask = nullptr,
            Expr pass_through = nullptr);

  static Expr literal_mask(int lanes, int valid);
  // The mask of an access to memory: the given one without the padding.
  Expr access_mask(const Chunk& chunk, const Expr& mask) const;

  Expr load_chunk(const Expr& pointer, const Chunk& chunk, Type type, const Expr& mask = nullptr,
                  Expr stride = nullptr);
  void store_chunk(const Expr& value, const Expr& pointer, const Chunk& chunk, const Expr& mask = nullptr,
                   Expr stride = nullptr);
  // Lanes of a mask as bytes and back.
  Expr to_bytes(const Expr& mask);
  static Expr from_bytes(const Expr& bytes) { return binary(BinaryOp::kNe, bytes, zero_of(bytes->type)); }

  void store_chunks(const Chunks& values, const std::vector<Chunk>& chunks, Type type, const Expr& pointer);
  Expr load_lanes(const Expr& pointer, const Chunk& chunk, Type type);
  Chunks load_all(const Expr& pointer, Type type);
  Expr bind_chunk(Expr value) {
    return value->as<VarRef>() || value->as<Broadcast>() ? value : define("v", std::move(value));
  }

  // ---- expressions ----

  // An expression that is no split vector.
  Expr scalar(const Expr& e);

  std::vector<Expr> arguments(const FunctionCall& n);

  // A pointer to vectors that C has no type for moves by their lanes.
  Expr scaled_index(const Expr& index, Type pointer);

  Expr scalar_binary(const Expr& e, const Binary& n);

  template <typename F>
  Expr into(std::vector<Stmt>& statements, F&& f) {
    std::vector<Stmt>* outer = std::exchange(out_, &statements);
    Expr result = f();
    out_ = outer;
    return result;
  }

  Expr scalar_select(const Expr& e, const Expr& condition, const Expr& if_true, const Expr& if_false);

  Expr lane_read(const Expr& e, const LaneRead& n);

  // The lanes in private memory.
  Expr spill(const Chunks& values, Type type, int64_t room = 0);

  // ---- split vectors ----

  Chunks split(const Expr& e);

  // The address of element `index` of a pointer to vectors, as a pointer to scalars.
  Expr wide_pointer(const Expr& pointer, const Expr& index);

  Chunks split_select(const Expr& e, const Select& n);

  // ---- intrinsics ----

  bool any_split(const IntrinsicCall& n, Type result) const;

  // An intrinsic whose result is no split vector.
  Expr scalar_intrinsic(const Expr& e, const IntrinsicCall& n);

  // Stands for a void expression whose effects are in the statements before it.
  static Expr nothing() { return nullptr; }

  // As it was, with lowered operands.
  Expr plain_intrinsic(const Expr& e, const IntrinsicCall& n);

  static void set_attribute(IntrinsicCall& n, std::string_view name, int64_t value);

  // Copies count elements of the pointer: of a pointer that became one to scalars there are more.
  void scale_dma(const Expr& e, const IntrinsicCall& n, IntrinsicCall& lowered);

  Chunks split_mask(const Expr& mask) { return mask ? split(mask) : Chunks(); }

  static Expr strided(const Expr& stride, int lanes);
  static Expr strided(const Expr& stride, const Expr& lanes);

  Expr element_pointer(const Expr& pointer, DType element);

  Chunks split_intrinsic(const Expr& e, const IntrinsicCall& n);

  Chunks split_elementwise(const Expr& e, const IntrinsicCall& n);

  // Registers are combined from the upper half into the lower half, as the intrinsic does with lanes: the result is the
  // same to the bit.
  Chunks split_reduction(const Expr& e, const IntrinsicCall& n);

  // The scalar that a reduction of a split vector yields, in the element type of the result.
  Expr reduce(const Expr& e, const IntrinsicCall& n);

  // ---- vectors of very many registers: in private memory, worked on by loops ----

  bool is_looped(Type type) const;
  // What makes, in the body of a loop, the register that begins at a lane. Made before the loop, with all that comes
  // before it.
  using ByRegister = std::function<Expr(const Expr& at)>;
  using RegisterBody = std::function<void(const Expr& at)>;
  void for_each_register(Type type, const RegisterBody& body);
  void for_lanes(int64_t from, int64_t to, int step, const RegisterBody& body);
  Chunk register_of(Type type) const;
  Expr lanes_at(const Expr& memory, const Expr& at, Type type);
  void store_lanes(const Expr& value, const Expr& memory, const Expr& at, Type type);
  ByRegister by_register(const Expr& e);  // of no expression: none
  ByRegister intrinsic_by_register(const Expr& e, const IntrinsicCall& n);
  ByRegister unlooped(const Expr& e);  // of what has no loop: one statement per register
  ByRegister settled(const Expr& e);
  bool reads_shared_memory(const Expr& e) const;
  Expr in_memory(const Expr& e);
  void store_in_loop(const Expr& e, const Expr& memory);
  void assign_in_loop(const Expr& e, const VarPtr& memory, bool addressed);
  void store_vector(const Expr& e, const Expr& pointer, const Expr& stride, const Expr& mask);
  void scatter_vector(const IntrinsicCall& n);
  Expr decide(const IntrinsicCall& n);  // vall, vany
  // All registers combined into one.
  Expr reduce_in_loop(const IntrinsicCall& n, BinaryOp op, const Expr& identity);

  // ---- rearrangements: lanes of the operands, in another order ----

  // Lane i of the result is lane map(i) of what is rearranged.
  using LaneMap = std::function<int(int)>;

  // A sequence of registers; `lanes` of them are meaningful, one after the other.
  struct Pieces {
    Type type;  // element; lanes: of all together
    Chunks values;
    std::vector<Chunk> chunks;
  };

  Pieces whole_pieces(const std::vector<Expr>& operands);

  void add_piece(Pieces& pieces, Expr value);

  Expr spill(const Pieces& pieces, int64_t room = 0);

  // The register `chunk` of a value whose lane i is lane from(i) of the pieces.
  Expr gather_chunk(const Pieces& pieces, Type type, const Chunk& chunk, const LaneMap& from, Expr* memory = nullptr);

  Chunks gather_all(const Pieces& pieces, Type type, const LaneMap& from);

  // The same lanes as one piece list for any result type.
  Pieces rearranged(const Pieces& pieces, Type type, const LaneMap& from);

  // What an intrinsic that moves lanes yields, as pieces in order; nothing if it is none of these.
  std::optional<Pieces> pieces_of(const Expr& e, const IntrinsicCall& n);

  // Intrinsics that combine neighbouring lanes, register by register: each gives its part of the result.
  std::optional<Pieces> registerwise(const Expr& e, const IntrinsicCall& n, bool accumulating);

  // The same, and intrinsics that exist on native vectors alone: operands that are cut otherwise are put together to
  // native vectors, 256 bits of `operand` at a time.
  std::optional<Pieces> nativewise(const Expr& e, const IntrinsicCall& n, Type operand);

  // Casts that take a part of the lanes, or several vectors.
  std::optional<Pieces> cast_pieces(const Expr& e, const IntrinsicCall& n);

  // ---- statements ----

  void statements(const Stmt& stmt, std::vector<Stmt>& into_body);
  Stmt body_of(const Stmt& stmt);

  // Assigns all parts of a variable; none may read a part that was assigned before it.
  void assign_parts(const std::vector<VarPtr>& parts, Chunks values);

  void statement(const Stmt& stmt);

  Chunks bound(Chunks values);

  void lane_write(const LaneWrite& n);

  const ChunkPlan& plan_;
  Status& error_;
  std::vector<Stmt>* out_ = nullptr;
  SourceSpan span_;
  VarPtr result_pointer_;
  std::unordered_set<const Var*> addressed_;                   // split variables whose address is taken
  std::unordered_map<const Var*, VarPtr> memories_;            // where these and long vectors live
  std::unordered_map<const Var*, std::vector<VarPtr>> parts_;  // the registers of other split variables
  std::unordered_map<const Var*, VarPtr> renamed_;             // pointers that changed their type
};

}  // namespace aipu::tir
