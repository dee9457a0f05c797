// The unscheduled function of tensor expressions.
#include "kernels/te/block.h"

namespace aipu::te {

namespace {

class FunctionMaker {
 public:
  FunctionMaker(const std::vector<Parameter>& params, std::string name) {
    function_.name = std::move(name);
    function_.params = params;
  }

  Result<BlockFunction> run() {
    std::vector<OperationPtr> outputs;
    for (Parameter& param : function_.params) {
      if (!param.tensor.op) continue;
      outputs.push_back(param.tensor.op);
      param.tensor = buffer_for(param.tensor);
    }
    for (const OperationPtr& op : operations_below(outputs)) AIPU_RETURN_IF_ERROR(add(op));
    return std::move(function_);
  }

 private:
  // Memory is what a placeholder stands for; who writes it is said by the blocks.
  Tensor buffer_for(const Tensor& tensor) {
    BufferTarget& target = targets_[{tensor.op.get(), tensor.value_index}];
    if (!target.tensor.op) {
      const bool own = tensor.op->is_placeholder();
      target.tensor = own ? tensor : Tensor{make_placeholder(tensor.name(), tensor.shape(), tensor.type()), 0};
    }
    return target.tensor;
  }

  Status add(const OperationPtr& op) {
    if (op->is_placeholder()) {
      if (!targets_.contains({op.get(), 0}))
        return invalid_argument(str_cat("'", op->name, "' is read, but it is no parameter of '", function_.name, "'"));
      return {};
    }
    if (op->compute() == nullptr)
      return unsupported(str_cat("block schedules: '", op->name, "' is a scan or a statement, not a compute"));
    for (int v = 0; v < op->output_count(); ++v) {
      const bool known = targets_.contains({op.get(), v});
      const Tensor tensor = buffer_for({op, v});
      if (!known) function_.buffers.push_back({tensor, "global"});
    }
    add_nest(op);
    return {};
  }

  // Loops over the data axes, then over the reduction axes, around the block.
  void add_nest(const OperationPtr& op) {
    const Compute& compute = *op->compute();
    auto block = std::make_shared<BlockNode>();
    block->name = op->name;
    Substitution in_block, in_loops;
    LoopNode* around = function_.root.get();
    const auto add_axis = [&](const IterVarPtr& axis, const Range& dom) {
      auto loop = std::make_shared<LoopNode>();
      loop->var = make_var(axis->name(), axis->var->type);
      loop->extent = substitute(dom.extent, in_loops);
      const Expr own = make_var("v_" + axis->name(), axis->var->type);
      block->axes.push_back({own, axis->kind, substitute(dom.extent, in_block), loop->var});
      in_block[axis->var.get()] = te::add(own, substitute(make_cast(own->type, dom.min), in_block));
      in_loops[axis->var.get()] = te::add(loop->var, substitute(make_cast(own->type, dom.min), in_loops));
      append(around, loop);
      around = loop.get();
    };
    for (size_t i = 0; i < compute.axis.size(); ++i) {
      const Expr& extent = compute.shape[i];
      add_axis(compute.axis[i], {make_int(0, extent->type), extent});
    }
    for (const IterVarPtr& axis : compute.reduce_axis) add_axis(axis, *axis->dom);
    block->init = bind_buffers(init_of(op), targets_, in_block);
    block->body = bind_buffers(body_of(op), targets_, in_block);
    append(around, std::move(block));
  }

  static std::vector<Expr> point_of(const Compute& compute) {
    std::vector<Expr> indices;
    for (const IterVarPtr& axis : compute.axis) indices.push_back(axis->var);
    return indices;
  }

  // The identities, or the values that replace them; null where nothing is reduced.
  static Stmt init_of(const OperationPtr& op) {
    if (op->reduction() == nullptr) return nullptr;
    const Compute& compute = *op->compute();
    std::vector<Stmt> stores;
    for (size_t v = 0; v < compute.body.size(); ++v) {
      const Reduce& reduce = *compute.body[v]->as<Reduce>();
      const auto& starts = reduce.init.empty() ? reduce.combiner->identity : reduce.init;
      stores.push_back(make_stmt(
          Store{Tensor{op, static_cast<int>(v)}, point_of(compute), starts[static_cast<size_t>(reduce.value_index)]}));
    }
    return sequence(std::move(stores));
  }

  static Stmt body_of(const OperationPtr& op) {
    const Compute& compute = *op->compute();
    const Reduce* reduce = op->reduction();
    if (reduce != nullptr) return update_of(op, *reduce);
    std::vector<Stmt> stores;
    for (size_t v = 0; v < compute.body.size(); ++v)
      stores.push_back(make_stmt(Store{Tensor{op, static_cast<int>(v)}, point_of(compute), compute.body[v]}));
    return sequence(std::move(stores));
  }

  // All new values are computed from the old ones before any is stored.
  static Stmt update_of(const OperationPtr& op, const Reduce& reduce) {
    const Compute& compute = *op->compute();
    const Combiner& combiner = *reduce.combiner;
    Substitution operands;
    for (size_t v = 0; v < compute.body.size(); ++v) {
      const auto k = static_cast<size_t>(compute.body[v]->as<Reduce>()->value_index);
      operands[combiner.lhs[k].get()] =
          make_expr(compute.body[v]->type, Read{op, static_cast<int>(v), point_of(compute)});
    }
    for (size_t k = 0; k < combiner.rhs.size(); ++k) operands[combiner.rhs[k].get()] = reduce.source[k];
    std::vector<Stmt> stores;
    std::vector<std::pair<Expr, Expr>> temporaries;
    for (size_t v = 0; v < compute.body.size(); ++v) {
      const auto k = static_cast<size_t>(compute.body[v]->as<Reduce>()->value_index);
      Expr value = substitute(combiner.result[k], operands);
      if (compute.body.size() > 1) {
        temporaries.emplace_back(make_var(str_cat(op->name, ".v", v, ".new"), value->type), value);
        value = temporaries.back().first;
      }
      stores.push_back(make_stmt(Store{Tensor{op, static_cast<int>(v)}, point_of(compute), value}));
    }
    Stmt body = sequence(std::move(stores));
    for (auto t = temporaries.rbegin(); t != temporaries.rend(); ++t)
      body = make_stmt(Let{t->first, t->second, std::move(body)});
    return as_int(reduce.condition) == 1 ? body : make_stmt(If{reduce.condition, std::move(body)});
  }

  BlockFunction function_;
  BufferTargets targets_;
};

}  // namespace

Result<BlockFunction> block_function(const std::vector<Parameter>& params, std::string name) {
  return FunctionMaker(params, std::move(name)).run();
}

}  // namespace aipu::te
