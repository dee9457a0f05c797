// aipurun --dataset: a data set through a model.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::tools {

struct DatasetRun {
  std::string model, inputs, output;  // an aipu.bin; as aipu.batch takes them; a folder
  std::vector<std::string> options;   // of aipu.batch
};

// Runs the program aipu.batch of the Python package in place of this one: batches, manifests and what a killed run goes
// on with are there, and there alone. It is run by AIPU_PYTHON, by default python3, and found beside this program or
// where that Python has it. Returns only if there is no such interpreter.
Status run_dataset(const DatasetRun& run);

}  // namespace aipu::tools
