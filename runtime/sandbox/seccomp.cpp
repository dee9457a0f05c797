#include "runtime/sandbox/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace aipu::runtime::sandbox {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

// Of file descriptors there are a socket, over which nothing but bytes goes, and /dev/null.
constexpr int kAllowed[] = {
    SYS_read,
    SYS_write,
    SYS_sendto,
    SYS_close,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_futex,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_gettimeofday,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_getcpu,
    SYS_gettid,
    SYS_getpid,
    SYS_getrandom,
    SYS_restart_syscall,
    SYS_fstat,
};
// The C library asks, and goes on without; so does the worker pool.
constexpr int kRefused[] = {
    SYS_openat, SYS_newfstatat, SYS_readlinkat, SYS_faccessat, SYS_ioctl,
    SYS_prctl,  SYS_sysinfo,    SYS_prlimit64,  SYS_statx,     SYS_sched_setaffinity,
#if defined(__x86_64__)
    SYS_open,   SYS_stat,       SYS_readlink,   SYS_access,
#endif
};

class Filter {
 public:
  void statement(uint16_t code, uint32_t k) { rows_.push_back(BPF_STMT(code, k)); }
  // Returns `action` if the value that is loaded is k.
  void on(uint32_t k, uint32_t action) {
    rows_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1));
    statement(BPF_RET | BPF_K, action);
  }
  // For the call `number`: allowed if an argument is `value`, else it kills.
  void allow_only(int number, unsigned argument, uint32_t value) {
    rows_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    load(static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * argument);
    rows_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  // For the call `number`: `action` if the low word of an argument has any of the bits, else `otherwise`.
  void on_bits(int number, unsigned argument, uint32_t bits, uint32_t action, uint32_t otherwise) {
    rows_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4));
    load(static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * argument);
    rows_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    statement(BPF_RET | BPF_K, action);
    statement(BPF_RET | BPF_K, otherwise);
  }
  void load(uint32_t offset) { statement(BPF_LD | BPF_W | BPF_ABS, offset); }
  std::vector<sock_filter>& rows() { return rows_; }

 private:
  std::vector<sock_filter> rows_;
};

}  // namespace

Status forbid_system_calls() {
  if (kArchitecture == 0) return unsupported("there is no filter of system calls (seccomp) for this architecture");
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.rows().push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  filter.statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  filter.load(offsetof(seccomp_data, nr));
  for (const int number : kAllowed) filter.on(static_cast<uint32_t>(number), SECCOMP_RET_ALLOW);
  for (const int number : kRefused) filter.on(static_cast<uint32_t>(number), SECCOMP_RET_ERRNO | EACCES);
  // Its arguments lie in memory, where they cannot be looked at: the C library falls back to clone().
  filter.on(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  filter.on_bits(SYS_clone, 0, CLONE_THREAD, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
  filter.on_bits(SYS_mprotect, 2, PROT_EXEC, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
  filter.allow_only(SYS_tgkill, 0, static_cast<uint32_t>(::getpid()));  // abort()
  // Memory only: not executable, and no file.
  filter.rows().push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5));
  filter.load(static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * 2);
  filter.rows().push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 3, 0));
  filter.load(static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * 3);
  filter.rows().push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1));
  filter.statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter.statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  const sock_fprog program = {static_cast<unsigned short>(filter.rows().size()), filter.rows().data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return unsupported(str_cat("this system refuses filters of system calls (seccomp): ", std::strerror(errno)));
  return {};
}

}  // namespace aipu::runtime::sandbox
