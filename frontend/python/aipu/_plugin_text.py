"""The graph-builder plugin of a DSL function, as text. ``aipugb --plugin`` reads the forms that are written here, and
nothing else (kernels/script_op/builder_plugin.h); the vendor's tool chain runs it.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Set

_HEAD = """# Generated: the graph-builder plugin of the DSL function "{entry}".
import copy

import numpy as np
from AIPUBuilder.core import BuilderOpPlugin, BuilderParams, DataLayout, register_optype
from AIPUBuilder.plugin_loader import PluginType, register_plugin

op_type = register_optype("DSL_{entry}")


@register_plugin(PluginType.Builder, 0)
class {class_name}Plugin(BuilderOpPlugin):
    def get_graph_pattern(self):
        return ([("dsl_func", op_type)], [])

    def get_score(self):
        return 10

    def set_target(self, target):
        self.target = target
        return True

    def check_params(self, nodes):
        return True

    def setup(self, sgnode, nodes):
        sgnode.attrs["keeping_layout"] = False
        layouts = [DataLayout.NHWC, DataLayout.NDHWC, DataLayout.Flat]
        sgnode.attrs["valid_input_layouts"] = [layouts for _ in sgnode.inputs]
        sgnode.attrs["valid_output_layouts"] = [layouts for _ in sgnode.outputs]
        return True

    def generate_code_name(self, sgnode, nodes):
        return "op_lib/{entry}.o"

    def generate_kernel(self, sgnode, nodes):
        return "{entry}"

    def generate_params(self, sgnode, nodes):
        params = BuilderParams()
"""


def plugin_text(info: Any, attributes: Set[str], constants: List[str], offsets: Mapping[str, int]) -> str:
    """The plugin for calls in which ``attributes`` (scalars and null pointers) and ``constants`` are given as such, and
    the pointers of ``offsets`` lie that many bytes behind the start of their tensors.
    """
    class_name = "".join(part.capitalize() for part in info.name.split("_") if part)
    lines = [_HEAD.format(entry=info.name, class_name=class_name)]
    inputs = outputs = 0
    for param in info.param_infos:
        if param.name in attributes:
            value = _attribute(param)
        elif param.name in constants:
            value = f'sgnode.constants["dsl_func/{param.name}"]'
        elif param.is_output_tensor:
            value, outputs = f"sgnode.outputs[{outputs}]", outputs + 1
        else:
            value, inputs = f"sgnode.inputs[{inputs}]", inputs + 1
        if param.name in offsets:
            lines.append(f"        tensor = copy.copy({value})\n")
            lines.append(f"        tensor.memory_offset().relative_offset = {offsets[param.name]}\n")
            value = "tensor"
        lines.append(f"        params.append({value})\n")
    lines.append("        return params\n")
    return "".join(lines)


def _attribute(param: Any) -> str:
    """The integer with the bits of an attribute in its type."""
    dtype = str(param.dtype.element_of) if param.is_attr else "uint32"
    given = f'nodes[0].params["{param.name}"]'
    if dtype == "bfloat16":  # NumPy has none: the upper half of a float32
        return f'int(np.float32({given}).view("uint32") >> 16)'
    if param.is_attr and param.dtype.is_floating:
        return f'int(np.array({given}, "{dtype}").view("uint{param.dtype.bits}"))'
    return f'int(np.array({given}).astype("{dtype}"))'
