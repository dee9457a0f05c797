// The ONNX messages. Included by .cpp files of this folder only: protobuf stays private to the frontend.
#pragma once

#include <aipu_onnx/onnx.pb.h>
