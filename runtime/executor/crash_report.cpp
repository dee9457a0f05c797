// A fault in a kernel, in one line: which kernel it was, and what shows the access. Everything here may be called in a
// signal handler: it reads the tables of the model, which are bytes in memory, and writes to a descriptor.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/executor/running_kernel.h"
#include "runtime/session.h"

namespace aipu::runtime {

__thread const RunningKernel* running_kernel = nullptr;

namespace {

struct Fault {
  int signal;
  const char* name;
  const char* what;
  struct sigaction before;
};
std::array<Fault, 4> faults = {
    {{SIGSEGV, "SIGSEGV", "an access to memory that is not there", {}},
     {SIGBUS, "SIGBUS", "an access to memory that is gone, as of a file that was cut off", {}},
     {SIGFPE, "SIGFPE", "arithmetic without a result", {}},
     {SIGILL, "SIGILL", "an instruction that this CPU lacks", {}}}};

// A line of bounded length. Names come from a file: what a terminal would obey is shown as '?'.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    for (const char c : text.substr(0, std::min(text.size(), sizeof bytes_ - 1 - size_)))
      bytes_[size_++] = static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
    return *this;
  }
  Line& hex(uintptr_t value) {
    char digits[2 * sizeof value];
    size_t count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % 16];
      value /= 16;
    } while (value != 0);
    *this << "0x";
    while (count > 0) *this << std::string_view(&digits[--count], 1);
    return *this;
  }
  void write() {
    bytes_[size_++] = '\n';
    for (size_t done = 0; done < size_;) {
      const ssize_t written = ::write(STDERR_FILENO, bytes_ + done, size_ - done);
      if (written <= 0) return;
      done += static_cast<size_t>(written);
    }
  }

 private:
  char bytes_[2048];
  size_t size_ = 0;
};

void report(const RunningKernel& running, const Fault& fault, const siginfo_t& info) {
  const fb::Model& root = running.model->root();
  const fb::TecCommand& command = *running.launch;
  Line line;
  line << "aipu: kernel '" << text(running.model->kernel(command.kernel()).name()).substr(0, 500) << "'";
  const auto origins = items(root.origins());
  if (command.origin() < origins.size()) line << ", from " << text(origins[command.origin()]).substr(0, 500) << ",";
  line << " ended in " << fault.name << ": " << fault.what;
  if (info.si_code > 0 && (fault.signal == SIGSEGV || fault.signal == SIGBUS))
    (line << " (").hex(reinterpret_cast<uintptr_t>(info.si_addr)) << ")";
  line << "; --backend interp (in Python: backend=\"interp\"), or CPS_DSL=dbg for a kernel called from Python, shows "
          "where";
  line.write();
}

// Several threads may come here at once, for the same reason: the first one speaks.
void on_fault(int signal, siginfo_t* info, void*) {
  static std::atomic_flag reported = ATOMIC_FLAG_INIT;
  const Fault& fault = *std::find_if(faults.begin(), faults.end(), [&](const Fault& f) { return f.signal == signal; });
  if (running_kernel != nullptr && !reported.test_and_set()) report(*running_kernel, fault, *info);
  // The instruction is carried out again and meets who was in charge before, or the system; a signal that somebody sent
  // is sent again.
  ::sigaction(signal, &fault.before, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

void enable_crash_reports() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (Fault& fault : faults) {
      struct sigaction action = {};
      action.sa_sigaction = on_fault;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      ::sigaction(fault.signal, nullptr, &fault.before);
      ::sigaction(fault.signal, &action, nullptr);
    }
  });
}

}  // namespace aipu::runtime
