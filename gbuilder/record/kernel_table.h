// The kernels of a model, each content once.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/driver/kernel_text.h"
#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

class KernelTable {
 public:
  // `letter`: what the names of the kernels begin with.
  explicit KernelTable(const tir::Target& target, char letter = 'k') : target_(target), letter_(letter) {}
  // The row of a kernel. Kernels whose TIR is the same but for the entry's name share one; the first user's origin
  // names it. `origins`: the ONNX nodes it is for.
  uint32_t add(const std::shared_ptr<const tir::Module>& module, const graph::OriginSet& origins);
  size_t size() const { return rows_.size(); }
  std::vector<PlanKernel> take() &&;

 private:
  struct Row {
    PlanKernel kernel;
    std::set<graph::Origin> origins;  // of all users: their number is said
  };
  const tir::Target& target_;
  const char letter_;
  std::vector<Row> rows_;
  std::map<Hash128, uint32_t> by_content_;
  std::map<std::shared_ptr<const tir::Module>, uint32_t> by_module_;
};

// The module with another entry name.
tir::Module rename_entry(const tir::Module& module, const std::string& name);

// Fills in what the launches have to know of the parameters of a kernel.
void set_parameters(PlanKernel* kernel, const tir::Module& module, const tir::Target& target);

// Fills in what running a kernel takes (local and shared memory, barriers, faults) from its lowered form.
void set_requirements(PlanKernel* kernel, const tir::KernelSource& source);

}  // namespace aipu::gbuilder
