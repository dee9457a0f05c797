#include "codegen/tir/stmt.h"

namespace aipu::tir {
namespace {

void make_block(Stmt& body) {
  if (body && !body->as<Block>()) body = block({std::move(body)});
}

}  // namespace

Stmt make_stmt(decltype(StmtNode::node) node, SourceSpan span) {
  if (auto* loop = std::get_if<For>(&node)) make_block(loop->body);
  if (auto* loop = std::get_if<While>(&node)) make_block(loop->body);
  if (auto* branch = std::get_if<If>(&node)) {
    make_block(branch->then_body);
    make_block(branch->else_body);
  }
  return std::make_shared<const StmtNode>(StmtNode{std::move(span), std::move(node)});
}

Stmt block(std::vector<Stmt> body) { return make_stmt(Block{std::move(body)}); }

const PrimFunc* Module::find(std::string_view name) const {
  for (const PrimFuncPtr& function : functions) {
    if (function->name == name) return function.get();
  }
  return nullptr;
}

}  // namespace aipu::tir
