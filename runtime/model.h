// The C++ face of the runtime: a Model is an aipu.bin that has been checked and whose kernels are loaded. It is
// immutable: any number of sessions, in any number of threads, share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#define AIPU_API __attribute__((visibility("default")))

namespace aipu {
class Meter;
}

namespace aipu::runtime {

// One axis of an input or output: a number, or what it is called until the shapes are known.
struct DimSpec {
  int64_t extent = -1;  // -1: not constant
  std::string symbol;   // name of the symbol if the axis is exactly one, "?" for anything else; empty for numbers
};

struct AIPU_API TensorSpec {
  std::string name;
  DType dtype = DType::kVoid;
  std::vector<DimSpec> shape;

  std::string text() const;  // "images float32[N,3,224,224]"
};

// An input or output of the ONNX model that is a sequence, an optional or a map: its elements are tensors of this
// model, `count` of them from number `first` on, with the names NAME[0], NAME[1], ... Those of a map are its keys [K]
// and its values [K]; those of a sequence of N maps are the keys [K] that all of them have, and the values [N, K].
struct TensorList {
  enum class Kind : uint8_t { kSequence, kOptionalTensor, kOptionalSequence, kMaps, kMap };
  std::string name;
  bool is_input = false;
  Kind kind = Kind::kSequence;
  bool absent = false;  // an optional without a value; it has no elements
  uint32_t first = 0;
  uint32_t count = 0;
};

// What a model says about itself.
struct ModelDescription {
  std::string text;                                           // doc_string of the ONNX model
  std::vector<std::pair<std::string, std::string>> metadata;  // metadata_props of the ONNX model
  std::vector<TensorList> lists;
};

// What an operation on a file may take; errors name the option that raises the limit. Native code cannot be interrupted
// and answers to nobody: time is looked at between kernels there.
struct Budget {
  int64_t bytes = 0;   // of memory; 0: what the option says
  double seconds = 0;  // 0: no limit
};
constexpr int64_t kUntrustedBytes = int64_t{1} << 30;
constexpr double kUntrustedLoadSeconds = 10, kUntrustedRunSeconds = 60;

struct LoadOptions {
  // "native", "sim", "interp", "null", or the name of a back end library; empty: native or sim, whichever the model was
  // compiled for.
  std::string backend;
  // Check the hash of all constants even if they are large. Also switched on by AIPU_VERIFY=full in the environment.
  bool verify_all = false;
  // from_bytes(): use the bytes where they are, if 64-byte aligned; they have to outlive the model then. Else they are
  // copied.
  bool in_place = false;
  // load(): read the file into memory instead of mapping it. A mapped file must not be cut off (the process would end
  // by SIGBUS) or written over while the model lives; a copied one may be. Costs memory and time in the size of the
  // file.
  bool copy = false;
  // Memory beyond the file itself; 0 bytes: 1 GiB, which is far more than any model needs that aipugb has made.
  Budget budget;
  // Interpret the kernels in a process of its own for each session, which can do nothing but compute, and is killed
  // when its time is over (SECURITY.md). Limits of 0 are those of untrusted() then. The file is copied; what kernels
  // print is thrown away. Linux; needs the program aipu-sandbox beside the runtime, in ../bin, or where AIPU_SANDBOX
  // says.
  bool sandbox = false;
  // Refuse files that are not signed (aipugb --sign) with the private half of this public key: the path of a PEM file,
  // or the text of one. The file is copied: what has been checked is what runs. Needs libaipu_signature.so.
  std::string trusted_key;
  // Refuse back ends that do not promise memory safety, whatever the kernels do.
  bool only_safe_backends = false;
  // Refuse models with tensors of strings or operations on them, as a sandbox cannot pass them on.
  bool no_strings = false;
  // Of a file with several models the one that is loaded (Model::entries()); empty: the first.
  std::string entry;

  // For files from people one does not trust; see SECURITY.md.
  static LoadOptions untrusted() {
    LoadOptions options;
    options.backend = "interp";
    options.copy = true;  // whoever can write the file cannot end the process by cutting it off
    options.budget = {kUntrustedBytes, kUntrustedLoadSeconds};
    options.only_safe_backends = true;
    return options;
  }
};

// Whether there is such a back end for models that are compiled for the target; else the error of Model::load().
AIPU_API Status check_backend(std::string_view backend, std::string_view target);

namespace detail {
struct ModelState;
}

class AIPU_API Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const std::string& path, const LoadOptions& options = {});
  static Result<std::shared_ptr<const Model>> from_bytes(std::span<const std::byte> bytes,
                                                         const LoadOptions& options = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::string& name() const;
  const std::string& target() const;
  const std::string& backend() const;
  // One line about a sandbox that contains less than it should on this system; "" if there is nothing to say.
  const std::string& warning() const;
  // What the models of the file are asked for by, in its order; they share constants and kernels.
  std::span<const std::string> entries() const;
  // One of them, empty: the first. Nothing is loaded again; but in a sandbox each is a process of its own.
  Result<std::shared_ptr<const Model>> open(std::string_view entry) const;
  std::span<const TensorSpec> inputs() const;
  std::span<const TensorSpec> outputs() const;
  const ModelDescription& description() const;
  // Index of a name, or an error that lists the names there are.
  Result<size_t> input_index(std::string_view name) const;
  Result<size_t> output_index(std::string_view name) const;

  const detail::ModelState& state() const { return *state_; }

 private:
  explicit Model(std::shared_ptr<const detail::ModelState> state);
  static Result<std::shared_ptr<const Model>> finish(std::unique_ptr<detail::ModelState> state,
                                                     const LoadOptions& options, Meter& meter);
  static Result<std::shared_ptr<const Model>> in_sandbox(int descriptor, const LoadOptions& options);
  std::shared_ptr<const detail::ModelState> state_;  // and with it those of the whole file
};

}  // namespace aipu::runtime
