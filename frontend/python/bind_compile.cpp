// Targets, parsing of decorated functions, and the compiler.
#include <pybind11/stl.h>

#include <cstring>

#include "codegen/compass_c/c_text.h"
#include "codegen/driver/kernel_text.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/lower/lower.h"
#include "codegen/targets/target.h"
#include "codegen/timing/timing_model.h"
#include "codegen/tir/parameter_analysis.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "codegen/tir/visit.h"
#include "frontend/onnx/supported_ops.h"
#include "frontend/python/bindings.h"
#include "frontend/python/environment.h"
#include "frontend/python/executor.h"
#include "gbuilder/build.h"
#include "gbuilder/dsl_call.h"
#include "gbuilder/dsl_call_files.h"
#include "gbuilder/precision.h"
#include "graph/ir/op_def.h"
#include "kernels/dsl/parse.h"
#include "kernels/dsl/type_rules.h"
#include "runtime/signature/signature.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

py::dict target_row(const tir::Target& target) {
  py::dict row;
  row["name"] = target.name;
  row["backend"] = target.backend;
  row["version"] = target.version;
  row["core_count"] = target.core_count;
  row["tec_count"] = target.tec_count();
  row["vector_width"] = target.vector_bits;
  row["bf16_dot_products"] = target.bf16_dot_products;
  row["f16_dot_products"] = target.f16_dot_products;
  row["tile_products"] = target.tile_products;
  row["lsram_bytes"] = target.lsram_bytes();
  row["shared_bytes"] = target.shared_bytes();
  return row;
}

// A kernel as typed IR.
struct KernelModule {
  tir::Module module;
};

struct CompiledKernel {
  std::shared_ptr<const gbuilder::DslKernel> kernel;
};

// (result, "") or (None, text of the error): Python decides which exception it is.
template <typename T>
py::tuple outcome(Result<T> result) {
  if (!result.ok()) return py::make_tuple(py::none(), result.status().message());
  return py::make_tuple(std::move(*result), "");
}

Result<KernelModule> parse_decorated(const py::object& function, const std::string& name, const std::string& target) {
  PythonCapture capture(target);
  AIPU_ASSIGN_OR_RETURN(const dsl::CapturedFunction entry, capture.decorated(function));
  AIPU_ASSIGN_OR_RETURN(tir::Module module, dsl::parse_kernel(entry, name));
  return KernelModule{std::move(module)};
}

py::list parameters_of(const tir::PrimFuncInfo& info) {
  py::list rows;
  for (const tir::ParamInfo& param : info.params) {
    const tir::Type type = param.type.pointer ? param.type.pointee() : param.type;
    rows.append(py::make_tuple(param.name, type.is_void() ? "void" : dsl::type_text(type),
                               std::string(param_category_name(param.category)), param.tensor_index));
  }
  return rows;
}

Result<KernelModule> parse_text(const std::string& text) {
  AIPU_ASSIGN_OR_RETURN(tir::Module module, tir::parse_module(text));
  AIPU_RETURN_IF_ERROR(tir::verify(module));
  return KernelModule{std::move(module)};
}

bool calls(const tir::Module& module, std::string_view intrinsic) {
  bool found = false;
  for (const tir::PrimFuncPtr& function : module.functions) {
    tir::walk(
        function->body,
        [&](const tir::Expr& e) {
          const auto* call = e->as<tir::IntrinsicCall>();
          found |= call != nullptr && call->intrinsic->name == intrinsic;
        },
        [](const tir::Stmt&) {});
  }
  return found;
}

Result<std::string> c_text(const KernelModule& kernel, const std::string& target_name,
                           const std::vector<std::string>& disabled) {
  AIPU_ASSIGN_OR_RETURN(const tir::Target target, tir::find_target(target_name));
  return tir::compass_c_text(kernel.module, target, disabled);
}

Result<KernelModule> lower_module(const KernelModule& kernel, const std::string& target_name,
                                  const std::vector<std::string>& disabled) {
  AIPU_ASSIGN_OR_RETURN(const tir::Target target, tir::find_target(target_name));
  tir::LowerOptions options;
  const auto known = tir::lowering_passes();
  for (const std::string& pass : disabled) {
    if (std::find(known.begin(), known.end(), pass) != known.end()) options.disabled_passes.push_back(pass);
  }
  AIPU_ASSIGN_OR_RETURN(tir::Module lowered, tir::lower(kernel.module, target, options));
  return KernelModule{std::move(lowered)};
}

Result<CompiledKernel> compile_module(const KernelModule& kernel, const std::string& target_name,
                                      const std::vector<std::string>& disabled, const std::vector<std::string>& flags,
                                      std::string_view object) {
  AIPU_ASSIGN_OR_RETURN(const tir::Target target, tir::find_target(target_name));
  gbuilder::DslKernelOptions options;
  const auto bytes = std::as_bytes(std::span(object));
  options.compile.object.assign(bytes.begin(), bytes.end());
  options.disabled_passes = disabled;
  options.compile.extra_flags = flags;
  options.compile.jobs = 1;
  const py::gil_scoped_release released;
  AIPU_ASSIGN_OR_RETURN(gbuilder::DslKernel compiled, gbuilder::compile_dsl_kernel(kernel.module, target, options));
  return CompiledKernel{std::make_shared<const gbuilder::DslKernel>(std::move(compiled))};
}

// A kernel that counts what it does, for the timing model.
struct TimedKernel {
  std::shared_ptr<const tir::InstrumentedKernel> instrumented;
  CompiledKernel compiled;
};

Result<TimedKernel> time_kernel(const CompiledKernel& kernel) {
  const gbuilder::DslKernel& original = *kernel.kernel;
  auto instrumented = tir::instrument(original.lowered, original.target.costs.value_or(tir::CostFigures()));
  if (!instrumented.ok()) return std::move(instrumented).status();
  gbuilder::DslKernelOptions options;
  options.compile.jobs = 1;
  AIPU_ASSIGN_OR_RETURN(gbuilder::DslKernel compiled,
                        gbuilder::compile_dsl_kernel(instrumented->module, original.target, options));
  return TimedKernel{std::make_shared<const tir::InstrumentedKernel>(std::move(*instrumented)),
                     {std::make_shared<const gbuilder::DslKernel>(std::move(compiled))}};
}

py::dict classes_of(const tir::CycleCounts& counts) {
  py::dict classes;
  for (size_t c = 0; c < tir::kCycleClasses; ++c)
    classes[py::str(std::string(cycle_class_name(static_cast<tir::CycleClass>(c))))] = counts[c];
  return classes;
}

py::dict estimate_dict(const tir::InstrumentedKernel& kernel, const py::bytes& counters) {
  const std::string_view bytes = counters;
  std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(int64_t));
  const tir::CycleEstimate estimate = tir::estimate(kernel, values);
  py::dict result;
  result["cycles"] = estimate.cycles;
  result["bandwidth_bound"] = estimate.bandwidth_bound;
  py::list tecs, lines, transfers;
  for (const auto& tec : estimate.tecs) {
    py::dict row;
    row["cycles"] = tec.cycles;
    row["classes"] = classes_of(tec.classes);
    row["dma_cycles"] = tec.dma_cycles;
    row["async_cycles"] = tec.async_cycles;
    row["dma_bytes"] = tec.dma_bytes;
    tecs.append(row);
  }
  for (const auto& line : estimate.lines)
    lines.append(py::make_tuple(line.file, line.line, line.total(), classes_of(line.classes)));
  for (const auto& t : estimate.transfers)
    transfers.append(py::make_tuple(t.name, t.line, t.asynchronous, t.runs, t.bytes, t.cycles));
  result["tecs"] = tecs;
  result["lines"] = lines;
  result["transfers"] = transfers;
  return result;
}

py::dict build_report(const gbuilder::BuildReport& report) {
  py::dict result;
  result["target"] = report.target;
  result["warnings"] = report.warnings;
  if (!report.entry_names.empty()) result["entries"] = report.entry_names;
  result["nodes"] = report.nodes;
  result["groups"] = report.groups;
  result["launches"] = report.launches;
  result["kernels"] = report.kernels;
  result["compiled_units"] = report.compiled_units;
  result["commands"] = report.commands;
  result["constant_bytes"] = report.constant_bytes;
  result["file_bytes"] = report.file_bytes;
  result["arena_bytes"] = report.arena_bytes;
  py::dict seconds;
  for (const auto& [stage, time] : report.stage_seconds) seconds[py::str(stage)] = time;
  result["stage_seconds"] = seconds;
  return result;
}

void bind_kernels(py::module_& module) {
  py::class_<KernelModule>(module, "KernelModule", "A kernel and its sub-functions as typed IR.")
      .def_property_readonly(
          "name", [](const KernelModule& k) { return k.module.entry().name; }, "The entry's name.")
      .def_property_readonly(
          "functions",
          [](const KernelModule& k) {
            std::vector<std::string> names;
            for (const auto& function : k.module.functions) names.push_back(function->name);
            return names;
          },
          "The names of all functions, the entry first.")
      .def(
          "text", [](const KernelModule& k) { return tir::print_module(k.module); },
          "The IR as text, which parse_kernel_text() reads.")
      .def(
          "calls", [](const KernelModule& k, const std::string& intrinsic) { return calls(k.module, intrinsic); },
          py::arg("intrinsic"), "Whether one of the functions calls S.<intrinsic>.")
      .def(
          "parameters",
          [](const KernelModule& k) -> py::tuple {
            auto info = tir::analyze_parameters(k.module);
            if (!info.ok()) return py::make_tuple(py::none(), info.status().message());
            return py::make_tuple(parameters_of(*info), "");
          },
          "((name, dtype, category, tensor index) per parameter, \"\") or (None, error).")
      .def(
          "c_text",
          [](const KernelModule& k, const std::string& target, const std::vector<std::string>& disabled) {
            return outcome(c_text(k, target, disabled));
          },
          py::arg("target"), py::arg("disabled_passes"), "The Compass C of the kernel.")
      .def(
          "lower",
          [](const KernelModule& k, const std::string& target, const std::vector<std::string>& disabled) {
            return outcome(lower_module(k, target, disabled));
          },
          py::arg("target"), py::arg("disabled_passes"), "The kernel after the lowering passes.")
      .def(
          "compile",
          [](const KernelModule& k, const std::string& target, const std::vector<std::string>& disabled,
             const std::vector<std::string>& flags, const py::bytes& object) {
            return outcome(compile_module(k, target, disabled, flags, std::string_view(object)));
          },
          py::arg("target"), py::arg("disabled_passes"), py::arg("flags"), py::arg("object") = py::bytes(),
          "The machine code of the kernel; with `object`, what that was before, nothing is compiled.");
  py::class_<CompiledKernel>(module, "CompiledKernel", "A compiled kernel.")
      .def_property_readonly(
          "object",
          [](const CompiledKernel& k) {
            const auto& bytes = k.kernel->compiled.shared_object;
            return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          },
          "The object file.")
      .def_property_readonly(
          "kernel_file", [](const CompiledKernel& k) { return gbuilder::kernel_file_text(*k.kernel); },
          "What lies beside the object file: the target and the kernel as TIR.")
      .def_property_readonly(
          "compiled_units", [](const CompiledKernel& k) { return k.kernel->compiled.compiled_units; },
          "How many files the C compiler was run for: 0 when all came from the cache.")
      .def_property_readonly(
          "lsram_bytes", [](const CompiledKernel& k) { return k.kernel->row.lsram_bytes; }, "Local memory per TEC.")
      .def_property_readonly(
          "shared_bytes", [](const CompiledKernel& k) { return k.kernel->row.shared_bytes; }, "Shared memory.");
  py::class_<TimedKernel>(module, "TimedKernel",
                          "A compiled kernel that counts what it does, in one more argument: int64 counters per TEC.")
      .def_property_readonly(
          "counter_count", [](const TimedKernel& k) { return k.instrumented->counter_count; }, "Counters per TEC.")
      .def_property_readonly(
          "compiled", [](const TimedKernel& k) { return k.compiled; }, "The kernel to run.")
      .def(
          "estimate",
          [](const TimedKernel& k, const py::bytes& counters) { return estimate_dict(*k.instrumented, counters); },
          py::arg("counters"), "The cycles, by TEC, source line and kind of work.");
  module.def(
      "time_kernel", [](const CompiledKernel& kernel) { return outcome(time_kernel(kernel)); }, py::arg("kernel"),
      "(TimedKernel, \"\") or (None, error).");
  module.def(
      "parse_kernel",
      [](const py::object& function, const std::string& name, const std::string& target) {
        return outcome(parse_decorated(function, name, target));
      },
      py::arg("function"), py::arg("name"), py::arg("target"),
      "(KernelModule of a decorated function, \"\") or (None, diagnostics).");
  module.def(
      "parse_kernel_text", [](const std::string& text) { return outcome(parse_text(text)); }, py::arg("text"),
      "(KernelModule of its text form, \"\") or (None, error).");
  py::class_<Executor>(module, "Executor", "Runs a compiled kernel on NumPy arrays.")
      .def(py::init([](const CompiledKernel& kernel, std::string folder, py::object warn, py::object built,
                       std::string backend) {
             return std::make_unique<Executor>(kernel.kernel, std::move(folder), std::move(backend), std::move(warn),
                                               std::move(built));
           }),
           py::arg("kernel"), py::arg("folder"), py::arg("warn"), py::arg("built"), py::arg("backend") = "")
      .def("__call__", &Executor::run, "Runs the kernel; arrays that it writes are changed in place.")
      .def("benchmark", &Executor::benchmark, py::arg("repeat"), py::arg("number"), py::arg("min_repeat_ms"),
           py::arg("limit_zero_time_iterations"), py::arg("cooldown_interval_ms"), py::arg("repeats_to_cooldown"),
           "Seconds per run.");
}

}  // namespace

void bind_compile(py::module_& module) {
  module.def(
      "precisions",
      [] {
        std::vector<std::string> names;
        for (const gbuilder::Precision& precision : gbuilder::kPrecisions) names.emplace_back(precision.name);
        return names;
      },
      "Names of what products of floats can be computed in.");
  module.def(
      "target", [](const std::string& name) { return target_row(value_or_throw(tir::find_target(name))); },
      py::arg("name"),
      "The row of a target by name, \"host\" and \"compass -mcpu=NAME\" resolved; ValueError for unknown names.");
  module.def(
      "load_targets",
      [](const std::string& library) {
        gbuilder::BuildOptions options;
        options.target_plugins = {library};
        if (const Status status = gbuilder::load_target_plugins(options); !status.ok()) throw_status(status);
      },
      py::arg("library"), "Makes the targets of a shared library known to the process; once is enough.");
  module.def(
      "form_since", [](const std::string& op, int64_t opset) { return frontend::form_since(op, opset); }, py::arg("op"),
      py::arg("opset"),
      "The opset from which on a node of one of ONNX's own operators is what it is in `opset`, at most 13; 0 where "
      "there "
      "is no such operator.");
  module.def(
      "takes_rounded",
      [](const std::string& op, size_t operand) {
        const graph::OpDef* def = graph::find_op(op);
        return def != nullptr && graph::takes_rounded(*def, operand);
      },
      py::arg("op"), py::arg("operand"),
      "Whether one of ONNX's own operators may read an operand rounded to few bits where a layer beside it does.");
  bind_kernels(module);
  using gbuilder::EntryOptions;
  py::class_<EntryOptions>(module, "EntryOptions", "A model of the file, and what is asked for it alone.")
      .def(py::init<>())
      .def_readwrite("entry", &EntryOptions::entry, "what the runtime is asked for it by")
      .def_readwrite("model", &EntryOptions::model)
      .def_readwrite("weights", &EntryOptions::weights)
      .def_readwrite("shapes", &EntryOptions::shapes, "NAME=1x3x224x224")
      .def_readwrite("exposed", &EntryOptions::exposed, "names or patterns with *")
      .def_readwrite("preprocess", &EntryOptions::preprocess, "NAME:uint8,nhwc,mean=0.5")
      .def_readwrite("postprocess", &EntryOptions::postprocess, "NAME:softmax,topk=5")
      .def_readwrite("sequence_lengths", &EntryOptions::sequence_lengths, "NAME=3, NAME=none")
      .def_readwrite("cache_length", &EntryOptions::cache_length, "rows of caches that would grow; 0: they grow")
      .def(
          "add_constant",
          [](EntryOptions& options, const std::string& name, const std::string& type, std::vector<int64_t> shape,
             const std::string& bytes) {
            const std::span<const std::byte> data = std::as_bytes(std::span(bytes));
            const auto dtype = parse_dtype(type);
            auto constant =
                dtype ? graph::Constant::create(*dtype, std::move(shape), {data.begin(), data.end()}) : nullptr;
            if (constant == nullptr) throw py::value_error("constants['" + name + "']: cannot be a constant");
            options.constant_inputs[name] = std::move(constant);
          },
          py::arg("name"), py::arg("dtype"), py::arg("shape"), py::arg("bytes"), "An input that becomes a constant.");
  using gbuilder::BuildOptions;
  py::class_<BuildOptions, EntryOptions>(module, "BuildOptions", "What build_model() is asked for.")
      .def(py::init<>())
      .def_readwrite("more_entries", &BuildOptions::more_entries, "further models of the file")
      .def_readwrite("output", &BuildOptions::output)
      .def_readwrite("target", &BuildOptions::target)
      .def_readwrite("plugins", &BuildOptions::plugins)
      .def_readwrite("plugin_texts", &BuildOptions::plugin_texts)
      .def_readwrite("emit_c", &BuildOptions::emit_c)
      .def_readwrite("emit_ir", &BuildOptions::emit_ir)
      .def_readwrite("dump_ir", &BuildOptions::dump_ir)
      .def_readwrite("disabled_passes", &BuildOptions::disabled_passes)
      .def_readwrite("fast_math", &BuildOptions::fast_math)
      .def_readwrite("precision", &BuildOptions::precision)
      .def_readwrite("precision_file", &BuildOptions::precision_file)
      .def_readwrite("strip", &BuildOptions::strip)
      .def_readwrite("jobs", &BuildOptions::jobs)
      .def_readwrite("use_cache", &BuildOptions::use_cache);
  module.def(
      "build_model",
      [](BuildOptions options, const std::string& sign_key) {
        if (!sign_key.empty()) options.sign = value_or_throw(runtime::file_signer(sign_key));
        options.command_line = "aipu.build";
        // Ctrl-C is heard in the middle.
        options.progress = [](const gbuilder::Progress&) {
          const py::gil_scoped_acquire acquired;
          return PyErr_CheckSignals() == 0;
        };
        Result<gbuilder::BuildReport> report = [&] {
          const py::gil_scoped_release released;
          return gbuilder::build_model(options);
        }();
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        return build_report(value_or_throw(std::move(report)));
      },
      py::arg("options"), py::arg("sign_key") = "", "A model file to an aipu.bin, as aipugb does it.");
}

}  // namespace aipu::python
