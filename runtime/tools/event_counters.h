// What the processor counts while commands run: cycles, instructions, misses of caches, or events of the kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/counters/counters_api.h"
#include "runtime/session.h"

namespace aipu::tools {

// An event to count, and how a profile shows it.
struct CountedEvent {
  std::string name;         // libpfm4's (runtime/counters/counters_api.h)
  double bytes_of_one = 0;  // above 0: shown as a bandwidth, that of so many bytes for each
  // "cycles", or "cache-misses*64" for bytes of each.
  static Result<CountedEvent> parse(const std::string& text);
};

class EventCounters {
 public:
  // Loads libaipu_counters.so. Threads that are started later are counted with the calling one: to be opened before the
  // session whose workers they are.
  static Result<EventCounters> open(const std::vector<CountedEvent>& events);

  // For SessionOptions; valid as long as this is there.
  runtime::ProfileCounters for_profile() const;

 private:
  struct Close {
    const aipu_counters_library* library;
    void operator()(void* counters) const { library->close(counters); }
  };
  EventCounters(std::unique_ptr<void, Close> counters, size_t count) : counters_(std::move(counters)), count_(count) {}

  std::unique_ptr<void, Close> counters_;
  size_t count_;
};

}  // namespace aipu::tools
