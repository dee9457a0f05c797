// What a declaration's tensor expression sees under the names aipu.te and aipu.tir: an environment for
// HostProgram::call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dsl/host_program.h"
#include "kernels/te/operation.h"

namespace aipu::kernels::script_op {

class TensorObjects final : public dsl::Environment {
 public:
  explicit TensorObjects(std::shared_ptr<const dsl::HostProgram> program) : program_(std::move(program)) {}

  // A name of the file that has this value.
  void set(std::string name, dsl::Captured value) { values_[std::move(name)] = std::move(value); }
  static dsl::Captured tensor(te::Tensor tensor);
  static dsl::Captured expression(const te::Expr& expression);
  // The tensors that a value is, one or a list of them. Errors: it is something else.
  static Result<std::vector<te::Tensor>> tensors(const dsl::Captured& value);

  std::optional<dsl::Captured> lookup(std::string_view name) override;
  Result<dsl::Captured> attribute(const dsl::Captured& object, std::string_view name) override;
  Result<dsl::Captured> call(const dsl::Captured& function, const dsl::CapturedList& args,
                             const std::vector<std::pair<std::string, dsl::Captured>>& kwargs) override;
  Result<dsl::Captured> operate(std::string_view operation, const dsl::CapturedList& operands) override;

 private:
  std::shared_ptr<const dsl::HostProgram> program_;
  std::map<std::string, dsl::Captured, std::less<>> values_;
};

}  // namespace aipu::kernels::script_op
