#include "codegen/intrinsics/lanes.h"

#include "codegen/intrinsics/lane_types.h"

namespace aipu::tir {

int64_t read_int_lane(Type type, const std::byte* data, int64_t lane) {
  int64_t result = 0;
  with_lane_type(type.element, [&]<typename T>(T) {
    T value;
    std::memcpy(&value, data + lane * static_cast<int64_t>(sizeof(T)), sizeof(T));
    if constexpr (kIsFloatLane<T>) {
      result = static_cast<int64_t>(to_compute(value));
    } else {
      result = static_cast<int64_t>(to_compute(value));
    }
  });
  return result;
}

double read_float_lane(Type type, const std::byte* data, int64_t lane) {
  double result = 0;
  with_lane_type(type.element, [&]<typename T>(T) {
    T value;
    std::memcpy(&value, data + lane * static_cast<int64_t>(sizeof(T)), sizeof(T));
    result = static_cast<double>(to_compute(value));
  });
  return result;
}

void write_int_lane(Type type, std::byte* data, int64_t lane, int64_t value) {
  with_lane_type(type.element, [&]<typename T>(T) {
    const T converted = convert_lane<T>(value);
    std::memcpy(data + lane * static_cast<int64_t>(sizeof(T)), &converted, sizeof(T));
  });
}

void write_float_lane(Type type, std::byte* data, int64_t lane, double value) {
  with_lane_type(type.element, [&]<typename T>(T) {
    const T converted = convert_lane<T>(value);
    std::memcpy(data + lane * static_cast<int64_t>(sizeof(T)), &converted, sizeof(T));
  });
}

int64_t LaneValue::int_lane(int64_t lane) const { return read_int_lane(type, bytes.data(), lane); }
double LaneValue::float_lane(int64_t lane) const { return read_float_lane(type, bytes.data(), lane); }
void LaneValue::set_int(int64_t lane, int64_t value) { write_int_lane(type, bytes.data(), lane, value); }
void LaneValue::set_float(int64_t lane, double value) { write_float_lane(type, bytes.data(), lane, value); }

}  // namespace aipu::tir
