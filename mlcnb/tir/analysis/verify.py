"""Quick checks of whole functions, by TVM's names.

verify_ssa       every variable is defined in one place
verify_memory    code for a GPU touches memory in threads only
is_pure_function a call changes nothing outside
"""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.core.errors import WellFormedError
from mlcnb.core.node import Node, visit, walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import bound_axis
from mlcnb.tir.analysis.structure import allocated_buffers
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies, bound


def verify_ssa(func: PrimFunc) -> bool:
    """True if no variable is defined twice: not even by loops side by side, which otherwise may.

    (`verify_well_formed` asks for less: not twice where the first definition is seen.)
    """
    seen = set(func.params)
    ok = True

    def enter(n: Node) -> None:
        nonlocal ok
        for var in bound(n):
            ok = ok and var not in seen
            seen.add(var)

    visit(func.body, enter)
    return ok


def is_pure_function(func: PrimFunc) -> bool:
    """True if a call changes nothing outside: no parameter is written, no call has an effect."""
    inside = {data for data, *_ in allocated_buffers(func.body)}
    return not any(_has_effect(n, inside) for n in walk(func.body))


def _has_effect(n: Node, inside: set[Var]) -> bool:
    if isinstance(n, s.BufferStore):
        return n.buffer.data not in inside
    return isinstance(n, s.Evaluate) and isinstance(n.value, e.Call) and n.value.op != "tir.ret"


def assert_pure_function(func: PrimFunc) -> bool:
    """True for a pure function.

    Raises:
        WellFormedError: it is not pure.
    """
    if not is_pure_function(func):
        raise WellFormedError("the function is not pure: a call changes memory outside of it")
    return True


def verify_memory(obj: PrimFunc | IRModule) -> bool:
    """True if code for a GPU touches memory in threads only.

    As TVM's: functions with a target that has threads (by their attribute "target") must not load
    or store outside of thread-bound loops; others may.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else [obj]
    return all(_touches_in_threads(f) for f in functions if isinstance(f, PrimFunc))


def _touches_in_threads(func: PrimFunc) -> bool:
    target = str(func.attrs.get("target", "llvm"))
    if not any(word in target for word in ("cuda", "rocm", "metal", "vulkan", "opencl")):
        return True
    return not any(isinstance(n, s.BufferStore) for n in _outside_threads(func.body))


def _outside_threads(n: s.Stmt) -> Iterator[s.Stmt]:
    """The statements that no thread-bound loop stands around."""
    if bound_axis(n) is not None:
        return
    yield n
    for x in bodies(n):
        yield from _outside_threads(x)
