// A device with the kernels of the host and a pace that the test sets: a launch takes a microsecond for each of the
// operations of its command, a copy one for each row. With AIPU_DELAY_SEED commands take random times instead, so that
// queues come in other orders each time.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "runtime/backends/backend_library.h"
#include "runtime/backends/version1_device.h"

namespace {

// Machines wake up late, virtual ones by a quarter of a millisecond, so the end of the time is waited for awake.
void take(std::chrono::microseconds time) {
  constexpr std::chrono::microseconds kAwake(500);
  const auto end = std::chrono::steady_clock::now() + time;
  if (time > kAwake) std::this_thread::sleep_until(end - kAwake);
  while (std::chrono::steady_clock::now() < end) {
  }
}

void take_time(const aipu_device_command& command) {
  if (const char* seed = ::getenv("AIPU_DELAY_SEED"); seed != nullptr) {
    static std::atomic<uint64_t> drawn{0};
    uint64_t random = (std::stoull(seed) + ++drawn) * 0x9e3779b97f4a7c15u;
    random ^= random >> 29;
    if (random % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random / 4 % 300));
    return;
  }
  if (command.kind == AIPU_DEVICE_LAUNCH) take(std::chrono::microseconds(command.operations));
  if (command.kind == AIPU_DEVICE_COPY) take(std::chrono::microseconds(command.rows));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const aipu_device_driver* aipu_device_v2(void) {
  const auto host = aipu::runtime::find_backend("host");
  if (!host.ok()) return nullptr;
  static aipu_device_driver driver = *aipu::runtime::device_of(**host, &take_time);
  driver.name = "delay";
  return &driver;
}
