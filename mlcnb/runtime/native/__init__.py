"""The part of the runtime that is native code.

It is written as LLVM IR, compiled once and kept in the cache:

    pool.py      mlcnb_parallel_for and its workers
    walk.py      mlcnb_run_graph, and Ctrl-C
    placement.py workers wake up off the caller's core
    system.py    mutex, condition variables and clock of each operating system; denormal numbers
                 are zero while a program runs
    fields.py    names for the fields of what they read and write

The flag `i32 mlcnb_cancel` is shared by all: where it is not 0, kernels and loops stop as soon as
they can, with the status CANCELLED. In `i64 mlcnb_fault[2]` a kernel leaves the index and the
extent of a check that failed (`codegen.llvm.emit.status`).
"""

from __future__ import annotations

import ctypes
import sys
import threading
from functools import cache
from typing import Any

from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.library import Library, link
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.runtime.native import placement, pool, system, walk

#: the status of what was told to stop
CANCELLED = 1

_lock = threading.Lock()


def source(arch: str, platform: str) -> str:
    """The IR for an architecture (`x86_64`, `aarch64`, ...) and a `sys.platform`."""
    return (
        pool.source(arch, CANCELLED)
        + walk.source(CANCELLED, guard=platform != "win32")
        + system.source(platform, arch)
        + placement.source(platform, pool.MAX_THREADS)
    )


def library() -> Library:
    """The native runtime, compiled once per machine and linked once per process."""
    with _lock:
        return _library()


def is_loaded() -> bool:
    """Whether `library` has been called in this process."""
    return _library.cache_info().currsize > 0


@cache
def _library() -> Library:
    ir = source(Cpu.host().arch, sys.platform)
    compiled = compile_ir(ir, store=disk.user_store())
    outside = {name: address for name in compiled.needs if (address := _system_address(name))}
    return link([compiled], outside)


def _system_address(name: str) -> int:
    """Where the operating system's own libraries have a function."""
    libraries: Any = ctypes.CDLL("kernel32" if sys.platform == "win32" else None)
    if not hasattr(libraries, name):
        return 0
    return ctypes.cast(getattr(libraries, name), ctypes.c_void_p).value or 0
