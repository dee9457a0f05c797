// Targets in shared libraries: aipugb --target-plugin LIB.so. README.md says how to write one, sample/ is one.
#pragma once

#include <memory>
#include <vector>

#include "codegen/driver/code_generator.h"
#include "codegen/targets/target.h"

namespace aipu::tir {

// Of what these headers declare to libraries of targets.
constexpr int kTargetInterfaceVersion = 2;

// A library exports, with C linkage, a function whose name ends in that version; libraries of another one are refused:
//   extern "C" aipu::Status aipu_register_target_v2(aipu::tir::TargetLibrary& library);
// It is called once in a process, and adds rows and, where ours do not fit, a code generator. An error ends the
// conversion, and nothing is added.
class TargetLibrary {
 public:
  void add_target(Target target) { targets_.push_back(std::move(target)); }
  void add_code_generator(std::unique_ptr<CodeGenerator> generator) { generators_.push_back(std::move(generator)); }

  // By who has loaded the library: makes known what was added, or nothing of it. By one thread at a time.
  Status install() &&;

 private:
  std::vector<Target> targets_;
  std::vector<std::unique_ptr<CodeGenerator>> generators_;
};

}  // namespace aipu::tir
