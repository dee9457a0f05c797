#include "kernels/te/stmt.h"

#include <fmt/format.h>

#include "kernels/te/print.h"
#include "kernels/te/visit.h"

namespace aipu::te {

Stmt make_stmt(std::remove_const_t<decltype(StmtNode::node)> node) {
  return std::make_shared<StmtNode>(StmtNode{std::move(node)});
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

std::string realize_text(const Realize& n, const std::string& pad) {
  std::vector<Expr> extents;
  for (const Range& range : n.region) extents.push_back(range.extent);
  std::string text;
  for (int v = 0; v < n.op->output_count(); ++v) {
    const Tensor tensor{n.op, v};
    text += fmt::format("{}{} = allocate(({}), \"{}\", \"{}\")\n", pad, tensor.name(), joined(extents),
                        type_text(tensor.type()), n.scope);
  }
  return text;
}

}  // namespace

std::string to_text(const Stmt& stmt, int indent) {
  const std::string pad(static_cast<size_t>(indent) * 4, ' ');
  if (!stmt) return pad + "pass\n";
  return std::visit(Overloaded{
                        [&](const For& n) { return pad + loop_text(n) + "\n" + to_text(n.body, indent + 1); },
                        [&](const If& n) {
                          return pad + fmt::format("if {}:\n", to_text(n.condition)) + to_text(n.then_body, indent + 1);
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
                    },
                    stmt->node);
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
