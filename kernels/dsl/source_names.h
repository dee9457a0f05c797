// What a source mentions.
#pragma once

#include <set>
#include <string>

#include "runtime/base/status.h"

namespace aipu::dsl {

struct SourceNames {
  // In its code, whatever for: variables, attributes, f-strings, keys of dictionaries (strings that are nothing else).
  // Not in comments or docstrings.
  std::set<std::string, std::less<>> names;
  std::set<std::string, std::less<>> imported_modules;  // X of `from X import ...`
};

// Of Python text. An error where the text has no tokens of Python.
Result<SourceNames> names_in_source(std::string file, std::string text);

}  // namespace aipu::dsl
