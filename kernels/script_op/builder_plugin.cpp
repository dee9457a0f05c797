#include "kernels/script_op/builder_plugin.h"

#include <fmt/format.h>

#include <map>
#include <optional>

namespace aipu::kernels::script_op {
namespace {

using dsl::Position;
namespace ast = dsl::ast;

const ast::ClassDef* plugin_class(const dsl::HostProgram& program) {
  const ast::ClassDef* found = nullptr;
  for (const ast::StmtPtr& stmt : program.module().body) {
    if (const auto* c = stmt->as<ast::Class>(); c != nullptr && !c->definition->is_record) found = c->definition.get();
  }
  return found;
}

bool is_name(const ast::Expr& expr, std::string_view name) {
  const auto* n = expr.as<ast::Name>();
  return n != nullptr && n->id == name;
}

const ast::Attribute* attribute_of(const ast::Expr& expr, std::string_view object, std::string_view name) {
  const auto* a = expr.as<ast::Attribute>();
  return a != nullptr && a->name == name && is_name(*a->object, object) ? a : nullptr;
}

const std::string* text_of(const ast::Expr& expr) {
  const auto* literal = expr.as<ast::StringLiteral>();
  return literal == nullptr ? nullptr : &literal->value;
}

// The operand of `f(operand)`; null for anything else.
const ast::Expr* only_argument(const ast::Call& call) {
  const bool one = call.arguments.size() == 1 && call.arguments[0].name.empty() && call.arguments[0].stars == 0;
  return one ? call.arguments[0].value.get() : nullptr;
}

// The call `object.method(...)` in `expr`, whatever the object is; null for anything else.
const ast::Call* method_call(const ast::Expr& expr, std::string_view method) {
  const auto* call = expr.as<ast::Call>();
  const auto* callee = call == nullptr ? nullptr : call->callee->as<ast::Attribute>();
  return callee != nullptr && callee->name == method ? call : nullptr;
}

const ast::Expr& object_of(const ast::Call& call) { return *call.callee->as<ast::Attribute>()->object; }

// The index of `object[index]`.
const ast::Expr* index_of(const ast::Expr& expr, const ast::Expr** object) {
  const auto* subscript = expr.as<ast::Subscript>();
  if (subscript == nullptr || subscript->indices.size() != 1) return nullptr;
  *object = subscript->object.get();
  return subscript->indices[0].get();
}

using Argument = BuilderPlugin::Argument;

class Reader {
 public:
  explicit Reader(std::shared_ptr<const dsl::HostProgram> program) : program_(std::move(program)) {}

  Result<BuilderPlugin> read() {
    const ast::ClassDef& definition = *plugin_class(*program_);
    for (const ast::StmtPtr& stmt : definition.body) {
      if (const auto* method = stmt->as<ast::Function>()) methods_[method->function->name] = method->function.get();
    }
    plugin_.program = program_;
    plugin_.position = definition.position;
    AIPU_RETURN_IF_ERROR(read_pattern());
    AIPU_ASSIGN_OR_RETURN(plugin_.object, returned_text("generate_code_name"));
    const size_t slash = plugin_.object.rfind('/') + 1;
    plugin_.kernel = plugin_.object.substr(slash, plugin_.object.rfind('.') - slash);
    if (methods_.contains("generate_kernel")) {
      AIPU_ASSIGN_OR_RETURN(plugin_.kernel, returned_text("generate_kernel"));
    }
    AIPU_RETURN_IF_ERROR(read_params());
    return std::move(plugin_);
  }

 private:
  Status error(Position position, std::string_view text) const { return program_->error(position, text); }

  Result<const ast::FunctionDef*> method(const std::string& name) const {
    const auto found = methods_.find(name);
    if (found == methods_.end()) return error(plugin_.position, fmt::format("the plugin has no method {}()", name));
    return found->second;
  }

  // Of a method that is one statement, `return expression`.
  Result<const ast::Expr*> returned(const std::string& name) const {
    AIPU_ASSIGN_OR_RETURN(const ast::FunctionDef* function, method(name));
    const auto* result = function->body.size() == 1 ? function->body[0]->as<ast::Return>() : nullptr;
    if (result == nullptr || result->value == nullptr)
      return error(function->position, fmt::format("{}() is expected to be one return statement", name));
    return result->value.get();
  }

  Result<std::string> returned_text(const std::string& name) const {
    AIPU_ASSIGN_OR_RETURN(const ast::Expr* value, returned(name));
    const std::string* text = text_of(*value);
    if (text == nullptr) return error(value->position, fmt::format("{}() is expected to return a string", name));
    return *text;
  }

  // ([("label", op_type)], [])
  Status read_pattern() {
    AIPU_ASSIGN_OR_RETURN(const ast::Expr* value, returned("get_graph_pattern"));
    const auto unknown = [&] {
      return error(value->position, "get_graph_pattern() is expected to return one node, ([(\"label\", op_type)], [])");
    };
    const auto* pattern = value->as<ast::TupleDisplay>();
    if (pattern == nullptr || pattern->elements.size() != 2) return unknown();
    const auto* nodes = pattern->elements[0]->as<ast::ListDisplay>();
    const auto* edges = pattern->elements[1]->as<ast::ListDisplay>();
    if (nodes == nullptr || nodes->elements.size() != 1 || edges == nullptr || !edges->elements.empty())
      return unknown();
    const auto* node = nodes->elements[0]->as<ast::TupleDisplay>();
    if (node == nullptr || node->elements.size() != 2 || text_of(*node->elements[0]) == nullptr) return unknown();
    label_ = *text_of(*node->elements[0]);
    ast::ExprPtr type = node->elements[1];
    if (const auto* name = type->as<ast::Name>()) type = program_->assignment(name->id);
    const auto* call = type == nullptr ? nullptr : type->as<ast::Call>();
    const ast::Expr* text = call == nullptr ? nullptr : only_argument(*call);
    if (text == nullptr || !is_name(*call->callee, "register_optype") || text_of(*text) == nullptr) return unknown();
    plugin_.layer_type = *text_of(*text);
    return {};
  }

  Status read_params() {
    AIPU_ASSIGN_OR_RETURN(const ast::FunctionDef* function, method("generate_params"));
    std::string list;  // what BuilderParams() is bound to
    for (const ast::StmtPtr& stmt : function->body) {
      AIPU_ASSIGN_OR_RETURN(const bool known, read_statement(*stmt, &list));
      if (!known) {
        return error(stmt->position,
                     "this is no statement of a generated plugin; generate_params() is read, it is not run as Python");
      }
    }
    return {};
  }

  Result<bool> read_statement(const ast::Stmt& stmt, std::string* list) {
    if (const auto* assign = stmt.as<ast::Assign>(); assign != nullptr && assign->targets.size() == 1)
      return read_assignment(*assign, list);
    if (const auto* result = stmt.as<ast::Return>()) return result->value != nullptr && is_name(*result->value, *list);
    const auto* statement = stmt.as<ast::ExpressionStmt>();
    const ast::Call* append = statement == nullptr ? nullptr : method_call(*statement->value, "append");
    if (append == nullptr || !is_name(object_of(*append), *list)) return false;
    const ast::Expr* value = only_argument(*append);
    if (value == nullptr) return false;
    AIPU_ASSIGN_OR_RETURN(Argument argument, read_argument(*value));
    plugin_.arguments.push_back(std::move(argument));
    return true;
  }

  // params = BuilderParams(), tensor = copy.copy(...), tensor.memory_offset().relative_offset = 64
  Result<bool> read_assignment(const ast::Assign& assign, std::string* list) {
    const ast::Expr& target = *assign.targets[0];
    const auto* call = assign.value->as<ast::Call>();
    if (const auto* name = target.as<ast::Name>()) {
      if (call == nullptr) return false;
      if (is_name(*call->callee, "BuilderParams")) {
        *list = name->id;
        return true;
      }
      const ast::Expr* copied = attribute_of(*call->callee, "copy", "copy") == nullptr ? nullptr : only_argument(*call);
      if (copied == nullptr) return false;
      AIPU_ASSIGN_OR_RETURN(Argument argument, read_argument(*copied));
      copies_.insert_or_assign(name->id, std::move(argument));
      return true;
    }
    const auto* field = target.as<ast::Attribute>();
    const ast::Call* place = field == nullptr ? nullptr : method_call(*field->object, "memory_offset");
    const auto* bytes = assign.value->as<ast::IntLiteral>();
    const auto* name = place == nullptr ? nullptr : object_of(*place).as<ast::Name>();
    if (name == nullptr || bytes == nullptr || field->name != "relative_offset") return false;
    const auto copy = copies_.find(name->id);
    return copy != copies_.end() && move_to(copy->second, bytes->value);
  }

  static bool move_to(Argument& argument, int64_t bytes) {
    return std::visit(
        [&](auto& value) {
          if constexpr (requires { value.byte_offset; }) {
            value.byte_offset = bytes;
            return true;
          } else {
            return false;
          }
        },
        argument.value);
  }

  Result<Argument> read_argument(const ast::Expr& expr) const {
    if (const auto* name = expr.as<ast::Name>(); name != nullptr && copies_.contains(name->id))
      return copies_.at(name->id);
    if (const auto* number = expr.as<ast::IntLiteral>()) return Argument{expr.position, number->value};
    if (auto attribute = read_attribute(expr)) return Argument{expr.position, std::move(*attribute)};
    const ast::Expr* object = nullptr;
    if (const ast::Expr* index = index_of(expr, &object)) {
      const auto* number = index->as<ast::IntLiteral>();
      if (number != nullptr && number->value >= 0) {
        const auto place = static_cast<size_t>(number->value);
        if (attribute_of(*object, "sgnode", "inputs") != nullptr)
          return Argument{expr.position, BuilderPlugin::Input{place}};
        if (attribute_of(*object, "sgnode", "outputs") != nullptr)
          return Argument{expr.position, BuilderPlugin::Output{place}};
      }
      const std::string* text = text_of(*index);
      if (text != nullptr && text->starts_with(label_ + "/") && attribute_of(*object, "sgnode", "constants") != nullptr)
        return Argument{expr.position, BuilderPlugin::Constant{text->substr(label_.size() + 1)}};
    }
    return error(
        expr.position,
        fmt::format("an argument is expected: sgnode.inputs[i], sgnode.outputs[i], sgnode.constants[\"{}/...\"]"
                    ", an integer, or nodes[0].params[\"...\"] as the bits of a type",
                    label_));
  }

  // The forms of _plugin_text.py:
  //   int(np.array(P).astype("int8"))
  //   int(np.array(P, "float32").view("uint32"))
  //   int(np.float32(P).view("uint32") >> 16)              a bfloat16
  // with P = nodes[0].params["name"].
  static std::optional<BuilderPlugin::Attribute> read_attribute(const ast::Expr& expr) {
    const auto* call = expr.as<ast::Call>();
    const ast::Expr* value = call == nullptr || !is_name(*call->callee, "int") ? nullptr : only_argument(*call);
    if (value == nullptr) return std::nullopt;
    if (const auto* shift = value->as<ast::Binary>()) {
      const auto* count = shift->rhs->as<ast::IntLiteral>();
      const ast::Call* view = method_call(*shift->lhs, "view");
      if (shift->op != ast::BinaryOp::kShr || count == nullptr || count->value != 16 || view == nullptr)
        return std::nullopt;
      const ast::Call* made = method_call(object_of(*view), "float32");
      const ast::Expr* operand = made == nullptr ? nullptr : only_argument(*made);
      return operand == nullptr ? std::nullopt : named(*operand, "bfloat16");
    }
    if (const ast::Call* cast = method_call(*value, "astype")) {
      const ast::Call* array = method_call(object_of(*cast), "array");
      const ast::Expr* type = only_argument(*cast);
      const ast::Expr* operand = array == nullptr ? nullptr : only_argument(*array);
      if (operand == nullptr || type == nullptr || text_of(*type) == nullptr) return std::nullopt;
      return named(*operand, *text_of(*type));
    }
    const ast::Call* view = method_call(*value, "view");
    const ast::Call* array = view == nullptr ? nullptr : method_call(object_of(*view), "array");
    if (array == nullptr || array->arguments.size() != 2) return std::nullopt;
    const std::string* type = text_of(*array->arguments[1].value);
    return type == nullptr ? std::nullopt : named(*array->arguments[0].value, *type);
  }

  // nodes[0].params["name"]
  static std::optional<BuilderPlugin::Attribute> named(const ast::Expr& expr, std::string dtype) {
    const ast::Expr* object = nullptr;
    const ast::Expr* index = index_of(expr, &object);
    const std::string* name = index == nullptr ? nullptr : text_of(*index);
    const auto* params = name == nullptr ? nullptr : object->as<ast::Attribute>();
    const ast::Expr* nodes = nullptr;
    const ast::Expr* first =
        params == nullptr || params->name != "params" ? nullptr : index_of(*params->object, &nodes);
    const auto* zero = first == nullptr ? nullptr : first->as<ast::IntLiteral>();
    if (zero == nullptr || zero->value != 0 || !is_name(*nodes, "nodes")) return std::nullopt;
    return BuilderPlugin::Attribute{*name, std::move(dtype)};
  }

  std::shared_ptr<const dsl::HostProgram> program_;
  std::map<std::string, const ast::FunctionDef*> methods_;
  std::string label_;  // of the node in the pattern
  std::map<std::string, Argument> copies_;
  BuilderPlugin plugin_;
};

}  // namespace

bool is_builder_plugin(const dsl::HostProgram& program) { return plugin_class(program) != nullptr; }

Result<BuilderPlugin> read_builder_plugin(std::shared_ptr<const dsl::HostProgram> program) {
  return Reader(std::move(program)).read();
}

}  // namespace aipu::kernels::script_op
