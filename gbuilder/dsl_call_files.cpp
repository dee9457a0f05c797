#include "gbuilder/dsl_call_files.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "codegen/tir/text.h"
#include "runtime/base/file.h"
#include "runtime/base/input_file.h"

namespace aipu::gbuilder {
namespace {

using kernels::script_op::BuilderPlugin;
using tir::ParamCategory;

constexpr std::string_view kTarget = "target ", kDisabled = "disabled ";

std::string_view category_text(ParamCategory category) {
  switch (category) {
    case ParamCategory::kInputTensor:
      return "an input";
    case ParamCategory::kOutputTensor:
      return "an output";
    case ParamCategory::kConstTensor:
      return "a constant";
    default:
      return "an attribute";
  }
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The arguments of the kernel: what the plugin says they are, in the call.
class ArgumentBinder {
 public:
  ArgumentBinder(const DslKernel& kernel, const frontend::DslCall& call, const BuilderPlugin& plugin)
      : params_(kernel.info.params), call_(call), plugin_(plugin) {}

  Result<std::vector<DslArgument>> bind() {
    if (plugin_.arguments.size() != params_.size()) {
      return plugin_.program->error(plugin_.position,
                                    fmt::format("generate_params() appends {} arguments, the kernel \"{}\" has {}",
                                                plugin_.arguments.size(), plugin_.kernel, params_.size()));
    }
    std::vector<DslArgument> arguments(params_.size());
    for (size_t i = 0; i < params_.size(); ++i) {
      param_ = &params_[i];
      place_ = plugin_.arguments[i].position;
      argument_ = &arguments[i];
      AIPU_RETURN_IF_ERROR(std::visit([this](const auto& value) { return take(value); }, plugin_.arguments[i].value));
    }
    return arguments;
  }

 private:
  Status error(std::string_view text) const { return plugin_.program->error(place_, text); }

  Status check_category(ParamCategory given) const {
    if (param_->category == given) return {};
    return error(fmt::format("parameter \"{}\" of the kernel is {}, not {}", param_->name,
                             category_text(param_->category), category_text(given)));
  }

  Status take_tensor(std::string_view list, const std::vector<frontend::DslCall::Tensor>& tensors, size_t index,
                     int64_t byte_offset) {
    if (index >= tensors.size())
      return error(fmt::format("sgnode.{}[{}]: the layer has {}", list, index, tensors.size()));
    argument_->dtype = tensors[index].dtype;
    argument_->shape = tensors[index].shape;
    argument_->byte_offset = byte_offset;
    return {};
  }

  Status take(const BuilderPlugin::Input& input) {
    AIPU_RETURN_IF_ERROR(check_category(ParamCategory::kInputTensor));
    return take_tensor("inputs", call_.inputs, input.index, input.byte_offset);
  }

  Status take(const BuilderPlugin::Output& output) {
    AIPU_RETURN_IF_ERROR(check_category(ParamCategory::kOutputTensor));
    return take_tensor("outputs", call_.outputs, output.index, output.byte_offset);
  }

  Status take(const BuilderPlugin::Constant& constant) {
    AIPU_RETURN_IF_ERROR(check_category(ParamCategory::kConstTensor));
    for (const auto& [name, value] : call_.constants) {
      if (name != constant.name) continue;
      argument_->dtype = value->dtype();
      argument_->shape = value->shape();
      argument_->constant = value;
      argument_->byte_offset = constant.byte_offset;
      return {};
    }
    return error(fmt::format("the layer has no constant \"{}\"", constant.name));
  }

  Status take(const BuilderPlugin::Attribute& attribute) {
    for (const auto& [name, text] : call_.attributes) {
      if (name != attribute.name) continue;
      return take_number(attribute, text);
    }
    return error(fmt::format("the layer has no attribute \"{}\"", attribute.name));
  }

  Status take_number(const BuilderPlugin::Attribute& attribute, const std::string& text) {
    const auto unknown = [&] { return error(fmt::format("{}={} is no {}", attribute.name, text, attribute.dtype)); };
    const bool pointer = param_->type.pointer;
    const std::string expected(pointer ? "uint32" : dtype_name(param_->type.element));
    if (attribute.dtype != expected) {
      return error(fmt::format("\"{}\" is given as {}, parameter \"{}\" of the kernel is {}", attribute.name,
                               attribute.dtype, param_->name, pointer ? "a pointer (uint32)" : expected));
    }
    if (!pointer && is_floating(param_->type.element)) {
      const auto value = number_of<double>(text);
      if (!value) return unknown();
      argument_->number = *value;
      return {};
    }
    const auto value = number_of<int64_t>(text);
    return value ? take(*value) : unknown();
  }

  Status take(int64_t number) {
    if (param_->type.pointer) {
      if (number != 0) return error(fmt::format("parameter \"{}\" of the kernel is a pointer", param_->name));
      argument_->is_null = true;
      return {};
    }
    argument_->number = is_floating(param_->type.element) ? std::variant<int64_t, double>(static_cast<double>(number))
                                                          : std::variant<int64_t, double>(number);
    return {};
  }

  const std::vector<tir::ParamInfo>& params_;
  const frontend::DslCall& call_;
  const BuilderPlugin& plugin_;
  // of the argument at hand
  const tir::ParamInfo* param_ = nullptr;
  dsl::Position place_;
  DslArgument* argument_ = nullptr;
};

// What an option changes on the road of a model, and would change nothing here.
Status check_no_other_options(const BuildOptions& options) {
  const std::pair<bool, std::string_view> given[] = {{!options.more_entries.empty(), "a second model"},
                                                     {!options.shapes.empty(), "--shape"},
                                                     {options.fast_math, "--fast-math"},
                                                     {!options.precision.empty(), "--precision"},
                                                     {!options.precision_file.empty(), "--precision-file"},
                                                     {options.strip, "--strip"},
                                                     {options.sign != nullptr, "--sign"},
                                                     {!options.emit_ir.empty(), "--emit-ir"},
                                                     {!options.emit_c.empty(), "--emit-c"},
                                                     {!options.dump_ir.empty(), "--dump-ir"},
                                                     {!options.stop_after.empty(), "--stop-after"},
                                                     {options.plugins.size() > 1, "a second plugin"},
                                                     {!options.disabled_passes.empty(), "--disable-pass"},
                                                     {!options.disabled_plugins.empty(), "--disable-plugin"}};
  for (const auto& [is_given, name] : given) {
    if (is_given)
      return invalid_argument(
          fmt::format("{}: not for the call of a DSL kernel, which was compiled when its function was built", name));
  }
  return {};
}

}  // namespace

std::string kernel_file_text(const DslKernel& kernel) {
  std::string text = fmt::format("{}{}\n", kTarget, kernel.target.name);
  for (const std::string& pass : kernel.disabled_passes) text += fmt::format("{}{}\n", kDisabled, pass);
  return text + "\n" + tir::print_module(*kernel.parsed);
}

Result<DslKernel> load_dsl_kernel(const std::string& object) {
  const std::string path = std::filesystem::path(object).replace_extension(".tir").string();
  AIPU_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  std::string target_name;
  DslKernelOptions options;
  std::string_view rest = text;
  while (!rest.empty() && rest.front() != '\n') {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.starts_with(kTarget)) {
      target_name = line.substr(kTarget.size());
    } else if (line.starts_with(kDisabled)) {
      options.disabled_passes.emplace_back(line.substr(kDisabled.size()));
    } else {
      return invalid_argument(fmt::format("{}: 'target NAME' or 'disabled PASS' is expected, found '{}'", path, line));
    }
  }
  auto target = tir::find_target(target_name);
  if (!target.ok()) return std::move(target).status().context(path);
  auto module = tir::parse_module(rest);
  if (!module.ok()) return std::move(module).status().context(path);
  AIPU_ASSIGN_OR_RETURN(const MappedFile compiled, MappedFile::read(object));
  options.compile.object.assign(compiled.bytes().begin(), compiled.bytes().end());
  if (options.compile.object.empty()) return invalid_argument(fmt::format("{}: the file is empty", object));
  return compile_dsl_kernel(std::move(*module), *target, options);
}

Result<std::optional<NamedBuilderPlugin>> find_builder_plugin(const std::vector<std::string>& plugins) {
  for (const std::string& file : plugins) {
    if (!file.ends_with(".py")) continue;
    const auto text = read_text_file(file);
    if (!text.ok()) continue;
    auto program = dsl::HostProgram::parse({file, *text});
    if (!program.ok() || !kernels::script_op::is_builder_plugin(**program)) continue;
    AIPU_ASSIGN_OR_RETURN(BuilderPlugin plugin, kernels::script_op::read_builder_plugin(std::move(*program)));
    return std::optional(NamedBuilderPlugin{file, std::move(plugin)});
  }
  return std::optional<NamedBuilderPlugin>();
}

Result<BuildReport> build_from_call_files(const BuildOptions& options, const NamedBuilderPlugin& named) {
  AIPU_RETURN_IF_ERROR(check_options(options));
  const BuilderPlugin& plugin = named.plugin;
  if (!options.model.ends_with(".txt")) {
    return plugin.program->error(plugin.position,
                                 fmt::format("this is the plugin of a call of a DSL kernel, which goes with the "
                                             "compass_ir.txt beside it, not with '{}'",
                                             options.model));
  }
  AIPU_RETURN_IF_ERROR(check_no_other_options(options));
  if (options.output.empty()) return invalid_argument(fmt::format("{}: no output is given", options.model));
  AIPU_RETURN_IF_ERROR(prepare_output(options.output));
  AIPU_ASSIGN_OR_RETURN(const frontend::DslCall call, frontend::import_dsl_ir(options.model, weights_path(options)));
  const std::string layer = "DSL_" + call.entry;
  if (layer != plugin.layer_type) {
    return plugin.program->error(plugin.position, fmt::format("the plugin is for layers {}, {} has {}",
                                                              plugin.layer_type, options.model, layer));
  }
  const std::string object = (std::filesystem::path(named.file).parent_path() / plugin.object).string();
  AIPU_ASSIGN_OR_RETURN(const DslKernel kernel, load_dsl_kernel(object));
  if (kernel.info.name != plugin.kernel) {
    return plugin.program->error(plugin.position, fmt::format("generate_kernel() says \"{}\", {} holds \"{}\"",
                                                              plugin.kernel, object, kernel.info.name));
  }
  if (!options.target.empty() && options.target != kernel.target.name) {
    return invalid_argument(
        fmt::format("--target {}: {} was compiled for {}", options.target, object, kernel.target.name));
  }
  AIPU_ASSIGN_OR_RETURN(const std::vector<DslArgument> arguments, ArgumentBinder(kernel, call, plugin).bind());
  AIPU_ASSIGN_OR_RETURN(DslCallFile file, build_dsl_call(kernel, arguments, options.output));
  return std::move(file.report);
}

}  // namespace aipu::gbuilder
