// A file whose functions work on an embedder's objects while they are called without a kernel (HostProgram::call).
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/dsl/compiler.h"

namespace aipu::dsl {

// What the embedder's objects (CapturedOpaque) are, and the functions of the file that it is given.
struct HostObject {
  virtual ~HostObject() = default;
};

// A function of the file as an argument of a call of the embedder's. It can be called while that call lasts.
struct HostFunction final : HostObject {
  HostFunction(ast::FunctionPtr function, std::function<Result<Captured>(const CapturedList&)> caller)
      : definition(std::move(function)), call(std::move(caller)) {}
  ast::FunctionPtr definition;
  std::function<Result<Captured>(const CapturedList&)> call;
};

// How a comparison is named to an embedder (Environment::operate).
std::string_view compare_symbol(ast::CompareOp op);

// The embedder's names stand for what the file imports and assigns under them.
class HostEnvironment : public EmbeddedFileEnvironment {
 public:
  HostEnvironment(ast::Module module, std::shared_ptr<Environment> outer)
      : EmbeddedFileEnvironment(std::move(module), outer), outer_(std::move(outer)) {}
  Result<Captured> operate(std::string_view operation, const CapturedList& operands) override {
    return outer_->operate(operation, operands);
  }

 private:
  std::shared_ptr<Environment> outer_;
};

inline bool is_host_environment(const Environment& environment) {
  return dynamic_cast<const HostEnvironment*>(&environment) != nullptr;
}

}  // namespace aipu::dsl
