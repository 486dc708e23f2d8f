"""detach_params: the values that an import kept as parameters, taken out of the module."""

from __future__ import annotations

from mlcnb.ir.module import IRModule
from mlcnb.relax.expr import Function
from mlcnb.runtime.tensor import Tensor, tensor


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """Remove the attribute "params" of each function.

    Args:
        mod: a module imported with keep_params_in_input=True.

    Returns:
        The module without them, and for each function that had some (by name) the values of its
        last parameters, in order: `ex(x, *params["main"])`.
    """
    found: dict[str, list[Tensor]] = {}
    functions = {}
    for key, function in mod.of_kind(Function).items():
        if "params" in function.attrs:
            found[key.name_hint] = [tensor(c.data) for c in function.attrs["params"]]
            functions[key] = function.without_attr("params")
    return mod.with_functions(functions), found
