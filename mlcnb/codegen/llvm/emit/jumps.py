"""Calls that go elsewhere: the end of a loop or of its round, the end of the function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.codegen.llvm.emit import types as t
from mlcnb.codegen.llvm.emit.memory import to_memory
from mlcnb.core.errors import CodegenError
from mlcnb.ir import expr as e

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter


def leave_loop(em: Emitter, x: e.Call) -> str:
    """`break` or `continue` of the innermost loop."""
    word = "break" if x.op == "tir.break_loop" else "continue"
    if not em.f.exits:
        raise CodegenError(f"`{word}` stands in no loop")
    following, end, before = em.f.exits[-1]
    em.f.leave(end if word == "break" else following, before)
    return ""


def leave_function(em: Emitter, x: e.Call) -> str:
    """The result is stored where the caller wants it, and the function ends."""
    if em.in_parallel:
        raise CodegenError("a parallel loop cannot return", hint="make the loop serial")
    if em.result is None or em.result != x.args[0].dtype:
        raise CodegenError(
            f"the function returns {em.result or 'nothing'}, here it is {x.args[0].dtype}",
            hint=f"-> T.{x.args[0].dtype} in its signature",
        )
    value = to_memory(em, em.expr(x.args[0]), em.result)
    em.f.do(f"store {t.memory_type(em.result)} {value}, ptr %result")
    for line in reversed(em.f.cleanup):
        em.f.do(line)
    em.f.do("ret i32 0")
    em.f.place(em.f.label("dead"))
    return ""
