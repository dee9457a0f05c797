// Names in a model may hold anything; a message is one line.
#pragma once

#include <string>

namespace aipu::frontend {

inline std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace aipu::frontend
