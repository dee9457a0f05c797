#include "kernels/plugins/plugin_list.h"

namespace aipu::kernels {

void register_builtin_plugins(PluginRegistry& registry) {
#define AIPU_REGISTER(name) registry.add(make_##name##_plugin());
  AIPU_BUILTIN_PLUGINS(AIPU_REGISTER)
#undef AIPU_REGISTER
}

}  // namespace aipu::kernels
