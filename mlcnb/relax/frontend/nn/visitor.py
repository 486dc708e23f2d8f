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

    def visit_module(self, name: str, node: Module) -> Any:
        """A module at the path `name`; override to replace it."""
        return self.visit(name, node)

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """A ModuleDict at the path `name`."""
        return self.visit(name, node)

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """A ModuleList or Sequential at the path `name`."""
        return self.visit(name, node)

    def visit_param(self, name: str, node: Parameter) -> Any:
        """A parameter at the path `name`."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """An effect at the path `name`."""
        return self.visit(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Visit everything that `node` holds; `node` itself."""
        if isinstance(node, Module):
            for key, part in list(parts_of(node)):
                visit = self._visit_of(part)
                if visit is not None:
                    _put(node, key, visit(f"{name}.{key}" if name else key, part))
        return node

    def _visit_of(self, part: Any) -> Any:
        if isinstance(part, ModuleDict):
            return self.visit_moduledict
        if isinstance(part, ModuleList):
            return self.visit_modulelist
        if isinstance(part, Module):
            return self.visit_module
        if isinstance(part, Parameter):
            return self.visit_param
        return self.visit_effect if isinstance(part, Effect) else None


def _put(holder: Any, key: str, part: Any) -> None:
    if isinstance(holder, ModuleList):
        holder[int(key)] = part
    elif isinstance(holder, ModuleDict):
        holder[key] = part
    else:
        setattr(holder, key, part)
