// Reading the normalised equation of an Einsum node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace aipu::graph {

// One letter per axis; "ab,bc->ac" has inputs {"ab", "bc"} and output "ac". A letter that is in no output is summed
// over.
struct EinsumTerms {
  std::vector<std::string> inputs;
  std::string output;
};

// Of a node in a graph, whose equation is in normal form: explicit output, letters, no "..." and no spaces.
EinsumTerms parse_einsum(std::string_view equation);

}  // namespace aipu::graph
