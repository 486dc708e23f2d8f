"""I: the frame of a module, for the IRBuilder."""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict
from mlcnb.ir.attrs import frozen
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.script.ir_builder.builder import Frame, IRBuilder, find


class ModuleFrame(Frame):
    """`with I.ir_module():`"""

    title = "module"

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, Any] = {}
        self.attrs: dict[str, Any] = {}

    def leave(self) -> None:
        """The functions together."""
        made = IRModule(FrozenDict(self.functions), frozen(self.attrs))
        IRBuilder.current().finish(made)


def finish_function(made: Any, name: str | None) -> None:
    """A function is done: it is one of the module around it, or the result."""
    builder = IRBuilder.current()
    around = builder.frames[-1] if builder.frames else None
    if isinstance(around, ModuleFrame):
        around.functions[GlobalVar(name or "main")] = made
    else:
        builder.finish(made)


def ir_module() -> ModuleFrame:
    """A module: functions that are built inside are its own."""
    return ModuleFrame()


def module_attrs(attrs: dict[str, Any]) -> None:
    """Attributes of the module."""
    find(ModuleFrame, "I.module_attrs").attrs.update(attrs)
