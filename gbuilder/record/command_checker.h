// Proves a program of a plan right, from its commands alone: nothing of how the planner came to its waits is reused.
//
// Per command: ids and sequence numbers, waits on earlier commands of other engines, indices and (where they are
// constant) offsets and sizes in range, nothing read-only written, symbols bound before they are used. Over the whole
// program: any two commands of different engines that may touch the same memory, one of them writing, are ordered by
// waits, and so are the users of two arena tensors whose lifetimes allow them to share memory.
#pragma once

#include <set>
#include <vector>

#include "gbuilder/plan/plan.h"

namespace aipu::gbuilder {

class CommandChecker {
 public:
  explicit CommandChecker(const Plan& plan) : plan_(plan) {}
  // The message names the command. An error is a bug of the planner (or of a hand-made plan).
  Status check(const Command& command);
  // After the last command; calling it again proves nothing anew.
  Status prove();

 private:
  // How many commands of each engine are done for certain.
  using Clock = std::array<uint32_t, kEngineCount>;

  Status check_order(const Command& command);
  Status check_indices(const Command& command) const;
  Status check_memory(const Command& command) const;
  Status check_ranges(const Command& command) const;
  Status check_symbols(const Command& command);
  Status prove_hazards() const;
  Status prove_reuse() const;
  bool ordered(const Command& before, const Command& after) const;
  // Whether so many commands of each engine are done when the command starts.
  bool starts_after(const Command& command, const Clock& done) const;
  static void raise(Clock* done, const Command& command);
  Status fail(const Command& command, const std::string& problem) const;

  const Plan& plan_;
  std::vector<const Command*> commands_;
  std::array<std::vector<Clock>, kEngineCount> start_;  // what is done when command i of the engine starts
  std::array<uint32_t, kEngineCount> count_{};
  std::set<uint32_t> bound_symbols_;
  const Command* gate_ = nullptr;  // the last BindSymbols or Check
  bool proved_ = false;
};

Status check_program(const Plan& plan, const Program& program);

}  // namespace aipu::gbuilder
