#include "runtime/model.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "runtime/backends/backend_library.h"
#include "runtime/base/file.h"
#include "runtime/base/guarded.h"
#include "runtime/base/input_file.h"
#include "runtime/executor/device_queues.h"
#include "runtime/executor/model_state.h"
#include "runtime/signature/signature.h"

namespace aipu::runtime {
namespace {

TensorSpec spec_of(const fb::Model& model, uint32_t index) {
  const fb::Tensor& tensor = *items(model.tensors())[index];
  const auto expressions = items(model.expressions());
  TensorSpec spec;
  spec.name = text(tensor.name());
  spec.dtype = static_cast<DType>(tensor.dtype());
  const auto shape = items(tensor.shape());
  for (uint32_t k = 0; k < shape.size(); ++k) {
    const fb::Expression& extent = *expressions[shape[k]];
    DimSpec dim;
    if (extent.op() == fb::ExpressionOp::kConstant) {
      dim.extent = extent.value();
    } else if (extent.op() == fb::ExpressionOp::kSymbol) {
      dim.symbol = text(items(model.symbols())[extent.a()]->name());
    } else {
      dim.symbol = "?";
    }
    spec.shape.push_back(std::move(dim));
  }
  return spec;
}

// The position of a name among those of `names`, of which there are `count`.
template <typename NameAt>
Result<size_t> index_of(size_t count, const NameAt& name_at, std::string_view name, std::string_view what) {
  std::string known;
  for (size_t i = 0; i < count; ++i) {
    const std::string& other = name_at(i);
    if (other == name) return i;
    if (i > 0) known += ", ";
    known += other;
  }
  return not_found(str_cat(what, " '", name, "'; it has: ", known));
}

Result<size_t> index_of(std::span<const TensorSpec> specs, std::string_view name, std::string_view what) {
  const auto name_at = [&](size_t i) -> const std::string& { return specs[i].name; };
  return index_of(specs.size(), name_at, name, what);
}

// The names that a caller sees are copies, and an extent has the name of its symbol, which others may have too.
Status check_names(const fb::Model& model, uint64_t root_bytes, Meter& meter) {
  uint64_t bytes = 0;
  for (const auto* list : {model.inputs(), model.outputs()}) {
    const auto tensors = items(list);
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      const fb::Tensor& tensor = *items(model.tensors())[tensors[i]];
      const auto shape = items(tensor.shape());
      bytes += sizeof(TensorSpec) + text(tensor.name()).size() + shape.size() * sizeof(DimSpec);
      for (uint32_t k = 0; k < shape.size(); ++k) {
        const fb::Expression& extent = *items(model.expressions())[shape[k]];
        if (extent.op() == fb::ExpressionOp::kSymbol) bytes += text(items(model.symbols())[extent.a()]->name()).size();
      }
    }
  }
  constexpr uint64_t kMostTimesTheTables = 32, kAlwaysFine = 1 << 20;
  if (bytes > kAlwaysFine && bytes / kMostTimesTheTables > root_bytes)
    return invalid_model(str_cat("the names of the extents of inputs and outputs take ", bytes,
                                 " bytes: symbols with long names are used for many of them"));
  return meter.take(static_cast<int64_t>(bytes));
}

// "name", or "name:number" for one of several devices.
Status open_backend(detail::ModelState& state, std::string_view name) {
  const size_t colon = name.find(':');
  AIPU_ASSIGN_OR_RETURN(const BackendLibrary library, find_library(name.substr(0, colon)));
  uint32_t number = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() || (library.driver == nullptr && number != 0))
      return invalid_argument(str_cat("'", name, "' does not name a device"));
  }
  state.backend = library.backend;
  if (library.driver != nullptr) {
    AIPU_ASSIGN_OR_RETURN(state.device, Device::open(*library.driver, number));
  }
  state.backend_name = library.driver != nullptr ? library.driver->name : library.backend->name;
  state.capabilities = library.driver != nullptr ? library.driver->capabilities : library.backend->capabilities;
  return {};
}

// What backend_model says, and the constants.
Status load_on_device(detail::ModelState& state, Meter& meter) {
  Device& device = *state.device;
  const aipu_backend_model& model = state.backend_model;
  for (const aipu_backend_kernel& kernel : std::span(model.kernels, model.kernel_count))
    state.device_kernels.push_back({kernel.name, kernel.argument_count, kernel.pointer_arguments, kernel.lsram_bytes,
                                    kernel.shared_bytes, kernel.uses_barrier, kernel.tir, kernel.tir_bytes});
  state.device_model = {sizeof(aipu_device_model),
                        model.tec_count,
                        model.target,
                        model.required_cpu_features,
                        model.required_cpu_feature_count,
                        model.kernel_count,
                        state.device_kernels.data(),
                        model.native_module,
                        model.native_module_bytes,
                        model.memory_limit_bytes,
                        model.deadline_ns,
                        model.cost_figures,
                        model.cost_figure_count};
  aipu_device_error error = {};
  void* module = nullptr;
  const int code = device.driver().load(device.handle(), &state.device_model, &module, &error);
  if (code != 0) {
    AIPU_RETURN_IF_ERROR(meter.check_time());
    return device.status(code, error);
  }
  state.module = module;
  const auto constants = state.file->section(fb::SectionKind::kConstants);
  AIPU_RETURN_IF_ERROR(state.device_constants.reserve(static_cast<int64_t>(constants.size()), &device));
  state.constants = state.device_constants.data();
  AIPU_ASSIGN_OR_RETURN(const auto queues, DeviceQueues::open(device, true));
  return queues->put(state.device_constants.data(), constants.data(), constants.size(), meter.deadline_ns());
}

// Whether kernels from `first` to before `end` have what a back end needs of them.
Status check_kernels_for(const detail::ModelState& state, std::string_view name, uint64_t capabilities, uint32_t first,
                         uint32_t end, bool has_native_module) {
  const auto kernels = items(state.root().kernels());
  for (uint32_t i = first; i < end; ++i) {
    if (kernels[i]->reports_faults() && (capabilities & AIPU_BACKEND_FAULTS) == 0) {
      return unsupported(str_cat("kernel '", text(kernels[i]->name()),
                                 "' reports what it cannot compute with, which the back "
                                 "end '",
                                 name, "' does not pass on; use a newer one"));
    }
    if (state.kernels[i].tir == nullptr && (capabilities & AIPU_BACKEND_TIR) != 0)
      return unsupported(str_cat("the file has no TIR of kernel '", state.kernels[i].name,
                                 "' (aipugb --strip leaves it out), so the back end '", name, "' cannot run it"));
  }
  if (!has_native_module && end > first && (capabilities & AIPU_BACKEND_NATIVE) != 0) {
    return unsupported(str_cat("the file has no compiled kernels, which the back end '", name,
                               "' needs; convert the model again, or use --backend interp"));
  }
  return {};
}

Status load_into(const aipu_backend& backend, std::string_view name, const aipu_backend_model& model, void** module,
                 const Meter& meter) {
  aipu_backend_error error = {};
  const int code = backend.load(&model, module, &error);
  if (code == 0) return {};
  AIPU_RETURN_IF_ERROR(meter.check_time());  // which says how to get more of it
  return Status(static_cast<ErrorCode>(code), str_cat("back end '", name, "': ", error.message));
}

// What runs the kernels from `first` on beside a device.
Status load_host_kernels(detail::ModelState& state, const fb::HostPart& part, bool only_safe, Meter& meter) {
  detail::HostKernels& host = state.host_kernels;
  const uint32_t first = part.first_kernel();
  const auto count = static_cast<uint32_t>(state.kernels.size());
  host.target = text(part.target());
  AIPU_ASSIGN_OR_RETURN(const std::string name,
                        backend_for_target(only_safe ? "interp" : "", host.target, text(part.backend())));
  AIPU_ASSIGN_OR_RETURN(const BackendLibrary library, find_library(name));
  if (library.backend == nullptr) return unsupported("the back end for the host's part has memory of its own");
  const auto features = items(part.required_cpu_features());
  AIPU_RETURN_IF_ERROR(meter.take(features.size() * int64_t{16}));
  for (uint32_t i = 0; i < features.size(); ++i)
    host.features.push_back(features[i] == nullptr ? "" : features[i]->c_str());
  const auto native = state.file->section(fb::SectionKind::kNativeModule, 1);
  AIPU_RETURN_IF_ERROR(check_kernels_for(state, name, library.backend->capabilities, first, count, !native.empty()));
  host.shown = state.backend_model;
  host.shown.target = host.target.c_str();
  host.shown.tec_count = 0;
  host.shown.required_cpu_features = host.features.data();
  host.shown.required_cpu_feature_count = features.size();
  host.shown.native_module = native.empty() ? nullptr : native.data();
  host.shown.native_module_bytes = native.size();
  host.shown.kernels = state.kernels.data() + first;
  host.shown.kernel_count = count - first;
  host.shown.cost_figures = nullptr;
  host.shown.cost_figure_count = 0;
  AIPU_RETURN_IF_ERROR(load_into(*library.backend, name, host.shown, &host.module, meter));
  host.backend = library.backend;
  state.host_kernel_base = first;
  return {};
}

Status load_kernels(detail::ModelState& state, std::string_view requested, bool only_safe, Meter& meter) {
  const fb::Model& model = state.root();
  AIPU_ASSIGN_OR_RETURN(const std::string name, backend_for_target(requested, state.target, text(model.backend())));
  AIPU_RETURN_IF_ERROR(open_backend(state, name));
  if (only_safe && (state.capabilities & AIPU_BACKEND_CHECKS_BOUNDS) == 0) {
    return invalid_argument(str_cat("the back end '", name,
                                    "' does not contain what kernels do, which files that are not trusted "
                                    "(--untrusted) need; use --backend interp, or trust the file"));
  }

  const auto kernels = items(model.kernels());
  const auto features = items(model.required_cpu_features());
  AIPU_RETURN_IF_ERROR(
      meter.take(kernels.size() * int64_t{2 * sizeof(aipu_backend_kernel)} + features.size() * int64_t{16}));
  for (uint32_t i = 0; i < features.size(); ++i)
    state.features.push_back(features[i] == nullptr ? "" : features[i]->c_str());
  for (uint32_t i = 0; i < kernels.size(); ++i) {
    const fb::Kernel& kernel = *kernels[i];
    const auto pointers = items(kernel.pointer_arguments());
    state.kernels.push_back({kernel.name()->c_str(), kernel.argument_count(),
                             pointers.size() == 0 ? nullptr : pointers.vector->data(), kernel.lsram_bytes(),
                             kernel.shared_bytes(), kernel.uses_barrier() ? 1u : 0u, nullptr, 0});
  }
  const auto sections = items(model.sections());
  for (uint32_t i = 0; i < sections.size(); ++i) {
    if (sections[i]->kind() != fb::SectionKind::kTir) continue;
    const auto bytes = state.file->section_bytes(*sections[i]);
    aipu_backend_kernel& kernel = state.kernels[sections[i]->index()];
    kernel.tir = reinterpret_cast<const char*>(bytes.data());
    kernel.tir_bytes = bytes.size();
  }
  // What works on this process's memory and needs no compiled kernels runs those of all targets.
  const fb::HostPart* const host_part = model.host_part();
  const bool runs_all = state.device == nullptr && (state.capabilities & AIPU_BACKEND_NATIVE) == 0;
  const uint32_t own = host_part == nullptr || runs_all ? kernels.size() : host_part->first_kernel();
  const auto native = state.file->section(fb::SectionKind::kNativeModule);
  AIPU_RETURN_IF_ERROR(check_kernels_for(state, name, state.capabilities, 0, own, !native.empty()));
  const auto figures = items(model.cost_figures());
  state.backend_model = {state.target.c_str(),
                         model.tec_count(),
                         state.features.data(),
                         static_cast<uint32_t>(state.features.size()),
                         native.empty() ? nullptr : native.data(),
                         native.size(),
                         state.kernels.data(),
                         own,
                         sizeof(aipu_backend_model),
                         meter.bytes_left(),
                         meter.deadline_ns(),
                         figures.size() == 0 ? nullptr : figures.vector->data(),
                         figures.size()};
  AIPU_RETURN_IF_ERROR(state.device != nullptr
                           ? load_on_device(state, meter)
                           : load_into(*state.backend, name, state.backend_model, &state.module, meter));
  return own < kernels.size() ? load_host_kernels(state, *host_part, only_safe, meter) : Status();
}

// What the model computes with texts and encoded images, and its bodies.
Status open_texts(detail::ModelState& state) {
  const auto calls = items(state.root().text_calls());
  for (uint32_t i = 0; i < calls.size(); ++i) {
    state.has_strings |= calls[i]->library() == fb::OperationLibrary::kText;
    if (state.no_strings && calls[i]->library() == fb::OperationLibrary::kImage)
      return unsupported("the model decodes images, which a sandbox does not; load it without one");
  }
  for (const auto* specs : {&state.inputs, &state.outputs}) {
    for (const TensorSpec& spec : *specs) state.has_strings |= spec.dtype == DType::kString;
  }
  if (state.has_strings && state.no_strings)
    return unsupported("the model has strings, which a sandbox does not pass on; load it without one");
  state.text_operations.reserve(calls.size());
  for (uint32_t i = 0; i < calls.size(); ++i) {
    std::vector<std::string_view> texts;
    const auto given = items(calls[i]->texts());
    for (uint32_t k = 0; k < given.size(); ++k) texts.push_back(text(given[k]));
    const auto numbers = items(calls[i]->numbers());
    const std::span<const int64_t> all(numbers.size() == 0 ? nullptr : numbers.vector->data(), numbers.size());
    AIPU_ASSIGN_OR_RETURN(
        auto operation, TextOperation::open(calls[i]->library(), std::string(text(calls[i]->operation())), texts, all));
    state.text_operations.push_back(std::move(operation));
  }
  for (const auto& body : state.bodies) {
    AIPU_RETURN_IF_ERROR(open_texts(*body));
    state.has_strings |= body->has_strings;
  }
  return {};
}

// One that runs with what another one of its file has loaded.
std::unique_ptr<detail::ModelState> state_beside(const detail::ModelState& owner, const fb::Model& model) {
  auto state = std::make_unique<detail::ModelState>();
  state->model = &model;
  state->outermost = owner.outermost;
  state->whole = owner.whole;
  state->name = owner.name;
  state->target = owner.target;
  state->no_strings = owner.no_strings;
  state->backend_name = owner.backend_name;
  state->constants = owner.constants;
  state->backend = owner.backend;
  state->device = owner.device;
  state->capabilities = owner.capabilities;
  state->module = owner.module;
  state->host_kernel_base = owner.host_kernel_base;
  return state;
}

// What callers see of a model, and sessions of its bodies.
Status describe(detail::ModelState& state, ModelTables tables, uint64_t root_bytes, Meter& meter) {
  const fb::Model& model = state.root();
  AIPU_RETURN_IF_ERROR(check_names(model, root_bytes, meter));
  const auto inputs = items(model.inputs());
  const auto outputs = items(model.outputs());
  for (uint32_t i = 0; i < inputs.size(); ++i) state.inputs.push_back(spec_of(model, inputs[i]));
  for (uint32_t i = 0; i < outputs.size(); ++i) state.outputs.push_back(spec_of(model, outputs[i]));
  state.tables = std::move(tables);
  const auto bodies = items(model.bodies());
  for (uint32_t i = 0; i < bodies.size(); ++i) {
    auto body = state_beside(state, *bodies[i]);
    AIPU_RETURN_IF_ERROR(describe(*body, std::move(state.tables.bodies[i]), root_bytes, meter));
    state.bodies.push_back(std::move(body));
  }
  return {};
}

Status describe_for_people(const fb::Model& model, uint64_t root_bytes, Meter& meter, ModelDescription* description) {
  AIPU_RETURN_IF_ERROR(meter.take(static_cast<int64_t>(root_bytes)));  // no string of theirs is shared
  description->text = text(model.description());
  const auto properties = items(model.properties());
  for (uint32_t i = 0; i < properties.size(); ++i)
    description->metadata.emplace_back(text(properties[i]->key()), text(properties[i]->value()));
  const auto lists = items(model.tensor_lists());
  for (uint32_t i = 0; i < lists.size(); ++i) {
    const fb::TensorList& list = *lists[i];
    const uint64_t tensors = list.is_input() ? items(model.inputs()).size() : items(model.outputs()).size();
    if (list.kind() > fb::TensorListKind::MAX || uint64_t{list.first()} + list.count() > tensors ||
        (list.absent() && list.count() > 0) || (list.kind() >= fb::TensorListKind::kMaps && list.count() != 2))
      return invalid_model(str_cat("the list '", text(list.name()), "' has elements that are not there"));
    description->lists.push_back({std::string(text(list.name())), list.is_input(),
                                  static_cast<TensorList::Kind>(list.kind()), list.absent(), list.first(),
                                  list.count()});
  }
  return {};
}

// A model of the file that callers can have: this, and all of its own.
Status describe_entry(detail::ModelState& state, ModelTables tables, uint64_t root_bytes, Meter& meter) {
  state.name = text(state.model->model_name());
  AIPU_RETURN_IF_ERROR(describe(state, std::move(tables), root_bytes, meter));
  AIPU_RETURN_IF_ERROR(describe_for_people(*state.model, root_bytes, meter, &state.description));
  state.problem = open_texts(state);
  return {};
}

Meter meter_of(const LoadOptions& options) {
  return Meter("loading", options.budget.bytes > 0 ? options.budget.bytes : kUntrustedBytes,
               "--load-memory-limit, LoadOptions::budget", options.budget.seconds,
               "--load-time-limit, LoadOptions::budget");
}

// For a process that reads from descriptors.
Result<sandbox::Descriptor> file_in_memory(std::span<const std::byte> bytes) {
  sandbox::Descriptor file(::memfd_create("aipu.bin", MFD_CLOEXEC));
  while (file.value >= 0 && !bytes.empty()) {
    const ssize_t put = ::write(file.value, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  if (file.value < 0 || !bytes.empty())
    return io_error(str_cat("the file cannot be handed to a sandbox: ", std::strerror(errno)));
  return file;
}

VerifyLevel verify_level(const LoadOptions& options) {
  const char* environment = std::getenv("AIPU_VERIFY");
  return options.verify_all || (environment != nullptr && std::string_view(environment) == "full")
             ? VerifyLevel::kFull
             : VerifyLevel::kUsual;
}

}  // namespace

std::string TensorSpec::text() const {
  std::string result = str_cat(name, " ", dtype_name(dtype), "[");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) result += ",";
    result += shape[i].extent >= 0 ? std::to_string(shape[i].extent) : shape[i].symbol;
  }
  return result + "]";
}

Status check_backend(std::string_view backend, std::string_view target) {
  AIPU_ASSIGN_OR_RETURN(const std::string name, backend_for_target(backend, target));
  return find_library(name.substr(0, name.find(':'))).status();
}

Model::Model(std::shared_ptr<const detail::ModelState> state) : state_(std::move(state)) {}
Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::load(const std::string& path, const LoadOptions& options) try {
  refill_error_reserve();
  if (options.sandbox) {
    if (!options.trusted_key.empty()) {
      AIPU_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::read(path));
      auto model = from_bytes(file.bytes(), options);
      if (!model.ok()) return std::move(model).status().context(path);
      return model;
    }
    AIPU_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
    auto model = in_sandbox(::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0), options);
    if (!model.ok()) return std::move(model).status().context(path);
    return model;
  }
  auto state = std::make_unique<detail::ModelState>();
  Meter meter = meter_of(options);
  const bool copy = options.copy || !options.trusted_key.empty();
  AIPU_ASSIGN_OR_RETURN(state->file, ModelFile::open(path, verify_level(options), copy, &meter, options.trusted_key));
  auto result = finish(std::move(state), options, meter);
  if (!result.ok()) return std::move(result).status().context(path);
  return result;
} catch (...) {
  return current_exception_status(path);
}

Result<std::shared_ptr<const Model>> Model::from_bytes(std::span<const std::byte> bytes,
                                                       const LoadOptions& options) try {
  refill_error_reserve();
  if (options.sandbox) {
    if (!options.trusted_key.empty()) AIPU_RETURN_IF_ERROR(check_signature(bytes, options.trusted_key));
    AIPU_ASSIGN_OR_RETURN(sandbox::Descriptor file, file_in_memory(bytes));
    return in_sandbox(std::exchange(file.value, -1), options);
  }
  auto state = std::make_unique<detail::ModelState>();
  Meter meter = meter_of(options);
  AIPU_ASSIGN_OR_RETURN(
      state->file, ModelFile::from_bytes(bytes, verify_level(options), options.in_place, &meter, options.trusted_key));
  return finish(std::move(state), options, meter);
} catch (...) {
  return current_exception_status();
}

// Takes the descriptor.
Result<std::shared_ptr<const Model>> Model::in_sandbox(int descriptor, const LoadOptions& options) {
  auto state = std::make_unique<detail::ModelState>();
  AIPU_ASSIGN_OR_RETURN(state->sandbox, sandbox::Model::load(sandbox::Descriptor(descriptor), options));
  const sandbox::Interface& interface = state->sandbox->interface();
  state->name = interface.name;
  state->target = interface.target;
  state->backend_name = "interp";
  state->inputs = interface.inputs;
  state->outputs = interface.outputs;
  state->description = interface.description;
  return std::shared_ptr<const Model>(new Model(std::move(state)));
}

Result<std::shared_ptr<const Model>> Model::finish(std::unique_ptr<detail::ModelState> state,
                                                   const LoadOptions& options, Meter& meter) {
  AIPU_ASSIGN_OR_RETURN(ModelTables tables, check_model(*state->file, &meter));
  state->model = state->outermost = &state->file->root();
  state->no_strings = options.no_strings;
  state->target = runtime::text(state->model->target());
  state->constants = state->file->section(fb::SectionKind::kConstants).data();
  AIPU_RETURN_IF_ERROR(load_kernels(*state, options.backend, options.only_safe_backends, meter));
  const uint64_t root_bytes = state->file->root_bytes();
  std::vector<ModelTables> tables_of_entries = std::move(tables.entries);
  AIPU_RETURN_IF_ERROR(describe_entry(*state, std::move(tables), root_bytes, meter));
  state->entry_names.push_back(std::string(entry_name(*state->model)));
  const auto entries = items(state->model->entries());
  for (uint32_t i = 0; i < entries.size(); ++i) {
    state->entries.push_back(state_beside(*state, *entries[i]));
    AIPU_RETURN_IF_ERROR(describe_entry(*state->entries.back(), std::move(tables_of_entries[i]), root_bytes, meter));
    state->entry_names.push_back(std::string(entry_name(*entries[i])));
  }
  return Model(std::move(state)).open(options.entry);
}

Result<std::shared_ptr<const Model>> Model::open(std::string_view entry) const {
  if (state_->sandbox != nullptr) {
    LoadOptions options;
    options.entry = entry;
    return in_sandbox(state_->sandbox->load_again(&options), options);
  }
  const detail::ModelState* found = state_->whole;
  if (!entry.empty()) {
    const auto name_at = [names = entries()](size_t i) -> const std::string& { return names[i]; };
    AIPU_ASSIGN_OR_RETURN(const size_t index, index_of(entries().size(), name_at, entry, "the file has no entry"));
    if (index > 0) found = found->entries[index - 1].get();
  }
  AIPU_RETURN_IF_ERROR(Status(found->problem));
  // Whoever has one of them keeps all of them.
  return std::shared_ptr<const Model>(new Model(std::shared_ptr<const detail::ModelState>(state_, found)));
}

const std::string& Model::name() const { return state_->name; }
const std::string& Model::target() const { return state_->target; }
const std::string& Model::backend() const { return state_->backend_name; }
const std::string& Model::warning() const {
  static const std::string none;
  return state_->sandbox != nullptr ? state_->sandbox->interface().warning : none;
}
std::span<const std::string> Model::entries() const {
  return state_->sandbox != nullptr ? state_->sandbox->interface().entries : state_->whole->entry_names;
}
std::span<const TensorSpec> Model::inputs() const { return state_->inputs; }
std::span<const TensorSpec> Model::outputs() const { return state_->outputs; }
const ModelDescription& Model::description() const { return state_->description; }
Result<size_t> Model::input_index(std::string_view name) const {
  return index_of(state_->inputs, name, "the model has no input");
}
Result<size_t> Model::output_index(std::string_view name) const {
  return index_of(state_->outputs, name, "the model has no output");
}

}  // namespace aipu::runtime
