// Where the values of symbols come from.
#include <algorithm>

#include "gbuilder/plan/planner.h"

namespace aipu::gbuilder {

// Every symbol that some expression uses gets a row; those read from tensors get a BindSymbols command after the
// tensor's producer. Tensors that are only read for their symbols may bring in further symbols through their shapes.
Status Planner::record_binds() {
  for (size_t done = 0; done < plan_.expressions.symbol_names().size(); ++done) {
    const std::string name = plan_.expressions.symbol_names()[done];
    if (name == kernels::kTecCountSymbol) {
      plan_.symbols.push_back({.name = name, .kind = SymbolKind::kTecCount, .tensor = 0});
      continue;
    }
    if (name == kHostTecCountSymbol) {
      plan_.symbols.push_back({.name = name, .kind = SymbolKind::kHostTecCount, .tensor = 0});
      continue;
    }
    const graph::Symbol* symbol = graph_.find_symbol(name);
    if (symbol == nullptr && input_.is_body) {
      const auto index = static_cast<uint32_t>(plan_.given_symbols.size());
      plan_.symbols.push_back({.name = name, .kind = SymbolKind::kGiven, .tensor = 0, .index = index});
      plan_.given_symbols.push_back(name);
      continue;
    }
    if (symbol == nullptr) return internal_error(str_cat("the symbol '", name, "' is used, but nothing binds it"));
    PlanSymbol row{.name = name, .index = static_cast<uint32_t>(symbol->index)};
    row.kind =
        symbol->kind == graph::Symbol::Kind::kInputExtent ? SymbolKind::kInputExtent : SymbolKind::kTensorElement;
    if (row.kind == SymbolKind::kInputExtent) {
      const auto it = tensor_of_value_.find(symbol->value);
      if (it == tensor_of_value_.end())
        return internal_error(str_cat("the symbol '", name, "' is an extent of something that is no input"));
      row.tensor = it->second;
    } else {
      auto tensor = tensor_of(symbol->value);
      if (!tensor.ok()) return std::move(tensor).status().context(str_cat("symbol '", name, "'"));
      row.tensor = *tensor;
    }
    plan_.symbols.push_back(std::move(row));
  }
  // Group the symbols of a tensor, extents of inputs first.
  std::vector<uint32_t> sorted(plan_.symbols.size());
  for (uint32_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t x, uint32_t y) {
    const PlanSymbol &a = plan_.symbols[x], &b = plan_.symbols[y];
    return std::tie(a.kind, a.tensor, a.index, x) < std::tie(b.kind, b.tensor, b.index, y);
  });
  std::vector<uint32_t> new_number(sorted.size());
  std::vector<PlanSymbol> symbols;
  for (uint32_t i = 0; i < sorted.size(); ++i) {
    new_number[sorted[i]] = i;
    symbols.push_back(plan_.symbols[sorted[i]]);
  }
  plan_.symbols = std::move(symbols);
  plan_.expressions.renumber_symbols(new_number);
  for (uint32_t i = 0; i < plan_.symbols.size();) {
    uint32_t end = i + 1;
    if (plan_.symbols[i].kind == SymbolKind::kTensorElement) {
      const auto of_same_tensor = [&](const PlanSymbol& other) {
        return other.kind == SymbolKind::kTensorElement && other.tensor == plan_.symbols[i].tensor;
      };
      while (end < plan_.symbols.size() && of_same_tensor(plan_.symbols[end])) ++end;
      const size_t slot = slot_of(graph_.find_symbol(plan_.symbols[i].name)->value);
      Command command;
      command.origin = slot == 0 ? 0 : origin_of(input_.groups[order_[slot - 1]]);
      command.body = HostBody{.op = HostOp::kBindSymbols, .a = i, .b = end - i};
      slots_[slot].binds.push_back(std::move(command));
    }
    i = end;
  }
  return {};
}

}  // namespace aipu::gbuilder
