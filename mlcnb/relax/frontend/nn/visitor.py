"""Mutator: walk a module and put other parts in the place of some.

class ToHalf(nn.Mutator):
    def visit_param(self, name, node):
        return nn.Parameter(node.shape, "float16")

ToHalf().visit("", model)
"""

from __future__ import annotations

from typing import Any

from mlcnb.relax.frontend.nn.module import Module, ModuleDict, ModuleList, parts_of
from mlcnb.relax.frontend.nn.tensor import Effect, Parameter


class Mutator:
    """Visits every part, and sets what a visit returns in its place; as TVM's `nn.Mutator`."""

    def visit_module(self, name: str, node: Any) -> Any:
        """A module at the path `name`; override to replace it. So for each kind of part."""
        return self.visit(name, node)

    visit_moduledict = visit_modulelist = visit_param = visit_effect = visit_module

    def visit(self, name: str, node: Any) -> Any:
        """Visit everything that `node` holds; `node` itself."""
        if isinstance(node, Module):
            for key, part in list(parts_of(node)):
                kind = next((name for k, name in _VISITS if isinstance(part, k)), None)
                if kind is not None:
                    new = getattr(self, kind)(f"{name}.{key}" if name else key, part)
                    _put(node, key, new)
        return node


#: what visits a part: the first whose class it is of
_VISITS = (
    (ModuleDict, "visit_moduledict"), (ModuleList, "visit_modulelist"), (Module, "visit_module"),
    (Parameter, "visit_param"), (Effect, "visit_effect"),
)  # fmt: skip


def _put(holder: Any, key: str, part: Any) -> None:
    if isinstance(holder, ModuleList):
        holder[int(key)] = part
    elif isinstance(holder, ModuleDict):
        holder[key] = part
    else:
        setattr(holder, key, part)
