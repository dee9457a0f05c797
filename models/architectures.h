// One function per network, in files by kind; networks.cpp lists them. Weights are scaled so that activations stay of
// order one through the depth, batch is the symbol N, and nodes are written as PyTorch's (or, where noted, Caffe's or a
// quantiser's) exporter writes them.
#pragma once

#include <cstdint>
#include <memory>

#include "models/onnx_builder.h"

namespace aipu::models {

// classifiers.cpp
std::unique_ptr<OnnxBuilder> build_alexnet(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_vgg19(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_inception_v1(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_densenet121(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_squeezenet(uint64_t seed);

// resnet.cpp
std::unique_ptr<OnnxBuilder> build_resnet18(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_resnet50(uint64_t seed);

// mobile.cpp
std::unique_ptr<OnnxBuilder> build_mobilenet_v2(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_mobilenet_v3_large(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_efficientnet_b0(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_shufflenet(uint64_t seed);

// detector.cpp
std::unique_ptr<OnnxBuilder> build_yolo_v5n(uint64_t seed);

// transformers.cpp
std::unique_ptr<OnnxBuilder> build_vit_tiny16(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_bert2(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_bert12(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_gpt2_6l(uint64_t seed);

// decoder.cpp
std::unique_ptr<OnnxBuilder> build_decoder_1b_4l(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_decoder_small(uint64_t seed);

// custom_ops.cpp
std::unique_ptr<OnnxBuilder> build_soft_cap(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_hard_shrink(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_unit_rows(uint64_t seed);
std::unique_ptr<OnnxBuilder> build_blend(uint64_t seed);

// recurrent.cpp
std::unique_ptr<OnnxBuilder> build_lstm_acoustic(uint64_t seed);

// quantized.cpp
std::unique_ptr<OnnxBuilder> build_resnet18_int8(uint64_t seed);

// [N,C,H,W] -> [N,1000] through the global mean, output "output".
void add_classifier(OnnxBuilder& b, const std::string& x, int64_t channels);

}  // namespace aipu::models
