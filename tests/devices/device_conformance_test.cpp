// What every device has to do (runtime/backends/device_api.h), asked of it directly; tests/runtime/conformance_test.cpp
// asks the same of sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>

#include "runtime/backends/backend_library.h"
#include "runtime/backends/version1_device.h"
#include "test_paths.h"
#include "tests/devices/sample_folder.h"
#include "tests/runtime/model_builder.h"

namespace aipu::runtime {
namespace {

using ::testing::HasSubstr;

aipu_device_command command_of(uint32_t kind, uint64_t width) {
  aipu_device_command command = {};
  command.kind = kind;
  command.width = width;
  command.rows = 1;
  return command;
}

aipu_device_command copy_in(uint64_t to, const void* from, uint64_t bytes) {
  auto command = command_of(AIPU_DEVICE_COPY_IN, bytes);
  command.destination = to;
  command.host_source = from;
  return command;
}

aipu_device_command copy_out(void* to, uint64_t from, uint64_t bytes) {
  auto command = command_of(AIPU_DEVICE_COPY_OUT, bytes);
  command.source = from;
  command.host_destination = to;
  return command;
}

class DeviceConformance : public ::testing::TestWithParam<const char*> {
 protected:
  struct Queue {
    void* handle = nullptr;
    uint32_t number = 0;
    uint64_t submitted = 0;
  };

  void SetUp() override {
    const std::string path = AIPU_BUILD_DIR "/test_backends:" + test::sample_folder();
    ::setenv("AIPU_BACKEND_PATH", path.c_str(), 1);
    const auto library = find_library(GetParam());
    if (!library.ok() && std::string_view(GetParam()) == "interp") GTEST_SKIP() << library.status().message();
    ASSERT_TRUE(library.ok()) << library.status().message();
    driver_ = library->driver != nullptr ? library->driver : device_of(*library->backend);
    services_.struct_bytes = sizeof services_;
    services_.print = [](void*, const char*, size_t) {};
    ASSERT_GE(driver_->count(driver_), 1u);
    ASSERT_EQ(driver_->open(driver_, 0, &services_, &device_, &error_), 0) << error_.message;
    properties_.struct_bytes = sizeof properties_;
    driver_->properties(device_, &properties_);
    launches_ = open_queue(AIPU_DEVICE_TAKES_LAUNCHES);
    copies_ = open_queue(AIPU_DEVICE_TAKES_COPIES | AIPU_DEVICE_TAKES_TRANSFERS);
  }
  void TearDown() override {
    ::unsetenv("AIPU_BACKEND_PATH");
    if (device_ == nullptr) return;
    for (const auto& queue : queues_) driver_->close_queue(queue->handle);
    for (const uint64_t address : addresses_) driver_->free(device_, 0, address);
    if (module_ != nullptr) driver_->unload(device_, module_);
    driver_->close(device_);
  }
  bool has(uint64_t capability) const { return (driver_->capabilities & capability) != 0; }

  Queue* open_queue(uint32_t takes) {
    for (uint32_t e = 0; e < properties_.engine_count; ++e) {
      if ((properties_.engines[e].takes & takes) != takes) continue;
      queues_.push_back(std::make_unique<Queue>());
      Queue& queue = *queues_.back();
      EXPECT_EQ(driver_->open_queue(device_, e, &queue.handle, &queue.number, &error_), 0) << error_.message;
      return &queue;
    }
    ADD_FAILURE() << "no engine takes " << takes;
    return nullptr;
  }
  uint64_t allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(driver_->allocate(device_, 0, bytes, &address, &error_), 0) << error_.message;
    addresses_.push_back(address);
    return address;
  }
  aipu_device_event submit(Queue& queue, aipu_device_command command, std::vector<aipu_device_event> waits = {}) {
    command.waits = waits.data();
    command.wait_count = static_cast<uint32_t>(waits.size());
    EXPECT_EQ(driver_->submit(queue.handle, &command, 1, sizeof command, &error_), 0) << error_.message;
    return {queue.number, 0, ++queue.submitted};
  }
  int wait(aipu_device_event event) { return driver_->wait(device_, event, INT64_MAX, &failed_, &error_); }
  std::vector<int32_t> read(uint64_t address, size_t count, std::vector<aipu_device_event> waits = {}) {
    std::vector<int32_t> values(count);
    EXPECT_EQ(wait(submit(*copies_, copy_out(values.data(), address, count * 4), std::move(waits))), 0)
        << error_.message;
    return values;
  }
  // Of the tests' module; false where the device does not run native code.
  bool load() {
    if (!has(AIPU_DEVICE_NATIVE)) return false;
    const std::vector<std::byte>& native = test::test_kernels();
    static constexpr uint8_t kPointers[] = {1, 1, 0, 0};
    kernel_ = {"scale", 4, kPointers, 0, 0, 0, nullptr, 0};
    aipu_device_model& model = model_;
    model.struct_bytes = sizeof model;
    model.target = "host-baseline";
    model.kernels = &kernel_;
    model.kernel_count = 1;
    model.native_module = native.data();
    model.native_module_bytes = native.size();
    model.memory_limit_bytes = INT64_MAX;
    model.deadline_ns = INT64_MAX;
    EXPECT_EQ(driver_->load(device_, &model, &module_, &error_), 0) << error_.message;
    return module_ != nullptr;
  }
  // y = 3 * x, `count` floats.
  struct Scale {
    std::vector<unsigned long long> words;
    std::vector<uint64_t> extents;
    std::vector<uint8_t> writable = {0, 1, 0, 0};
    aipu_device_fault fault = {};
    aipu_device_times times = {};
    aipu_device_command command = {};
  };
  std::unique_ptr<Scale> scale(uint64_t from, uint64_t to, uint64_t count) {
    auto row = std::make_unique<Scale>();
    row->words = {from, to, count, 0x40400000u};
    row->extents = {count * 4, count * 4, 0, 0};
    aipu_device_command& command = row->command;
    command.kind = AIPU_DEVICE_LAUNCH;
    command.times = &row->times;
    command.module = module_;
    command.max_tecs = 4;
    command.words = row->words.data();
    command.extents = row->extents.data();
    command.writable = row->writable.data();
    command.fault = &row->fault;
    command.memory_limit_bytes = INT64_MAX;
    command.deadline_ns = INT64_MAX;
    return row;
  }

  const aipu_device_driver* driver_ = nullptr;
  aipu_device_services services_ = {};
  aipu_device_properties properties_ = {};
  aipu_device_error error_ = {};
  aipu_device_event failed_ = {};
  aipu_device_kernel kernel_ = {};
  aipu_device_model model_ = {};
  void* device_ = nullptr;
  void* module_ = nullptr;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<uint64_t> addresses_;
  Queue* launches_ = nullptr;
  Queue* copies_ = nullptr;
};

std::vector<int32_t> counting(size_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST_P(DeviceConformance, DescribesItself) {
  EXPECT_EQ(driver_->api_version, AIPU_DEVICE_API_VERSION);
  EXPECT_STREQ(driver_->name, GetParam());
  EXPECT_NE(std::string_view(driver_->description), "");
  ASSERT_GE(properties_.space_count, 1u);
  EXPECT_GE(properties_.spaces[0].alignment, 64u);
  EXPECT_GE(properties_.tecs, 1u);
  EXPECT_NE(launches_->number, copies_->number);
  void* nobody = nullptr;
  EXPECT_NE(driver_->open(driver_, driver_->count(driver_), &services_, &nobody, &error_), 0);
}

TEST_P(DeviceConformance, MemoryIsApartAndAligned) {
  const uint64_t a = allocate(100), b = allocate(1), c = allocate(1 << 20);
  for (const uint64_t address : {a, b, c}) {
    EXPECT_NE(address, 0u);
    EXPECT_EQ(address % properties_.spaces[0].alignment, 0u);
  }
  const auto x = counting(25), y = counting(1 << 18);
  submit(*copies_, copy_in(a, x.data(), 100));
  submit(*copies_, copy_in(c, y.data(), y.size() * 4));
  submit(*copies_, copy_in(b, x.data() + 1, 1));
  EXPECT_EQ(read(a, 25), x);
  EXPECT_EQ(read(c, y.size()), y);
  if (properties_.spaces[0].mappable != 0) {
    EXPECT_EQ(static_cast<int32_t*>(driver_->map(device_, 0, a))[3], 4);
  } else if (driver_->map != nullptr) {
    EXPECT_EQ(driver_->map(device_, 0, a), nullptr);
  }
}

TEST_P(DeviceConformance, CopiesRowsWithinTheDevice) {
  const uint64_t from = allocate(400), to = allocate(400);
  const auto x = counting(100);
  submit(*copies_, copy_in(from, x.data(), 400));
  auto zeros = command_of(AIPU_DEVICE_FILL, 400);
  zeros.destination = to;
  submit(*copies_, zeros);
  auto rows = command_of(AIPU_DEVICE_COPY, 8);
  rows.destination = to;
  rows.source = from + 4 * 90;
  rows.rows = 5;
  rows.destination_stride = 40;
  rows.source_stride = -80;
  submit(*copies_, rows);
  auto y = read(to, 100);
  for (int32_t row = 0; row < 5; ++row) {
    for (int32_t k = 0; k < 10; ++k) EXPECT_EQ(y[row * 10 + k], k < 2 ? 91 + k - 20 * row : 0);
  }
  // What overlaps is copied row after row.
  auto touching = command_of(AIPU_DEVICE_COPY, 12);
  touching.destination = from + 4;
  touching.source = from;
  touching.rows = 3;
  touching.destination_stride = touching.source_stride = 4;
  touching.overlaps = 1;
  touching.destination_stride = 12;
  submit(*copies_, touching);
  y = read(from, 10);
  EXPECT_THAT(y, ::testing::ElementsAre(1, 1, 2, 3, 1, 2, 3, 2, 3, 1));
  auto none = command_of(AIPU_DEVICE_COPY, 0);
  none.rows = 0;
  EXPECT_EQ(wait(submit(*copies_, none)), 0);
}

TEST_P(DeviceConformance, AnyEngineFills) {
  const uint64_t at = allocate(400);
  const auto x = counting(100);
  const auto there = submit(*copies_, copy_in(at, x.data(), 400));
  auto zeros = command_of(AIPU_DEVICE_FILL, 40);
  zeros.destination = at + 40;
  const auto filled = submit(*launches_, zeros, {there});
  const auto y = read(at, 100, {filled});
  for (int32_t i = 0; i < 100; ++i) EXPECT_EQ(y[i], i >= 10 && i < 20 ? 0 : i + 1);
}

TEST_P(DeviceConformance, QueuesWaitForEachOther) {
  if (!load()) GTEST_SKIP() << "no native kernels";
  constexpr size_t kCount = 1000;
  const uint64_t a = allocate(kCount * 4), b = allocate(kCount * 4);
  const std::vector<float> ones(kCount, 1);
  std::vector<std::unique_ptr<Scale>> rows;
  aipu_device_event done = submit(*copies_, copy_in(a, ones.data(), kCount * 4));
  float expected = 1;
  for (int i = 0; i < 6; ++i) {  // b = 3 * a by one engine, a = b by the other
    rows.push_back(scale(a, b, kCount));
    done = submit(*launches_, rows.back()->command, {done});
    auto back = command_of(AIPU_DEVICE_COPY, kCount * 4);
    back.destination = a;
    back.source = b;
    done = submit(*copies_, back, {done});
    expected *= 3;
  }
  std::vector<float> y(kCount);
  ASSERT_EQ(wait(submit(*copies_, copy_out(y.data(), a, kCount * 4), {done})), 0) << error_.message;
  EXPECT_THAT(y, ::testing::Each(expected));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_LE(rows[i]->times.begin_ns, rows[i]->times.end_ns);
    EXPECT_EQ(rows[i]->fault.code, 0);
    if (i > 0) {
      EXPECT_LE(rows[i - 1]->times.end_ns, rows[i]->times.begin_ns);
    }
  }
  EXPECT_GE(driver_->clock_ns(device_), rows.back()->times.end_ns);
}

TEST_P(DeviceConformance, ManyCommandsAtOnceAreOneSlice) {
  const uint64_t at = allocate(4000);
  const auto x = counting(1000);
  std::vector<aipu_device_command> slice;
  for (uint64_t i = 0; i < 1000; ++i) slice.push_back(copy_in(at + 4 * i, &x[999 - i], 4));
  ASSERT_EQ(driver_->submit(copies_->handle, slice.data(), 1000, sizeof slice[0], &error_), 0);
  copies_->submitted += 1000;
  const auto y = read(at, 1000);
  for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(y[i], x[999 - i]);
}

// A command that fails stops what comes after it, and what waits for it; cancel() begins anew.
TEST_P(DeviceConformance, ErrorsStopTheQueuesThatDependOnThem) {
  const uint64_t at = allocate(64);
  const auto x = counting(16);
  const auto fine = submit(*copies_, copy_in(at, x.data(), 64));
  const auto bad = submit(*copies_, command_of(77, 4));
  const auto after = submit(*copies_, copy_in(at, x.data() + 8, 4));
  auto zeros = command_of(AIPU_DEVICE_FILL, 64);
  zeros.destination = at;
  const auto waits = submit(*launches_, zeros, {bad});
  EXPECT_EQ(wait(fine), 0);
  for (const auto& event : {bad, after, waits}) {
    EXPECT_EQ(wait(event), static_cast<int>(ErrorCode::kUnsupported));
    EXPECT_NE(std::string(error_.message), "");
    EXPECT_EQ(failed_.queue, bad.queue);
    EXPECT_EQ(failed_.command, bad.command);
  }
  driver_->cancel(launches_->handle);
  driver_->cancel(copies_->handle);
  EXPECT_NE(wait(after), 0) << "it was left out";
  EXPECT_EQ(read(at, 16), x);
  submit(*copies_, copy_in(at, x.data() + 8, 4));
  EXPECT_EQ(read(at, 16)[0], 9);
}

TEST_P(DeviceConformance, LooksAndWaitsForALimitedTime) {
  const uint64_t at = allocate(64);
  const auto x = counting(16);
  const auto event = submit(*copies_, copy_in(at, x.data(), 64));
  const int looked = driver_->wait(device_, event, 0, &failed_, &error_);
  EXPECT_TRUE(looked == 0 || looked == AIPU_DEVICE_NOT_YET);
  EXPECT_EQ(wait(event), 0);
  EXPECT_EQ(driver_->wait(device_, event, 0, &failed_, &error_), 0);
  EXPECT_EQ(wait({event.queue, 0, 0}), 0) << "nothing to wait for";
}

TEST_P(DeviceConformance, RefusesCodeThatIsNone) {
  if (!has(AIPU_DEVICE_NATIVE)) GTEST_SKIP() << "no native kernels";
  aipu_device_model model = {};
  model.struct_bytes = sizeof model;
  model.target = "host-baseline";
  const std::vector<std::byte> bytes(5000, std::byte{7});
  static constexpr uint8_t kPointers[] = {1, 1, 0, 0};
  kernel_ = {"scale", 4, kPointers, 0, 0, 0, nullptr, 0};
  model.kernels = &kernel_;
  model.kernel_count = 1;
  model.native_module = bytes.data();
  model.native_module_bytes = bytes.size();
  model.memory_limit_bytes = INT64_MAX;
  model.deadline_ns = INT64_MAX;
  void* none = nullptr;
  EXPECT_NE(driver_->load(device_, &model, &none, &error_), 0);
  EXPECT_THAT(std::string(error_.message), HasSubstr("not an ELF file"));
}

// The runtime adds to addresses; who reads behind one ends there.
class MemoryDeathTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MemoryDeathTest, ItsMemoryIsNobodyElses) {
  ::setenv("AIPU_BACKEND_PATH", AIPU_BUILD_DIR "/test_backends", 1);
  const auto library = find_library(GetParam());
  ::unsetenv("AIPU_BACKEND_PATH");
  ASSERT_TRUE(library.ok()) << library.status().message();
  aipu_device_services services = {};
  services.struct_bytes = sizeof services;
  aipu_device_error error = {};
  void* device = nullptr;
  ASSERT_NE(library->driver, nullptr);
  ASSERT_EQ(library->driver->open(library->driver, 0, &services, &device, &error), 0) << error.message;
  uint64_t address = 0;
  ASSERT_EQ(library->driver->allocate(device, 0, 64, &address, &error), 0);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_EXIT(std::exit(*reinterpret_cast<volatile const char*>(address)), ::testing::KilledBySignal(SIGSEGV), "");
#endif
  library->driver->free(device, 0, address);
  library->driver->close(device);
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryDeathTest, ::testing::Values("remote", "x2"),
                         [](const auto& row) { return std::string(row.param); });

// Of a device with a timing model: what commands take, whenever they begin, and nothing where nobody asks.
TEST_P(DeviceConformance, SaysWhatCommandsTakeInCycles) {
  if (!has(AIPU_DEVICE_CYCLES)) GTEST_SKIP() << "no timing model";
  ASSERT_TRUE(load());
  const uint64_t a = allocate(4096), b = allocate(4096);
  auto row = scale(a, b, 1024);
  int64_t launch = -1, copy = -1, fill = -1;
  row->command.cycles = &launch;
  row->command.operations = 1024;
  row->command.bytes = 8192;
  auto rows = command_of(AIPU_DEVICE_COPY, 64);
  rows.destination = b;
  rows.source = a;
  rows.rows = 4;
  rows.destination_stride = rows.source_stride = 64;
  rows.module = module_;
  rows.cycles = &copy;
  auto zeros = command_of(AIPU_DEVICE_FILL, 256);
  zeros.destination = a;
  zeros.module = module_;
  zeros.cycles = &fill;
  const auto launched = submit(*launches_, row->command);
  EXPECT_EQ(wait(submit(*copies_, rows, {launched})), 0) << error_.message;
  EXPECT_EQ(wait(submit(*launches_, zeros)), 0) << error_.message;
  EXPECT_GT(launch, 0);
  EXPECT_GT(copy, fill) << "more rows of as many bytes";
  EXPECT_GT(fill, 0);
  const int64_t before = launch;
  launch = -1;
  EXPECT_EQ(wait(submit(*launches_, row->command)), 0);
  EXPECT_EQ(launch, before);
  // A runtime of before the field: its commands are shorter, and the device looks no further.
  auto old = row->command;
  old.waits = nullptr;
  launch = -1;
  ASSERT_EQ(driver_->submit(launches_->handle, &old, 1, offsetof(aipu_device_command, cycles), &error_), 0);
  EXPECT_EQ(wait({launches_->number, 0, ++launches_->submitted}), 0);
  EXPECT_EQ(launch, -1);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConformance,
                         ::testing::Values("host", "x2", "interp", "null", "remote", "delay", "sample"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace aipu::runtime
