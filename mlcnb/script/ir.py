"""I: the words of modules, for use as `from mlcnb.script import ir as I`.

@I.ir_module
class Module:
    I.module_attrs({"key": 1})
    …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.external import ExternalModule
from mlcnb.ir.global_info import DummyGlobalInfo, VDevice
from mlcnb.script.frames import GlobalInfos, ModuleAttrs, meta_var, named_values
from mlcnb.script.parser.decorators import ir_module, pyfunc

__all__ = [
    "GlobalVar", "dummy_global_info", "external_module", "ir_module", "meta_var", "module_attrs",
    "module_global_infos", "pyfunc", "vdevice",
]  # fmt: skip


def module_attrs(attrs: dict[str, Any]) -> ModuleAttrs:
    """Attributes of the module."""
    return ModuleAttrs(named_values(attrs))


def module_global_infos(infos: dict[str, Any]) -> GlobalInfos:
    """Things the functions of the module share, such as virtual devices."""
    return GlobalInfos(named_values(infos))


def dummy_global_info() -> DummyGlobalInfo:
    """A global info that says nothing."""
    return DummyGlobalInfo()


def vdevice(target: Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A device by name: `I.vdevice("cuda", 0)`; its place in the module is what tensors say."""
    return VDevice(target, vdevice_id, memory_scope)


def external_module(library: str, symbols: Sequence[str]) -> ExternalModule:
    """Functions that a library made, by their names (one of the module's `external_mods`)."""
    return ExternalModule(library, tuple(symbols))
