"""What ONNX Runtime has kernels for on CPUs, and what of it random graphs have not had."""

import collections
import functools

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as internals

DOMAINS = ("", "ai.onnx.ml")


def full_name(domain, op):
    return f"{domain}.{op}" if domain else op


def newest_schemas():
    found = {}
    for schema in onnx.defs.get_all_schemas():  # the newest of each
        if schema.domain in DOMAINS and not schema.deprecated:
            found[full_name(schema.domain, schema.name)] = schema
    return found


@functools.cache
def kernels():
    """By operator: the kernels of the provider for CPUs."""
    found = collections.defaultdict(list)
    for kernel in internals.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            found[full_name(kernel.domain, kernel.op_name)].append(kernel)
    return found


def element_types(schema, of_op):
    """The types of tensors that the first operand may have (of the result, if there is none) by schema and kernels."""
    values = list(schema.inputs) or list(schema.outputs)
    allowed = {text for text in values[0].types if text.startswith("tensor(")}
    variable = values[0].type_str
    supported = set()
    for kernel in of_op:
        supported |= set(kernel.type_constraints.get(variable, allowed))
    return allowed & supported if of_op else set()


def coverage(made):
    """``made``: how often each pair of an operator and an element type came, as a Counter of "op type"."""
    operators, pairs = collections.Counter(), set()
    for key, count in made.items():
        op, _, kind = key.partition(" ")
        operators[op] += count
        pairs.add((op, kind))
    schemas, known = newest_schemas(), kernels()
    wanted = {(name, kind) for name, schema in schemas.items() for kind in element_types(schema, known.get(name, []))}
    missing = collections.defaultdict(list)
    for name, kind in sorted(wanted - pairs):
        missing[name].append(kind.removeprefix("tensor(").removesuffix(")"))
    return {
        "operators": len(schemas),
        "operators made": sum(name in operators for name in schemas),
        "never made, with kernels": sorted(n for n in schemas if n in known and n not in operators),
        "never made, no kernels": sorted(n for n in schemas if n not in known and n not in operators),
        "others made": sorted(name for name in operators if name not in schemas),
        "types with kernels": len(wanted),
        "types made": len(wanted & pairs),
        "types never made": missing,
    }


def made_by(group):
    """A Counter of "op type" of a group's nodes, those of sub-graphs without a type."""
    made = collections.Counter()
    for proto in group.protos:
        first = next(iter([name for name in proto.input if name] or [name for name in proto.output if name]))
        made[f"{full_name(proto.domain, proto.op_type)} {text_of(group.types.get(first))}"] += 1
        for attribute in proto.attribute:
            made.update(f"{full_name(node.domain, node.op_type)} " for node in attribute.g.node)
    return made


def text_of(type_proto):
    if type_proto is not None and type_proto.WhichOneof("value") == "optional_type":
        type_proto = type_proto.optional_type.elem_type
    if type_proto is None or type_proto.WhichOneof("value") != "tensor_type":
        return ""
    name = onnx.helper.tensor_dtype_to_string(type_proto.tensor_type.elem_type)  # TensorProto.FLOAT
    return f"tensor({name.split('.')[1].lower()})"
