#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {

void register_builtin_plugins(PluginRegistry& registry) {
  registry.add(make_view_plugin());
  registry.add(make_elementwise_plugin());
  registry.add(make_strided_copy_plugin());
  registry.add(make_concat_plugin());
  registry.add(make_split_plugin());
  registry.add(make_pad_plugin());
  registry.add(make_attention_plugin());
  registry.add(make_matmul_plugin());
  registry.add(make_conv_plugin());
  registry.add(make_winograd_plugin());
  registry.add(make_winograd_f4_plugin());
  registry.add(make_conv_transpose_plugin());
  registry.add(make_quantized_plugin());
  registry.add(make_pool_plugin());
  registry.add(make_resize_plugin());
  registry.add(make_reduce_plugin());
  registry.add(make_softmax_plugin());
  registry.add(make_normalization_plugin());
  registry.add(make_lrn_plugin());
  registry.add(make_recurrent_plugin());
  registry.add(make_gather_plugin());
  registry.add(make_select_plugin());
  registry.add(make_generate_plugin());
  registry.add(make_control_flow_plugin());
  registry.add(make_determinant_plugin());
  registry.add(make_sampling_plugin());
  registry.add(make_sorting_plugin());
}

}  // namespace aipu::kernels
