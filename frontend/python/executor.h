// Calls of a compiled DSL kernel with NumPy arguments: an aipu.bin and a session per kind of call, kept.
#pragma once

#include <pybind11/pybind11.h>

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gbuilder/dsl_call.h"
#include "runtime/base/fork_generation.h"
#include "runtime/session.h"

namespace aipu::python {

class Executor {
 public:
  // `folder`: where aipu.bin goes. `backend`: what runs it; empty: the target's own. `warn(index, name, expected,
  // found)` is told of arrays of another type than the parameter's; `built(text, weights, attributes, constants,
  // offsets, log)` of every new aipu.bin.
  Executor(std::shared_ptr<const gbuilder::DslKernel> kernel, std::string folder, std::string backend,
           pybind11::object warn, pybind11::object built);

  // Runs the kernel on the arguments; arrays that it writes are changed in place.
  void run(const pybind11::args& args);
  // Seconds per run, `repeat` results of `number` runs each, after one run to warm up. Nothing is converted in between.
  std::vector<double> benchmark(const pybind11::args& args, int repeat, int number, double min_repeat_ms,
                                int limit_zero_time_iterations, double cooldown_interval_ms, int repeats_to_cooldown);

 private:
  struct Argument;
  class Arguments;
  struct Call {
    std::string key;
    std::shared_ptr<const runtime::Model> model;
    std::unique_ptr<runtime::Session> session;
    std::vector<size_t> inputs, outputs;
    std::vector<graph::ConstantPtr> constants;  // by parameter; null for others
  };

  Call& prepare(const Arguments& arguments);
  std::unique_ptr<Call> make_call(const Arguments& arguments);
  Status bind(Call& call, const Arguments& arguments) const;
  std::unique_lock<std::mutex> lock_without_gil();

  static constexpr size_t kKeptCalls = 32;

  std::shared_ptr<const gbuilder::DslKernel> kernel_;
  std::string folder_, backend_;
  pybind11::object warn_, built_;
  std::mutex mutex_;                        // taken without the interpreter lock
  std::list<std::unique_ptr<Call>> calls_;  // most recently used first
  uint32_t generation_ = fork_generation();
};

}  // namespace aipu::python
