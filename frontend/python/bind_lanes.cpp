// The lanes of the intrinsics and operators for eager Python calls (PySim), from the one C++ table
// (codegen/intrinsics).
//
// Values cross the border as Python objects with the attributes
//   _code    the type, tir::attribute_of_type()
//   _data    values: a C-contiguous NumPy array with one item per lane (bfloat16 as uint16 bit patterns)
//   _memory  pointers: a one-dimensional uint8 array, or None for the null pointer
//   _offset  pointers: in bytes
// and come back as (code, array). Bare Python numbers are literals, NumPy scalars typed values.
#include <pybind11/numpy.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/intrinsics/print_format.h"
#include "frontend/python/bindings.h"
#include "frontend/python/eager_call.h"
#include "kernels/dsl/mask_text.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::python {

namespace py = pybind11;

namespace {

// The bytes of undefined lanes, the same for the whole process.
std::string& undefined_filler() {
  static std::string filler;
  return filler;
}

// Phrases are AssertionErrors but for those that intrinsics.md gives to other exceptions.
[[noreturn]] void throw_phrase(const Status& status) {
  const std::string& text = status.message();
  const auto starts = [&](std::string_view prefix) { return text.compare(0, prefix.size(), prefix) == 0; };
  PyObject* type = PyExc_AssertionError;
  if (starts("Can't broadcast") || starts("Unsupported cast") || starts("Argument type mismatch") ||
      starts("Unsupported specifier") || starts("Specifier ") || starts("The specifier count")) {
    type = PyExc_ValueError;
  } else if (starts("The 2nd arg can't be zero.")) {
    type = PyExc_ZeroDivisionError;
  } else if (status.code() == ErrorCode::kUnsupported) {
    type = PyExc_NotImplementedError;
  } else if (status.code() == ErrorCode::kInternal) {
    type = PyExc_RuntimeError;
  }
  if (starts("Out of bounds")) {
    const py::object out_of_bounds = py::module_::import("aipu.script._pointer").attr("OutOfBounds");
    PyErr_SetString(out_of_bounds.ptr(), text.c_str());
  } else {
    PyErr_SetString(type, text.c_str());
  }
  throw py::error_already_set();
}

template <typename T>
T phrase_or(Result<T> result) {
  if (!result.ok()) throw_phrase(result.status());
  return std::move(result).value();
}

// The NumPy dtype that holds lanes of an element type; made once.
const py::dtype& numpy_dtype(DType dtype) {
  static std::map<DType, py::dtype>* cache = new std::map<DType, py::dtype>();  // outlives the interpreter's end
  const auto found = cache->find(dtype);
  if (found != cache->end()) return found->second;
  const std::string name = dtype == DType::kBF16 ? "uint16" : std::string(dtype_name(dtype));
  return cache->emplace(dtype, py::dtype(name)).first->second;
}

// Made by NumPy itself: pybind11 before 2.12 does not know where NumPy 2 keeps the size of an item, so nothing here may
// ask it (nbytes(), itemsize(), constructors from a dtype).
py::array empty_lanes(tir::Type type) {
  // outlives the interpreter's end
  static const py::object* make = new py::object(py::module_::import("numpy").attr("empty"));
  return py::reinterpret_borrow<py::array>((*make)(type.lanes, numpy_dtype(type.element)));
}

std::byte* writable_bytes(py::array& array) { return static_cast<std::byte*>(array.mutable_data()); }

py::tuple result_of(const tir::LaneValue& value) {
  py::array lanes = empty_lanes(value.type);
  std::memcpy(writable_bytes(lanes), value.bytes.data(), value.bytes.size());
  return py::make_tuple(tir::attribute_of_type(value.type), lanes);
}

struct Attributes {
  py::str code = "_code", data = "_data", memory = "_memory", offset = "_offset";
};
const Attributes& attribute_names() {
  static const Attributes* names = new Attributes();
  return *names;
}

py::object attribute_or_null(py::handle object, const py::str& name) {
  PyObject* found = PyObject_GetAttr(object.ptr(), name.ptr());
  if (found == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

// Reads arguments; keeps the arrays they lie in alive.
class Reader {
 public:
  EagerOperand read(py::handle object) {
    EagerOperand operand;
    PyObject* o = object.ptr();
    if (o == Py_None) return operand;
    if (PyBool_Check(o)) {
      operand.literal = o == Py_True;
    } else if (PyLong_Check(o)) {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
      if (overflow != 0)
        throw py::value_error("an integer literal does not fit 64 bits: " + std::string(py::str(object)));
      operand.literal = int64_t{value};
    } else if (PyFloat_CheckExact(o)) {
      operand.literal = PyFloat_AS_DOUBLE(o);
    } else if (PyUnicode_Check(o)) {
      operand.literal = object.cast<std::string>();
    } else {
      read_typed(object, operand);
    }
    return operand;
  }

 private:
  void read_typed(py::handle object, EagerOperand& operand) {
    const Attributes& names = attribute_names();
    const py::object code = attribute_or_null(object, names.code);
    if (!code) return read_numpy_scalar(object, operand);
    operand.type = tir::type_of_attribute(code.cast<int64_t>());
    if (!operand.type.pointer) {
      py::array array = py::reinterpret_steal<py::array>(PyObject_GetAttr(object.ptr(), names.data.ptr()));
      if (!array) throw py::error_already_set();
      if (array.size() < operand.type.lanes) throw py::value_error("a value has fewer lanes than its type says");
      operand.lanes = static_cast<const std::byte*>(array.data());
      kept_.push_back(std::move(array));
      return;
    }
    operand.memory.offset = object.attr(names.offset).cast<int64_t>();
    const py::object memory = object.attr(names.memory);
    if (memory.is_none()) return;
    py::array array = py::reinterpret_borrow<py::array>(memory);
    operand.memory.bytes = array.size();  // of uint8
    operand.memory.writable = array.writeable();
    operand.memory.data = const_cast<std::byte*>(static_cast<const std::byte*>(array.data()));
    kept_.push_back(std::move(array));
  }

  void read_numpy_scalar(py::handle object, EagerOperand& operand) {
    py::array array =
        py::isinstance<py::array>(object) || py::hasattr(object, "dtype") ? py::array::ensure(object) : py::array();
    const auto dtype = array && array.ndim() == 0 ? parse_dtype(std::string(py::str(array.dtype()))) : std::nullopt;
    if (!dtype || !is_computed(*dtype)) {
      throw py::type_error("a value of the type \"" + std::string(py::str(py::type::of(object).attr("__name__"))) +
                           "\" can't be an operand of the Compass DSL");
    }
    operand.type = tir::Type::scalar(*dtype);
    operand.lanes = static_cast<const std::byte*>(array.data());
    kept_.push_back(std::move(array));
  }

  std::vector<py::array> kept_;
};

const tir::Intrinsic& row_of(const std::string& name) {
  const tir::Intrinsic* row = tir::find_intrinsic(name);
  if (row == nullptr) throw py::attribute_error("module 'tvm.compass.dsl.script' has no attribute '" + name + "'");
  return *row;
}

void add_mask(EagerCall& call, Reader& reader, py::handle mask) {
  if (mask.is_none()) return;
  if (py::isinstance<py::array>(mask)) {
    const auto array = py::array_t<bool, py::array::c_style | py::array::forcecast>::ensure(mask);
    std::vector<bool> bits(array.data(), array.data() + array.size());
    call.set_mask_bits(bits);
    return;
  }
  call.set_mask(reader.read(mask));
}

// (code, array), or None for calls without a result.
py::object call_intrinsic(const std::string& name, const py::tuple& operands, const py::object& mask,
                          const py::object& r, const py::tuple& attributes, int undefined) {
  Reader reader;
  EagerCall call(row_of(name));
  const auto check = [](const Status& status) {
    if (!status.ok()) throw_phrase(status);
  };
  for (const py::handle operand : operands) check(call.add(reader.read(operand)));
  add_mask(call, reader, mask);
  if (!r.is_none()) check(call.set_pass_through(reader.read(r)));
  for (const py::handle attribute : attributes) {
    const auto pair = py::reinterpret_borrow<py::tuple>(attribute);
    call.set_attribute(pair[0].cast<std::string>(), pair[1].cast<int64_t>());
  }
  const tir::Type type = phrase_or(call.infer());
  if (type.is_void()) {
    check(call.run(nullptr));
    return py::none();
  }
  py::array lanes = empty_lanes(type);
  check(call.run(writable_bytes(lanes), static_cast<UndefinedLanes>(undefined), undefined_filler()));
  return py::make_tuple(tir::attribute_of_type(type), std::move(lanes));
}

py::tuple binary(int op, py::handle x, py::handle y) {
  Reader reader;
  return result_of(phrase_or(eager_binary(static_cast<tir::BinaryOp>(op), reader.read(x), reader.read(y))));
}

py::tuple invert(py::handle x) {
  Reader reader;
  return result_of(phrase_or(eager_invert(reader.read(x))));
}

py::array convert(py::handle x, int64_t code) {
  Reader reader;
  const tir::Type type = tir::type_of_attribute(code);
  const tir::LaneValue value = phrase_or(eager_convert(reader.read(x), type));
  py::array lanes = empty_lanes(type);
  std::memcpy(writable_bytes(lanes), value.bytes.data(), value.bytes.size());
  return lanes;
}

// Scalars to the lanes of a vector.
py::array convert_lanes(const py::sequence& items, int64_t code) {
  const tir::Type type = tir::type_of_attribute(code);
  py::array lanes = empty_lanes(type);
  const tir::Type element = type.with_lanes(1);
  size_t offset = 0;
  for (const py::handle item : items) {
    Reader reader;
    const EagerOperand operand = reader.read(item);
    if (operand.is_typed() && !operand.type.is_scalar()) {
      throw_phrase(invalid_argument("The items of a vector literal must be scalars."));
    }
    const tir::LaneValue value = phrase_or(eager_convert(operand, element));
    if (offset + value.bytes.size() > static_cast<size_t>(type.bytes())) throw py::value_error("more items than lanes");
    std::memcpy(writable_bytes(lanes) + offset, value.bytes.data(), value.bytes.size());
    offset += value.bytes.size();
  }
  return lanes;
}

// What S.printf prints. A pointer is printed as "%p": its address means nothing outside of a device.
py::str print_text(const std::string& format, const py::tuple& arguments) {
  Reader reader;
  std::vector<EagerOperand> operands;
  std::vector<tir::Type> types;
  bool pointers = false;
  for (const py::handle argument : arguments) {
    EagerOperand operand = reader.read(argument);
    tir::Type type = operand.type;
    if (std::holds_alternative<bool>(operand.literal)) type = tir::Type::scalar(DType::kBool);
    if (const auto* i = std::get_if<int64_t>(&operand.literal)) type = tir::Type::scalar(dsl::literal_dtype(*i));
    if (std::holds_alternative<double>(operand.literal)) type = tir::Type::scalar(DType::kF32);
    if (std::holds_alternative<std::string>(operand.literal)) type = tir::Type::scalar(DType::kString);
    pointers |= type.pointer;
    types.push_back(type);
    operands.push_back(std::move(operand));
  }
  if (const Status status = tir::check_print_format(format, types); !status.ok()) throw_phrase(status);
  std::string shown = format;
  if (pointers) {
    for (size_t i = 0; i + 1 < shown.size(); ++i) {
      if (shown[i] != '%') continue;
      if (shown[i + 1] == 'p') shown[i + 1] = 's';
      ++i;
    }
    for (EagerOperand& operand : operands) {
      if (operand.type.pointer)
        operand = EagerOperand{.literal = std::string("%p"), .type = {}, .lanes = nullptr, .memory = {}};
    }
  }
  EagerCall call(row_of("printf"));
  const auto check = [](const Status& status) {
    if (!status.ok()) throw_phrase(status);
  };
  check(call.add(EagerOperand{.literal = shown, .type = {}, .lanes = nullptr, .memory = {}}));
  for (const EagerOperand& operand : operands) check(call.add(operand));
  phrase_or(call.infer());
  tir::LaneValue ignored(tir::Type::scalar(DType::kI32));
  check(call.run(ignored.bytes.data()));
  // Characters of %c may be any byte.
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeLatin1(call.printed().data(), static_cast<Py_ssize_t>(call.printed().size()), nullptr));
}

// The code of a type: "int8x32", "fp16", "void". None if the text is none.
py::object type_code(const std::string& text, bool pointer, int scope) {
  auto type = dsl::parse_type_text(text);
  if (!type) return py::none();
  type->pointer = pointer;
  if (pointer) type->scope = static_cast<tir::Scope>(scope);
  return py::int_(tir::attribute_of_type(*type));
}

py::object mask_bits(const std::string& text) {
  const auto bits = dsl::parse_mask_text(text);
  if (!bits) return py::none();
  py::array array = empty_lanes(tir::Type::vector(DType::kBool, static_cast<int>(bits->size())));
  std::transform(bits->begin(), bits->end(), writable_bytes(array),
                 [](bool bit) { return static_cast<std::byte>(bit); });
  return array;
}

// The parameters of a row: (name, kind, required, default, choices).
py::list parameters(const std::string& name) {
  static constexpr const char* kKinds[] = {"operand", "mask", "pass_through", "attribute"};
  py::list rows;
  for (const tir::IntrinsicParam& p : row_of(name).params) {
    py::list choices;
    for (const std::string_view c : p.choices) choices.append(py::str(std::string(c)));
    rows.append(py::make_tuple(std::string(p.name), kKinds[static_cast<size_t>(p.kind)], p.required, p.default_value,
                               std::move(choices)));
  }
  return rows;
}

}  // namespace

void bind_lanes(py::module_& module) {
  module.def(
      "intrinsic_names",
      [] {
        py::list names;
        for (const tir::Intrinsic& row : tir::all_intrinsics()) names.append(std::string(row.name));
        return names;
      },
      "The names of all intrinsics, without the prefix \"S.\".");
  module.def("intrinsic_parameters", &parameters, py::arg("name"),
             "(name, kind, required, default, choices) of each parameter.");
  module.def("call_intrinsic", &call_intrinsic, py::arg("name"), py::arg("operands"), py::arg("mask") = py::none(),
             py::arg("r") = py::none(), py::arg("attributes") = py::tuple(), py::arg("undefined") = 0,
             "Calls a row of the intrinsic table: (code, lanes), or None. The phrases of the language are raised.");
  module.def("binary", &binary, py::arg("op"), py::arg("x"), py::arg("y"),
             "An operator with its operand matching: (code, lanes).");
  module.def("invert", &invert, py::arg("x"), "~x: (code, lanes).");
  module.def("convert", &convert, py::arg("x"), py::arg("code"),
             "A scalar or vector converted as by a store: its lanes.");
  module.def("convert_lanes", &convert_lanes, py::arg("items"), py::arg("code"), "Scalars as the lanes of one vector.");
  module.def("print_text", &print_text, py::arg("format"), py::arg("arguments"), "What S.printf prints.");
  module.def("type_code", &type_code, py::arg("text"), py::arg("pointer") = false, py::arg("scope") = 0,
             "The code of a type text, or None.");
  module.def(
      "type_text", [](int64_t code) { return tir::type_of_attribute(code).pointee().text(); }, py::arg("code"),
      "The text of a type, of a pointer's its pointee.");
  module.def("mask_bits", &mask_bits, py::arg("text"), "The lanes of a mask string, or None if it is not one.");
  module.def(
      "set_undefined_lanes", [](const py::bytes& bytes) { undefined_filler() = bytes; }, py::arg("bytes"),
      "The bytes that undefined lanes get from now on; none: 0.");
  py::dict operators;
  for (int op = 0; op <= static_cast<int>(tir::BinaryOp::kGe); ++op) {
    operators[py::str(std::string(tir::binary_op_symbol(static_cast<tir::BinaryOp>(op))))] = op;
  }
  module.attr("BINARY_OPERATORS") = operators;
  py::dict undefined;
  undefined["none"] = static_cast<int>(UndefinedLanes::kNone);
  undefined["masked_off"] = static_cast<int>(UndefinedLanes::kMaskedOff);
  undefined["all_but_first"] = static_cast<int>(UndefinedLanes::kAllButFirst);
  undefined["all_but_first_two"] = static_cast<int>(UndefinedLanes::kAllButFirstTwo);
  undefined["odd"] = static_cast<int>(UndefinedLanes::kOdd);
  module.attr("UNDEFINED_LANES") = undefined;
  py::dict scopes;
  for (int s = 0; s <= static_cast<int>(tir::Scope::kConstant); ++s) {
    scopes[py::str(std::string(tir::scope_name(static_cast<tir::Scope>(s))))] = s;
  }
  module.attr("SCOPES") = scopes;
}

}  // namespace aipu::python
