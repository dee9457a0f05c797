// The way from loop nests to TIR: places in memory, loops, statements. Private to kernels/te.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/verifier.h"
#include "kernels/te/dma_copy.h"
#include "kernels/te/expr_to_tir.h"
#include "kernels/te/hoist.h"
#include "kernels/te/padding.h"
#include "kernels/te/print.h"
#include "kernels/te/to_tir.h"
#include "kernels/te/vector_loop.h"
#include "kernels/te/visit.h"

namespace aipu::te {

// More than that of one stage does not lie on a TEC's stack.
inline constexpr int64_t kMaxPrivateBytes = 8192;

inline std::string identifier(std::string_view name) {
  std::string text;
  for (const char c : name)
    text += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  if (text.empty() || (text.front() >= '0' && text.front() <= '9')) text.insert(text.begin(), '_');
  return text;
}

inline bool has_parallel(const Stmt& stmt) {
  return std::visit(
      Overloaded{
          [](const For& n) { return n.shared_out || has_parallel(n.body); },
          [](const If& n) { return has_parallel(n.then_body) || (n.else_body && has_parallel(n.else_body)); },
          [](const While& n) { return has_parallel(n.body); },
          [](const Store&) { return false; },
          [](const Let& n) { return has_parallel(n.body); },
          [](const Realize& n) { return has_parallel(n.body); },
          [](const Seq& n) { return std::any_of(n.body.begin(), n.body.end(), has_parallel); },
          [](const Pragma& n) { return has_parallel(n.body); },
          [](const PackedCall&) { return false; },
      },
      stmt->node);
}

// Where the elements of a tensor lie.
struct TensorMemory {
  tir::Expr pointer;
  std::vector<Expr> min, stride;
};

// The kernel of a function whose parallel loops are dealt to the TECs.
class Converter {
 public:
  explicit Converter(const Function& function) : function_(function) {
    convert_.load = [this](const Tensor& t, const std::vector<Expr>& indices) { return load(t, indices); };
    convert_.variable = [this](const Expr& var) { return variable(var); };
    convert_.analyzer = &analyzer_;
  }

  virtual ~Converter() = default;

  Result<Kernel> run() {
    for (const Parameter& param : function_.params) add_parameter(param);
    std::vector<tir::Stmt> body;
    if (function_.body) {
      if (has_parallel(function_.body)) {
        on_all(function_.body, &body);
        if (ends_with_barrier_) body.pop_back();  // nobody waits at the end
      } else {
        body.push_back(on_first(function_.body));
      }
    }
    AIPU_RETURN_IF_ERROR(convert_.error());
    tir::PrimFunc entry{function_.name == "main" ? "main_kernel" : identifier(function_.name)};
    entry.params = params_;
    for (const Expr& size : kernel_.sizes) entry.params.push_back(variables_.at(size.get()));
    entry.params.insert(entry.params.end(), workspace_params_.begin(), workspace_params_.end());
    entry.return_type = Type::void_type();
    entry.body = tir::block(std::move(body));
    kernel_.module.functions.push_back(std::make_shared<const tir::PrimFunc>(std::move(entry)));
    for (tir::PrimFuncPtr& helper : helpers()) kernel_.module.functions.push_back(std::move(helper));
    AIPU_RETURN_IF_ERROR(tir::verify(kernel_.module));
    return std::move(kernel_);
  }

 protected:
  std::vector<tir::PrimFuncPtr> helpers() const { return convert_.helpers(); }
  void fail(Status error) { convert_.fail(std::move(error)); }

  static tir::VarPtr make_variable(std::string_view name, Type type) {
    return std::make_shared<tir::Var>(tir::Var{identifier(name), type});
  }

  // Parameters are told apart by their names.
  tir::VarPtr make_parameter(std::string_view name, Type type) {
    std::string unique = identifier(name);
    for (int k = 1; !parameter_names_.insert(unique).second; ++k) unique = str_cat(identifier(name), "_", k);
    return make_variable(unique, type);
  }

  void add_parameter(const Parameter& param) {
    if (!param.tensor.op) {
      params_.push_back(make_parameter(param.var->as<Var>()->name, param.var->type));
      variables_[param.var.get()] = params_.back();
      return;
    }
    const Type type = param.tensor.type();
    const tir::VarPtr pointer = make_parameter(param.name.empty() ? param.tensor.name() : param.name,
                                               Type::pointer_to(type.element, type.lanes, tir::Scope::kGlobal));
    params_.push_back(pointer);
    std::vector<Range> box = param.region;
    if (box.empty()) {
      for (const Expr& extent : param.tensor.shape()) box.push_back({make_int(0, extent->type), extent});
    }
    TensorMemory buffer{tir::var_ref(pointer), {}, param.strides};
    std::vector<Expr> extents;
    for (const Range& range : box) {
      buffer.min.push_back(range.min);
      extents.push_back(range.extent);
      // Sizes, strides, and the variables of loops, which all count from 0.
      for (const Expr& part : {range.min, range.extent}) {
        walk(part, [&](const Expr& e) {
          if (e->as<Var>() != nullptr) analyzer_.assume_non_negative(e);
        });
      }
    }
    if (buffer.stride.empty()) buffer.stride = strides_of(extents, {});
    buffers_[{param.tensor.op.get(), param.tensor.value_index}] = std::move(buffer);
  }

  // A loop's, a temporary's, a parameter's; one that is none of these is a size, which becomes a parameter.
  tir::VarPtr variable(const Expr& var) {
    auto& known = variables_[var.get()];
    if (!known) {
      known = make_parameter(var->as<Var>()->name, var->type);
      kernel_.sizes.push_back(var);
    }
    return known;
  }

  // --- elements ---

  TensorMemory* buffer_of(const Tensor& tensor) {
    const auto found = buffers_.find({tensor.op.get(), tensor.value_index});
    if (found != buffers_.end()) return &found->second;
    fail(invalid_argument(str_cat("tensor '", tensor.name(), "' is used, but it is neither an argument nor computed")));
    return nullptr;
  }

  Expr place(const TensorMemory& buffer, const std::vector<Expr>& indices) {
    Expr flat = make_int(0);
    for (size_t i = 0; i < indices.size(); ++i) {
      Expr index = indices[i], min = buffer.min[i], stride = buffer.stride[i];
      match_index_types(index, min);
      index = sub(index, min);
      match_index_types(index, stride);
      index = mul(index, stride);
      match_index_types(flat, index);
      flat = add(flat, index);
    }
    return analyzer_.simplify(flat);
  }

  tir::Expr flat_index(const TensorMemory& buffer, const std::vector<Expr>& indices) {
    return convert_(place(buffer, indices));
  }

  tir::Expr load(const Tensor& tensor, const std::vector<Expr>& indices) {
    const TensorMemory* buffer = buffer_of(tensor);
    const DType d = tensor.type().element;
    if (buffer == nullptr || tensor.type().lanes != 1) {
      fail(unsupported(str_cat("tensor '", tensor.name(), "': elements of type ", type_text(tensor.type()))));
      return is_floating(d) ? tir::float_imm(0, d) : tir::int_imm(0, d);
    }
    return tir::load(buffer->pointer, flat_index(*buffer, indices));
  }

  // --- statements ---

  tir::Expr call(std::string_view intrinsic) {
    auto made = tir::intrinsic_call(intrinsic, {});
    if (made.ok()) return std::move(made).value();
    fail(std::move(made).status());
    return tir::int_imm(0);
  }

  void add_barrier(std::vector<tir::Stmt>* out) {
    out->push_back(barrier());
    ends_with_barrier_ = true;
  }
  tir::Stmt barrier() { return tir::make_stmt(tir::Evaluate{call("barrier")}); }

  void refuse(const PackedCall& n) {
    fail(unsupported(
        str_cat("a kernel cannot call '", n.name, "' of the registry; aipu.build runs it between kernels")));
  }

  // A statement without parallel loops that one TEC runs for all.
  tir::Stmt on_first(const Stmt& stmt) {
    std::vector<tir::Stmt> body;
    on_one(stmt, &body);
    const tir::Expr first = tir::binary(tir::BinaryOp::kEq, call("get_local_id"), tir::int_imm(0));
    return tir::make_stmt(tir::If{first, tir::block(std::move(body)), nullptr});
  }

  // Every TEC gets here. What one writes is seen by all behind a barrier.
  void on_all(const Stmt& stmt, std::vector<tir::Stmt>* out) {
    if (!has_parallel(stmt)) {
      out->push_back(on_first(stmt));
      add_barrier(out);
      return;
    }
    std::visit(Overloaded{
                   [&](const For& n) {
                     if (n.shared_out) return share(n, out);
                     out->push_back(plain_loop(n, [&](std::vector<tir::Stmt>* inside) { on_all(n.body, inside); }));
                     ends_with_barrier_ = false;
                   },
                   [&](const If& n) {
                     if (!tensors_read(n.condition).empty())
                       fail(unsupported(str_cat("a parallel loop under a condition on data: ", to_text(n.condition))));
                     const tir::Expr condition = convert_(n.condition);  // the same for all
                     std::vector<tir::Stmt> chosen, other;
                     on_all(n.then_body, &chosen);
                     if (n.else_body) on_all(n.else_body, &other);
                     out->push_back(tir::make_stmt(tir::If{condition, tir::block(std::move(chosen)),
                                                           n.else_body ? tir::block(std::move(other)) : nullptr}));
                     ends_with_barrier_ = false;
                   },
                   [&](const While&) { fail(unsupported("a parallel loop inside of a while loop")); },
                   [&](const Store&) {},
                   [&](const Let&) { fail(internal_error("a parallel loop under a temporary")); },
                   [&](const Realize& n) {
                     realize(n, true, out);
                     on_all(n.body, out);
                   },
                   [&](const Seq& n) {
                     for (const Stmt& child : n.body) on_all(child, out);
                   },
                   [&](const Pragma& n) { on_all(n.body, out); },
                   [&](const PackedCall& n) { refuse(n); },
               },
               stmt->node);
  }

  // Contiguous chunks of the iterations, one per TEC.
  void share(const For& n, std::vector<tir::Stmt>* out) {
    const DType d = n.var->type.element;
    const auto integer = [&](int64_t v) { return tir::int_imm(v, d); };
    const tir::Expr id = tir::cast(n.var->type, call("get_local_id")),
                    count = tir::cast(n.var->type, call("get_local_size"));
    const tir::Expr extent = convert_(n.extent);
    const tir::VarPtr chunk = make_variable("chunk", n.var->type), start = make_variable("start", n.var->type);
    const tir::Expr rounded =
        tir::binary(tir::BinaryOp::kSub, tir::binary(tir::BinaryOp::kAdd, extent, count), integer(1));
    const tir::Expr stop = tir::binary(
        tir::BinaryOp::kMin, tir::binary(tir::BinaryOp::kAdd, tir::var_ref(start), tir::var_ref(chunk)), extent);
    const Analyzer outside = analyzer_;
    std::vector<tir::Stmt> body;
    const tir::VarPtr var = enter(n);
    parallel_ = &n;
    on_one(n.body, &body);
    parallel_ = nullptr;
    leave(outside);
    std::vector<tir::Stmt> all = {
        tir::make_stmt(tir::Define{chunk, tir::binary(tir::BinaryOp::kDiv, rounded, count)}),
        tir::make_stmt(tir::Define{start, tir::binary(tir::BinaryOp::kMul, id, tir::var_ref(chunk))}),
        tir::make_stmt(
            tir::For{var, tir::var_ref(start), stop, integer(1), tir::ForKind::kSerial, tir::block(std::move(body))})};
    out->push_back(tir::block(std::move(all)));
    add_barrier(out);
  }

  tir::VarPtr enter(const For& n) {
    tir::VarPtr var = make_variable(n.var->as<Var>()->name, n.var->type);
    variables_[n.var.get()] = var;
    analyzer_.bind(n.var, {make_int(0, n.var->type), n.extent});
    loops_.push_back(&n);
    return var;
  }
  void leave(const Analyzer& outside) {
    loops_.pop_back();
    analyzer_ = outside;
  }

  tir::Stmt plain_loop(const For& n, const std::function<void(std::vector<tir::Stmt>*)>& write_body) {
    const tir::Expr stop = convert_(n.extent);
    const Analyzer outside = analyzer_;
    const tir::VarPtr var = enter(n);
    std::vector<tir::Stmt> body;
    write_body(&body);
    leave(outside);
    tir::ForKind kind = tir::ForKind::kSerial;
    if (n.kind == LoopKind::kVectorized) kind = tir::ForKind::kVectorized;
    if (n.kind == LoopKind::kUnrolled) kind = tir::ForKind::kUnrolled;
    const DType d = n.var->type.element;
    return tir::make_stmt(
        tir::For{var, tir::int_imm(0, d), stop, tir::int_imm(1, d), kind, tir::block(std::move(body))});
  }

  VectorContext vector_context() {
    return {&analyzer_, &convert_,
            [this](const Tensor& t) {
              const auto found = buffers_.find({t.op.get(), t.value_index});
              return found == buffers_.end() ? nullptr : found->second.pointer;
            },
            [this](const Tensor& t, const std::vector<Expr>& indices) {
              const TensorMemory* buffer = buffer_of(t);
              return buffer == nullptr ? make_int(0) : place(*buffer, indices);
            }};
  }

  // Whether the loop has become vectors.
  bool vectors(const For& n, std::vector<tir::Stmt>* out) {
    if (n.kind != LoopKind::kVectorized) return false;
    const VectorContext context = vector_context();
    const Analyzer outside = analyzer_;
    analyzer_.bind(n.var, {make_int(0, n.var->type), n.extent});
    auto made = vector_loop(n, context);
    analyzer_ = outside;
    if (made) out->push_back(tir::block(std::move(*made)));
    return made.has_value();
  }

  // Whether the loop has become a copy by DMA.
  bool copies(const For& n, std::vector<tir::Stmt>* out) {
    const VectorContext context = vector_context();
    const Analyzer outside = analyzer_;
    auto made = dma_copy(n, context);
    analyzer_ = outside;
    if (made) out->push_back(tir::block(std::move(*made)));
    return made.has_value();
  }

  virtual void on_one(const Stmt& stmt, std::vector<tir::Stmt>* out) {
    std::visit(
        Overloaded{
            [&](const For& n) {
              if (copies(n, out) || vectors(n, out)) return;
              if (const auto parts = split_padding(n, &analyzer_)) return on_one(*parts, out);
              out->push_back(
                  hoist_broadcasts(plain_loop(n, [&](std::vector<tir::Stmt>* inside) { on_one(n.body, inside); })));
            },
            [&](const If& n) {
              std::vector<tir::Stmt> body;
              const tir::Expr condition = convert_(n.condition);
              on_one(n.then_body, &body);
              tir::Stmt otherwise;
              if (n.else_body) {
                std::vector<tir::Stmt> rest;
                on_one(n.else_body, &rest);
                otherwise = tir::block(std::move(rest));
              }
              out->push_back(tir::make_stmt(tir::If{condition, tir::block(std::move(body)), std::move(otherwise)}));
            },
            [&](const While& n) {
              std::vector<tir::Stmt> body;
              const tir::Expr condition = convert_(n.condition);
              on_one(n.body, &body);
              out->push_back(tir::make_stmt(tir::While{condition, tir::block(std::move(body))}));
            },
            [&](const Store& n) {
              if (const TensorMemory* buffer = buffer_of(n.tensor)) {
                tir::Expr index = flat_index(*buffer, n.indices);
                out->push_back(tir::make_stmt(tir::Store{buffer->pointer, index, convert_(value_to_store(n))}));
              }
            },
            [&](const Let& n) {
              const tir::VarPtr var = make_variable(n.var->as<Var>()->name, n.var->type);
              tir::Expr value = convert_(n.value);
              variables_[n.var.get()] = var;
              std::vector<tir::Stmt> body = {tir::make_stmt(tir::Define{var, value})};
              on_one(n.body, &body);
              out->push_back(tir::block(std::move(body)));
            },
            [&](const Realize& n) {
              std::vector<tir::Stmt> body;
              realize(n, false, &body);
              on_one(n.body, &body);
              out->push_back(tir::block(std::move(body)));
            },
            [&](const Seq& n) {
              for (const Stmt& child : n.body) on_one(child, out);
            },
            [&](const Pragma& n) { on_one(n.body, out); },
            [&](const PackedCall& n) { refuse(n); },
        },
        stmt->node);
  }

  // --- memory ---

  // The largest value of an extent over all iterations of the loops around; it depends on sizes alone.
  Expr largest(Expr extent) {
    extent = analyzer_.simplify(extent);
    for (size_t i = loops_.size(); i-- > 0 && extent;) {
      const For& loop = *loops_[i];
      const Type type = loop.var->type;
      if (!uses(extent, loop.var.get())) continue;
      const ConstBound bound = analyzer_.bound(extent);
      if (bound.has_hi()) return make_int(std::max<int64_t>(bound.hi, 0), extent->type);
      extent = analyzer_.interval(extent, loop.var, {make_int(0, type), sub(loop.extent, make_int(1, type))}).hi;
    }
    return extent;
  }

  void realize(const Realize& n, bool by_all, std::vector<tir::Stmt>* out) {
    TensorMemory shape;
    std::vector<Expr> extents;
    for (const Range& range : box_of(n)) {
      Expr extent = largest(range.extent);
      if (!extent) {
        fail(unsupported(
            str_cat("stage '", n.op->name, "': the memory that it needs is not known: ", to_text(range.extent))));
        return;
      }
      shape.min.push_back(range.min);
      extents.push_back(extent);
    }
    shape.stride = strides_of(extents, n.alignment);
    Expr elements = make_int(1);
    if (!extents.empty()) {
      Expr outer = shape.stride.front(), extent = extents.front();
      match_index_types(outer, extent);
      elements = mul(outer, extent);
    }
    elements = analyzer_.simplify(elements);
    shape.pointer = allocate({n.op, n.value_index}, elements, n.scope, by_all, out);
    if (shape.pointer) buffers_[{n.op.get(), n.value_index}] = std::move(shape);
  }

  virtual tir::Expr allocate(const Tensor& tensor, const Expr& elements, const std::string& scope, bool by_all,
                             std::vector<tir::Stmt>* out) {
    const Type type = tensor.type();
    const auto count = as_int(elements);
    const auto array = [&](tir::Scope where) -> tir::Expr {
      if (!count) {
        fail(unsupported(str_cat("stage '", tensor.op->name, "': memory of scope '", scope,
                                 "' needs a constant size, not ", to_text(elements))));
        return nullptr;
      }
      const tir::VarPtr buffer = make_variable(tensor.name(), Type::pointer_to(type.element, 1, where));
      out->push_back(tir::make_stmt(tir::Alloc{buffer, std::max<int64_t>(*count, 1)}));
      return tir::var_ref(buffer);
    };
    if (scope == "local" && !by_all) return array(tir::Scope::kPrivate);
    if (scope == "lsram" && !by_all) return array(tir::Scope::kLsram);
    if (scope == "shared" || scope == "warp") return array(by_all ? tir::Scope::kShared : tir::Scope::kLsram);
    // Memory of one TEC that a parallel loop inside uses has to be seen by all.
    const bool seen_by_all = by_all && (scope == "local" || scope == "lsram");
    if (!scope.empty() && scope != "global" && !seen_by_all) {
      fail(invalid_argument(str_cat("stage '", tensor.op->name, "': unknown scope '", scope, "'")));
      return nullptr;
    }
    const bool small = count && *count * static_cast<int64_t>(type.bytes()) <= kMaxPrivateBytes;
    if (scope.empty() && small && !by_all && !loops_.empty()) return array(tir::Scope::kPrivate);
    return workspace(tensor, elements);
  }

  // Iterations of a parallel loop have a part of their own each.
  tir::Expr workspace(const Tensor& tensor, Expr elements) {
    const Type type = tensor.type();
    const tir::VarPtr pointer =
        make_parameter(tensor.name() + ".workspace", Type::pointer_to(type.element, 1, tir::Scope::kGlobal));
    workspace_params_.push_back(pointer);
    tir::Expr place = tir::var_ref(pointer);
    if (parallel_ != nullptr) {
      Expr var = parallel_->var, each = elements;
      match_index_types(var, each);
      place = tir::binary(tir::BinaryOp::kAdd, place, convert_(mul(var, each)));
      Expr extent = largest(parallel_->extent);
      if (!extent) {
        fail(unsupported(str_cat("stage '", tensor.op->name, "': the memory that it needs is not known")));
        extent = make_int(1);
      }
      match_index_types(extent, elements);
      elements = mul(extent, elements);
    }
    kernel_.workspaces.push_back({pointer->name, type, analyzer_.simplify(elements)});
    return place;
  }

  const Function& function_;
  bool ends_with_barrier_ = false;  // what was written last for all TECs
  Kernel kernel_;
  ExprToTir convert_;
  Analyzer analyzer_;
  std::set<std::string> parameter_names_;
  std::vector<tir::VarPtr> params_, workspace_params_;
  std::map<const ExprNode*, tir::VarPtr> variables_;
  std::map<std::pair<const Operation*, int>, TensorMemory> buffers_;
  std::vector<const For*> loops_;
  const For* parallel_ = nullptr;
};

}  // namespace aipu::te
