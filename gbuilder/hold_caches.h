// --cache-length: caches that grow by Concat become buffers of a fixed length.
#pragma once

#include <cstdint>

#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

// The name of the input that says how many rows of the buffers there are.
constexpr const char* kPastLength = "past_length";

// An input `past` whose extent along an axis is a symbol, and which nothing reads but a Concat with rows behind it (and
// Shape), becomes a buffer of `length` rows, and so does the output that the Concat is; what else reads the rows
// reads those that are filled, where they are:
//
//   past[.., P, ..] ─ Concat(past, added) ─ present, attention
//   =>  past[.., length, ..] ─ aipu::CacheUpdate(past, added, at P) ┬ present[.., length, ..]
//                                                                  └ Slice ─ attention
//
// P is the element of a new input, int64, kPastLength. An error if there is no such input, or if the extent of
// something else is P.
Status hold_caches(int64_t length, graph::Graph* graph);

}  // namespace aipu::gbuilder
