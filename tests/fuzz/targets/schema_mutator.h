// Changes numbers of a FlatBuffer where its schema says that they are, so that the result is still a readable buffer.
#pragma once

#include <string>

#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {

// One to three numbers: of a table, of a struct, of a vector, or how long a vector is (only shorter). `buffer` starts
// with its size and has been verified; what follows it in the string stays.
std::string mutate_by_schema(std::string buffer, Random& random);

}  // namespace aipu::fuzz
