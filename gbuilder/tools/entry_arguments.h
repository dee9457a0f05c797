// The models of a command line, and the options that are of one of them.
#pragma once

#include <string>
#include <vector>

#include "gbuilder/build.h"

namespace aipu::gbuilder {

struct EntryArguments {
  std::vector<std::string> models;   // a file each, with its name as the entry's; behind Compass IR text its weights
  std::vector<std::string> entries;  // NAME=MODEL
  // Of all models, or, as ENTRY:VALUE, of the one with that name.
  std::vector<std::string> shapes, constants, sequence_lengths, exposed, preprocess, postprocess, cache_lengths;
};

// Fills in the models of the file, the first of which are those of `models`. What is wrong with the command line, ""
// if nothing is.
std::string set_entries(const EntryArguments& arguments, BuildOptions* build);

}  // namespace aipu::gbuilder
