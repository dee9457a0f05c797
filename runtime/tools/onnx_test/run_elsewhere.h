// Runs a converted model by another program that takes the options of aipurun: on an emulator, or on a board.
#pragma once

#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/tools/compare.h"
#include "runtime/tools/npy.h"

namespace aipu::tools {

struct NamedArray {
  std::string name;
  const Array* array = nullptr;
};

// `command` is for the shell, and gets the model's file, inputs and expected outputs as .npy files of `scratch`. An
// error is the last line that the program wrote.
Status run_elsewhere(const std::string& command, const std::string& model, std::span<const NamedArray> inputs,
                     std::span<const NamedArray> expected, const Tolerance& tolerance, const std::string& scratch);

}  // namespace aipu::tools
