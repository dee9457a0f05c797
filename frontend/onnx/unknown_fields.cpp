#include "frontend/onnx/unknown_fields.h"

#include "frontend/onnx/onnx_pb.h"

namespace aipu::frontend {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int64_t kNewestIrVersion = 14;  // all of its fields are in onnx.proto

bool says_what_is_computed(const Descriptor* type) {
  static const Descriptor* const kBeside[] = {
      onnx::ModelProto::descriptor(),
      onnx::StringStringEntryProto::descriptor(),
      onnx::TensorAnnotation::descriptor(),
      onnx::TrainingInfoProto::descriptor(),
      onnx::DeviceConfigurationProto::descriptor(),
      onnx::NodeDeviceConfigurationProto::descriptor(),
      onnx::ShardingSpecProto::descriptor(),
      onnx::IntIntListEntryProto::descriptor(),
      onnx::ShardedDimProto::descriptor(),
      onnx::SimpleShardedDimProto::descriptor(),
  };
  return std::find(std::begin(kBeside), std::end(kBeside), type) == std::end(kBeside);
}

class Walk {
 public:
  Walk(int64_t ir_version, std::vector<std::string>* warnings) : ir_version_(ir_version), warnings_(warnings) {}

  // `owner` is the closest message around with a name.
  Status visit(const Message& message, const std::string& owner) {
    const auto* type = message.GetDescriptor();
    const auto* reflection = message.GetReflection();
    const std::string here = name_of(message, owner);
    if (const auto& unknown = reflection->GetUnknownFields(message); !unknown.empty()) {
      const std::string what = str_cat(type->name(), here.empty() ? "" : str_cat(" '", here, "'"), " has the field ",
                                       unknown.field(0).number(), ", which this build does not know (IR version ",
                                       ir_version_, ", known are versions up to ", kNewestIrVersion, ")");
      if (says_what_is_computed(type)) return unsupported(what);
      if (warnings_ != nullptr) warnings_->push_back(what);
    }
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(message, &fields);
    for (const auto* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        AIPU_RETURN_IF_ERROR(visit(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                                        : reflection->GetMessage(message, field),
                                   here));
      }
    }
    return {};
  }

 private:
  static std::string name_of(const Message& message, const std::string& owner) {
    const auto* field = message.GetDescriptor()->FindFieldByName("name");
    if (field == nullptr) return owner;
    const std::string name = message.GetReflection()->GetString(message, field);
    return name.empty() ? owner : name;
  }

  int64_t ir_version_;
  std::vector<std::string>* warnings_;
};

}  // namespace

Status check_unknown_fields(const onnx::ModelProto& model, std::vector<std::string>* warnings) {
  return Walk(model.ir_version(), warnings).visit(model, "");
}

}  // namespace aipu::frontend
