#include "gbuilder/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "codegen/driver/cc_driver.h"
#include "codegen/driver/code_generator.h"
#include "codegen/driver/kernel_cache.h"
#include "codegen/lower/lower.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/text.h"
#include "frontend/ir/compass_ir.h"
#include "gbuilder/assumption_checks.h"
#include "gbuilder/build_options.h"
#include "gbuilder/dsl_call_files.h"
#include "gbuilder/evaluator.h"
#include "gbuilder/file/dump.h"
#include "gbuilder/file/encode.h"
#include "gbuilder/import_model.h"
#include "gbuilder/plan/memory_plan.h"
#include "gbuilder/plan/place_concats.h"
#include "gbuilder/plan/plan.h"
#include "gbuilder/plugin_loader.h"
#include "gbuilder/precision.h"
#include "gbuilder/record/command_storer.h"
#include "gbuilder/record/kernel_table.h"
#include "gbuilder/two_targets.h"
#include "gbuilder/unit.h"
#include "gbuilder/user_plugins.h"
#include "graph/ir/attribute_error.h"
#include "graph/passes/pass.h"
#include "kernels/parts/staged_product.h"
#include "kernels/plugin.h"
#include "kernels/script_op/script_plugin.h"
#include "runtime/base/file.h"
#include "runtime/base/guarded.h"
#include "runtime/base/parallel.h"

namespace aipu::gbuilder {

namespace {

// A model of the file, on its way.
struct Entry {
  Entry(const EntryOptions& entry_options, const std::string& folder) : options(entry_options), dump(folder) {}

  const EntryOptions& options;
  Dumper dump;
  std::string name;  // what it is asked for by, in a file of several
  ImportedModel model;
  std::string compass_ir;  // of the graph as imported
  Unit unit;
  std::vector<size_t> kernels_end;  // by target: it and those before it use the kernels until there
  Plan plan;
  Recording recording;

  graph::Graph& graph() const { return *model.graph; }
  Status in_model(Status status) const { return std::move(status).context(options.model); }
};

// What the stages hand on to each other.
class Builder {
 public:
  explicit Builder(const BuildOptions& options) : options_(options), dump_(options.dump_ir) {}

  Result<BuildReport> run() {
    Status status = run_stages();
    if (status.ok()) status = dump_.status();
    for (const Entry& entry : entries_)
      if (status.ok()) status = entry.dump.status();
    if (!status.ok()) {
      if (status.code() == ErrorCode::kInternal) status = write_reproducer(std::move(status));
      return status;
    }
    return std::move(report_);
  }

 private:
  using Stage = Status (Builder::*)();

  Status run_stages() {
    AIPU_RETURN_IF_ERROR(prepare());
    constexpr std::array<Stage, kStages.size()> kFunctions = {
        &Builder::import,     &Builder::run_graph_passes, &Builder::partition, &Builder::setup,
        &Builder::lower,      &Builder::compile,          &Builder::plan,      &Builder::each<&Builder::record>,
        &Builder::encode_file};
    for (size_t i = 0; i < kStages.size(); ++i) {
      AIPU_RETURN_IF_ERROR(go_on({.stage = kStages[i].first}));
      const auto start = std::chrono::steady_clock::now();
      Status status = (this->*kFunctions[i])();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      report_.stage_seconds.emplace_back(kStages[i].first, elapsed.count());
      AIPU_RETURN_IF_ERROR(std::move(status));
      const bool stopped_in_passes =
          kStages[i].first == "passes" && !options_.stop_after.empty() && is_graph_pass(options_.stop_after);
      if (options_.stop_after == kStages[i].first || stopped_in_passes) {
        report_.stopped_after = options_.stop_after;
        for (const Entry& entry : entries_) report_.graph_text += graph::print_graph(entry.graph());
        break;
      }
    }
    return {};
  }

  // A stage that takes one model after the other.
  template <auto kStage>
  Status each() {
    for (Entry& entry : entries_) AIPU_RETURN_IF_ERROR((this->*kStage)(entry));
    return {};
  }

  // What several models of a file are dumped to.
  static std::string folder_of(const std::string& folder, const std::string& entry) {
    return folder.empty() || entry.empty() ? folder : folder + "/" + entry;
  }

  Status prepare() {
    AIPU_RETURN_IF_ERROR(check_options(options_));
    AIPU_ASSIGN_OR_RETURN(const auto names, entry_names(options_));
    const auto all = entries_of(options_);
    for (size_t e = 0; e < all.size(); ++e)
      entries_.emplace_back(*all[e], folder_of(options_.dump_ir, all.size() > 1 ? names[e] : "")).name = names[e];
    if (all.size() > 1) report_.entry_names = names;
    // Better now than after all the work.
    if (!options_.output.empty()) AIPU_RETURN_IF_ERROR(prepare_output(options_.output));
    for (const char* extension : {".txt", ".bin"})
      if (!options_.emit_ir.empty()) AIPU_RETURN_IF_ERROR(prepare_output(options_.emit_ir + extension));
    for (const std::string& folder : {options_.emit_c, options_.dump_ir})
      if (!folder.empty()) AIPU_RETURN_IF_ERROR(make_folder(folder));
    AIPU_ASSIGN_OR_RETURN(targets_, find_targets(target_name(options_)));
    target_ = targets_[0];
    report_.target = targets_text(targets_);
    for (const std::string& plugin : options_.plugins)
      AIPU_RETURN_IF_ERROR(user_plugins_.load(plugin, [&] { return load_plugin(plugin, registry_); }));
    for (const auto& [name, text] : options_.plugin_texts) {
      AIPU_RETURN_IF_ERROR(user_plugins_.load(name, [&, &label = name, &source = text] {
        kernels::PluginLibrary library(registry_);
        return kernels::register_script_operators(label, source, library);
      }));
    }
    for (const std::string& name : options_.disabled_plugins) {
      if (!registry_.remove(name))
        return invalid_argument(
            fmt::format("--disable-plugin: there is no operator plugin '{}' (see --print-pipeline)", name));
    }
    set_compile_options();
    return {};
  }

  void set_compile_options() {
    compile_options_.use_cache = options_.use_cache;
    compile_options_.jobs = options_.jobs;
    compile_options_.progress = [this](size_t done, size_t total) {
      return report_progress({"compile", done, total, "kernels"});
    };
    if (!options_.use_cache) return;
    if (const std::string problem = tir::KernelCache("").problem(); !problem.empty()) {
      report_.warnings.push_back(problem);
      compile_options_.use_cache = false;
    }
  }

  // False once the caller has had enough.
  bool report_progress(const Progress& progress) {
    const std::lock_guard lock(progress_mutex_);
    if (!stopped_ && options_.progress) stopped_ = !options_.progress(progress);
    return !stopped_;
  }

  Status go_on(const Progress& progress) {
    return report_progress(progress) ? Status() : invalid_argument("the conversion was ended by its caller");
  }

  Status import() {
    for (Entry& entry : entries_) {
      std::vector<std::string> warnings;
      AIPU_ASSIGN_OR_RETURN(entry.model, import_model(entry.options, registry_, &warnings));
      for (const std::string& warning : warnings)
        report_.warnings.push_back(entries_.size() > 1 ? entry.options.model + ": " + warning : warning);
      frontend::CompassIr ir = frontend::write_compass_ir(entry.graph(), !options_.emit_ir.empty());
      entry.compass_ir = std::move(ir.text);
      graphs_.push_back(&entry.graph());
      if (options_.emit_ir.empty()) continue;
      if (entry.model.strings->texts().size() > 1)
        return unsupported(fmt::format("{}: Compass IR has no place for the model's strings", options_.model));
      AIPU_RETURN_IF_ERROR(write_file_atomically(options_.emit_ir + ".txt", entry.compass_ir));
      AIPU_RETURN_IF_ERROR(write_file_atomically(options_.emit_ir + ".bin", ir.weights));
    }
    return {};
  }

  Status run_graph_passes() {
    evaluator_ = make_evaluator(&registry_, &target_, {.compile = compile_options_});
    graph::PassContext context;
    context.evaluator = evaluator_.get();
    context.has_byte_products = target_.dot_products != tir::DotProducts::kNone;
    context.multiplies_unsigned_bytes = target_.dot_products == tir::DotProducts::kUnsignedBySigned;
    context.widens_halves = !target_.f16_dot_products;
    context.holds_bfloats = !target_.bf16_dot_products && !kernels::has_staged_products(target_, DType::kF32);
    context.copies_short_runs = target_.cache_bytes() > 0;
    context.has_byte_tables = target_.byte_table >= 16;
    context.has_float_tables = target_.float_table >= 16;
    context.converts_halves = target_.converts_halves;
    context.reads_codes = !kernels::has_staged_products(target_, DType::kF32);
    if (Status status = read_precision(&context); !status.ok()) return std::move(status).context(options_.model);
    graph::RunOptions run_options;
    for (const std::string& name : options_.disabled_passes) {
      if (is_graph_pass(name)) run_options.disabled.push_back(name);
      if (is_lowering_pass(name)) disabled_lowering_.push_back(name);
    }
    if (is_graph_pass(options_.stop_after)) run_options.stop_after = options_.stop_after;
    for (Entry& entry : entries_) {
      run_options.dump_dir = entry.dump.folder();
      if (dump_.enabled()) AIPU_RETURN_IF_ERROR(make_folder(run_options.dump_dir));
      AIPU_RETURN_IF_ERROR(
          entry.in_model(graph::run_passes(entry.graph(), graph::graph_pipeline(), context, run_options)));
      if (options_.precision == kInt8 && !has_int8_products(entry.graph())) {
        return entry.in_model(invalid_argument(
            "--precision int8: no product of this model multiplies 8-bit integers; quantising it takes typical "
            "inputs: aipugb --quantize DATA, quantize= of aipu.build"));
      }
      report_.nodes += entry.graph().topological_order().size();
    }
    return {};
  }

  Status read_precision(graph::PassContext* context) const {
    if (options_.precision != kInt8) {
      AIPU_ASSIGN_OR_RETURN(context->precision, parse_precision(options_.precision));
    }
    if (options_.precision_file.empty()) return {};
    AIPU_ASSIGN_OR_RETURN(context->precision_rules, read_precision_file(options_.precision_file));
    const std::string unused = unused_rule(graphs_, context->precision_rules);
    if (unused.empty()) return {};
    return invalid_argument(
        fmt::format("{}: the pattern '{}' fits no name of a node", options_.precision_file, unused));
  }

  Status partition() {
    if (has_host()) host_partition_.emplace(&registry_, &targets_, options_.fast_math, &disabled_lowering_);
    for (Entry& entry : entries_) {
      entry.unit.graph = &entry.graph();
      AIPU_RETURN_IF_ERROR(entry.in_model(partition(&entry.unit, false)));
      if (!dump_.enabled()) continue;
      entry.dump.write("groups.txt", has_host() ? host_partition_->text(entry.unit) : groups_text(entry.unit));
    }
    user_plugins_.warn_of_unused(graphs_, claim_target());
    return {};
  }

  Status partition(Unit* unit, bool is_body) {
    auto groups = has_host() ? host_partition_->partition(*unit->graph, is_body)
                             : registry_.partition(*unit->graph, claim_target());
    if (!groups.ok()) return std::move(groups).status();
    for (graph::Group& group : *groups) {
      for (const auto& subgraph : unit->graph->node(group.anchor).subgraphs) {
        Unit& body = unit->bodies[group.anchor].emplace_back();
        body.graph = subgraph.get();
        AIPU_RETURN_IF_ERROR(partition(&body, true));
      }
      report_.group_list.push_back(group_report(*unit->graph, group));
      if (has_host()) report_.group_list.back().target = targets_[group.target].name;
      unit->groups.push_back({std::move(group), {}});
    }
    report_.groups += unit->groups.size();
    return {};
  }

  Status setup() {
    std::vector<KernelTable> tables;
    for (const tir::Target& target : targets_) tables.emplace_back(target, tables.empty() ? 'k' : 'h');
    for (Entry& entry : entries_) {
      tilings_.clear();
      AIPU_RETURN_IF_ERROR(entry.in_model(setup(&entry.unit, tables)));
      for (const KernelTable& table : tables) entry.kernels_end.push_back(table.size());
      if (dump_.enabled() && !tilings_.empty()) entry.dump.write("tilings.txt", tilings_);
    }
    kernels_ = std::move(tables[0]).take();
    first_host_kernel_ = static_cast<uint32_t>(kernels_.size());
    if (has_host()) {
      std::vector<PlanKernel> kernels = std::move(tables[1]).take();
      std::move(kernels.begin(), kernels.end(), std::back_inserter(kernels_));
      for (Entry& entry : entries_) number_host_kernels(&entry.unit);
    }
    report_.kernels = kernels_.size();
    return {};
  }

  // Those of the host come after all of the device.
  void number_host_kernels(Unit* unit) const {
    for (size_t g = 0; g < unit->groups.size(); ++g) {
      if (unit->groups[g].group.target == 0) continue;
      for (uint32_t& row : unit->kernel_of[g]) row += row == kNone ? 0 : first_host_kernel_;
    }
    for (auto& [node, bodies] : unit->bodies) {
      for (Unit& body : bodies) number_host_kernels(&body);
    }
  }

  Status setup(Unit* unit, std::span<KernelTable> tables) {
    const graph::Graph& graph = *unit->graph;
    for (PlannedGroup& planned : unit->groups) {
      graph::OriginSet origins;
      for (const graph::NodeId node : planned.group.nodes) graph::merge_origins(&origins, graph.node(node).origins);
      kernels::SetupContext context(graph, planned.group, targets_[planned.group.target], registry_.templates());
      const auto set_up = [&] { return kernels::PluginRegistry::plugin_of(planned.group).setup(context); };
      if (Status status = graph::catch_attribute_error(set_up); !status.ok()) {
        return std::move(status).context(
            fmt::format("node {}: plugin '{}'", graph::origins_text(origins), planned.group.owner->name()));
      }
      check_assumptions(&context);
      planned.faults = context.faults();
      planned.value_checks = context.value_checks();
      for (const std::string& note : context.implementation.notes)
        tilings_ += fmt::format("{}: {}  // {}\n", planned.group.owner->name(), note, graph::origins_text(origins));
      planned.implementation = std::move(context.implementation);
    }
    place_concats(graph, &unit->groups);
    for (const PlannedGroup& planned : unit->groups) {
      graph::OriginSet origins;
      for (const graph::NodeId node : planned.group.nodes) graph::merge_origins(&origins, graph.node(node).origins);
      std::vector<uint32_t>& rows = unit->kernel_of.emplace_back();
      for (const kernels::Launch& launch : planned.implementation.launches) {
        const auto* kernel = std::get_if<kernels::KernelLaunch>(&launch);
        rows.push_back(kernel == nullptr ? kNone : tables[planned.group.target].add(kernel->kernel, origins));
        report_.launches += kernel != nullptr ? 1 : 0;
      }
    }
    for (auto& [node, bodies] : unit->bodies) {
      for (Unit& body : bodies) AIPU_RETURN_IF_ERROR(setup(&body, tables));
    }
    return {};
  }

  Status lower() {
    sources_.resize(kernels_.size());
    std::vector<Status> statuses(kernels_.size());
    std::vector<std::vector<std::pair<std::string, std::string>>> dumps(kernels_.size());
    std::atomic<size_t> done{0};
    parallel_for(kernels_.size(), options_.jobs, [&](size_t k) {
      if (report_progress({"lower", done, kernels_.size(), "kernels"})) statuses[k] = lower_kernel(k, &dumps[k]);
      ++done;
    });
    AIPU_RETURN_IF_ERROR(go_on({"lower", done, kernels_.size(), "kernels"}));
    for (size_t k = 0; k < kernels_.size(); ++k) {
      for (const auto& [name, text] : dumps[k]) dump_.write(name, text);
      AIPU_RETURN_IF_ERROR(entry_of_kernel(k).in_model(std::move(statuses[k])));
    }
    return {};
  }

  const tir::Target& target_of(size_t kernel) const { return targets_[kernel < first_host_kernel_ ? 0 : 1]; }

  // The first that uses it.
  const Entry& entry_of_kernel(size_t kernel) const {
    const size_t target = kernel < first_host_kernel_ ? 0 : 1;
    const size_t row = kernel - (target == 0 ? 0 : first_host_kernel_);
    return *std::find_if(entries_.begin(), entries_.end(),
                         [&](const Entry& entry) { return row < entry.kernels_end[target]; });
  }

  Status lower_kernel(size_t k, std::vector<std::pair<std::string, std::string>>* dumps) {
    PlanKernel& kernel = kernels_[k];
    const tir::Target& target = target_of(k);
    const std::string folder = fmt::format("kernels/{}/", kernel.symbol);
    tir::LowerOptions lower_options;
    lower_options.disabled_passes = disabled_lowering_;
    if (dump_.enabled()) {
      dumps->emplace_back(folder + "00.tir.txt", tir::print_module(*kernel.module));
      lower_options.on_pass = [&](int index, std::string_view pass, const tir::Module& module) {
        dumps->emplace_back(fmt::format("{}{:02}.{}.txt", folder, index, pass), tir::print_module(module));
      };
    }
    AIPU_ASSIGN_OR_RETURN(const tir::CodeGenerator* generator, tir::find_code_generator(target.codegen));
    auto lowered = generator->lower(*kernel.module, target, lower_options);
    const std::string who = kernel.source.empty() ? fmt::format("kernel '{}'", kernel.symbol)
                                                  : fmt::format("kernel '{}' of {}", kernel.symbol, kernel.source);
    if (!lowered.ok()) return std::move(lowered).status().context(who);
    auto made = tir::kernel_source(kernel.symbol, *kernel.module, std::move(*lowered), target);
    if (!made.ok()) return std::move(made).status().context(who);
    const tir::KernelSource& source = sources_[k] = std::move(*made);
    set_requirements(&kernel, source);
    if (dump_.enabled()) {
      dumps->emplace_back(folder + "tir.lowered.txt", tir::print_module(source.lowered));
      if (auto printed = tir::print_kernel(source, target); printed.ok())
        dumps->emplace_back(folder + "kernel.c", std::move(printed->c));
    }
    return tir::check_on_chip_memory(kernel.symbol, kernel.lsram_bytes, kernel.shared_bytes, target)
        .context(kernel.source);
  }

  Status compile() {
    const auto sources = std::span(sources_);
    AIPU_RETURN_IF_ERROR(compile(sources.first(first_host_kernel_), target_, &compiled_));
    AIPU_RETURN_IF_ERROR(compile(sources.subspan(first_host_kernel_), targets_.back(), &host_compiled_));
    compiled_.c_code += host_compiled_.c_code;
    if (!options_.emit_c.empty()) {
      Dumper emit(options_.emit_c);
      emit.write("kernels.cpp", compiled_.c_code);
      AIPU_RETURN_IF_ERROR(emit.status());
    }
    return {};
  }

  Status compile(std::span<const tir::KernelSource> sources, const tir::Target& target, tir::CompiledModule* module) {
    if (sources.empty()) return {};
    auto compiled = tir::compile_kernels(sources, target, compile_options_);
    if (!compiled.ok()) return std::move(compiled).status().context(options_.model);
    *module = std::move(*compiled);
    report_.compiled_units += static_cast<size_t>(module->compiled_units);
    report_.translation_units += static_cast<size_t>(module->translation_units);
    return {};
  }

  Result<Plan> plan(const Unit& unit, bool is_body) {
    PlanInput input;
    input.graph = unit.graph;
    input.groups = unit.groups;
    input.kernels = kernels_;
    input.kernel_of = unit.kernel_of;
    input.target = target_.name;
    input.tec_count = static_cast<uint32_t>(target_.all_tecs());
    input.core_count = static_cast<uint32_t>(target_.core_count);
    if (has_host()) {
      input.host_target = targets_[1].name;
      input.first_host_kernel = first_host_kernel_;
    }
    input.batch_loops = target_.cache_bytes() > 0 && !has_host() &&
                        std::find(options_.disabled_passes.begin(), options_.disabled_passes.end(), kBatchLoops) ==
                            options_.disabled_passes.end();
    input.is_body = is_body;
    for (const auto& [node, bodies] : unit.bodies) {
      for (const Unit& body : bodies) {
        AIPU_ASSIGN_OR_RETURN(Plan planned, plan(body, true));
        input.bodies[node].push_back(std::move(planned));
      }
    }
    return make_plan(std::move(input));
  }

  Status plan() {
    std::vector<Plan*> plans;
    for (Entry& entry : entries_) {
      AIPU_RETURN_IF_ERROR(plan(entry));
      plans.push_back(&entry.plan);
    }
    lay_out_constants(plans);
    report_.constant_bytes = plans.front()->constant_bytes;
    for (Entry& entry : entries_) report_memory(entry);
    return {};
  }

  Status plan(Entry& entry) {
    auto plan = this->plan(entry.unit, false);
    if (!plan.ok()) return entry.in_model(std::move(plan).status());
    entry.plan = std::move(*plan);
    if (entry.model.strings->texts().size() > 1) entry.plan.string_pool = entry.model.strings->texts();
    entry.plan.fast_math = options_.fast_math;
    entry.plan.description = entry.model.description.text;
    entry.plan.properties = entry.model.description.metadata;
    for (const frontend::PortList& list : entry.model.description.lists) {
      entry.plan.lists.push_back({list.name, list.is_input, static_cast<uint8_t>(list.kind), !list.present,
                                  static_cast<uint32_t>(list.first), static_cast<uint32_t>(list.count)});
    }
    report_.commands += entry.plan.programs[0].commands.size();
    return {};
  }

  void report_memory(Entry& entry) {
    const bool is_first = &entry == &entries_.front();
    entry.dump.write("plan.txt", dump_.enabled() ? print_plan(entry.plan) : "");
    const auto memory = plan_memory(entry.plan);
    report_.has_memory_plan = memory.ok() && (is_first || report_.has_memory_plan);
    if (!memory.ok()) return;
    if (is_first || memory->arena_bytes > report_.arena_bytes) {
      report_.arena_bytes = memory->arena_bytes;
      report_.arena_lower_bound_bytes = memory->lower_bound_bytes;
    }
    if (dump_.enabled()) entry.dump.write("memory.txt", print_memory_plan(entry.plan, *memory));
  }

  Status record(Entry& entry) {
    std::array<std::string, kEngineCount> text;
    RecordOptions record_options;
    record_options.check = options_.verify;
    if (dump_.enabled()) record_options.dump = &text;
    auto recording = record_plan(entry.plan, record_options);
    if (!recording.ok()) return entry.in_model(std::move(recording).status());
    entry.recording = std::move(*recording);
    for (size_t e = 0; e < text.size() && dump_.enabled(); ++e) {
      entry.dump.write(fmt::format("commands.{}.txt", engine_name(static_cast<Engine>(e))), text[e]);
    }
    return {};
  }

  EncodeEntry encoded(const Entry& entry) const {
    EncodeEntry result;
    result.entry_name = entry.name;
    result.plan = &entry.plan;
    result.recording = &entry.recording;
    if (options_.strip) return result;
    result.compass_ir = entry.compass_ir;
    result.debug = graph::print_graph(entry.graph());
    return result;
  }

  Status encode_file() {
    if (options_.output.empty()) return {};
    EncodeInput input{encoded(entries_.front())};
    for (size_t e = 1; e < entries_.size(); ++e) input.more_entries.push_back(encoded(entries_[e]));
    input.backend = target_.backend;
    if (target_.costs) input.cost_figures = target_.costs->numbers();
    input.required_cpu_features = target_.cpu_features;
    input.native_module = compiled_.shared_object;
    if (has_host()) {
      input.host_backend = targets_[1].backend;
      input.host_cpu_features = targets_[1].cpu_features;
      input.host_module = host_compiled_.shared_object;
    }
    if (!options_.strip) {
      for (const tir::KernelSource& source : sources_) input.tir.push_back(tir::print_module(source.lowered));
      input.c_code = compiled_.c_code;
    }
    input.jobs = options_.jobs;
    input.sign = options_.sign;
    AIPU_ASSIGN_OR_RETURN(const EncodeReport report, encode(input, options_.output));
    report_.file_bytes = report.file_bytes;
    return {};
  }

  bool has_host() const { return targets_.size() > 1; }
  graph::ClaimTarget claim_target() const { return {target_.name, options_.fast_math}; }

  Status write_reproducer(Status status) const {
    if (options_.output.empty() || graphs_.empty()) return status;
    const std::string folder = options_.output + ".repro";
    Dumper repro(folder);
    for (size_t e = 0; e < graphs_.size(); ++e) {
      const std::string inner = entries_.size() > 1 ? entries_[e].name + "/" : "";
      repro.write(inner + "graph.txt", graph::print_graph(*graphs_[e]));
    }
    repro.write("error.txt", status.message() + "\n");
    repro.write("command.txt", options_.command_line + "\n");
    if (!repro.status().ok()) return status;
    return internal_error(
        fmt::format("{} (this is a bug in aipu; what is needed to report it is in {})", status.message(), folder));
  }

  const BuildOptions& options_;
  Dumper dump_;
  BuildReport report_;
  std::vector<tir::Target> targets_;  // the device, and the host beside it if there is one
  tir::Target target_;                // the first of them
  tir::CompileOptions compile_options_;
  std::mutex progress_mutex_;
  bool stopped_ = false;
  kernels::PluginRegistry registry_ = kernels::PluginRegistry::with_builtins();
  UserPlugins user_plugins_{&registry_, &report_.warnings};
  std::unique_ptr<graph::Evaluator> evaluator_;
  std::deque<Entry> entries_;
  std::vector<const graph::Graph*> graphs_;  // of the entries, once they are imported
  std::vector<std::string> disabled_lowering_;
  std::optional<HostPartition> host_partition_;
  uint32_t first_host_kernel_ = 0;
  std::string tilings_;  // notes of an entry's groups, for the dump
  std::vector<PlanKernel> kernels_;
  std::vector<tir::KernelSource> sources_;
  tir::CompiledModule compiled_, host_compiled_;
};

}  // namespace

Status load_target_plugins(const BuildOptions& options) {
  for (const std::string& library : options.target_plugins) AIPU_RETURN_IF_ERROR(load_targets(library));
  return {};
}

std::string print_targets() { return tir::print_targets(); }

Result<BuildReport> build_model(const BuildOptions& options) {
  try {
    refill_error_reserve();
    AIPU_RETURN_IF_ERROR(load_target_plugins(options));
    AIPU_ASSIGN_OR_RETURN(const auto builder_plugin, find_builder_plugin(options.plugins));
    if (builder_plugin) return build_from_call_files(options, *builder_plugin);
    return Builder(options).run();
  } catch (...) {
    return current_exception_status(options.model);
  }
}

}  // namespace aipu::gbuilder
