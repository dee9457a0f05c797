#include "runtime/base/fault.h"

namespace aipu {

std::string fault_text(std::string_view message, int64_t value, int64_t limit) {
  std::string text;
  while (!message.empty()) {
    const bool is_value = message.starts_with("{value}"), is_limit = message.starts_with("{limit}");
    if (is_value || is_limit) {
      text += std::to_string(is_value ? value : limit);
      message.remove_prefix(message.find('}') + 1);
    } else {
      text += message.front();
      message.remove_prefix(1);
    }
  }
  return text;
}

}  // namespace aipu
