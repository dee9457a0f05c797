// A model that is not trusted in processes of its own (LoadOptions::sandbox): one that has loaded it, and one for each
// session.
//
// Such a process runs the program aipu-sandbox, which interprets the kernels. It can compute and talk to this process,
// and nothing else: it has no open files but its end of a socket, system calls that would get it others end it
// (seccomp), and its memory is limited (rlimits). It ends by itself when its time is over, and is killed a second later
// if it does not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor/aligned_buffer.h"
#include "runtime/model.h"
#include "runtime/session.h"

namespace aipu::runtime::sandbox {

struct Descriptor {
  int value = -1;
  Descriptor() = default;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : value(std::exchange(other.value, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
};

// What a model is to its users.
struct Interface {
  std::string name, target;
  std::vector<std::string> entries;
  std::string warning;  // how the process is contained less than it should be; "" if it is not
  std::vector<TensorSpec> inputs, outputs;
  ModelDescription description;

  std::string text() const;  // the same for the same models
};

// What a process is doing: for errors about its end.
struct Work {
  std::string_view what;
  double seconds;
  std::string_view seconds_option, bytes_option;
};

// Where it dies, says nonsense or is killed, the call that notices it is an error, and is_running() is false from then
// on.
class Process {
 public:
  // Starts one and has it load the model that is open for reading.
  static Result<std::unique_ptr<Process>> start(const Descriptor& model, const std::string& entry, bool verify_all,
                                                const Budget& load);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const Interface& interface() const { return interface_; }
  // And not its parent's, after fork().
  bool is_running();
  // Sends a frame and data, and gives the body of the answer. `memory_bytes`: what it may hold for that.
  Result<std::vector<std::byte>> ask(const Work& work, std::span<const std::byte> frame,
                                     std::span<const std::span<const std::byte>> data, int64_t memory_bytes);
  // What comes behind the answer.
  Status receive(std::span<std::byte> to);
  // The process says what makes no sense; it is killed.
  Status damaged();

 private:
  Process() = default;
  Status spawn(const Descriptor& model, const std::string& entry, bool verify_all, const Budget& load);
  Status wait_for(short events);
  Status send(std::span<const std::byte> bytes);
  Result<std::vector<std::byte>> receive_answer();
  void begin(const Work& work);
  void signal_to_end() const;
  void kill();
  Status gone();
  Status too_late();

  Descriptor socket_;
  int process_ = -1;
  Descriptor handle_;  // of the process: its number may be another's once somebody else has waited for it
  uint32_t generation_ = 0;
  uint64_t address_space_ = 0;  // what it has after loading
  Work work_ = {};
  int64_t deadline_ns_ = 0;
  Interface interface_;
};

class Model {
 public:
  // Errors: what runtime::Model::load() says, what became of the process, or that this system cannot contain it.
  static Result<std::unique_ptr<Model>> load(Descriptor file, const LoadOptions& options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Interface& interface() const { return interface_; }
  // For another model of the same file: how it was loaded, and the file once more, which is the caller's then.
  int load_again(LoadOptions* options) const;
  // For one who needs a process of his own: the one that has loaded the file if it is still there, else a new one.
  Result<std::unique_ptr<Process>> process() const;

 private:
  Model() = default;
  Descriptor file_;
  std::string entry_;
  bool verify_all_ = false;
  Budget load_;
  Interface interface_;
  mutable std::atomic<Process*> spare_{nullptr};
};

// What a runtime::Session is, of such a model.
class Session {
 public:
  static Result<std::unique_ptr<Session>> create(const Model& model, const SessionOptions& options);

  Status bind_input(size_t index, const TensorView& tensor);
  Status bind_output(size_t index, void* data, size_t bytes);
  Status prepare();
  Status run();
  Result<TensorView> output(size_t index) const;
  Result<std::span<const int64_t>> output_shape(size_t index) const;

 private:
  struct Input {
    std::vector<int64_t> shape;
    const void* data = nullptr;
    int64_t bytes = 0;
    bool bound = false;
  };
  struct Output {
    void* data = nullptr;  // the caller's
    size_t capacity = 0;
    AlignedBuffer own;
    std::vector<int64_t> shape;
    int64_t bytes = 0;
    bool known = false;
  };

  Session(const Model& model, const SessionOptions& options);
  Status have_process();
  Status request(bool run);
  Status read_shapes(std::span<const std::byte> answer, bool run);
  Status hand_over(size_t index);

  const Model& model_;
  const Interface& interface_;
  Budget plan_, run_;
  mutable std::mutex in_use_;
  std::unique_ptr<Process> process_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace aipu::runtime::sandbox
