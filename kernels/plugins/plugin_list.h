// The explicit list of built-in op plugins. A new plugin is one line here and one in register_plugins.cpp.
#pragma once

#include <memory>

#include "kernels/plugin.h"

namespace aipu::kernels {

void register_builtin_plugins(PluginRegistry& registry);

// elementwise.cpp
std::unique_ptr<OpPlugin> make_elementwise_plugin();
// movement.cpp
std::unique_ptr<OpPlugin> make_view_plugin();
std::unique_ptr<OpPlugin> make_strided_copy_plugin();
std::unique_ptr<OpPlugin> make_concat_plugin();
std::unique_ptr<OpPlugin> make_split_plugin();
std::unique_ptr<OpPlugin> make_pad_plugin();
// matmul.cpp, conv.cpp, conv_transpose.cpp, pool.cpp, resize.cpp
std::unique_ptr<OpPlugin> make_conv_transpose_plugin();
std::unique_ptr<OpPlugin> make_winograd_plugin();     // winograd.cpp
std::unique_ptr<OpPlugin> make_winograd_f4_plugin();  // with fast math only
std::unique_ptr<OpPlugin> make_resize_plugin();
std::unique_ptr<OpPlugin> make_matmul_plugin();
std::unique_ptr<OpPlugin> make_conv_plugin();
std::unique_ptr<OpPlugin> make_quantized_plugin();  // quantized.cpp
std::unique_ptr<OpPlugin> make_pool_plugin();
std::unique_ptr<OpPlugin> make_attention_plugin();  // attention.cpp

// reduce.cpp, softmax.cpp, normalization.cpp, lrn.cpp
std::unique_ptr<OpPlugin> make_reduce_plugin();
std::unique_ptr<OpPlugin> make_softmax_plugin();
std::unique_ptr<OpPlugin> make_normalization_plugin();
std::unique_ptr<OpPlugin> make_lrn_plugin();
// recurrent.cpp
std::unique_ptr<OpPlugin> make_recurrent_plugin();
// gather.cpp, select.cpp, generate.cpp
std::unique_ptr<OpPlugin> make_gather_plugin();
std::unique_ptr<OpPlugin> make_select_plugin();
std::unique_ptr<OpPlugin> make_generate_plugin();
// control_flow.cpp
std::unique_ptr<OpPlugin> make_control_flow_plugin();
// determinant.cpp, sampling.cpp, sorting.cpp
std::unique_ptr<OpPlugin> make_determinant_plugin();
std::unique_ptr<OpPlugin> make_sampling_plugin();
std::unique_ptr<OpPlugin> make_sorting_plugin();

}  // namespace aipu::kernels
