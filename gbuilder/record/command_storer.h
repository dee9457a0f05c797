// Recording: the commands of a program go through one CommandStorer, which hands each to the storer of its engine.
// Decorators around an engine's storer add dumping and checking without the storers or the planner knowing.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "gbuilder/record/recording.h"

namespace aipu::gbuilder {

class EngineStorer {
 public:
  virtual ~EngineStorer() = default;
  virtual Status store(const Command& command) = 0;
  // After the last command.
  virtual Status finish() { return {}; }
};

class CommandStorer {
 public:
  explicit CommandStorer(std::array<std::unique_ptr<EngineStorer>, kEngineCount> engines)
      : engines_(std::move(engines)) {}
  // In the order of `sequence`.
  Status store(const Command& command) { return engines_[static_cast<size_t>(command.engine())]->store(command); }
  Status finish();

 private:
  std::array<std::unique_ptr<EngineStorer>, kEngineCount> engines_;
};

// The storers at the end of each chain: they append to the recording's tables and to the buffers of programs[program].
std::unique_ptr<EngineStorer> make_tec_storer(Recording* recording, size_t program);
std::unique_ptr<EngineStorer> make_dma_storer(Recording* recording, size_t program);
std::unique_ptr<EngineStorer> make_host_storer(const Plan* plan, Recording* recording, size_t program);

// Appends a line per command to `text` before handing it on.
std::unique_ptr<EngineStorer> make_dump_storer(const Plan* plan, std::string* text, std::unique_ptr<EngineStorer> next);

class CommandChecker;
// Shows each command to the checker, which the storers of all engines share, before handing it on; finish() makes it
// prove the whole.
std::unique_ptr<EngineStorer> make_check_storer(CommandChecker* checker, std::unique_ptr<EngineStorer> next);

struct RecordOptions {
  bool check = true;
  std::array<std::string, kEngineCount>* dump = nullptr;  // text per engine
};
// Records all programs of the plan.
Result<Recording> record_plan(const Plan& plan, const RecordOptions& options = {});

}  // namespace aipu::gbuilder
