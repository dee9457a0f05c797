#include "frontend/onnx/supported_ops.h"

#include <map>
#include <vector>

#include "frontend/onnx/converter_table.h"
#include "graph/ir/op_def.h"

namespace aipu::frontend {

namespace {

using Rows = std::vector<const ConverterRow*>;

std::string shown(std::string_view domain) { return domain.empty() ? "ai.onnx" : std::string(domain); }

// Of the letters of an operand's types (graph/ir/op_def.h).
std::string types_text(const std::string& letters) {
  static const std::map<char, std::string> kNames = {
      {'b', "bool"}, {'i', "int"}, {'u', "uint"}, {'f', "float"}, {'q', "stored"}};
  if (letters == "*") return "any";
  std::string text;
  for (const char letter : letters) {
    const auto it = kNames.find(letter);
    if (it != kNames.end()) text += (text.empty() ? "" : ", ") + it->second;
  }
  return text;
}

// The op that has the name and the meaning of ONNX's; null where it is made of others.
const graph::OpDef* record_of(const ConverterRow& row) { return row.domain.empty() ? graph::find_op(row.op) : nullptr; }

std::string elements_text(const ConverterRow& row) {
  const graph::OpDef* def = record_of(row);
  if (def == nullptr) return "as its parts";
  if (!def->inputs.empty()) return types_text(def->inputs[0].types);
  return types_text(def->outputs[0].types);
}

// "3 to 12, 14": the opsets in which the op can be imported.
std::string opsets_text(const Rows& rows, bool has_newest) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->convert == nullptr) continue;
    size_t last = i;
    while (last + 1 < rows.size() && rows[last + 1]->convert != nullptr) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(rows[i]->since);
    if (last + 1 < rows.size()) {
      text += " to " + std::to_string(rows[last + 1]->since - 1);
    } else {
      text += has_newest ? " to " + std::to_string(kNewestOpset) : " and later";
    }
    i = last;
  }
  return text;
}

}  // namespace

std::string supported_ops_page() {
  std::string page = str_cat(
      "# Supported operators\n\n"
      "Made by `aipugb --supported-ops` from the table of converters and the op records; a test compares.\n\n"
      "- **opsets**: in which the operator is converted. A model of an opset beyond ",
      kNewestOpset, " is taken as one of opset ", kNewestOpset,
      ", with a\n  warning.\n"
      "- **elements**: the types of the first operand's elements: `bool`; `int`, `uint` (8 to 64 bits); `float` "
      "(float16,\n"
      "  bfloat16, float32, float64); `stored` (8 bits and less, complex64); `any` is all of them. What is made of "
      "other\n"
      "  operators takes what its parts take.\n"
      "- **lists**: operands may be sequences and optionals.\n\n"
      "`aipugb MODEL --explain` says it of a model.\n");
  std::string refused;
  std::string domain = "none yet";
  for (const auto& [key, rows] : all_converters()) {
    if (rows.back()->convert == nullptr) {
      refused += str_cat("| ", shown(key.first), " | ", key.second, " | ", rows.back()->refusal, " |\n");
    }
    const std::string opsets = opsets_text(rows, key.first.empty());
    if (opsets.empty()) continue;
    if (domain != shown(key.first)) {
      domain = shown(key.first);
      page += str_cat("\n## ", domain, "\n\n| operator | opsets | elements |  |\n| -- | -- | -- | -- |\n");
    }
    const ConverterRow& newest = *rows.back();
    page += str_cat("| ", key.second, " | ", opsets, " | ", elements_text(newest), " | ",
                    newest.takes_lists ? "lists" : "", " |\n");
  }
  for (const RefusedDomain& whole : refused_domains())
    refused += str_cat("| ", whole.domain, " | all | ", whole.refusal, " |\n");
  if (!refused.empty()) {
    page += "\n## Known and refused\n\n| domain | operator | why |\n| -- | -- | -- |\n" + refused;
  }
  return page;
}

int64_t form_since(std::string_view op, int64_t opset) {
  const ConverterRow* row = find_converter("", op, opset);
  return row == nullptr || row->convert == nullptr ? 0 : row->since;
}

}  // namespace aipu::frontend
