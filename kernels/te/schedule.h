// How tensors are computed: for each operation a stage, whose loops are what primitives have made of its axes. Stages
// and relations are plain data; all that follows from them (ranges, guards, regions) is derived when the schedule is
// lowered, and nothing is kept between primitives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/te/operation.h"

namespace aipu::te {

// parent = outer * extent(inner) + inner, counted from the parent's minimum. One of `factor` and `nparts` is null.
struct Split {
  IterVarPtr parent, outer, inner;
  Expr factor, nparts;
};
struct Fuse {
  IterVarPtr outer, inner, fused;
};
// An axis of extent 1 out of nothing.
struct Singleton {
  IterVarPtr iter;
};
using Relation = std::variant<Split, Fuse, Singleton>;

// A declared computation, and the statements that do it: they read and write placeholders, one per input and output.
struct TensorIntrin {
  std::string name;
  OperationPtr op;
  std::vector<Tensor> inputs;   // of the operation, in order of first use
  std::vector<Tensor> buffers;  // for the inputs, then for the outputs
  // Per buffer and dimension: constants, or variables that get the strides of what the buffer is bound to; empty: the
  // memory has to be compact.
  std::vector<std::vector<Expr>> strides;
  Stmt body, reduce_init, reduce_update;  // the last two may be null
};
using TensorIntrinPtr = std::shared_ptr<const TensorIntrin>;

struct IterAttributes {
  IterKind kind = IterKind::kDataPar;  // what an annotation has made of it
  IterVarPtr bind_thread;
  std::vector<std::pair<std::string, Expr>> pragmas;
  TensorIntrinPtr tensor_intrin;
  int64_t align_factor = 0, align_offset = 0;     // of the stride of a data axis; factor 0: natural
  std::vector<std::pair<Tensor, Expr>> prefetch;  // tensors and offsets
};

enum class Attach : uint8_t { kRoot = 1, kInline = 2, kInlined = 3, kAt = 4, kScanUpdate = 5 };  // as Python sees them

// What the threads of an axis are.
enum class ThreadKind : uint8_t { kBlock, kThread, kVirtual, kTec };
std::optional<ThreadKind> thread_kind(std::string_view tag);

// What has become of an axis that may have been split or fused since: the inner part, the whole.
IterVarPtr current_leaf(const std::vector<Relation>& relations, IterVarPtr axis);

class Stage;
using StagePtr = std::shared_ptr<Stage>;

class Stage {
 public:
  explicit Stage(OperationPtr operation);

  // Primitives. Errors name the stage and the axis; nothing has changed then.
  Result<std::pair<IterVarPtr, IterVarPtr>> split(const IterVarPtr& parent, Expr factor, Expr nparts);
  Result<IterVarPtr> fuse(IterVarPtr outer, IterVarPtr inner);
  Result<IterVarPtr> fuse_all(const std::vector<IterVarPtr>& axes);
  Status reorder(const std::vector<IterVarPtr>& order);
  Status annotate(const IterVarPtr& axis, IterKind kind);  // kUnrolled, kVectorized, kParallelized
  Status bind(const IterVarPtr& axis, const IterVarPtr& thread);
  Status pragma(const IterVarPtr& axis, std::string key, Expr value);
  Status tensorize(const IterVarPtr& axis, TensorIntrinPtr intrin);
  Status storage_align(const IterVarPtr& axis, int64_t factor, int64_t offset);
  Status prefetch(const Tensor& tensor, const IterVarPtr& axis, Expr offset);
  Status set_env_threads(const std::vector<IterVarPtr>& threads);
  Status set_double_buffer();
  Status set_rolling_buffer();  // a hint: what an iteration needs is computed anew
  Status compute_at(const StagePtr& parent, const IterVarPtr& axis);
  Status compute_inline();
  Status compute_root();

  bool is_reduction_axis(const IterVar* axis) const { return axis->kind == IterKind::kCommReduce; }
  // Whether a data axis is part of what an axis counts: of one fused of data and reduction too.
  bool counts_data(const IterVar* axis) const;
  bool is_pure_reduction(const IterVar* axis) const { return is_reduction_axis(axis) && !counts_data(axis); }
  std::vector<IterVarPtr> root_axes() const;  // data axes, then reduction axes

  OperationPtr op, origin_op;
  std::vector<IterVarPtr> all_iter_vars, leaf_iter_vars;
  std::vector<Relation> relations;  // in order of creation
  std::map<const IterVar*, IterAttributes> attributes;
  Attach attach = Attach::kRoot;
  IterVarPtr attach_ivar;
  std::weak_ptr<Stage> attach_stage;
  std::weak_ptr<Stage> group;  // the innermost that it belongs to
  bool is_group = false;
  int child_count = 0;  // stages and groups right inside of a group
  std::string scope;
  bool is_output = false, double_buffer = false, rolling_buffer = false;
  std::vector<IterVarPtr> env_threads;
  Expr store_predicate;  // null: always

 private:
  Result<size_t> leaf_index(const IterVarPtr& axis, std::string_view primitive) const;
  Status refused(std::string_view primitive, const IterVarPtr& axis, std::string_view why) const;
  IterVarPtr derive(std::string name, IterKind kind, Type type);
};

class Schedule {
 public:
  // The stages of the outputs and of all that they depend on, producers first.
  static std::shared_ptr<Schedule> create(const std::vector<OperationPtr>& outputs);

  // A copy with stages of its own, in which inlining is done and attachments name present loops.
  std::shared_ptr<Schedule> normalized() const;
  std::shared_ptr<Schedule> copy() const;  // with stages of its own
  // Takes in a stage that was made elsewhere, or a group; `find` knows it by its operations.
  void adopt(const StagePtr& stage);

  // The bodies of the computes that are not inlined, with those that are in them. Reads go to present operations.
  std::map<const Stage*, std::vector<Expr>> bodies() const;

  StagePtr find(const Operation* op) const;  // also by operations from before a rewrite; null if there is none

  // Primitives that make stages (rewrites.cpp).
  Result<Tensor> cache_read(const Tensor& tensor, const std::string& scope, const std::vector<OperationPtr>& readers);
  Result<std::vector<Tensor>> cache_write(const std::vector<Tensor>& tensors, const std::string& scope);
  Result<std::vector<Tensor>> rfactor(const Tensor& tensor, const IterVarPtr& axis, int factor_axis);

  // Another place for the elements of a tensor: the element at `from` (variables) lies at `to`. `axis` are the new
  // axes, `inverse` the old indices in terms of them. The loops of a compute go over the new axes (layouts.cpp).
  Status transform_layout(const StagePtr& stage, const std::vector<Expr>& from, const std::vector<Expr>& to,
                          const std::vector<IterVarPtr>& axis, const std::vector<Expr>& inverse);

  // A stage that moves all between `inputs` and `outputs` together (groups.cpp).
  Result<StagePtr> create_group(const std::vector<OperationPtr>& outputs, const std::vector<OperationPtr>& inputs,
                                bool include_inputs);
  // The stages that are computed once per step of a scan, in order.
  std::vector<StagePtr> body_of_scan(const Stage& scan) const;

  std::vector<StagePtr> stages, groups;
  std::vector<OperationPtr> outputs;

 private:
  void group_steps(const StagePtr& scan);
  void count_children();
  std::vector<StagePtr> between(const std::vector<OperationPtr>& outputs, const std::vector<OperationPtr>& inputs,
                                bool include_inputs) const;
  void insert_before(const StagePtr& place, StagePtr stage);  // null: at the end
  void replace(const StagePtr& stage, OperationPtr op, bool keep_schedule);
  std::string free_name(std::string name, const std::string& scope) const;

  std::map<const Operation*, StagePtr> stage_of_;
  std::vector<OperationPtr> kept_;  // operations from before a rewrite: their addresses stay theirs
};
using SchedulePtr = std::shared_ptr<Schedule>;

}  // namespace aipu::te
