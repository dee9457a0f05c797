#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/counters/counters_api.h"

namespace {

// Of descriptors of events.
struct Counters {
  std::vector<int> events;
  Counters() = default;
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  ~Counters() {
    for (const int event : events) ::close(event);
  }
};

std::string reason_of(int error) {
  switch (error) {
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
      return "this machine does not count it";
    case EACCES:
    case EPERM:
      return "the system does not let this user count it: see /proc/sys/kernel/perf_event_paranoid";
    default:
      return std::strerror(error);
  }
}

// The descriptor, or -1 and why there is none.
int open_event(const char* name, std::string* why) {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  pfm_perf_encode_arg_t encoded = {};
  encoded.attr = &attributes;
  encoded.size = sizeof encoded;
  if (const int code = pfm_get_os_event_encoding(name, PFM_PLM3, PFM_OS_PERF_EVENT_EXT, &encoded);
      code != PFM_SUCCESS) {
    *why = pfm_strerror(code);
    return -1;
  }
  attributes.inherit = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  const auto event = static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  if (event < 0) *why = reason_of(errno);
  return event;
}

void* open(const char* const* names, size_t count, char* message, size_t message_bytes) try {
  if (const int code = pfm_initialize(); code != PFM_SUCCESS) {
    std::snprintf(message, message_bytes, "libpfm4: %s", pfm_strerror(code));
    return nullptr;
  }
  auto counters = std::make_unique<Counters>();
  counters->events.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    std::string why;
    const int event = open_event(names[i], &why);
    if (event < 0) {
      std::snprintf(message, message_bytes, "event '%s': %s", names[i], why.c_str());
      return nullptr;
    }
    counters->events.push_back(event);
  }
  return counters.release();
} catch (const std::exception& error) {
  std::snprintf(message, message_bytes, "%s", error.what());
  return nullptr;
}

void close_counters(void* counters) { delete static_cast<Counters*>(counters); }

void read(void* counters, int64_t* values) {
  for (const int event : static_cast<const Counters*>(counters)->events) {
    struct {
      uint64_t value, enabled, running;
    } now = {};
    int64_t counted = 0;
    if (::read(event, &now, sizeof now) == static_cast<ssize_t>(sizeof now) && now.running > 0) {
      const double share = static_cast<double>(now.enabled) / static_cast<double>(now.running);
      counted = now.enabled == now.running ? static_cast<int64_t>(now.value)
                                           : static_cast<int64_t>(static_cast<double>(now.value) * share);
    }
    *values++ = counted;
  }
}

constexpr aipu_counters_library kLibrary = {AIPU_COUNTERS_API_VERSION, &open, &close_counters, &read};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_counters_library* aipu_counters_v1(void) {
  return &kLibrary;
}
