#include "gbuilder/tools/dump_json.h"

#include <fmt/format.h>

#include "gbuilder/plan/memory_plan.h"
#include "runtime/base/text.h"

namespace aipu::gbuilder {
namespace {

// Names, which may be long and stand in many places.
std::string name_json(std::string_view name) { return json_string(shortened(name)); }

template <typename Items, typename Text>
std::string list(const Items& items, std::string_view separator, const Text& text_of) {
  std::string text = "[";
  for (const auto& item : items) text += fmt::format("{}{}", text.size() == 1 ? "" : separator, text_of(item));
  return text + "]";
}

class Json {
 public:
  explicit Json(const Plan& plan) : plan_(plan) {}

  std::string number(ExpressionId id) const {
    if (id == kNone) return "null";
    if (const auto value = plan_.expressions.constant_value(id)) return std::to_string(*value);
    return name_json(plan_.expressions.text(id, plan_.symbols));
  }

  std::string symbol(const PlanSymbol& symbol) const {
    const bool of_tensor = symbol.kind != SymbolKind::kTecCount && symbol.kind != SymbolKind::kHostTecCount;
    return fmt::format(R"({{"name": {}, "kind": "{}", "tensor": {}, "index": {}}})", name_json(symbol.name),
                       symbol.kind == SymbolKind::kInputExtent     ? "input extent"
                       : symbol.kind == SymbolKind::kTensorElement ? "tensor element"
                       : symbol.kind == SymbolKind::kHostTecCount  ? "number of the host's TECs"
                                                                   : "number of TECs",
                       of_tensor ? std::to_string(symbol.tensor) : "null", symbol.index);
  }

  std::string tensor(const PlanTensor& tensor) const {
    std::string text =
        fmt::format(R"({{"name": {}, "dtype": "{}", "shape": {}, "kind": "{}", "bytes": {})", name_json(tensor.name),
                    dtype_name(tensor.dtype), list(tensor.shape, ", ", [&](ExpressionId id) { return number(id); }),
                    tensor_kind_name(tensor.kind), number(tensor.size_bytes));
    if (tensor.memory == Memory::kHost) text += R"(, "memory": "host")";
    if (tensor.kind == TensorKind::kConstant) text += fmt::format(R"(, "offset": {})", tensor.offset_bytes);
    if (tensor.kind == TensorKind::kView)
      text += fmt::format(R"(, "base": {}, "offset": {})", tensor.base, number(tensor.view_offset));
    if (tensor.first_use != kNone)
      text += fmt::format(R"(, "first_use": {}, "last_use": {})", tensor.first_use, tensor.last_use);
    if (tensor.in_place_of != kNone) text += fmt::format(R"(, "in_place_of": {})", tensor.in_place_of);
    return text + "}";
  }

  std::string kernel(const PlanKernel& kernel) const {
    return fmt::format(
        R"({{"name": {}, "arguments": {}, "lsram_bytes": {}, "shared_bytes": {}, "barrier": {}, "faults": {}, )"
        R"("nodes": {}}})",
        name_json(kernel.symbol), kernel.argument_count, kernel.lsram_bytes, kernel.shared_bytes, kernel.uses_barrier,
        kernel.reports_faults, name_json(kernel.source));
  }

  std::string command(const Command& command) const {
    std::string what = "null";
    if (const auto* tec = std::get_if<TecBody>(&command.body)) what = std::to_string(tec->kernel);
    if (const auto* host = std::get_if<HostBody>(&command.body)) what = json_string(host_op_name(host->op));
    std::vector<uint32_t> reads, writes;
    for (const Access& access : command_accesses(plan_, command))
      (access.writes ? writes : reads).push_back(access.tensor);
    const auto plain = [](uint32_t index) { return index; };
    const auto wait = [](const CommandId& id) {
      return fmt::format(R"(["{}", {}])", engine_name(id.engine), id.index);
    };
    const char* key = command.engine() == Engine::kHost ? "operation" : "kernel";
    const TecBody* const launch = is_host_work(command) ? launch_of(plan_, command) : nullptr;
    if (launch != nullptr) what += fmt::format(R"(, "kernel": {})", launch->kernel);
    return fmt::format(
        R"({{"sequence": {}, "engine": "{}", "index": {}, "{}": {}, "reads": {}, "writes": {}, "waits": {}, )"
        R"("nodes": {}}})",
        command.sequence, engine_name(command.engine()), command.index, key, what, list(reads, ", ", plain),
        list(writes, ", ", plain), list(command.waits, ", ", wait),
        name_json(command.origin < plan_.origins.size() ? plan_.origins[command.origin] : std::string()));
  }

  std::string program(const Program& program) const {
    return list(program.commands, ",\n      ", [&](const Command& c) { return command(c); });
  }

 private:
  const Plan& plan_;
};

}  // namespace

std::string dump_json(const std::string& path, size_t file_bytes, const DecodedModel& file, const DecodedModel& entry,
                      const std::map<std::string, int64_t>& symbols) {
  const Plan& plan = entry.plan;
  const Json json(plan);
  const auto plain = [](uint32_t index) { return index; };
  const auto section = [](const DecodedSection& s) {
    return fmt::format(R"({{"kind": "{}", "index": {}, "bytes": {}, "offset": {}}})", section_kind_name(s.kind),
                       s.index, s.bytes.size(), s.offset_bytes);
  };
  const auto loop = [](const PlanBatchLoop& l) {
    return fmt::format(R"({{"first": {}, "last": {}, "symbol": {}, "condition": {}}})", l.first, l.last, l.symbol,
                       l.condition == kNone ? "null" : std::to_string(l.condition));
  };
  const auto memory = plan_memory(plan, symbols);
  std::string text = fmt::format(
      "{{\n  \"file\": {},\n  \"bytes\": {},\n  \"model\": {},\n  \"target\": {},\n  \"backend\": {},\n  "
      "\"fast_math\": {},\n"
      "  \"producer\": {},\n  \"cpu_features\": {},\n  \"arena_bytes\": {},\n",
      json_string(path), file_bytes, name_json(plan.model_name), json_string(targets_text(plan)),
      json_string(file.backend), plan.fast_math, json_string(file.producer),
      list(file.required_cpu_features, ", ", [](const std::string& feature) { return json_string(feature); }),
      memory.ok() ? std::to_string(memory->arena_bytes) : "null");
  if (!file.signer.empty()) text += fmt::format("  \"signer\": \"{}\",\n", file.signer);
  const auto add = [&](const char* name, const std::string& value, bool last = false) {
    text += fmt::format("  \"{}\": {}{}\n", name, value, last ? "" : ",");
  };
  add("entry", name_json(entry.entry_name));
  add("entries", list(file.entries(), ", ", [](const DecodedModel* one) { return name_json(one->entry_name); }));
  add("description", json_string(plan.description));
  add("metadata", list(plan.properties, ", ", [](const auto& property) {
        return fmt::format("[{}, {}]", json_string(property.first), json_string(property.second));
      }));
  add("lists", list(plan.lists, ", ", [](const PlanList& l) {
        return fmt::format(R"({{"name": {}, "input": {}, "kind": {}, "absent": {}, "first": {}, "count": {}}})",
                           name_json(l.name), l.is_input, l.kind, l.absent, l.first, l.count);
      }));
  add("inputs", list(plan.inputs, ", ", plain));
  add("outputs", list(plan.outputs, ", ", plain));
  add("symbols", list(plan.symbols, ",\n    ", [&](const PlanSymbol& s) { return json.symbol(s); }));
  add("tensors", list(plan.tensors, ",\n    ", [&](const PlanTensor& t) { return json.tensor(t); }));
  add("kernels", list(plan.kernels, ",\n    ", [&](const PlanKernel& k) { return json.kernel(k); }));
  add("programs", list(plan.programs, ",\n    ", [&](const Program& p) { return json.program(p); }));
  add("batch_loops", list(plan.batch_loops, ", ", loop));
  add("sections", list(file.sections, ",\n    ", section), true);
  return text + "}\n";
}

}  // namespace aipu::gbuilder
