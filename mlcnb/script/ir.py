"""I: the words of modules, for use as `from mlcnb.script import ir as I`.

@I.ir_module
class Module:
    I.module_attrs({"key": 1})
    …
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.expr import GlobalVar
from mlcnb.script.frames import GlobalInfos, Meta, ModuleAttrs, named_values
from mlcnb.script.parser.decorators import ir_module

__all__ = [
    "GlobalVar", "ir_module", "meta_var", "module_attrs", "module_global_infos",
]  # fmt: skip


def module_attrs(attrs: dict[str, Any]) -> ModuleAttrs:
    """Attributes of the module."""
    return ModuleAttrs(named_values(attrs))


def module_global_infos(infos: dict[str, Any]) -> GlobalInfos:
    """Things the functions of the module share, such as virtual devices."""
    return GlobalInfos(named_values(infos))


def meta_var(value: Any) -> Meta:
    """A value that Python computes with; no variable of the program."""
    return Meta(value)
