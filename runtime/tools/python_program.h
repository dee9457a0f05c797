// Programs of the Python package aipu that command-line tools hand work over to.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::tools {

// `python3 -m MODULE ARGUMENTS`, by the interpreter AIPU_PYTHON, by default python3. The package is the one beside this
// program (of a build, a wheel or a prefix), or what that Python has.
struct PythonProgram {
  std::string module;    // "aipu.batch"
  std::string tool;      // that hands over, and
  std::string asked_by;  // the option that has it do so: "aipurun", "--dataset"
  std::vector<std::string> arguments;
};

// Runs it in place of this program. Returns only if there is no such interpreter.
Status become(const PythonProgram& program);

// Runs it as a child, which ends with this program; returns its exit code, 128 + signal if it was killed. What it says
// on the standard output goes nowhere if `silent`.
Result<int> run_child(const PythonProgram& program, bool silent);

}  // namespace aipu::tools
