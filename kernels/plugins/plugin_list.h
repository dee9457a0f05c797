// The one list of built-in op plugins. A plugin `foo` is a word here and make_foo_plugin() in the file of its family.
#pragma once

#include <memory>

#include "kernels/plugin.h"

namespace aipu::kernels {

void register_builtin_plugins(PluginRegistry& registry);

// Ties of scores go to the one that comes first.
// clang-format off
#define AIPU_BUILTIN_PLUGINS(X) \
  X(view) \
  X(elementwise) \
  X(strided_copy) \
  X(concat) \
  X(split) \
  X(pad) \
  X(attention) \
  X(bands) \
  X(matmul) \
  X(conv) \
  X(winograd) \
  X(winograd_f4) \
  X(winograd_f4_fast) \
  X(winograd_fixed) \
  X(conv_transpose) \
  X(quantized) \
  X(winograd_bytes) \
  X(quantized_tiles) \
  X(block_quantized) \
  X(pool) \
  X(resize) \
  X(reduce) \
  X(softmax) \
  X(normalization) \
  X(lrn) \
  X(recurrent) \
  X(gather) \
  X(select) \
  X(generate) \
  X(control_flow) \
  X(determinant) \
  X(sampling) \
  X(sorting) \
  X(trees)
// clang-format on

#define AIPU_DECLARE(name) std::unique_ptr<OpPlugin> make_##name##_plugin();
AIPU_BUILTIN_PLUGINS(AIPU_DECLARE)
#undef AIPU_DECLARE

}  // namespace aipu::kernels
