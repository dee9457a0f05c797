// Functions by name that C++ and Python share: what `tir.call_packed` calls, and what either side finds of the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace aipu::te {

// Memory of somebody else, writable unless its owner says otherwise. Strides are in elements.
struct ArrayView {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape, strides;
  std::shared_ptr<void> owner;  // keeps the memory; may be null
};

// Anything else that one side hands to itself through the other: an object of Python.
struct Opaque {
  std::shared_ptr<void> object;
};

struct PackedFunction;
using PackedFunctionPtr = std::shared_ptr<const PackedFunction>;
using PackedValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, ArrayView, PackedFunctionPtr, Opaque>;

// May be called on any thread. `origin` is null, or what a side has put there to know its own again.
struct PackedFunction {
  std::function<Result<PackedValue>(const std::vector<PackedValue>& args)> call;
  std::shared_ptr<void> origin = nullptr;
};

// Of the process. All of it may be called on any thread.
class FunctionRegistry {
 public:
  static FunctionRegistry& global();

  // Error: the name is taken, and `replace` is false.
  Status add(std::string_view name, PackedFunctionPtr function, bool replace = false);
  PackedFunctionPtr find(std::string_view name) const;  // null if there is none
  bool remove(std::string_view name);                   // whether it was there
  std::vector<std::string> names() const;               // sorted

  // Error: there is no such function, or its own.
  Result<PackedValue> call(std::string_view name, const std::vector<PackedValue>& args) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, PackedFunctionPtr> functions_;
};

}  // namespace aipu::te
