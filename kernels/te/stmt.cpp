#include "kernels/te/stmt.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {

Stmt make_stmt(std::remove_const_t<decltype(StmtNode::node)> node) {
  return std::make_shared<StmtNode>(StmtNode{std::move(node)});
}

std::vector<Expr> strides_of(const std::vector<Expr>& extents, const std::vector<Alignment>& alignment) {
  std::vector<Expr> strides(extents.size());
  Expr next = make_int(1);
  for (size_t d = extents.size(); d-- > 0;) {
    const Alignment align = alignment.empty() ? Alignment{} : alignment[d];
    if (align.factor > 1) {
      const Expr factor = make_int(align.factor, next->type), offset = make_int(align.offset, next->type);
      next = add(next, floormod(sub(offset, next), factor));
    }
    strides[d] = next;
    Expr extent = extents[d];
    match_index_types(next, extent);
    next = mul(next, extent);
  }
  return strides;
}

Stmt realize_all(const OperationPtr& op, const std::vector<Range>& region, const std::string& scope,
                 const std::vector<Alignment>& alignment, Stmt body) {
  for (int v = op->output_count(); v-- > 0;)
    body = make_stmt(Realize{op, region, scope, alignment, std::move(body), v});
  return body;
}

std::vector<Range> box_of(const Realize& realize) {
  if (!realize.region.empty()) return realize.region;
  std::vector<Range> box;
  for (const Expr& extent : Tensor{realize.op, realize.value_index}.shape())
    box.push_back({make_int(0, extent->type), extent});
  return box;
}

Stmt sequence(std::vector<Stmt> statements) {
  std::vector<Stmt> flat;
  for (Stmt& stmt : statements) {
    if (!stmt) continue;
    if (const Seq* seq = stmt->as<Seq>())
      flat.insert(flat.end(), seq->body.begin(), seq->body.end());
    else
      flat.push_back(std::move(stmt));
  }
  if (flat.empty()) return nullptr;
  if (flat.size() == 1) return flat.front();
  return make_stmt(Seq{std::move(flat)});
}

namespace {

std::string joined(const std::vector<Expr>& list) {
  std::string text;
  for (const Expr& e : list) text += (text.empty() ? "" : ", ") + to_text(e);
  return text;
}

std::string loop_text(const For& n) {
  switch (n.kind) {
    case LoopKind::kSerial:
      return fmt::format("for {} in range({}):", to_text(n.var), to_text(n.extent));
    case LoopKind::kParallel:
      return fmt::format("for {} in parallel({}):", to_text(n.var), to_text(n.extent));
    case LoopKind::kVectorized:
      return fmt::format("for {} in vectorized({}):", to_text(n.var), to_text(n.extent));
    case LoopKind::kUnrolled:
      return fmt::format("for {} in unrolled({}):", to_text(n.var), to_text(n.extent));
    default:
      return fmt::format("for {} in thread {}({}):", to_text(n.var), n.thread->thread_tag, to_text(n.extent));
  }
}

std::string packed_text(const PackedCall& n) {
  std::string args;
  for (const PackedArgument& arg : n.args) {
    if (!args.empty()) args += ", ";
    if (arg.value) {
      args += to_text(arg.value);
      continue;
    }
    std::string ranges;
    for (const Range& range : arg.view->region) {
      const Expr end = add(range.min, make_cast(range.min->type, range.extent));
      ranges += (ranges.empty() ? "" : ", ") + to_text(range.min) + ":" + to_text(end);
    }
    args += fmt::format("{}{}[{}]", arg.view->pointer ? "&" : "", arg.view->tensor.name(), ranges);
  }
  return fmt::format("call_packed(\"{}\"{}{})\n", n.name, args.empty() ? "" : ", ", args);
}

std::string realize_text(const Realize& n, const std::string& pad) {
  const Tensor tensor{n.op, n.value_index};
  std::vector<Expr> extents;
  for (const Range& range : box_of(n)) extents.push_back(range.extent);
  return fmt::format("{}{} = allocate(({}), \"{}\", \"{}\")\n", pad, tensor.name(), joined(extents),
                     type_text(tensor.type()), n.scope);
}

}  // namespace

std::string to_text(const Stmt& stmt, int indent) {
  const std::string pad(static_cast<size_t>(indent) * 4, ' ');
  if (!stmt) return pad + "pass\n";
  return std::visit(Overloaded{
                        [&](const For& n) { return pad + loop_text(n) + "\n" + to_text(n.body, indent + 1); },
                        [&](const If& n) {
                          const std::string text =
                              pad + fmt::format("if {}:\n", to_text(n.condition)) + to_text(n.then_body, indent + 1);
                          return n.else_body ? text + pad + "else:\n" + to_text(n.else_body, indent + 1) : text;
                        },
                        [&](const While& n) {
                          return pad + fmt::format("while {}:\n", to_text(n.condition)) + to_text(n.body, indent + 1);
                        },
                        [&](const Store& n) {
                          return pad + fmt::format("{}[{}] = {}\n", n.tensor.name(),
                                                   n.indices.empty() ? "()" : joined(n.indices), to_text(n.value));
                        },
                        [&](const Let& n) {
                          return pad + fmt::format("{} = {}\n", to_text(n.var), to_text(n.value)) +
                                 to_text(n.body, indent);
                        },
                        [&](const Realize& n) { return realize_text(n, pad) + to_text(n.body, indent); },
                        [&](const Seq& n) {
                          std::string text;
                          for (const Stmt& child : n.body) text += to_text(child, indent);
                          return text;
                        },
                        [&](const Pragma& n) {
                          return pad + fmt::format("# pragma_{} {}\n", n.key, n.value ? to_text(n.value) : "") +
                                 to_text(n.body, indent);
                        },
                        [&](const PackedCall& n) { return pad + packed_text(n); },
                    },
                    stmt->node);
}

bool is_packed_call(const Expr& e) {
  const Call* call = e->as<Call>();
  return call != nullptr && (call->name == kPackedValue || call->name == kTrace);
}

namespace {

bool calls_by_name(const Expr& expr) {
  bool found = false;
  walk(expr, [&](const Expr& e) { found = found || is_packed_call(e); });
  return found;
}

}  // namespace

bool has_packed_call(const Stmt& stmt) {
  if (!stmt) return false;
  return std::visit(Overloaded{
                        [](const Store& n) { return calls_by_name(n.value); },
                        [](const PackedCall&) { return true; },
                        [](const If& n) { return has_packed_call(n.then_body) || has_packed_call(n.else_body); },
                        [](const Seq& n) { return std::any_of(n.body.begin(), n.body.end(), has_packed_call); },
                        [](const auto& n) { return has_packed_call(n.body); },
                    },
                    stmt->node);
}

namespace {

class BufferBinder {
 public:
  BufferBinder(const BufferTargets& targets, const Substitution& values) : targets_(targets), values_(values) {
    change_ = [this](const Expr& e) { return changed(e); };
  }

  Stmt operator()(const Stmt& stmt) {
    if (!stmt) return stmt;
    return std::visit([this](const auto& n) { return bind(n); }, stmt->node);
  }
  Expr operator()(const Expr& e) { return rewrite(e, change_); }

 private:
  Expr changed(const Expr& e) {
    if (e->as<Var>() != nullptr) {
      const auto found = values_.find(e.get());
      return found == values_.end() ? nullptr : make_cast(e->type, found->second);
    }
    const Read* read = e->as<Read>();
    if (read == nullptr) return nullptr;
    const auto target = targets_.find({read->op.get(), read->value_index});
    if (target == targets_.end()) return nullptr;
    const Tensor& tensor = target->second.tensor;
    return make_expr(e->type, Read{tensor.op, tensor.value_index, indices(target->second, read->indices)});
  }

  std::vector<Expr> all(const std::vector<Expr>& list) {
    std::vector<Expr> result;
    for (const Expr& e : list) result.push_back((*this)(e));
    return result;
  }

  std::vector<Expr> indices(const BufferTarget& target, const std::vector<Expr>& own) {
    std::vector<Expr> inner = all(own);
    if (target.base.empty()) return inner;
    std::vector<Expr> result = target.base;
    const size_t skipped = result.size() - inner.size();
    for (size_t i = 0; i < inner.size(); ++i) {
      Expr& at = result[skipped + i];
      match_index_types(at, inner[i]);
      at = add(at, inner[i]);
    }
    return result;
  }

  View bind(View view) {
    for (Range& range : view.region) range = {(*this)(range.min), (*this)(range.extent)};
    const auto found = targets_.find({view.tensor.op.get(), view.tensor.value_index});
    if (found == targets_.end()) return view;
    const BufferTarget& target = found->second;
    view.tensor = target.tensor;
    if (target.base.empty()) return view;
    const size_t skipped = target.base.size() - view.region.size();
    std::vector<Range> region;
    std::vector<bool> dropped;
    for (size_t i = 0; i < target.base.size(); ++i) {
      Range range{target.base[i], make_int(1, target.base[i]->type)};
      if (i >= skipped) {
        Expr min = view.region[i - skipped].min;
        match_index_types(range.min, min);
        range = {add(range.min, min), view.region[i - skipped].extent};
      }
      dropped.push_back(i < skipped || (!view.dropped.empty() && view.dropped[i - skipped]));
      region.push_back(range);
    }
    view.region = std::move(region);
    view.dropped = std::move(dropped);
    return view;
  }

  Stmt bind(const For& n) {
    return make_stmt(For{n.var, (*this)(n.extent), n.kind, n.thread, n.shared_out, (*this)(n.body)});
  }
  Stmt bind(const If& n) { return make_stmt(If{(*this)(n.condition), (*this)(n.then_body), (*this)(n.else_body)}); }
  Stmt bind(const While& n) { return make_stmt(While{(*this)(n.condition), (*this)(n.body)}); }
  Stmt bind(const Store& n) {
    const auto target = targets_.find({n.tensor.op.get(), n.tensor.value_index});
    if (target == targets_.end()) return make_stmt(Store{n.tensor, all(n.indices), (*this)(n.value)});
    return make_stmt(Store{target->second.tensor, indices(target->second, n.indices), (*this)(n.value)});
  }
  Stmt bind(const Let& n) { return make_stmt(Let{n.var, (*this)(n.value), (*this)(n.body)}); }
  Stmt bind(const Realize& n) {
    std::vector<Range> region;
    for (const Range& range : n.region) region.push_back({(*this)(range.min), (*this)(range.extent)});
    return make_stmt(Realize{n.op, std::move(region), n.scope, n.alignment, (*this)(n.body), n.value_index});
  }
  Stmt bind(const Seq& n) {
    std::vector<Stmt> body;
    for (const Stmt& child : n.body) body.push_back((*this)(child));
    return make_stmt(Seq{std::move(body)});
  }
  Stmt bind(const Pragma& n) { return make_stmt(Pragma{n.key, n.value, (*this)(n.body)}); }
  Stmt bind(const PackedCall& n) {
    PackedCall call{n.name, {}, n.is_c};
    for (const PackedArgument& arg : n.args) {
      if (arg.value)
        call.args.push_back({(*this)(arg.value), std::nullopt});
      else
        call.args.push_back({nullptr, bind(*arg.view)});
    }
    return make_stmt(std::move(call));
  }

  const BufferTargets& targets_;
  const Substitution& values_;
  Change change_;
};

// The tensors that a statement reads or writes and does not make.
class UsedTensors {
 public:
  std::vector<Tensor> found;

  void visit(const Stmt& stmt) {
    if (!stmt) return;
    std::visit([this](const auto& n) { look(n); }, stmt->node);
  }

 private:
  void use(const Tensor& tensor) {
    if (!made_.contains(tensor.op.get()) && std::find(found.begin(), found.end(), tensor) == found.end())
      found.push_back(tensor);
  }
  void visit(const Expr& e) {
    if (!e) return;
    walk(e, [this](const Expr& x) {
      if (const Read* read = x->as<Read>()) use({read->op, read->value_index});
    });
  }
  void look(const For& n) {
    visit(n.extent);
    visit(n.body);
  }
  void look(const If& n) {
    visit(n.condition);
    visit(n.then_body);
    visit(n.else_body);
  }
  void look(const While& n) {
    visit(n.condition);
    visit(n.body);
  }
  void look(const Store& n) {
    use(n.tensor);
    for (const Expr& index : n.indices) visit(index);
    visit(n.value);
  }
  void look(const Let& n) {
    visit(n.value);
    visit(n.body);
  }
  void look(const Realize& n) {
    made_.insert(n.op.get());
    visit(n.body);
  }
  void look(const Seq& n) {
    for (const Stmt& child : n.body) visit(child);
  }
  void look(const Pragma& n) { visit(n.body); }
  void look(const PackedCall&) {}

  std::set<const Operation*> made_;
};

}  // namespace

Stmt bind_buffers(const Stmt& stmt, const BufferTargets& targets, const Substitution& values) {
  return BufferBinder(targets, values)(stmt);
}

Expr bind_buffers(const Expr& expr, const BufferTargets& targets, const Substitution& values) {
  return BufferBinder(targets, values)(expr);
}

std::vector<Tensor> tensors_used(const Stmt& stmt) {
  UsedTensors used;
  used.visit(stmt);
  return std::move(used.found);
}

Function outline(std::string name, const Stmt& body, const std::vector<Parameter>& known) {
  UsedTensors used;
  used.visit(body);
  Function function{std::move(name), {}, body};
  for (const Parameter& param : known) {
    if (param.tensor.op && std::find(used.found.begin(), used.found.end(), param.tensor) != used.found.end())
      function.params.push_back(param);
  }
  return function;
}

std::string to_text(const Function& function) {
  std::string params;
  for (const Parameter& param : function.params) {
    if (!params.empty()) params += ", ";
    if (param.tensor.op) {
      const auto& shape = param.tensor.shape();
      params += fmt::format("{}: Buffer(({}{}), \"{}\")", param.tensor.name(), joined(shape),
                            shape.size() == 1 ? "," : "", type_text(param.tensor.type()));
    } else {
      params += fmt::format("{}: {}", to_text(param.var), type_text(param.var->type));
    }
  }
  return fmt::format("def {}({}):\n{}", function.name, params, to_text(function.body, 1));
}

}  // namespace aipu::te
