// aipudump: shows what is in an aipu.bin. Exit code 0 on success, 1 on any error, which is one line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "gbuilder/encode.h"
#include "gbuilder/memory_plan.h"
#include "gbuilder/storers/command_checker.h"
#include "runtime/base/file.h"
#include "runtime/loader/check.h"
#include "runtime/loader/model_file.h"

namespace {

using aipu::Status;
using namespace aipu::gbuilder;  // NOLINT: a tool

struct Options {
  std::string file;
  bool commands = false, tensors = false, kernels = false, c = false, ir = false, tir = false, graph = false,
       memory = false, verify = false;
  std::vector<std::string> symbols;
};

std::string tensor_line(const Plan& plan, uint32_t tensor) {
  if (tensor >= plan.tensors.size()) return "?";
  const PlanTensor& t = plan.tensors[tensor];
  std::string shape;
  for (const ExpressionId extent : t.shape)
    shape += (shape.empty() ? "" : ",") + plan.expressions.text(extent, plan.symbols);
  return fmt::format("{} {}[{}]", t.name, aipu::dtype_name(t.dtype), shape);
}

aipu::Result<std::map<std::string, int64_t>> symbol_values(const Options& options) {
  std::map<std::string, int64_t> values;
  for (const std::string& text : options.symbols) {
    const size_t equals = text.find('=');
    char* end = nullptr;
    const char* digits = text.c_str() + (equals == std::string::npos ? text.size() : equals + 1);
    const long long value = std::strtoll(digits, &end, 10);
    if (equals == std::string::npos || end == digits || *end != '\0')
      return aipu::invalid_argument(fmt::format("--symbol {}: write NAME=NUMBER", text));
    values[text.substr(0, equals)] = value;
  }
  return values;
}

Status print_summary(const DecodedModel& model, size_t file_bytes, const Options& options) {
  const Plan& plan = model.plan;
  fmt::print("{}\n", options.file);
  fmt::print("model    '{}' for {}{}, by {}, {} bytes\n", plan.model_name, plan.target,
             plan.fast_math ? " with fast-math" : "", model.producer, file_bytes);
  if (!model.required_cpu_features.empty()) {
    std::string features;
    for (const std::string& feature : model.required_cpu_features) features += " " + feature;
    fmt::print("needs   {}\n", features);
  }
  for (const uint32_t t : plan.inputs) fmt::print("input    {}\n", tensor_line(plan, t));
  for (const uint32_t t : plan.outputs) fmt::print("output   {}\n", tensor_line(plan, t));
  std::array<size_t, kEngineCount> counts{};
  for (const Program& program : plan.programs) {
    for (const Command& command : program.commands) ++counts[static_cast<size_t>(command.engine())];
  }
  fmt::print("commands {} tec, {} dma, {} host, in {} program{}\n", counts[0], counts[1], counts[2],
             plan.programs.size(), plan.programs.size() == 1 ? "" : "s");
  fmt::print("kernels  {}\n", plan.kernels.size());
  fmt::print("tensors  {}, {} symbols, {} expressions\n", plan.tensors.size(), plan.symbols.size(),
             plan.expressions.size());
  for (const DecodedSection& section : model.sections) {
    if (section.kind == SectionKind::kTir && section.index > 0) continue;
    fmt::print("section  {:13} {} bytes at {}\n", section_kind_name(section.kind), section.bytes.size(),
               section.offset_bytes);
  }
  AIPU_ASSIGN_OR_RETURN(const auto symbols, symbol_values(options));
  if (const auto memory = plan_memory(plan, symbols); memory.ok()) {
    fmt::print("arena    {} bytes, {:.3f} times what is alive at once\n", memory->arena_bytes, memory->ratio());
    fmt::print("peak live activations {} bytes\n", memory->activation_bytes);
  } else {
    fmt::print("arena    {}; give --symbol NAME=NUMBER\n", memory.status().message());
  }
  return {};
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
  const DecodedModel& model = *decoded;
  const bool summary = !(options.commands || options.tensors || options.kernels || options.c || options.ir ||
                         options.tir || options.graph || options.memory || options.verify);
  if (summary) return print_summary(model, file.bytes().size(), options);
  if (options.tensors) fmt::print("{}", print_tensors(model.plan));
  if (options.kernels) fmt::print("{}", print_kernels(model.plan));
  if (options.commands) fmt::print("{}", print_commands(model.plan));
  const auto print_section = [&](SectionKind kind) -> Status {
    bool found = false;
    for (const DecodedSection& section : model.sections) {
      if (section.kind != kind) continue;
      found = true;
      std::fwrite(section.bytes.data(), 1, section.bytes.size(), stdout);
      if (!section.bytes.empty() && section.bytes.back() != std::byte{'\n'}) std::fputc('\n', stdout);
    }
    return found ? Status()
                 : aipu::not_found(fmt::format("{}: has no section '{}'", options.file, section_kind_name(kind)));
  };
  if (options.c) AIPU_RETURN_IF_ERROR(print_section(SectionKind::kC));
  if (options.tir) AIPU_RETURN_IF_ERROR(print_section(SectionKind::kTir));
  if (options.ir) AIPU_RETURN_IF_ERROR(print_section(SectionKind::kCompassIr));
  if (options.graph) AIPU_RETURN_IF_ERROR(print_section(SectionKind::kDebug));
  if (options.memory) {
    AIPU_ASSIGN_OR_RETURN(const auto symbols, symbol_values(options));
    AIPU_ASSIGN_OR_RETURN(const MemoryPlan memory, plan_memory(model.plan, symbols));
    fmt::print("{}", print_memory_plan(model.plan, memory));
  }
  if (options.verify) {
    for (const Program& program : model.plan.programs) {
      if (Status status = check_program(model.plan, program); !status.ok())
        return std::move(status).context(options.file);
    }
    fmt::print("{}: commands are ordered and in range\n", options.file);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Shows what is in an aipu.bin; a summary unless told otherwise", "aipudump"};
  app.add_option("file", options.file, "an aipu.bin")->required();
  app.add_flag("--commands", options.commands, "the command buffers, in sequence");
  app.add_flag("--tensors", options.tensors, "symbols and tensors");
  app.add_flag("--kernels", options.kernels, "the kernels and the ONNX nodes they are for");
  app.add_flag("--c", options.c, "the generated C");
  app.add_flag("--tir", options.tir, "the lowered TIR of the kernels");
  app.add_flag("--ir", options.ir, "the model as Compass IR text");
  app.add_flag("--graph", options.graph, "the graph after all passes");
  app.add_flag("--memory", options.memory, "where arena tensors are for given symbols");
  app.add_option("--symbol", options.symbols, "NAME=NUMBER, for --memory and the summary")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--verify", options.verify, "prove that the waits order all commands that must be");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "aipudump: {}\n", error.what());
    return 1;
  }
  if (const Status status = dump(options); !status.ok()) {
    fmt::print(stderr, "aipudump: {}\n", status.message());
    return 1;
  }
  return 0;
}
