// Virtual time: when the commands of a run would begin and end on a device whose engines work side by side, while the
// runtime plays them one after the other.
//
// Each engine has a clock, in cycles. A command begins at the latest of
//  - the clock of its engine, which takes its commands in order,
//  - the ends of the commands that it waits for,
//  - the moment from which it can be known: a stage cannot be submitted before its symbols have been read, a sample of
//    a batch loop or an iteration of a body not before the one before it is done, whose memory it takes over.
// It takes as long as the back end's timing model says. A command of the host takes what the target says that one takes
// (Figures::host of base/npu_timing.h), and then what it runs; each further iteration of a loop takes as much again.
// The makespan is the time of the last end. Inputs are where the device reads them, outputs stay where it writes them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace aipu::runtime {

class VirtualTime {
 public:
  static constexpr size_t kEngines = 3;  // as fb::Engine: tec, dma, host

  explicit VirtualTime(int64_t host_cycles) : host_cycles_(host_cycles) {}
  int64_t host_cycles() const { return host_cycles_; }

  // Everything before is over.
  void begin_run() {
    run_start_ = floor_ = latest_;
    clocks_.fill(latest_);
  }
  // When a command begins that waits for what has ended by `ready`.
  int64_t start(size_t engine, int64_t ready) const { return std::max({clocks_[engine], floor_, ready}); }
  void finish(size_t engine, int64_t end) {
    clocks_[engine] = end;
    latest_ = std::max(latest_, end);
  }
  int64_t makespan() const { return latest_ - run_start_; }
  // What comes now begins after all that has been played in the present scope.
  void barrier() { floor_ = std::max(floor_, latest_); }
  // That, once the host has decided on it.
  void decide() {
    latest_ += host_cycles_;
    barrier();
  }

  // Commands that begin together, not before `start`: the samples of a batch loop, or what a command runs.
  class Scope {
   public:
    Scope(VirtualTime& time, int64_t start) : time_(time), floor_(time.floor_), latest_(time.latest_) {
      time_.floor_ = std::max(floor_, start);
      time_.latest_ = time_.floor_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      time_.floor_ = floor_;
      time_.latest_ = std::max(latest_, time_.latest_);
    }
    // The last end in the scope, `start` if it is empty.
    int64_t end() const { return time_.latest_; }

   private:
    VirtualTime& time_;
    int64_t floor_, latest_;
  };

 private:
  int64_t host_cycles_;
  std::array<int64_t, kEngines> clocks_ = {};
  int64_t floor_ = 0;   // nothing begins earlier
  int64_t latest_ = 0;  // end, in the scope
  int64_t run_start_ = 0;
};

}  // namespace aipu::runtime
