// Small kernels, one per operation and type, with inputs: what the C printer, both compilers and the interpreter must
// agree on bit by bit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir::testing {

constexpr int kAgreementVectors = 48;  // how often a kernel applies its operation

struct AgreementCase {
  std::string name;
  Module module;             // params: operand pointers, the result pointer (last)
  std::vector<Type> inputs;  // pointees of the operand pointers; a mask is u8 with its lanes
  Type output;
};

// All cases with vectors of `vector_bits`.
std::vector<AgreementCase> intrinsic_cases(int vector_bits);
std::vector<AgreementCase> operator_cases(int vector_bits);

// Random lanes, with corner values mixed in.
std::vector<std::byte> agreement_input(Type type, size_t count, uint64_t seed);

struct AgreementBuffers {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::byte> output;
};
AgreementBuffers agreement_buffers(const AgreementCase& one, uint64_t seed);
Status run_interpreter(const Module& module, AgreementBuffers& buffers);

// The same bits, or both NaN.
bool same_lane(DType dtype, const std::byte* a, const std::byte* b);
std::string hex_lane(DType dtype, const std::byte* p);

// TIR of kernels (global T* x, global int16x8* indices, global T* out, int32 n) that load, store, gather and copy: 256
// elements in, 8 indices below 64, 1024 elements out, n from 1 to 8. with_type() puts a type in the place of T.
std::vector<const char*> memory_programs(bool of_hosts);
std::string with_type(std::string text, const std::string& type);

}  // namespace aipu::tir::testing
