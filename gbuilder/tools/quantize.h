// aipugb --quantize: from float32 to 8 bits by typical inputs, before the model is converted.
#pragma once

#include <string>
#include <vector>

#include "gbuilder/build.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

struct QuantizeOptions {
  std::string data;                    // typical inputs, as aipu.batch takes them; "": the model stays as it is
  std::string max_error;               // METRIC=BOUND
  std::string model;                   // the QDQ model to write; "": beside the aipu.bin
  std::vector<std::string> more;       // of aipu.quantization, without dashes: NAME or NAME=VALUE
  std::vector<std::string> constants;  // NAME=VALUE, of inputs
};

// What is wrong with the options together, "" if nothing is. Takes the precision that --quantize stands for ("int8")
// into `build` where none is given.
std::string quantize_usage_error(const QuantizeOptions& options, BuildOptions* build);

// Runs aipu.quantization and makes its result the model of `build`, with the precisions of its layers: the QDQ model
// stays, and for "mixed" the precision file beside it. Returns the exit code of the program, which has said what was
// wrong. `silent`: nothing about the result; `quiet`: nothing about how far it is.
Result<int> quantize(const QuantizeOptions& options, bool silent, bool quiet, BuildOptions* build);

}  // namespace aipu::gbuilder
