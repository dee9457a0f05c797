// Kernels to one module, by the code generator of their target. Ours run the C compiler: a shared object, in parallel,
// through a content-addressed cache on disk.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/driver/kernel_text.h"

namespace aipu::tir {

struct CompileOptions {
  std::string compiler;   // "" = $AIPU_CC, else the first of gcc, cc, clang found
  std::string cache_dir;  // "" = $AIPU_CACHE_DIR, else $XDG_CACHE_HOME/aipu, else ~/.cache/aipu
  bool use_cache = true;
  int jobs = 0;  // 0 = number of CPUs
  std::vector<std::string> extra_flags;
  std::vector<std::byte> object;  // what the kernels were compiled to before: nothing is compiled
  // Called with the kernels that are compiled and those that have to be, by one thread at a time; false ends it.
  std::function<bool(size_t done, size_t total)> progress;
};

struct CompiledModule {
  std::vector<std::byte> shared_object;  // deterministic: same kernels, target, compiler and flags give the same bytes
  std::string c_code;                    // all translation units, for --emit-c
  int translation_units = 0;
  int compiled_units = 0;  // 0 when everything came from the cache
};

// `kernels` in a stable order, by the code generator that the target names. A compiler error is reported with the
// kernel's name and the first line of the compiler's message.
Result<CompiledModule> compile_kernels(std::span<const KernelSource> kernels, const Target& target,
                                       const CompileOptions& options = {});

}  // namespace aipu::tir
