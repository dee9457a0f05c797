// The options of aipurun and aipubench that bound what a file may take, and say whose it has to be.
#pragma once

#include <string>

#include "runtime/model.h"
#include "runtime/session.h"

namespace CLI {
class App;
}

namespace aipu::tools {

struct Limits {
  runtime::Budget load, plan, run;  // 0: what --untrusted says, or none
  bool untrusted = false;
  std::string trusted_key;  // "": no signature is asked for

  // What of it is for loading, for a session.
  void apply(runtime::LoadOptions* options) const;
  void apply(runtime::SessionOptions* options) const;
};

// `limits` has to outlive the parsing.
void add_limit_options(CLI::App& app, Limits* limits);

}  // namespace aipu::tools
