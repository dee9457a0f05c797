// CUDA C of kernels. The function is what one thread runs; which thread it is, the kernel's TIR takes as integer
// parameters at its end, of the names in kThreadAxes. CUDA has them without being told; a launch gives their extents in
// their place. Shared memory is `__shared__`, S.barrier() `__syncthreads()`; there are no vectors.
//
// With AIPU_CUDA=emulate the same text is compiled for this machine: a header runs the threads of a block in turn, each
// to the next barrier, and the blocks on the TECs of the host.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "codegen/driver/kernel_text.h"

namespace aipu::tir {

// Blocks first. The text for CUDA has the name with a '.' instead of the '_'.
inline constexpr std::array<std::string_view, 6> kThreadAxes = {"blockIdx_x",  "blockIdx_y",  "blockIdx_z",
                                                                "threadIdx_x", "threadIdx_y", "threadIdx_z"};

// Whether AIPU_CUDA says so.
bool emulates_cuda();

// What the kernels' text stands on: for NVIDIA's compiler, and for this machine's.
std::string cuda_prelude();
std::string cuda_emulation_prelude(const Target& target);

// A kernel, which is lowered first, as CUDA C: the functions alone.
Result<std::string> cuda_text(std::string_view symbol, const Module& parsed);
// The same of a lowered one, with the wrapper of the kernel ABI, for the emulation.
Result<KernelText> print_cuda_kernel(const KernelSource& kernel);
// What has no spelling: vectors, memory of other scopes, intrinsics of TECs; a kernel without thread axes.
Status check_cuda(const Module& lowered);

}  // namespace aipu::tir
