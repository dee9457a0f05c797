#include "gbuilder/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/arena.h"
#include "runtime/base/text.h"

namespace aipu::gbuilder {

Result<MemoryPlan> plan_memory(const Plan& plan, const std::map<std::string, int64_t>& symbols) {
  std::vector<std::optional<int64_t>> symbol_values;
  for (const PlanSymbol& symbol : plan.symbols) {
    const auto it = symbols.find(symbol.name);
    symbol_values.push_back(it == symbols.end() ? std::nullopt : std::optional(it->second));
    if ((symbol.kind == SymbolKind::kTecCount || symbol.kind == SymbolKind::kHostTecCount) && it == symbols.end())
      symbol_values.back() = std::max<int64_t>(1, plan.tec_count);
  }
  const auto values = plan.expressions.evaluate(symbol_values);
  // Batch loops as the runtime runs them with one thread: their own tensors have memory for one sample, what goes in or
  // comes out lives as long as they do.
  std::vector<std::pair<PlanBatchLoop, std::vector<std::optional<int64_t>>>> loops;
  for (const PlanBatchLoop& loop : plan.batch_loops) {
    if (loop.symbol >= symbol_values.size() || symbol_values[loop.symbol].value_or(0) < 2) continue;
    if (loop.condition < values.size() && values[loop.condition].value_or(0) == 0) continue;
    auto one = symbol_values;
    one[loop.symbol] = 1;
    loops.emplace_back(loop, plan.expressions.evaluate(one));
  }
  std::vector<ArenaRequest> requests, activations;
  std::vector<uint32_t> request_of(plan.tensors.size(), kNone);
  for (uint32_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    if (tensor.kind != TensorKind::kArena || tensor.first_use == kNone || tensor.memory != Memory::kDevice) continue;
    if (tensor.size_bytes >= values.size() || !values[tensor.size_bytes]) {
      for (const uint32_t symbol : plan.expressions.symbols_of(tensor.size_bytes)) {
        if (symbol < symbol_values.size() && !symbol_values[symbol]) {
          return invalid_argument(
              fmt::format("the size of tensor '{}' depends on the symbol '{}', which has no value here",
                          shortened(tensor.name), shortened(plan.symbols[symbol].name)));
        }
      }
      return out_of_range(fmt::format("the size of tensor '{}' cannot be computed", shortened(tensor.name)));
    }
    request_of[t] = static_cast<uint32_t>(requests.size());
    ArenaRequest request{
        .size_bytes = *values[tensor.size_bytes], .first_use = tensor.first_use, .last_use = tensor.last_use};
    for (const auto& [loop, one] : loops) {
      if (tensor.first_use >= loop.first && tensor.last_use <= loop.last) {
        request.size_bytes = one[tensor.size_bytes].value_or(request.size_bytes);
        break;
      }
      if (tensor.first_use > loop.first && tensor.first_use <= loop.last) request.first_use = loop.first;
      if (tensor.last_use >= loop.first && tensor.last_use < loop.last) request.last_use = loop.last;
    }
    // Lives that were stretched no longer meet, so that nothing is taken over across the edge of a loop.
    const bool stretched = request.first_use != tensor.first_use;
    if (tensor.in_place_of < t && !stretched) request.in_place_of = request_of[tensor.in_place_of];
    requests.push_back(request);
    // The same list with nothing where a workspace is, so that in_place_of means the same.
    if (tensor.workspace) request.size_bytes = 0;
    activations.push_back(request);
  }
  AIPU_ASSIGN_OR_RETURN(ArenaPlan arena, solve_arena(requests));
  AIPU_ASSIGN_OR_RETURN(const ArenaPlan values_alone, solve_arena(activations));
  MemoryPlan memory;
  memory.offsets.assign(plan.tensors.size(), -1);
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (request_of[t] != kNone) memory.offsets[t] = arena.offsets[request_of[t]];
  }
  memory.arena_bytes = arena.size_bytes;
  memory.lower_bound_bytes = arena.lower_bound_bytes;
  memory.activation_bytes = values_alone.lower_bound_bytes;
  return memory;
}

std::string print_memory_plan(const Plan& plan, const MemoryPlan& memory) {
  std::string text =
      fmt::format("arena {} bytes, at least {} are alive at once, ratio {:.3f}\npeak live activations {} bytes\n",
                  memory.arena_bytes, memory.lower_bound_bytes, memory.ratio(), memory.activation_bytes);
  for (size_t t = 0; t < plan.tensors.size() && t < memory.offsets.size(); ++t) {
    if (memory.offsets[t] >= 0)
      text += fmt::format("  t{}:{} at {}\n", t, shortened(plan.tensors[t].name), memory.offsets[t]);
  }
  return text;
}

}  // namespace aipu::gbuilder
