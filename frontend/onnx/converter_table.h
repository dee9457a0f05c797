// The one list of what can be imported: (domain, op type, first opset of this form) -> converter. Private to
// frontend/onnx.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/onnx/op_context.h"

namespace aipu::frontend {

// of the default domain; up to here every change of the operators below has been looked at
constexpr int64_t kNewestOpset = 28;

using Converter = void (*)(OpContext&);

struct ConverterRow {
  std::string_view domain;  // "" is ai.onnx
  std::string_view op;
  // This row serves opsets from here to the next row of the same op, in all of which the node has one form.
  int64_t since = 1;
  Converter convert = nullptr;  // null: refused, for the reason in `refusal`
  std::string_view refusal = {};
  bool takes_lists = false;  // inputs may be sequences and optionals
  bool takes_maps = false;
};

std::span<const ConverterRow> microsoft_rows();  // ops/microsoft/register_ops.cpp
std::span<const ConverterRow> ml_rows();         // ops/ml/register_ops.cpp
// All rows, those of one op together, oldest first.
const std::map<std::pair<std::string_view, std::string_view>, std::vector<const ConverterRow*>>& all_converters();
// The row for an op in an opset; null when there is none (unknown op, or too old an opset).
const ConverterRow* find_converter(std::string_view domain, std::string_view op, int64_t version);
// Domains of which no operator is converted, and why, for users to read. An op of a plugin may be in one all the same.
struct RefusedDomain {
  std::string_view domain, refusal;
};
std::span<const RefusedDomain> refused_domains();
// Why nothing covers an operator that has no row; `hint` is for one that is unknown.
std::string refusal_of_unknown(std::string_view domain, std::string_view op, std::string_view too_old,
                               std::string_view hint);
// The record "domain::op" that a node without a converter is, or the one of a plugin in `ops` (null: none), which has
// one all the same; null if there is none. Built-in ones of the domain aipu are the graph's own: no model has them.
const graph::OpDef* find_record(const graph::OpSet* ops, const std::string& domain, const std::string& op,
                                bool has_converter);

}  // namespace aipu::frontend
