// The checks of check_model(), for the files that they are spread over: check.cpp has what a model declares,
// check_commands.cpp its programs, check_calls.cpp what runs bodies.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/loader/check.h"

namespace aipu::runtime {

template <typename... Pieces>
Status bad(const Pieces&... pieces) {
  return invalid_model(str_cat(pieces...));
}

// What the checks of one command have in common.
struct CommandPlace {
  uint32_t program;
  fb::Engine engine;
  uint32_t index;
  uint32_t sequence;
  uint32_t stage;
  // Whose memory it can reach; what copies between the two reaches both.
  bool reaches_device = true, reaches_host = false;

  std::string text() const {
    return str_cat("program ", program, ", ",
                   engine == fb::Engine::kTec   ? "tec"
                   : engine == fb::Engine::kDma ? "dma"
                                                : "host",
                   " command ", index);
  }
};

// The command that runs a call.
struct CallCommand {
  fb::HostOp op = fb::HostOp::kLoop;
  CommandPlace place = {};
  bool exists = false;
};

// What a table of a model is in its file. Kernels and sections are those of the outermost one.
enum class Role : uint8_t {
  kOutermost,
  kEntry,
  kBody,  // has a caller
};

class Checker {
 public:
  Checker(const ModelFile& file, const fb::Model& model, Role role)
      : file_(file), model_(model), role_(role), is_body_(role == Role::kBody) {}

  Result<ModelTables> run(Meter* meter);

 private:
  Status check_expressions();
  Status check_symbols();
  Status check_tensors();
  Status check_interface();
  Status check_kernels();
  Status check_sequences();
  Status find_stages();
  Status check_constants();
  Status check_views();
  Status check_commands();
  Status check_program_tree();
  Status schedule();
  int64_t bytes_of_tables() const;
  Status check_batch_loops();
  // The batch loop of the model that has all uses of a tensor, or kNone; what it says before check_batch_loops() counts
  // only if that accepts the loops.
  uint32_t loop_around(const fb::Tensor& tensor) const;

  Status check_waits(const CommandPlace& place, uint32_t first, uint32_t count);
  Status refused(const CommandPlace& place, const char* what, uint32_t tensor = kNone) const;
  Status check_expression_use(const CommandPlace& place, uint32_t expression) const;
  Status check_tensor_use(const CommandPlace& place, uint32_t tensor, bool writes) const;
  Status check_tec(const CommandPlace& place, const fb::TecCommand& command);
  Status check_dma(const CommandPlace& place, const fb::DmaCommand& command);
  Status check_host_work(CommandPlace place, const fb::HostCommand& command);
  Status check_host(const CommandPlace& place, const fb::HostCommand& command);
  Status check_tec_rows(const fb::Program& program, std::string_view where) const;
  Status check_faults(const fb::Program& program, std::string_view where) const;
  Status check_needed(const CommandPlace& place, const fb::Program& program, uint32_t index) const;
  Status check_origin(const CommandPlace& place, uint32_t origin) const;

  bool expression_exists(uint32_t id) const { return id < expression_count_; }
  uint32_t stage_of_sequence(uint32_t sequence) const {
    return static_cast<uint32_t>(std::lower_bound(stage_starts_.begin(), stage_starts_.end(), sequence) -
                                 stage_starts_.begin());
  }

  Status check_texts();
  Status check_text_call(const CommandPlace& place, uint32_t index);
  Status check_calls();
  Status check_call(uint32_t index, const CallCommand& command);
  Status check_call_input(const CommandPlace& place, uint32_t tensor, const fb::Model& body, uint32_t input,
                          uint32_t missing_axes) const;

  const ModelFile& file_;
  const fb::Model& model_;
  const Role role_;
  const bool is_body_;
  std::vector<CallCommand> call_commands_;  // per call
  struct Fetch {
    CommandPlace place;
    uint32_t call, result, tensor;
  };
  std::vector<Fetch> fetches_;
  std::vector<bool> body_is_used_, text_call_is_used_;
  ModelTables tables_;
  uint32_t expression_count_ = 0;
  uint32_t tensor_count_ = 0;
  // Each command has rows of its own, or a small file could describe commands of any total size.
  uint64_t waits_used_ = 0, arguments_used_ = 0;
  uint32_t launches_used_ = 0, copies_used_ = 0;  // rows of host_work
  std::vector<uint32_t> stage_starts_;            // sequence numbers of the BindSymbols commands, ascending
  struct Call {
    uint32_t sequence, caller, callee;
  };
  std::vector<Call> calls_;
};

// One table of a model, and its bodies.
Result<ModelTables> check_table(const ModelFile& file, const fb::Model& model, Role role, Meter* meter);

inline std::string tensor_text(const fb::Model& model, uint32_t tensor) {
  return str_cat("tensor ", tensor, " '", text(items(model.tensors())[tensor]->name()), "'");
}

}  // namespace aipu::runtime
