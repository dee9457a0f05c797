#include "runtime/sandbox/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/backends/own_folders.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/fork_generation.h"
#include "runtime/base/meter.h"
#include "runtime/base/stored_type.h"
#include "runtime/base/text.h"
#include "runtime/executor/binding.h"
#include "runtime/sandbox/message.h"

namespace aipu::runtime::sandbox {
namespace {

// A process ends what it does by itself when the time is over, with a better message; it is killed when it does not.
constexpr double kGraceSeconds = 1;

constexpr std::string_view kLoadBytes = "--load-memory-limit, LoadOptions::budget",
                           kLoadSeconds = "--load-time-limit, LoadOptions::budget",
                           kPlanBytes = "--plan-memory-limit, SessionOptions::plan_budget",
                           kPlanSeconds = "--plan-time-limit, SessionOptions::plan_budget",
                           kRunBytes = "--run-memory-limit, SessionOptions::memory_limit_bytes",
                           kRunSeconds = "--run-time-limit, SessionOptions::run_seconds";

std::string program_path() {
  if (const char* path = std::getenv("AIPU_SANDBOX"); path != nullptr) return path;
  for (const std::string& folder : own_folders()) {
    for (const char* place : {"/aipu-sandbox", "/../bin/aipu-sandbox"}) {
      if (::access((folder + place).c_str(), X_OK) == 0) return folder + place;
    }
  }
  return {};
}

// Of this process's environment what says where back ends and libraries are, and how to load.
std::vector<std::string> environment_inside() {
  std::vector<std::string> result;
  for (const char* name : {"AIPU_BACKEND_PATH", "AIPU_INTERP_MAX_STEPS", "AIPU_VERIFY", "LD_LIBRARY_PATH"}) {
    if (const char* value = std::getenv(name); value != nullptr) result.push_back(str_cat(name, "=", value));
  }
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

Budget or_preset(const Budget& given, const Budget& preset) {
  return {given.bytes > 0 ? given.bytes : preset.bytes, given.seconds > 0 ? given.seconds : preset.seconds};
}

bool read_specs(Reader& reader, std::vector<TensorSpec>* specs) {
  specs->resize(reader.count(kMostTensors));
  for (TensorSpec& spec : *specs) {
    spec.name = reader.text();
    spec.dtype = static_cast<DType>(reader.count(kDTypeCount - 1));
    if (spec.dtype == DType::kString) return false;  // whose elements would be pointers
    spec.shape.resize(reader.count(kMostRank));
    for (DimSpec& dim : spec.shape) {
      dim.extent = std::max<int64_t>(reader.number(), -1);
      dim.symbol = reader.text();
    }
    if (!reader.ok()) return false;
  }
  return reader.ok();
}

bool read_description(Reader& reader, ModelDescription* description) {
  description->text = reader.text();
  description->metadata.resize(reader.count(kMostTensors));
  for (auto& [key, value] : description->metadata) {
    key = reader.text();
    value = reader.text();
  }
  return reader.ok();
}

// The elements of lists are among the tensors that the process has told.
bool read_lists(Reader& reader, Interface* interface) {
  interface->description.lists.resize(reader.count(kMostTensors));
  for (TensorList& list : interface->description.lists) {
    list.name = reader.text();
    list.is_input = reader.count(1) != 0;
    list.kind = static_cast<TensorList::Kind>(reader.count(static_cast<uint32_t>(TensorList::Kind::kMap)));
    list.absent = reader.count(1) != 0;
    list.first = reader.count(kMostTensors);
    const auto& tensors = list.is_input ? interface->inputs : interface->outputs;
    list.count = reader.count(kMostTensors);
    if (!reader.ok() || list.first + list.count > tensors.size()) return false;
  }
  return reader.ok();
}

Status no_system(std::string_view what) {
  return io_error(str_cat("no ", what, " for a sandbox: ", std::strerror(errno)));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value, other.value);
  return *this;
}

Descriptor::~Descriptor() {
  if (value >= 0) ::close(value);
}

std::string Interface::text() const {
  std::string result = str_cat(name, " for ", target, ":");
  for (const TensorSpec& spec : inputs) result += " " + spec.text();
  result += " ->";
  for (const TensorSpec& spec : outputs) result += " " + spec.text();
  return result;
}

// ---- a process ----

Result<std::unique_ptr<Process>> Process::start(const Descriptor& model, const std::string& entry, bool verify_all,
                                                const Budget& load) {
  std::unique_ptr<Process> process(new Process());
  process->begin({"loading", load.seconds, kLoadSeconds, kLoadBytes});
  AIPU_RETURN_IF_ERROR(process->spawn(model, entry, verify_all, load));
  AIPU_ASSIGN_OR_RETURN(const auto answer, process->receive_answer());
  Reader reader(answer);
  Interface& interface = process->interface_;
  interface.name = reader.text();
  interface.target = reader.text();
  interface.entries.resize(reader.count(kMostTensors));
  for (std::string& known : interface.entries) known = reader.text();
  interface.warning = printable(reader.text());
  if (!read_specs(reader, &interface.inputs) || !read_specs(reader, &interface.outputs) ||
      !read_description(reader, &interface.description) || !read_lists(reader, &interface))
    return process->damaged();
  rlimit space = {};
  if (::prlimit(process->process_, RLIMIT_AS, nullptr, &space) == 0) process->address_space_ = space.rlim_cur;
  return process;
}

Status Process::spawn(const Descriptor& model, const std::string& entry, bool verify_all, const Budget& load) {
  const std::string program = program_path();
  if (program.empty()) {
    return not_found(
        "there is no program aipu-sandbox beside the runtime or in ../bin (it is built with the compiler); "
        "AIPU_SANDBOX says where it is");
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return no_system("socket");
  socket_ = Descriptor(ends[0]);
  const Descriptor inside(ends[1]);
  // Out of the way of the numbers that they get inside.
  const Descriptor high_socket(::fcntl(inside.value, F_DUPFD_CLOEXEC, kModel + 1));
  const Descriptor high_file(::fcntl(model.value, F_DUPFD_CLOEXEC, kModel + 1));
  if (high_socket.value < 0 || high_file.value < 0) return no_system("file descriptor");

  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.9g", load.seconds);
  std::vector<std::string> arguments = {program, verify_all ? "1" : "0", std::to_string(load.bytes), seconds, entry};
  std::vector<std::string> environment = environment_inside();
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return out_of_range("no memory to start a sandbox");
  int code = 0;
  for (const int standard : {0, 1, 2}) {  // what is written there is lost
    if (code == 0) code = ::posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDONLY, 0);
  }
  if (code == 0) code = ::posix_spawn_file_actions_adddup2(&actions, high_socket.value, kSocket);
  if (code == 0) code = ::posix_spawn_file_actions_adddup2(&actions, high_file.value, kModel);
  if (code == 0)
    code = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, pointers_to(arguments).data(),
                         pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  generation_ = fork_generation();
  if (code == 0) {
    handle_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process_, 0)));
    return {};
  }
  process_ = -1;
  return io_error(str_cat("cannot start '", program, "': ", std::strerror(code)));
}

Process::~Process() { kill(); }

void Process::signal_to_end() const {
  if (handle_.value >= 0) {
    ::syscall(SYS_pidfd_send_signal, handle_.value, SIGKILL, nullptr, 0);
  } else {
    ::kill(process_, SIGKILL);
  }
}

void Process::kill() {
  socket_ = Descriptor();
  if (process_ > 0 && generation_ == fork_generation()) {
    signal_to_end();
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
}

bool Process::is_running() {
  if (process_ <= 0 || generation_ != fork_generation()) return false;
  if (::waitpid(process_, nullptr, WNOHANG) == 0) return true;
  process_ = -1;
  socket_ = Descriptor();
  return false;
}

void Process::begin(const Work& work) {
  work_ = work;
  deadline_ns_ = work.seconds > 0 && work.seconds < 9e9
                     ? steady_now_ns() + static_cast<int64_t>((work.seconds + kGraceSeconds) * 1e9)
                     : Meter::kNoLimit;
}

Status Process::wait_for(short events) {
  while (true) {
    int timeout = -1;
    if (deadline_ns_ != Meter::kNoLimit) {
      const int64_t left = deadline_ns_ - steady_now_ns();
      if (left <= 0) return too_late();
      timeout = static_cast<int>(std::min<int64_t>(left / 1000000 + 1, 1 << 30));
    }
    pollfd waited = {socket_.value, events, 0};
    if (::poll(&waited, 1, timeout) > 0) return {};
  }
}

Status Process::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(socket_.value, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) {
      bytes = bytes.subspan(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      AIPU_RETURN_IF_ERROR(wait_for(POLLOUT));
    } else if (errno != EINTR) {
      return gone();
    }
  }
  return {};
}

Status Process::receive(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::recv(socket_.value, to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) {
      to = to.subspan(static_cast<size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      AIPU_RETURN_IF_ERROR(wait_for(POLLIN));
    } else if (got == 0 || errno != EINTR) {
      return gone();
    }
  }
  return {};
}

Result<std::vector<std::byte>> Process::receive_answer() {
  uint64_t size = 0;
  AIPU_RETURN_IF_ERROR(receive(std::as_writable_bytes(std::span(&size, 1))));
  if (size > kMostFrameBytes) return damaged();
  std::vector<std::byte> bytes(size);
  AIPU_RETURN_IF_ERROR(receive(bytes));
  Reader reader(bytes);
  const uint32_t code = reader.count(static_cast<uint32_t>(ErrorCode::kInternal));
  const bool last = reader.number() != 0;
  if (!reader.ok()) return damaged();
  if (code != 0) {
    Status status(static_cast<ErrorCode>(code), printable(reader.text()));
    if (!reader.ok()) return damaged();
    if (last) kill();
    return status;
  }
  bytes.erase(bytes.begin(), bytes.begin() + 2 * sizeof(int64_t));
  return bytes;
}

Result<std::vector<std::byte>> Process::ask(const Work& work, std::span<const std::byte> frame,
                                            std::span<const std::span<const std::byte>> data, int64_t memory_bytes) {
  rlimit space = {};
  if (address_space_ != 0 && ::prlimit(process_, RLIMIT_AS, nullptr, &space) == 0) {
    space.rlim_cur = std::min(address_space_ + static_cast<rlim_t>(memory_bytes), space.rlim_max);
    ::prlimit(process_, RLIMIT_AS, &space, nullptr);
  }
  begin(work);
  AIPU_RETURN_IF_ERROR(send(frame));
  for (const auto& bytes : data) AIPU_RETURN_IF_ERROR(send(bytes));
  begin(work);  // its own clock starts now
  return receive_answer();
}

Status Process::gone() {
  int state = 0;
  // Nothing comes from it any more, whatever it is doing.
  if (process_ > 0) signal_to_end();
  const bool is_known = process_ > 0 && ::waitpid(process_, &state, 0) == process_;
  process_ = -1;
  socket_ = Descriptor();
  std::string text = str_cat("the process in the sandbox died (", work_.what, ")");
  if (!is_known || !WIFSIGNALED(state)) return internal_error(text);
  const int signal = WTERMSIG(state);
  text += str_cat(": signal ", signal, ", ", ::strsignal(signal));
  if (signal == SIGKILL)
    return out_of_range(str_cat(text, "; the system is out of memory, or somebody killed it (", work_.bytes_option,
                                " says how much it may take)"));
  return internal_error(signal == SIGSYS ? str_cat(text, ": it tried a system call that a sandbox forbids") : text);
}

Status Process::too_late() {
  kill();
  return out_of_range(str_cat("the process in the sandbox was killed: ", work_.what, " takes longer than ",
                              Meter::text_of(work_.seconds), " s; raise the limit (", work_.seconds_option,
                              ") if the file is to be trusted with more"));
}

Status Process::damaged() {
  kill();
  return internal_error(str_cat("the process in the sandbox gave no sensible answer (", work_.what, ")"));
}

// ---- a model ----

Result<std::unique_ptr<Model>> Model::load(Descriptor file, const LoadOptions& options) {
  if (!options.backend.empty() && options.backend != "interp") {
    return invalid_argument(str_cat("a sandbox is for the interpreter, not for the back end '", options.backend,
                                    "'; leave that out, or the sandbox"));
  }
  std::unique_ptr<Model> model(new Model());
  model->file_ = std::move(file);
  model->entry_ = options.entry;
  model->verify_all_ = options.verify_all;
  model->load_ = or_preset(options.budget, LoadOptions::untrusted().budget);
  AIPU_ASSIGN_OR_RETURN(auto process, Process::start(model->file_, model->entry_, model->verify_all_, model->load_));
  model->interface_ = process->interface();
  model->spare_ = process.release();
  return model;
}

int Model::load_again(LoadOptions* options) const {
  options->verify_all = verify_all_;
  options->budget = load_;
  return ::fcntl(file_.value, F_DUPFD_CLOEXEC, 0);
}

Model::~Model() { delete spare_.load(); }

Result<std::unique_ptr<Process>> Model::process() const {
  std::unique_ptr<Process> process(spare_.exchange(nullptr));
  if (process != nullptr && process->is_running()) return process;
  AIPU_ASSIGN_OR_RETURN(process, Process::start(file_, entry_, verify_all_, load_));
  if (process->interface().text() != interface_.text())
    return invalid_model("the file is not what it was when the model was loaded; load it again");
  return process;
}

// ---- a session ----

Session::Session(const Model& model, const SessionOptions& options)
    : model_(model),
      interface_(model.interface()),
      inputs_(model.interface().inputs.size()),
      outputs_(model.interface().outputs.size()) {
  const SessionOptions preset = SessionOptions::untrusted();
  plan_ = or_preset(options.plan_budget, preset.plan_budget);
  run_ = or_preset({options.memory_limit_bytes, options.run_seconds}, {preset.memory_limit_bytes, preset.run_seconds});
}

Result<std::unique_ptr<Session>> Session::create(const Model& model, const SessionOptions& options) {
  if (options.profile) return unsupported("there are no profiles from within a sandbox");
  if (options.inspect) return unsupported("what commands write is not seen from within a sandbox");
  std::unique_ptr<Session> session(new Session(model, options));
  AIPU_RETURN_IF_ERROR(session->have_process());
  return session;
}

Status Session::have_process() {
  if (process_ != nullptr && process_->is_running()) return {};
  AIPU_ASSIGN_OR_RETURN(process_, model_.process());
  Writer writer;
  writer.number(static_cast<int64_t>(Request::kOpen));
  for (const Budget& budget : {plan_, run_}) {
    writer.number(budget.bytes);
    writer.real(budget.seconds);
  }
  return process_
      ->ask({"making a session", plan_.seconds, kPlanSeconds, kPlanBytes}, writer.frame(), {},
            checked_add(plan_.bytes, run_.bytes).value_or(Meter::kNoLimit))
      .status();
}

Status Session::bind_input(size_t index, const TensorView& tensor) {
  const std::unique_lock use(in_use_, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= inputs_.size()) return invalid_argument(str_cat("input ", index, " of ", inputs_.size()));
  Input& input = inputs_[index];
  input.bound = false;
  AIPU_RETURN_IF_ERROR(check_input(interface_.inputs[index], tensor, false));
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (!bytes)
    return out_of_range(
        str_cat("input '", interface_.inputs[index].name, "' ", shape_text(tensor.shape), " is too large for 64 bits"));
  input = {{tensor.shape.begin(), tensor.shape.end()}, tensor.data, *bytes, true};
  for (Output& output : outputs_) output.known = false;
  return {};
}

Status Session::bind_output(size_t index, void* data, size_t bytes) {
  const std::unique_lock use(in_use_, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= outputs_.size()) return invalid_argument(str_cat("output ", index, " of ", outputs_.size()));
  AIPU_RETURN_IF_ERROR(check_output_memory(interface_.outputs[index], data, bytes));
  outputs_[index].data = data;
  outputs_[index].capacity = bytes;
  return {};
}

Status Session::request(bool run) {
  const std::unique_lock use(in_use_, std::try_to_lock);
  if (!use) return used_by_another_thread();
  Writer writer;
  writer.number(static_cast<int64_t>(run ? Request::kRun : Request::kPrepare));
  std::vector<std::span<const std::byte>> data;
  auto memory = std::optional<int64_t>(checked_add(plan_.bytes, run_.bytes));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].bound)
      return invalid_argument(str_cat("input '", interface_.inputs[i].name, "' has no value; the model takes ",
                                      interface_.inputs[i].text()));
    writer.shape(inputs_[i].shape);
    data.emplace_back(static_cast<const std::byte*>(inputs_[i].data), static_cast<size_t>(inputs_[i].bytes));
    memory = memory ? checked_add(*memory, inputs_[i].bytes) : std::nullopt;
  }
  if (!run) data.clear();
  AIPU_RETURN_IF_ERROR(have_process());
  const Work work = run ? Work{"the run", run_.seconds, kRunSeconds, kRunBytes}
                        : Work{"the plan for these shapes", plan_.seconds, kPlanSeconds, kPlanBytes};
  AIPU_ASSIGN_OR_RETURN(const auto answer, process_->ask(work, writer.frame(), data, memory.value_or(Meter::kNoLimit)));
  AIPU_RETURN_IF_ERROR(read_shapes(answer, run));
  if (!run) return {};
  for (Output& output : outputs_)
    AIPU_RETURN_IF_ERROR(process_->receive({output.own.data(), static_cast<size_t>(output.bytes)}));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].known = true;
    AIPU_RETURN_IF_ERROR(hand_over(i));
  }
  return {};
}

// What the outputs are like, which is believed only as far as it agrees with the model and the limit.
Status Session::read_shapes(std::span<const std::byte> answer, bool run) {
  Reader reader(answer);
  int64_t total = 0;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const TensorSpec& spec = interface_.outputs[i];
    Output& output = outputs_[i];
    const bool is_known = reader.number() != 0;
    output.known = false;
    output.shape = reader.shape();
    if (!is_known && !run) continue;
    const auto bytes = tensor_bytes(spec.dtype, output.shape);
    const auto sum = bytes ? checked_add(total, *bytes) : std::nullopt;
    bool fits = reader.ok() && is_known && sum && *sum <= run_.bytes && output.shape.size() == spec.shape.size();
    for (size_t k = 0; fits && k < spec.shape.size(); ++k)
      fits = spec.shape[k].extent < 0 || spec.shape[k].extent == output.shape[k];
    if (!fits) return process_->damaged();
    total = *sum;
    output.bytes = *bytes;
    output.known = !run;
    if (!run) continue;
    if (Status status = output.own.reserve(*bytes); !status.ok()) {
      process_.reset();  // nobody reads what it sends
      return status;
    }
  }
  return reader.ok() ? Status() : process_->damaged();
}

// Copies an output to the memory that the caller has for it.
Status Session::hand_over(size_t index) {
  Output& output = outputs_[index];
  if (output.data == nullptr) return {};
  const TensorSpec& spec = interface_.outputs[index];
  const auto capacity = static_cast<int64_t>(std::min<size_t>(output.capacity, std::numeric_limits<int64_t>::max()));
  AIPU_RETURN_IF_ERROR(check_capacity(spec, output.shape, output.bytes, capacity));
  const BoundMemory memory = {"output", spec, output.data, output.bytes};
  for (size_t i = 0; i < inputs_.size(); ++i)
    AIPU_RETURN_IF_ERROR(check_overlap(memory, {"input", interface_.inputs[i], inputs_[i].data, inputs_[i].bytes}));
  for (size_t i = 0; i < index; ++i)
    AIPU_RETURN_IF_ERROR(check_overlap(memory, {"output", interface_.outputs[i], outputs_[i].data, outputs_[i].bytes}));
  std::memcpy(output.data, output.own.data(), static_cast<size_t>(output.bytes));
  return {};
}

Status Session::prepare() { return request(false); }
Status Session::run() { return request(true); }

Result<std::span<const int64_t>> Session::output_shape(size_t index) const {
  const std::unique_lock use(in_use_, std::try_to_lock);
  if (!use) return used_by_another_thread();
  if (index >= outputs_.size()) return invalid_argument(str_cat("output ", index, " of ", outputs_.size()));
  if (!outputs_[index].known)
    return invalid_argument(
        str_cat("the shape of output '", interface_.outputs[index].name, "' is not known before it has been computed"));
  return std::span<const int64_t>(outputs_[index].shape);
}

Result<TensorView> Session::output(size_t index) const {
  AIPU_ASSIGN_OR_RETURN(const auto shape, output_shape(index));
  const Output& output = outputs_[index];
  const void* data = output.data != nullptr ? output.data : output.own.data();
  return TensorView{interface_.outputs[index].dtype, shape, data};
}

}  // namespace aipu::runtime::sandbox
