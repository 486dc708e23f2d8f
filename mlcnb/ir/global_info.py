"""Global infos: what the functions of a module share beside each other, such as virtual devices.

@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

A tensor of this module says where it lies by kind and place in that list, `vdevice="cuda:0"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.core import above
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, node


class GlobalInfo(Node):
    """Base of what stands in a module's `global_infos`."""

    __slots__ = ()


@node
class DummyGlobalInfo(GlobalInfo):
    """A global info that says nothing."""


@node
class VDevice(GlobalInfo):
    """A device that a tensor lies on, known by name only: no machine needs to have it.

    target: what kind of device (a Target, or what makes one); vdevice_id: which of that kind;
    memory_scope: which of its memories. Equal by value. As TVM's class of that name.
    """

    target: Any = None
    vdevice_id: int = 0
    memory_scope: str = "global"

    def __post_init__(self) -> None:
        make = above.ask("Target")
        if self.target is not None and not isinstance(self.target, make):
            object.__setattr__(self, "target", make(self.target))

    @property
    def kind(self) -> str:
        """The target's kind, "" where there is no target."""
        return "" if self.target is None else str(self.target.kind)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, VDevice) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def _value(self) -> tuple[str, int, str]:
        return (str(self.target), self.vdevice_id, self.memory_scope)


def vdevice_name(device: VDevice, known: Iterable[Any] = ()) -> str:
    """What a text calls a virtual device: `cuda:1`, its place among those of its kind in a module.

    known: the module's virtual devices; where it is none of them, its own number is the place.
    """
    alike = [d for d in known if isinstance(d, VDevice) and d.kind == device.kind]
    place = alike.index(device) if device in alike else device.vdevice_id
    scope = "" if device.memory_scope == "global" else f":{device.memory_scope}"
    return f"{device.kind}:{place}{scope}"


def find_vdevice(name: str, known: Iterable[Any]) -> VDevice:
    """The virtual device that a text calls `name` ("cuda", "cuda:1", "cuda:0:global").

    Raises:
        MLCError: the name is none, or the module has no such virtual device.
    """
    kind, _, rest = name.partition(":")
    place, _, scope = rest.partition(":")
    if place and not place.isdigit():
        raise MLCError(f"no virtual device is called {name!r}", hint='"cuda:0", or "cuda:0:global"')
    alike = [d for d in known if isinstance(d, VDevice) and d.kind == kind]
    alike = [d for d in alike if scope in ("", d.memory_scope)] if not place else alike
    number = int(place or 0)
    if number >= len(alike):
        raise MLCError(
            f"the module has {len(alike)} virtual devices of kind {kind!r}: there is no {name!r}",
            hint='I.module_global_infos({"vdevice": [I.vdevice("llvm")]}) at the top of the class',
        )
    return alike[number]
