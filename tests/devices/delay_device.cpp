// A device with the kernels of the host and a pace that the test sets: a launch takes a microsecond for each of the
// operations of its command, a copy one for each row. With AIPU_DELAY_SEED commands take random times instead, so that
// queues come in other orders each time.
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/backends/backend_library.h"
#include "runtime/backends/version1_device.h"

namespace {

void sleep_for(uint64_t microseconds) {
  const timespec time = {static_cast<time_t>(microseconds / 1000000), static_cast<long>(microseconds % 1000000 * 1000)};
  ::nanosleep(&time, nullptr);
}

void take_time(const aipu_device_command& command) {
  if (const char* seed = ::getenv("AIPU_DELAY_SEED"); seed != nullptr) {
    static std::atomic<uint64_t> drawn{0};
    uint64_t random = (std::stoull(seed) + ++drawn) * 0x9e3779b97f4a7c15u;
    random ^= random >> 29;
    if (random % 4 == 0) sleep_for(random / 4 % 300);
    return;
  }
  if (command.kind == AIPU_DEVICE_LAUNCH) sleep_for(static_cast<uint64_t>(command.operations));
  if (command.kind == AIPU_DEVICE_COPY) sleep_for(command.rows);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_device_driver* aipu_device_v2(void) {
  const auto host = aipu::runtime::find_backend("host");
  if (!host.ok()) return nullptr;
  static aipu_device_driver driver = *aipu::runtime::device_of(**host, &take_time);
  driver.name = "delay";
  return &driver;
}
