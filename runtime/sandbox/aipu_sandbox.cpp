// aipu-sandbox: the process inside a sandbox (sandbox.h starts it). It loads the model that it has as file descriptor 4
// and answers requests on descriptor 3 until that is closed (message.h).
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>

#include "runtime/backends/backend_library.h"
#include "runtime/base/stored_type.h"
#include "runtime/executor/aligned_buffer.h"
#include "runtime/model.h"
#include "runtime/sandbox/message.h"
#include "runtime/sandbox/seccomp.h"
#include "runtime/session.h"

namespace aipu::runtime::sandbox {
namespace {

// False: nobody is there any more.
bool read_all(void* data, size_t size) {
  auto* at = static_cast<std::byte*>(data);
  while (size > 0) {
    const ssize_t got = ::read(kSocket, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::sendto(kSocket, bytes.data(), bytes.size(), MSG_NOSIGNAL, nullptr, 0);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) ::_exit(0);  // nobody listens
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

enum class Last : int64_t { kNo, kYes };  // whether the process ends with this answer

Writer begin_answer(ErrorCode code, Last last) {
  Writer writer;
  writer.number(static_cast<int64_t>(code));
  writer.number(static_cast<int64_t>(last));
  return writer;
}

void answer_error(const Status& status, Last last) {
  Writer writer = begin_answer(status.code(), last);
  writer.text(status.message());
  write_all(writer.frame());
}

void write_specs(Writer& writer, std::span<const TensorSpec> specs) {
  writer.number(static_cast<int64_t>(specs.size()));
  for (const TensorSpec& spec : specs) {
    writer.text(spec.name);
    writer.number(static_cast<int64_t>(spec.dtype));
    writer.number(static_cast<int64_t>(spec.shape.size()));
    for (const DimSpec& dim : spec.shape) {
      writer.number(dim.extent);
      writer.text(dim.symbol);
    }
  }
}

void write_description(Writer& writer, const ModelDescription& description) {
  writer.text(description.text);
  writer.number(static_cast<int64_t>(description.metadata.size()));
  for (const auto& [key, value] : description.metadata) {
    writer.text(key);
    writer.text(value);
  }
  writer.number(static_cast<int64_t>(description.lists.size()));
  for (const TensorList& list : description.lists) {
    writer.text(list.name);
    for (const int64_t number : {int64_t{list.is_input}, static_cast<int64_t>(list.kind), int64_t{list.absent},
                                 int64_t{list.first}, int64_t{list.count}})
      writer.number(number);
  }
}

// Answers requests with a session.
class Service {
 public:
  Service(std::shared_ptr<const runtime::Model> model, std::shared_ptr<WorkerPool> pool)
      : model_(std::move(model)), pool_(std::move(pool)), inputs_(model_->inputs().size()) {}

  void serve() {
    uint64_t size = 0;
    while (read_all(&size, sizeof size)) {
      std::vector<std::byte> frame(size);
      if (!read_all(frame.data(), frame.size())) return;
      Reader reader(frame);
      const auto request = static_cast<Request>(reader.number());
      const Status status = request == Request::kOpen ? open(reader) : compute(reader, request == Request::kRun);
      if (!status.ok()) answer_error(status, Last::kNo);
    }
  }

 private:
  Status open(Reader& reader) {
    SessionOptions options = SessionOptions::untrusted();
    options.pool = pool_;
    options.plan_budget.bytes = reader.number();
    options.plan_budget.seconds = reader.real();
    options.memory_limit_bytes = reader.number();
    options.run_seconds = reader.real();
    AIPU_ASSIGN_OR_RETURN(session_, runtime::Session::create(model_, options));
    write_all(begin_answer(ErrorCode::kOk, Last::kNo).frame());
    return {};
  }

  Status compute(Reader& reader, bool run) {
    std::vector<std::vector<int64_t>> shapes;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      shapes.push_back(reader.shape());
      const int64_t bytes = run ? tensor_bytes(model_->inputs()[i].dtype, shapes.back()).value_or(0) : 0;
      // Whoever sends it gives memory for it, so this is said once and for all.
      if (!inputs_[i].reserve(bytes).ok()) throw std::bad_alloc();
      if (!read_all(inputs_[i].data(), static_cast<size_t>(bytes))) ::_exit(0);
    }
    if (session_ == nullptr || !reader.ok()) return internal_error("a request to the sandbox makes no sense");
    for (size_t i = 0; i < inputs_.size(); ++i)
      AIPU_RETURN_IF_ERROR(session_->bind_input(i, {model_->inputs()[i].dtype, shapes[i], inputs_[i].data()}));
    AIPU_RETURN_IF_ERROR(run ? session_->run() : session_->prepare());
    return answer(run);
  }

  Status answer(bool run) {
    Writer writer = begin_answer(ErrorCode::kOk, Last::kNo);
    std::vector<std::span<const std::byte>> data;
    for (size_t i = 0; i < model_->outputs().size(); ++i) {
      const auto shape = session_->output_shape(i);
      writer.number(shape.ok() ? 1 : 0);
      writer.shape(shape.ok() ? *shape : std::span<const int64_t>());
      if (!run) continue;
      AIPU_ASSIGN_OR_RETURN(const TensorView view, session_->output(i));
      const auto bytes = static_cast<size_t>(tensor_bytes(view.dtype, view.shape).value_or(0));
      data.emplace_back(static_cast<const std::byte*>(view.data), bytes);
    }
    write_all(writer.frame());
    for (const auto& bytes : data) write_all(bytes);
    return {};
  }

  std::shared_ptr<const runtime::Model> model_;
  std::shared_ptr<WorkerPool> pool_;
  std::unique_ptr<runtime::Session> session_;
  std::vector<AlignedBuffer> inputs_;
};

// Everything that needs system calls which there are none of later: code, file, limits. `warning`: what could not be
// had.
class Entry {
 public:
  Status enter(const Budget& load) {
    if (::syscall(SYS_close_range, kModel + 1, ~0u, 0) != 0)
      return unsupported("a sandbox needs Linux 5.9 or newer (close_range)");
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    ::mallopt(M_ARENA_MAX, 1);
    // Of the threads of kernels that meet at barriers: address space is limited.
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, 1 << 20);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
    AIPU_RETURN_IF_ERROR(find_backend("interp").status());
    pool_ = make_worker_pool(1);
    AIPU_RETURN_IF_ERROR(read_file());
    AIPU_RETURN_IF_ERROR(limit(load));
    const Status status = forbid_system_calls();
    if (!status.ok()) warning_ = str_cat("the sandbox has limits of memory and of open files only: ", status.message());
    return {};
  }
  std::span<const std::byte> file() const { return file_; }
  const std::string& warning() const { return warning_; }
  std::shared_ptr<WorkerPool> pool() const { return pool_; }

 private:
  // A copy: whoever can write the file cannot change it under the checks.
  Status read_file() {
    struct stat info = {};
    if (::fstat(kModel, &info) != 0 || info.st_size <= 0) return invalid_model("the file is empty");
    const auto size = static_cast<size_t>(info.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return out_of_range(str_cat("no memory for the ", size, " bytes of the file"));
    for (size_t at = 0; at < size;) {
      const ssize_t got = ::pread(kModel, static_cast<char*>(memory) + at, size - at, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return io_error("the file cannot be read, or has become shorter while it was being read");
      at += static_cast<size_t>(got);
    }
    ::close(kModel);
    file_ = {static_cast<const std::byte*>(memory), size};
    return {};
  }

  static Status lower(int resource, rlim_t most) {
    rlimit limits = {};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0) {
      limits.rlim_cur = std::min(most, limits.rlim_max);
      if (resource != RLIMIT_AS) limits.rlim_max = limits.rlim_cur;  // that of memory is raised for large inputs
      if (::setrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0) return {};
    }
    return unsupported("the limits of a sandbox (setrlimit) cannot be set here");
  }

  Status limit(const Budget& load) {
    char text[128] = "";
    const int statm = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t size = statm < 0 ? -1 : ::read(statm, text, sizeof text - 1);
    if (statm >= 0) ::close(statm);
    const int64_t pages = size <= 0 ? 0 : std::strtoll(text, nullptr, 10);
    if (pages <= 0) return unsupported("a sandbox needs /proc, to know what memory its process has");
    constexpr rlim_t kSlack = rlim_t{256} << 20;  // stacks, and what allocators do not give back
    const auto used = static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
    AIPU_RETURN_IF_ERROR(lower(RLIMIT_AS, used + kSlack + static_cast<rlim_t>(load.bytes)));
    AIPU_RETURN_IF_ERROR(lower(RLIMIT_CORE, 0));
    AIPU_RETURN_IF_ERROR(lower(RLIMIT_FSIZE, 0));
    return lower(RLIMIT_NOFILE, kSocket + 1);
  }

  std::span<const std::byte> file_;
  std::string warning_;
  std::shared_ptr<WorkerPool> pool_;
};

Status run(bool verify_all, const Budget& load, const char* name) {
  Entry entry;
  AIPU_RETURN_IF_ERROR(entry.enter(load));
  LoadOptions options = LoadOptions::untrusted();
  options.in_place = true;
  options.verify_all = verify_all;
  options.no_strings = true;
  options.budget = load;
  options.entry = name;
  AIPU_ASSIGN_OR_RETURN(const auto model, runtime::Model::from_bytes(entry.file(), options));
  Writer writer = begin_answer(ErrorCode::kOk, Last::kNo);
  writer.text(model->name());
  writer.text(model->target());
  writer.number(static_cast<int64_t>(model->entries().size()));
  for (const std::string& known : model->entries()) writer.text(known);
  writer.text(entry.warning());
  write_specs(writer, model->inputs());
  write_specs(writer, model->outputs());
  write_description(writer, model->description());
  write_all(writer.frame());
  Service(model, entry.pool()).serve();
  return {};
}

}  // namespace
}  // namespace aipu::runtime::sandbox

int main(int argc, char** argv) {
  using namespace aipu::runtime::sandbox;
  if (argc != 5) {
    std::fputs("aipu-sandbox: programs start it (aipurun --sandbox), not people\n", stderr);
    return 2;
  }
  aipu::Status status;
  try {
    status = run(std::atoi(argv[1]) != 0, {std::strtoll(argv[2], nullptr, 10), std::strtod(argv[3], nullptr)}, argv[4]);
  } catch (const std::bad_alloc&) {
    status = aipu::out_of_range(
        "out of memory in the sandbox (--load-memory-limit, --run-memory-limit; LoadOptions::budget, "
        "SessionOptions::memory_limit_bytes)");
  } catch (const std::exception& error) {
    status = aipu::internal_error(error.what());
  }
  if (!status.ok()) answer_error(status, Last::kYes);
  ::_exit(status.ok() ? 0 : 1);
}
