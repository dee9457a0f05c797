// What a plugin asks the runtime to do: kernels with their arguments, copies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/tir/stmt.h"
#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::kernels {

// A piece of memory a kernel can be pointed at.
struct TensorRef {
  enum class Kind : uint8_t { kValue, kConstant, kWorkspace };
  Kind kind = Kind::kValue;
  graph::ValueId value;  // kValue: a group input or output (graph constants included)
  int index = 0;         // kConstant, kWorkspace: what SetupContext returned
};

struct PointerArgument {
  TensorRef tensor;
  graph::Dim byte_offset = 0;
};
// The parameter says in how many bits.
struct ScalarArgument {
  graph::Dim value;
};
struct FloatArgument {
  double value = 0;
};
using KernelArgument = std::variant<PointerArgument, ScalarArgument, FloatArgument>;

using NamedScalars = std::vector<std::pair<std::string, graph::Dim>>;

// The arguments of a launch, by the names of the kernel's parameters. What is a part of a parameter has the name that
// the kernel's source gives it: "extras[2]" of a list, "window.stride" of a record.
class KernelArguments {
 public:
  KernelArguments& argument(std::string name, KernelArgument value);
  KernelArguments& pointer(std::string name, PointerArgument value) {
    return argument(std::move(name), KernelArgument(std::move(value)));
  }
  KernelArguments& pointer(std::string name, TensorRef tensor, graph::Dim byte_offset = 0) {
    return pointer(std::move(name), PointerArgument{tensor, std::move(byte_offset)});
  }
  // Of an integer parameter, whatever its width.
  KernelArguments& scalar(std::string name, graph::Dim value) {
    return argument(std::move(name), ScalarArgument{std::move(value)});
  }
  KernelArguments& scalars(const NamedScalars& values);
  // Of a floating-point parameter, whatever its width.
  KernelArguments& real(std::string name, double value) { return argument(std::move(name), FloatArgument{value}); }
  // All elements of a list, in order.
  KernelArguments& list(std::string_view name, const std::vector<KernelArgument>& elements);
  KernelArguments& scalar_list(std::string_view name, const std::vector<graph::Dim>& elements);
  // Integer fields of a record.
  KernelArguments& record(std::string_view name, const NamedScalars& fields);

  // One argument per parameter of the entry, in its order. An error that names the kernel, its file and the parameter:
  // one that gets no argument, or two, or another kind than it is; an argument that no parameter has the name of.
  Result<std::vector<KernelArgument>> resolve(const tir::PrimFunc& entry) const;

 private:
  std::vector<std::pair<std::string, KernelArgument>> named_;
};

struct KernelLaunch {
  std::shared_ptr<const tir::Module> kernel;
  std::vector<KernelArgument> arguments;  // one per parameter of the entry
  // per argument: the kernel may write through this pointer (filled in by launch())
  std::vector<bool> writes;
  // At most this many TECs have work; 1 runs it on the calling thread. Default: as many as there are.
  graph::Dim max_tecs = int64_t{1} << 20;

  // That of the parameter of this name; null: there is none.
  KernelArgument* find_argument(std::string_view parameter);
};

// Strided copy on the dma engine: for t < times: width_bytes from src + t*src_stride to dst + t*dst_stride.
struct CopyLaunch {
  PointerArgument destination, source;
  graph::Dim width_bytes, times = 1, destination_stride_bytes = 0, source_stride_bytes = 0;
};

using Launch = std::variant<KernelLaunch, CopyLaunch>;

}  // namespace aipu::kernels
