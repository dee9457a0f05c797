#include "gbuilder/record/kernel_table.h"

#include <algorithm>
#include <cctype>

#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/index_width.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/text.h"
#include "codegen/tir/visit.h"

namespace aipu::gbuilder {

namespace {

// Letters, digits and single underscores, at most `limit` of them: a piece of a C identifier.
std::string clean(std::string_view text, size_t limit) {
  std::string result;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!plain && (result.empty() || result.back() == '_')) continue;
    result += plain ? c : '_';
  }
  if (result.size() > limit) result.resize(limit);
  while (!result.empty() && result.back() == '_') result.pop_back();
  return result;
}

std::string padded(size_t number) {
  const std::string digits = std::to_string(number);
  return digits.size() < 3 ? std::string(3 - digits.size(), '0') + digits : digits;
}

}  // namespace

tir::Module rename_entry(const tir::Module& module, const std::string& name) {
  tir::Module renamed = module;
  auto entry = std::make_shared<tir::PrimFunc>(module.entry());
  entry->name = name;
  renamed.functions.front() = std::move(entry);
  return renamed;
}

uint32_t KernelTable::add(const std::shared_ptr<const tir::Module>& module, const graph::OriginSet& origins) {
  uint32_t index = static_cast<uint32_t>(rows_.size());
  if (const auto known = by_module_.find(module); known != by_module_.end()) {
    index = known->second;
  } else {
    const Hash128 content = hash_text(tir::print_module(rename_entry(*module, "kernel")));
    const auto [it, is_new] = by_content_.try_emplace(content, index);
    index = it->second;
    by_module_.emplace(module, index);
    if (is_new) {
      Row row;
      const tir::PrimFunc& entry = module->entry();
      const std::string_view name(entry.name);
      const std::string origin = origins.empty() ? "" : clean(origins.front().name, 40);
      row.kernel.symbol = str_cat(std::string(1, letter_), padded(index), "_",
                                  clean(name.substr(0, name.find("__")), 40), origin.empty() ? "" : "__", origin);
      row.kernel.module = std::make_shared<tir::Module>(rename_entry(*module, row.kernel.symbol));
      set_parameters(&row.kernel, *module, target_);
      rows_.push_back(std::move(row));
    }
  }
  rows_[index].origins.insert(origins.begin(), origins.end());
  return index;
}

std::vector<PlanKernel> KernelTable::take() && {
  constexpr size_t kNamed = 8;  // the file is not for listing a hundred users of one kernel
  std::vector<PlanKernel> kernels;
  for (Row& row : rows_) {
    const auto named = static_cast<std::ptrdiff_t>(std::min(row.origins.size(), kNamed));
    row.kernel.source = graph::origins_text({row.origins.begin(), std::next(row.origins.begin(), named)});
    if (row.origins.size() > kNamed) row.kernel.source += str_cat(" and ", row.origins.size() - kNamed, " more");
    kernels.push_back(std::move(row.kernel));
  }
  return kernels;
}

void set_parameters(PlanKernel* kernel, const tir::Module& module, const tir::Target& target) {
  kernel->argument_count = static_cast<uint32_t>(module.entry().params.size());
  for (const tir::VarPtr& param : module.entry().params) {
    const bool integer = !param->type.pointer && (is_integer(param->type.element) || is_bool(param->type.element));
    kernel->pointer_arguments.push_back(param->type.pointer);
    kernel->argument_bits.push_back(integer ? static_cast<uint8_t>(dtype_bits(param->type.element)) : uint8_t{0});
    kernel->signed_arguments.push_back(integer && is_signed_int(param->type.element));
  }
  kernel->addressable_bytes = tir::addressable_bytes(module, target);
}

void set_requirements(PlanKernel* kernel, const tir::KernelSource& source) {
  const tir::LaunchNeeds needs = tir::launch_needs(source.lowered);
  int64_t lsram = needs.memory.lsram_bytes, shared = needs.memory.shared_bytes;
  const auto also = [&](const tir::OnChipMemory& memory) {
    lsram = std::max(lsram, memory.lsram_bytes);
    shared = std::max(shared, memory.shared_bytes);
  };
  // The interpreter runs the kernel as instantiated.
  if (kernel->module != nullptr) also(tir::plan_on_chip_memory(*kernel->module));
  kernel->reports_faults = needs.reports_faults;
  if (source.shown) {
    const tir::LaunchNeeds compiled = tir::launch_needs(*source.shown);
    also(compiled.memory);
    kernel->reports_faults |= compiled.reports_faults;
  }
  kernel->lsram_bytes = static_cast<uint32_t>(lsram);
  kernel->shared_bytes = static_cast<uint32_t>(shared);
  kernel->uses_barrier = needs.uses_barrier;
}

}  // namespace aipu::gbuilder
