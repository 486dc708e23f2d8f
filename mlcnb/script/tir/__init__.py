"""T: the words of loop programs, for use as `from mlcnb.script import tir as T`.

    @T.prim_func
    def add_one(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.parallel(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + T.float32(1.0)

Dtypes (`T.float32`), expressions (`T.min`, `T.Select`) and intrinsics (`T.exp`) work outside of a
program too and give expressions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mlcnb.script import build, intrinsics, words
from mlcnb.script.parser.decorators import prim_func
from mlcnb.script.parser.macro import inline, macro
from mlcnb.script.tir.dtypes import DTYPES, vector_dtype
from mlcnb.script.tir.exprs import EXPRS
from mlcnb.script.tir.statements import (
    Assert,
    Buffer,
    LetStmt,
    alloc_buffer,
    alloc_local,
    alloc_shared,
    allocate,
    allocate_const,
    attr,
    axis,
    block,
    block_attr,
    decl_buffer,
    env_thread,
    evaluate,
    func_attr,
    grid,
    init,
    launch_thread,
    match_buffer,
    parallel,
    reads,
    serial,
    thread_binding,
    unroll,
    vectorized,
    where,
    writes,
)
from mlcnb.script.words import LET

let = LET
sblock, sblock_attr, sblock_alloc_buffer = block, block_attr, alloc_buffer
buffer = Buffer

__all__ = [
    "Assert", "Buffer", "LetStmt", "alloc_buffer", "alloc_local", "alloc_shared", "allocate",
    "allocate_const", "attr", "axis", "block", "block_attr", "buffer", "decl_buffer",
    "env_thread", "evaluate", "func_attr", "grid", "init", "inline", "launch_thread", "let",
    "macro", "match_buffer", "parallel", "prim_func", "reads", "sblock", "sblock_alloc_buffer",
    "sblock_attr", "serial", "thread_binding", "unroll", "vectorized", "where", "writes",
]  # fmt: skip


def _intrinsic(name: str) -> Callable[..., Any]:
    def build_call(*args: Any, dtype: Any = None) -> Any:
        return build.intrinsic(name, *args, dtype=dtype)

    build_call.__name__ = build_call.__qualname__ = name
    build_call.__doc__ = f"The intrinsic `tir.{name}`; its dtype follows from its arguments."
    return build_call


def __getattr__(name: str) -> Any:
    found = DTYPES.get(name) or EXPRS.get(name) or vector_dtype(name)
    if found is None and name in intrinsics.names():
        found = _intrinsic(name)
    if found is None:
        if name.startswith("__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        message, hint = words.unknown(sys.modules[__name__], name)
        raise AttributeError(message if hint is None else f"{message}; {hint}", name=name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *DTYPES, *EXPRS, *intrinsics.names()})
