// What `aipugb --preprocess` and `--postprocess` put before a model's inputs and behind its outputs: ordinary nodes,
// which the passes fold into the model's own where they can.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::frontend {

// An input that is given as an image, element by element (x / scale - mean) / deviation; the words of `aipu.bench
// --image`.
struct Preprocess {
  std::string input;
  DType dtype = DType::kU8;             // of what is given
  bool given_channels_last = true;      // "nhwc", "nchw"
  bool wanted_channels_last = false;    // "to=nhwc": what the model takes
  std::optional<double> scale;          // default: 255 of an integer type, 1 of others
  std::vector<double> mean, deviation;  // one number for all channels, or one for each; empty: 0, 1
  std::optional<std::pair<int64_t, int64_t>>
      size;  // height and width that an image of any size is resized to, bilinearly
};

// "image:uint8,nhwc,scale=255,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,resize=224x224"; all words may be left out.
Result<Preprocess> parse_preprocess(const std::string& text);

// Adds the input as it is given; what the model gets of it, of type `wanted` but for extents that resizing decides.
// `open_extent(axis)` makes the symbol of an extent of the given image. Errors name the option.
Result<graph::ValueId> add_preprocessed_input(graph::Graph* graph, const Preprocess& options,
                                              const graph::TensorType& wanted,
                                              const std::function<graph::Dim(size_t)>& open_extent);

// What becomes of an output: "softmax", then "topk=5", both along `axis`; or, of boxes, "nms".
struct Postprocess {
  std::string output;
  bool softmax = false;
  std::optional<int64_t> top;  // the largest, in falling order
  int64_t axis = -1;
  bool suppress = false;  // NonMaxSuppression of boxes [N, B, 4] with `scores` [N, C, B]
  std::string scores;
  double iou = 0.5, score = 0.0;
  int64_t most = 100;   // boxes of an image and class
  bool center = false;  // boxes are x, y, width, height, with the centre; otherwise two corners, y first
};

// "logits:softmax,topk=5" or "boxes:nms,scores=scores,iou=0.5,score=0.3,max=100".
Result<Postprocess> parse_postprocess(const std::string& text);

// Softmax replaces the output, topk too, with the indices as one more output NAME.indices; nms leaves the boxes, adds
// NAME.selected: int64[K, 3] of image, class and box. What is added comes behind all other outputs.
Status add_postprocessing(graph::Graph* graph, const Postprocess& options);

}  // namespace aipu::frontend
