#include "runtime/tools/onnx_test/run_case.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "gbuilder/build.h"
#include "runtime/base/stored_type.h"
#include "runtime/base/text.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "runtime/tools/onnx_test/run_elsewhere.h"

namespace aipu::tools {
namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

CaseResult judge(const Status& status, std::string_view where) {
  if (status.code() == ErrorCode::kUnsupported) return {Outcome::kSkip, str_cat("unsupported: ", status.message())};
  return {Outcome::kFail, str_cat(where, ": ", status.message())};
}

struct DataSet {
  std::string name;
  std::vector<Array> inputs;  // by position in the graph
  std::vector<Array> outputs;
};

Result<DataSet> read_data_set(const std::string& folder, const GraphPorts& ports) {
  DataSet set;
  set.name = folder.substr(folder.find_last_of('/') + 1);
  for (size_t i = 0; exists(str_cat(folder, "/input_", i, ".pb")); ++i) {
    AIPU_ASSIGN_OR_RETURN(Array array, read_tensor_pb(str_cat(folder, "/input_", i, ".pb")));
    set.inputs.push_back(std::move(array));
  }
  for (size_t i = 0; exists(str_cat(folder, "/output_", i, ".pb")); ++i) {
    AIPU_ASSIGN_OR_RETURN(Array array, read_tensor_pb(str_cat(folder, "/output_", i, ".pb")));
    set.outputs.push_back(std::move(array));
  }
  if (set.inputs.size() > ports.inputs.size() || set.outputs.size() > ports.outputs.size() || set.outputs.empty()) {
    return invalid_model(str_cat(folder, ": ", set.inputs.size(), " inputs and ", set.outputs.size(),
                                 " outputs for a model with ", ports.inputs.size(), " and ", ports.outputs.size()));
  }
  // NumPy has no bfloat16, so the ONNX project stores such tensors as uint16 with the same bits.
  const auto reinterpret = [](Array* array, const GraphPort& port) {
    if (array->dtype == DType::kU16 && port.dtype == DType::kBF16) array->dtype = DType::kBF16;
  };
  for (size_t i = 0; i < set.inputs.size(); ++i) reinterpret(&set.inputs[i], ports.inputs[i]);
  for (size_t i = 0; i < set.outputs.size(); ++i) reinterpret(&set.outputs[i], ports.outputs[i]);
  return set;
}

// The rule of the light models: x[k] = k / n, divided in float64, symbolic extents 1.
Result<DataSet> make_light_data(const TestCase& test, const GraphPorts& ports) {
  DataSet set;
  set.name = "light";
  for (const GraphPort& port : ports.inputs) {
    if (port.dtype != DType::kF32)
      return unsupported(str_cat("a light model with an input of ", dtype_name(port.dtype)));
    Array array;
    array.dtype = port.dtype;
    array.shape = port.shape;
    AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(array.shape));
    array.data.resize(static_cast<size_t>(count) * sizeof(float));
    for (int64_t k = 0; k < count; ++k) {
      const auto value = static_cast<float>(static_cast<double>(k) / static_cast<double>(count));
      std::memcpy(array.data.data() + static_cast<size_t>(k) * sizeof value, &value, sizeof value);
    }
    set.inputs.push_back(std::move(array));
  }
  AIPU_ASSIGN_OR_RETURN(Array output, read_tensor_pb(test.light_output));
  set.outputs.push_back(std::move(output));
  return set;
}

using ConstantInputs = std::map<std::string, graph::ConstantPtr>;

// What a conversion lacked: the graph input that is the operand X of "operand 'X' must be known when compiling", with
// its value from the one data set of the case. False if the error is another one, or no input has that name.
bool add_constant_input(const Status& status, const TestCase& test, const GraphPorts& ports,
                        ConstantInputs* constants) {
  const std::string& message = status.message();
  const size_t end = message.find("' must be known when compiling");
  if (status.code() != ErrorCode::kUnsupported || end == std::string::npos || test.data_sets.size() != 1) return false;
  const size_t quote = end == 0 ? std::string::npos : message.rfind('\'', end - 1);
  if (quote == std::string::npos) return false;
  const std::string operand = message.substr(quote + 1, end - quote - 1);
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    if (ports.inputs[i].name != operand || constants->count(operand) != 0) continue;
    auto array = read_tensor_pb(str_cat(test.data_sets[0], "/input_", i, ".pb"));
    if (!array.ok()) return false;
    if (array->dtype == DType::kString) return false;  // its numbers are the importer's to give
    if (is_packed(array->dtype)) {
      const auto count = element_count(array->shape);
      if (!count.ok()) return false;
      array->data = unpack(array->dtype, array->data, *count);
    }
    (*constants)[operand] = graph::Constant::create(array->dtype, array->shape, std::move(array->data));
    return true;
  }
  return false;
}

// The ONNX project's own runner allows two units of bfloat16.
Tolerance tolerance_of(DType dtype, Tolerance tolerance) {
  if (dtype == DType::kBF16) tolerance.relative = std::max(tolerance.relative, 0x1p-6);
  return tolerance;
}

CaseResult run_data_set(runtime::Session& session, const GraphPorts& ports, const DataSet& set,
                        const Tolerance& tolerance, const ConstantInputs& constants) {
  const runtime::Model& model = session.model();
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    if (constants.count(ports.inputs[i].name) != 0) continue;
    const auto index = model.input_index(ports.inputs[i].name);
    if (!index.ok()) return judge(index.status(), set.name);
    const Array& array = set.inputs[i];
    if (Status status = session.bind_input(*index, {array.dtype, array.shape, array.data.data()}); !status.ok())
      return judge(status, set.name);
  }
  if (Status status = session.run(); !status.ok()) return judge(status, set.name);
  for (size_t i = 0; i < set.outputs.size(); ++i) {
    const auto index = model.output_index(ports.outputs[i].name);
    if (!index.ok()) return judge(index.status(), set.name);
    const auto view = session.output(*index);
    if (!view.ok()) return judge(view.status(), set.name);
    const Comparison comparison =
        compare({view->dtype, view->shape, view->data}, span_of(set.outputs[i]), tolerance_of(view->dtype, tolerance));
    if (!comparison.equal)
      return {Outcome::kFail,
              str_cat(set.name, ", output ", i, " '", ports.outputs[i].name, "': ", comparison.message)};
  }
  return {Outcome::kPass, {}};
}

CaseResult run_data_set_elsewhere(const CaseOptions& options, const std::string& model, const GraphPorts& ports,
                                  const DataSet& set, const ConstantInputs& constants, const std::string& scratch) {
  std::vector<NamedArray> inputs, outputs;
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    if (constants.count(ports.inputs[i].name) == 0) inputs.push_back({ports.inputs[i].name, &set.inputs[i]});
  }
  Tolerance tolerance = options.tolerance;
  for (size_t i = 0; i < set.outputs.size(); ++i) {
    outputs.push_back({ports.outputs[i].name, &set.outputs[i]});
    tolerance = tolerance_of(set.outputs[i].dtype, tolerance);
  }
  const Status status = run_elsewhere(options.runner, model, inputs, outputs, tolerance, scratch);
  return status.ok() ? CaseResult{Outcome::kPass, {}} : judge(status, set.name);
}

std::string remark_of(const TestCase& test, size_t set_count, const ConstantInputs& constants) {
  std::string remark = test.light_output.empty() ? str_cat(set_count, set_count == 1 ? " data set" : " data sets")
                                                 : std::string("light");
  for (const auto& [name, constant] : constants)
    remark += str_cat(name == constants.begin()->first ? " (constant inputs: " : ", ", name);
  return constants.empty() ? remark : remark + ")";
}

Result<std::unique_ptr<runtime::Session>> open_session(const std::string& file, const CaseOptions& options) {
  runtime::LoadOptions load;
  load.backend = options.backend;
  AIPU_ASSIGN_OR_RETURN(const auto model, runtime::Model::load(file, load));
  runtime::SessionOptions session_options;
  session_options.threads = options.threads;
  return runtime::Session::create(model, session_options);
}

}  // namespace

CaseResult run_case(const TestCase& test, const CaseOptions& options, const std::string& scratch) {
  gbuilder::BuildOptions build;
  build.model = test.model;
  build.output = scratch + "/model.aipu.bin";
  build.target = options.target;
  build.plugins = options.plugins;
  build.jobs = 1;  // cases run in parallel instead
  build.use_cache = !options.no_cache;
  auto report = gbuilder::build_model(build);
  const auto ports = read_ports(test.model);
  // Node tests feed every operand as a graph input, also those that decide ranks, which no exporter does. What the
  // plain conversion cannot do without is fixed to the value of the data set, one operand at a time, and the result
  // says so.
  while (!report.ok() && ports.ok() && add_constant_input(report.status(), test, *ports, &build.constant_inputs))
    report = gbuilder::build_model(build);
  if (!report.ok()) return judge(report.status(), "convert");
  if (!ports.ok()) return judge(ports.status(), "model");
  for (const auto* list : {&ports->inputs, &ports->outputs}) {
    for (const GraphPort& port : *list) {
      if (!port.is_tensor) return {Outcome::kSkip, str_cat("unsupported: '", port.name, "' is not a tensor")};
    }
  }
  std::unique_ptr<runtime::Session> session;
  if (options.runner.empty()) {
    auto opened = open_session(build.output, options);
    if (!opened.ok()) return judge(opened.status(), "load");
    session = std::move(*opened);
  }
  std::vector<Result<DataSet>> sets;
  if (!test.light_output.empty()) sets.push_back(make_light_data(test, *ports));
  for (const std::string& folder : test.data_sets) sets.push_back(read_data_set(folder, *ports));
  if (sets.empty()) return {Outcome::kFail, "no test_data_set_* folder"};
  for (const auto& set : sets) {
    if (!set.ok()) return judge(set.status(), "test data");
    CaseResult result =
        session != nullptr
            ? run_data_set(*session, *ports, *set, options.tolerance, build.constant_inputs)
            : run_data_set_elsewhere(options, build.output, *ports, *set, build.constant_inputs, scratch);
    if (result.outcome != Outcome::kPass) return result;
  }
  return {Outcome::kPass, remark_of(test, sets.size(), build.constant_inputs)};
}

}  // namespace aipu::tools
