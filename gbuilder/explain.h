// What a model consists of and what would become of it: aipugb --explain.
#pragma once

#include <string>

#include "gbuilder/build.h"

namespace aipu::gbuilder {

// Text for people: what the model says about itself, its inputs and outputs, a line per operator with the number of its
// nodes, their parameters and multiply-adds, and the plugins that compute them; then what is not supported, with what
// to do about it. The model is converted up to the partition, nothing is compiled or written. Errors are those of files
// that are no ONNX model; that a model does not convert is part of the text, and sets `supported` to false.
Result<std::string> explain_model(const BuildOptions& options, bool* supported);

}  // namespace aipu::gbuilder
