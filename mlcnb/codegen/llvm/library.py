"""Objects become functions in this process, through LLVM's ORC layer.

Every outside name is resolved here, from the caller's table or from a fixed list of C library
functions; a name found in neither is an error before linking.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from mlcnb.codegen.llvm import half
from mlcnb.codegen.llvm.engine import Compiled, compile_ir
from mlcnb.codegen.llvm.symbols import libc_address
from mlcnb.codegen.llvm.target_machine import Cpu, machines
from mlcnb.core.errors import CodegenError


class Library:
    """Objects linked into this process. Addresses are good for as long as this object lives."""

    def __init__(self, names: Iterable[str], tracker: Any) -> None:
        self._tracker = tracker
        self._address = {name: tracker[name] for name in names}

    def __getitem__(self, name: str) -> int:
        return self._address[name]

    @property
    def names(self) -> tuple[str, ...]:
        """What can be asked for, sorted."""
        return tuple(sorted(self._address))

    def function(self, name: str, restype: Any, *argtypes: Any) -> Any:
        """A ctypes function for `name` that keeps this library alive."""
        function: Any = ctypes.CFUNCTYPE(restype, *argtypes)(self[name])
        function.library = self
        return function


def link(objects: Sequence[Compiled], symbols: Mapping[str, int] | None = None) -> Library:
    """Load compiled modules together; they may call each other.

    Args:
        objects: modules for this CPU; the same `Compiled` may stand there twice.
        symbols: addresses of outside functions and data, before the C library's.

    Raises:
        CodegenError: a name that nobody defines, or that two modules define; code for another CPU.
    """
    import llvmlite.binding as llvm

    objects = list(dict.fromkeys(objects))
    owners = _owners(objects)
    builder = llvm.JITLibraryBuilder()
    for name, address in _resolve(objects, owners, symbols or {}).items():
        builder.import_symbol(name, address)
    for compiled in objects:
        builder.add_object_img(compiled.object)
    for name in owners:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_jit(), f"mlcnb.{next(_library_number)}")
    except RuntimeError as error:
        raise CodegenError(f"linking {', '.join(owners)} failed: {error}") from error
    return Library(owners, tracker)


def _owners(objects: Sequence[Compiled]) -> dict[str, Compiled]:
    """Which module defines each name; refuses foreign code and names defined twice."""
    owners: dict[str, Compiled] = {}
    for compiled in objects:
        if not compiled.cpu.runs_here:
            raise CodegenError(
                f"code for {compiled.cpu.cpu} ({compiled.cpu.triple}) cannot run here",
                hint="its IR, assembly and object can still be read",
            )
        for name in compiled.defines:
            if name in owners:
                raise CodegenError(f"two modules define {name}")
            owners[name] = compiled
    return owners


def _resolve(
    objects: Sequence[Compiled], owners: Mapping[str, Compiled], symbols: Mapping[str, int]
) -> dict[str, int]:
    """Addresses of all outside names."""
    found: dict[str, int] = {}
    for compiled in objects:
        for name in compiled.needs:
            if name in owners:
                continue
            found[name] = symbols.get(name) or libc_address(name) or _half_address(name)
            if not found[name]:
                raise CodegenError(
                    f"undefined symbol {name}, used by {', '.join(compiled.defines)}",
                    hint="a kernel may call the runtime, its own helpers and the C library's "
                    "memory and mathematics functions",
                )
    return found


def _half_address(name: str) -> int:
    """Our own conversion of 16-bit floats, or 0."""
    return _half_library()[name] if name in half.NAMES else 0


@cache
def _half_library() -> Library:
    return link([compile_ir(half.SOURCE)])


_library_number = itertools.count()
_jit_lock = threading.Lock()
_jit_instance: list[Any] = []


def _jit() -> Any:
    """The one ORC engine of the process, made when first needed and never closed."""
    import llvmlite.binding as llvm

    with _jit_lock:
        if not _jit_instance:
            with machines.borrow(Cpu.host(), 3) as machine:
                _jit_instance.append(
                    llvm.create_lljit_compiler(
                        machine, use_jit_link=sys.platform != "win32", suppress_errors=True
                    )
                )
        return _jit_instance[0]
