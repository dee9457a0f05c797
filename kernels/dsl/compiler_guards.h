// Scopes of names and of run-time statements, restored on the way out however that is.
#pragma once

#include <utility>

#include "kernels/dsl/compiler.h"

namespace aipu::dsl {

class Compiler::ScopeGuard {
 public:
  explicit ScopeGuard(Compiler& compiler) : compiler_(compiler) { compiler_.frame_->scopes.emplace_back(); }
  ~ScopeGuard() { compiler_.frame_->scopes.pop_back(); }
  ScopeGuard(const ScopeGuard&) = delete;

 private:
  Compiler& compiler_;
};

// Collects the statements emitted while it lives.
class Compiler::BlockGuard {
 public:
  explicit BlockGuard(Compiler& compiler) : compiler_(compiler) {
    compiler_.blocks_.push_back({compiler_.next_block_++, {}});
  }
  ~BlockGuard() {
    if (!taken_) compiler_.blocks_.pop_back();
  }
  BlockGuard(const BlockGuard&) = delete;

  std::vector<tir::Stmt> take() {
    taken_ = true;
    std::vector<tir::Stmt> statements = std::move(compiler_.blocks_.back().statements);
    compiler_.blocks_.pop_back();
    for (const tir::Stmt& stmt : statements) {
      if (const auto* define = stmt->as<tir::Define>()) {
        compiler_.dead_.insert(define->var.get());
        compiler_.kept_.push_back(define->var);
      }
    }
    return statements;
  }

 private:
  Compiler& compiler_;
  bool taken_ = false;
};

}  // namespace aipu::dsl
