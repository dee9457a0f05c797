// aipudump: shows what is in an aipu.bin.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <map>

#include "gbuilder/file/encode.h"
#include "gbuilder/plan/memory_plan.h"
#include "gbuilder/record/command_checker.h"
#include "gbuilder/tools/dump_json.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/loader/check.h"
#include "runtime/loader/model_file.h"
#include "runtime/tools/cli.h"

namespace {

using aipu::Status;
using namespace aipu::gbuilder;  // NOLINT: a tool

struct Options {
  std::string file, entry, json;
  bool commands = false, tensors = false, kernels = false, c = false, ir = false, tir = false, graph = false,
       memory = false, verify = false;
  std::vector<std::string> symbols;
};

bool is_summary(const Options& options) {
  return !(options.commands || options.tensors || options.kernels || options.c || options.ir || options.tir ||
           options.graph || options.memory || options.verify);
}

// Names of the model are in nearly every line.
template <typename... Values>
void show(fmt::format_string<Values...> format, Values&&... values) {
  aipu::tools::print(fmt::format(format, std::forward<Values>(values)...));
}

std::string tensor_line(const Plan& plan, uint32_t tensor) {
  if (tensor >= plan.tensors.size()) return "?";
  const PlanTensor& t = plan.tensors[tensor];
  std::string shape;
  for (const ExpressionId extent : t.shape)
    shape += (shape.empty() ? "" : ",") + plan.expressions.text(extent, plan.symbols);
  return fmt::format("{} {}[{}]", aipu::shortened(t.name), aipu::dtype_name(t.dtype), aipu::shortened(shape));
}

aipu::Result<std::map<std::string, int64_t>> symbol_values(const Plan& plan, const Options& options) {
  std::map<std::string, int64_t> values;
  for (const std::string& text : options.symbols) {
    const size_t equals = text.find('=');
    int64_t value = -1;
    const char* end = text.data() + text.size();
    const bool is_number = equals != std::string::npos && equals > 0 &&
                           std::from_chars(text.data() + equals + 1, end, value).ptr == end && value >= 0;
    if (!is_number) return aipu::invalid_argument(fmt::format("--symbol {}: expected NAME=NUMBER, from 0 on", text));
    const std::string name = text.substr(0, equals);
    std::string known;
    bool found = false;
    for (const PlanSymbol& symbol : plan.symbols) {
      found = found || symbol.name == name;
      known += (known.empty() ? "" : ", ") + symbol.name;
    }
    if (!found)
      return aipu::not_found(fmt::format("--symbol {}: the model has no symbol '{}' (there {}{})", text, name,
                                         known.empty() ? "is none" : "are: ", known));
    if (!values.emplace(name, value).second)
      return aipu::invalid_argument(fmt::format("--symbol {}: '{}' is given twice", text, name));
  }
  return values;
}

std::string list_line(const PlanList& list) {
  static constexpr std::string_view kKinds[] = {"a sequence", "an optional tensor", "an optional sequence",
                                                "a sequence of maps", "a map"};
  const std::string_view kind = list.kind < std::size(kKinds) ? kKinds[list.kind] : "unknown";
  return fmt::format("{} '{}' is {}: {}", list.is_input ? "input" : "output", list.name, kind,
                     list.absent       ? std::string("absent")
                     : list.count == 1 ? std::string("1 tensor")
                                       : fmt::format("{} tensors", list.count));
}

// Of the model and its bodies.
void count_crossings(const Plan& plan, size_t* to_host, size_t* from_host) {
  for (const Program& program : plan.programs) {
    for (const Command& command : program.commands) {
      const auto* dma = std::get_if<DmaBody>(&command.body);
      if (dma == nullptr) continue;
      const auto is_on_host = [&](uint32_t tensor) {
        const uint32_t root = root_tensor(plan, tensor);
        return root < plan.tensors.size() && plan.tensors[root].memory == Memory::kHost;
      };
      *to_host += is_on_host(dma->destination) ? 1 : 0;
      *from_host += is_on_host(dma->source) ? 1 : 0;
    }
  }
  for (const Plan& body : plan.bodies) count_crossings(body, to_host, from_host);
}

std::string crossings_line(const Plan& plan) {
  size_t to_host = 0, from_host = 0;
  count_crossings(plan, &to_host, &from_host);
  return fmt::format("{} copies to the host, {} from it (--commands shows them)", to_host, from_host);
}

// What is said of one model of the file.
Status print_entry(const DecodedModel& model, const Options& options) {
  const Plan& plan = model.plan;
  AIPU_ASSIGN_OR_RETURN(const auto symbols, symbol_values(plan, options));
  if (!plan.description.empty()) show("says     {}\n", plan.description);
  for (const auto& [key, value] : plan.properties) show("metadata {}: {}\n", key, value);
  for (const uint32_t t : plan.inputs) show("input    {}\n", tensor_line(plan, t));
  for (const uint32_t t : plan.outputs) show("output   {}\n", tensor_line(plan, t));
  for (const PlanList& list : plan.lists) show("list     {}\n", list_line(list));
  std::array<size_t, kEngineCount> counts{};
  for (const Program& program : plan.programs) {
    for (const Command& command : program.commands) ++counts[static_cast<size_t>(command.engine())];
  }
  show("commands {} tec, {} dma, {} host, in {} program{}\n", counts[0], counts[1], counts[2], plan.programs.size(),
       plan.programs.size() == 1 ? "" : "s");
  if (plan.host_target.empty()) {
    show("kernels  {}\n", plan.kernels.size());
  } else {
    const size_t own = std::min<size_t>(plan.first_host_kernel, plan.kernels.size());
    show("kernels  {} of {}, {} of {}\n", own, plan.target, plan.kernels.size() - own, plan.host_target);
    show("across   {}\n", crossings_line(plan));
  }
  show("tensors  {}, {} symbols, {} expressions\n", plan.tensors.size(), plan.symbols.size(), plan.expressions.size());
  if (const auto memory = plan_memory(plan, symbols); memory.ok()) {
    show("arena    {} bytes, {:.3f} times what is alive at once\n", memory->arena_bytes, memory->ratio());
    show("peak live activations {} bytes\n", memory->activation_bytes);
  } else if (symbols.empty()) {
    show("arena    {}; give --symbol NAME=NUMBER\n", memory.status().message());
  } else {
    return memory.status();
  }
  return {};
}

void print_sections(const DecodedModel& file) {
  for (const DecodedSection& section : file.sections) {
    if (section.kind == SectionKind::kTir && section.index > 0) continue;
    show("section  {:13} {} bytes at {}\n", section_kind_name(section.kind), section.bytes.size(),
         section.offset_bytes);
  }
}

// `only`: null for all models of the file.
Status print_summary(const DecodedModel& file, const DecodedModel* only, size_t file_bytes, const Options& options) {
  // What is wrong with the options is said before anything is shown.
  for (const DecodedModel* entry : file.entries())
    if (only == nullptr || only == entry) AIPU_RETURN_IF_ERROR(symbol_values(entry->plan, options).status());
  show("{}\n", options.file);
  show("model    '{}' for {}{}, by {}, {} bytes\n", file.plan.model_name, targets_text(file.plan),
       file.plan.fast_math ? " with fast-math" : "", file.producer, file_bytes);
  if (!file.backend.empty())
    show("run by   {}{}{}\n", file.backend, file.host_backend.empty() ? "" : " and, beside it, ", file.host_backend);
  if (!file.required_cpu_features.empty()) {
    std::string features;
    for (const std::string& feature : file.required_cpu_features) features += " " + feature;
    show("needs   {}\n", features);
  }
  if (!file.signer.empty()) show("signed   with the key {}, which is not checked here\n", file.signer);
  const bool several = !file.more_entries.empty();
  for (const DecodedModel* entry : file.entries()) {
    if (only != nullptr && only != entry) continue;
    if (several) show("entry    {}: model '{}'\n", entry->entry_name, entry->plan.model_name);
    AIPU_RETURN_IF_ERROR(print_entry(*entry, options));
  }
  print_sections(file);
  return {};
}

aipu::Result<const DecodedModel*> find_entry(const DecodedModel& file, const std::string& name) {
  std::string known;
  for (const DecodedModel* entry : file.entries()) {
    if (entry->entry_name == name) return entry;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", entry->entry_name);
  }
  return aipu::not_found(fmt::format("there is no entry '{}'; there are: {}", name, known));
}

Status check_plans(const Plan& plan) {
  for (const Program& program : plan.programs) AIPU_RETURN_IF_ERROR(check_program(plan, program));
  for (const Plan& body : plan.bodies) AIPU_RETURN_IF_ERROR(check_plans(body));
  return {};
}

// All of a kind; but of what each model of the file has one of, that of the entry that is asked for.
Status print_section(const DecodedModel& file, SectionKind kind, const Options& options) {
  const bool is_per_entry = kind == SectionKind::kCompassIr || kind == SectionKind::kDebug;
  bool found = false;
  const auto entries = file.entries();
  for (const DecodedSection& section : file.sections) {
    if (section.kind != kind) continue;
    const bool is_others = section.index >= entries.size() || entries[section.index]->entry_name != options.entry;
    if (is_per_entry && is_others && (section.index > 0 || !options.entry.empty())) continue;
    found = true;
    aipu::tools::print({reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size()});
    if (!section.bytes.empty() && section.bytes.back() != std::byte{'\n'}) std::fputc('\n', stdout);
  }
  if (found || (kind == SectionKind::kTir && file.plan.kernels.empty())) return {};
  return aipu::not_found(
      fmt::format("{}: has no section '{}', which aipugb --strip leaves out", options.file, section_kind_name(kind)));
}

Status dump(const Options& options) {
  // What the runtime would refuse is not shown.
  AIPU_ASSIGN_OR_RETURN(const auto loaded,
                        aipu::runtime::ModelFile::open(options.file, aipu::runtime::VerifyLevel::kFull, true));
  if (const auto tables = aipu::runtime::check_model(*loaded); !tables.ok())
    return tables.status().context(options.file);
  AIPU_ASSIGN_OR_RETURN(const aipu::MappedFile file, aipu::MappedFile::read(options.file));
  auto decoded = decode(file.bytes());
  if (!decoded.ok()) return std::move(decoded).status().context(options.file);
  const DecodedModel* only = nullptr;
  if (!options.entry.empty()) {
    auto found = find_entry(*decoded, options.entry);
    if (!found.ok()) return std::move(found).status().context(options.file);
    only = *found;
  }
  const DecodedModel& model = only != nullptr ? *only : *decoded;
  if (!options.json.empty()) {
    AIPU_ASSIGN_OR_RETURN(const auto symbols, symbol_values(model.plan, options));
    const std::string text = dump_json(options.file, file.bytes().size(), *decoded, model, symbols);
    if (options.json != "-") return aipu::write_file_atomically(options.json, text);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }
  if (is_summary(options)) return print_summary(*decoded, only, file.bytes().size(), options);
  if (options.tensors) aipu::tools::print(print_tensors(model.plan) + print_bodies(model.plan, print_tensors));
  if (options.kernels) aipu::tools::print(print_kernels(model.plan));
  if (options.commands) aipu::tools::print(print_commands(model.plan) + print_bodies(model.plan, print_commands));
  if (options.c) AIPU_RETURN_IF_ERROR(print_section(*decoded, SectionKind::kC, options));
  if (options.tir) AIPU_RETURN_IF_ERROR(print_section(*decoded, SectionKind::kTir, options));
  if (options.ir) AIPU_RETURN_IF_ERROR(print_section(*decoded, SectionKind::kCompassIr, options));
  if (options.graph) AIPU_RETURN_IF_ERROR(print_section(*decoded, SectionKind::kDebug, options));
  if (options.memory) {
    AIPU_ASSIGN_OR_RETURN(const auto symbols, symbol_values(model.plan, options));
    AIPU_ASSIGN_OR_RETURN(const MemoryPlan memory, plan_memory(model.plan, symbols));
    aipu::tools::print(print_memory_plan(model.plan, memory));
  }
  if (options.verify) {
    for (const DecodedModel* entry : decoded->entries())
      if (Status status = check_plans(entry->plan); !status.ok()) return std::move(status).context(options.file);
    show("{}: commands are ordered and in range\n", options.file);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  aipu::tools::Tool tool("aipudump", "Shows what is in an aipu.bin; a summary unless told otherwise",
                         "resnet18.aipu.bin --memory --symbol N=8");
  CLI::App& app = tool.app;
  app.add_option("file", options.file, "an aipu.bin")->required()->type_name("FILE");
  app.add_option("--entry", options.entry,
                 "of a file with several models the one to show; default: all in the summary, else the first")
      ->type_name("NAME");
  const char* group = "What to show";
  app.add_flag("--commands", options.commands, "the command buffers, in sequence")->group(group);
  app.add_flag("--tensors", options.tensors, "symbols and tensors")->group(group);
  app.add_flag("--kernels", options.kernels, "the kernels and the ONNX nodes they are for")->group(group);
  app.add_flag("--c", options.c, "the generated C")->group(group);
  app.add_flag("--tir", options.tir, "the lowered TIR of the kernels")->group(group);
  app.add_flag("--ir", options.ir, "the model as Compass IR text")->group(group);
  app.add_flag("--graph", options.graph, "the graph after all passes")->group(group);
  app.add_flag("--memory", options.memory, "where arena tensors are for given symbols")->group(group);
  aipu::tools::add_list(app, "--symbol", options.symbols, "NAME=NUMBER, for --memory, --json and the summary")
      ->type_name("NAME=NUMBER")
      ->group(group);
  app.add_option("--json", options.json, "all of it but C, TIR, IR and graph, to a file; - for the standard output")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--verify", options.verify, "prove that the waits order all commands that must be")->group(group);
  return tool.run(argc, argv, [&] {
    if (!options.json.empty() && !is_summary(options))
      return tool.fail_usage("--json has all that it can show: it does not go with options that choose");
    if (!options.symbols.empty() && !options.memory && !is_summary(options))
      return tool.fail_usage("--symbol is for --memory, --json and the summary");
    if (!options.json.empty() && options.json != "-") {
      if (const Status status = aipu::prepare_output(options.json); !status.ok()) return tool.fail(status);
    }
    const Status status = dump(options);
    return status.ok() ? 0 : tool.fail(status);
  });
}
