"""Is every access within its buffer? Proved, or refuted by an iteration that leaves it.

for i in range(16):                A has 16 elements
    B[i] = A[i + 1]          ->    A[16] is read at i = 15: dimension 0 has indices 0..16
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.isl import ask, first_point, is_missing, read_set
from mlcnb.arith.presburger import Translator
from mlcnb.core import display
from mlcnb.core.errors import WellFormedError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Ramp
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import module_pass
from mlcnb.tir.access.read import read
from mlcnb.tir.access.relation import Related, Relations
from mlcnb.tir.access.scope import Access, InLoop
from mlcnb.tir.analysis.solutions import told
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore


@dataclass(frozen=True, slots=True, eq=False)
class OutOfBounds:
    """An access that leaves its buffer, or is not proved to stay in it.

    access: the load or store; axis: the dimension; index: the element; where: the iteration, and
    the symbolic sizes, in words; exact: it happens, for some sizes and scalars; certain: for all
    with which the access is reached. Where it is not proved, there is no index.
    """

    access: Related
    axis: int
    index: tuple[int, ...]
    where: str
    exact: bool
    certain: bool = False

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.exact:
            return "cut the block with T.where, or guard the access with T.if_then_else"
        return "an index that depends on values in memory, or is not linear, cannot be proved"

    @property
    def message(self) -> str:
        """What happens, in one sentence."""
        buffer, axis = self.access.buffer, self.axis
        verb = "written" if self.access.is_write else "read"
        extent = display.text(buffer.shape[axis])
        if not self.exact:
            return (
                f"{display.text(_element(self.access))} is {verb}: its index in dimension {axis} "
                f"is not proved to lie in 0..{extent}"
            )
        at = ", ".join(map(str, self.index))
        place = f" at {self.where}" if self.where else ""
        return f"{buffer.name}[{at}] is {verb}{place}: dimension {axis} has indices 0..{extent}"

    def __repr__(self) -> str:
        return self.message


def _element(access: Related) -> Any:
    """The load or store without its value."""
    n = access.node
    return BufferLoad(n.buffer, n.indices) if isinstance(n, BufferStore) else n


def check_bounds(func: PrimFunc) -> list[OutOfBounds]:
    """The accesses that leave their buffers or may do so; [] proves that none does."""
    known = Relations.of(func)
    found = []
    for access in known.accesses():
        for axis in range(access.buffer.ndim):
            problem = _outside(access, axis, known)
            if problem is not None:
                found.append(problem)
    return found


def open_axes(func: PrimFunc) -> Iterator[tuple[Any, bool, int]]:
    """What is not proved to stay in its buffer: a load, a store or a call, is it written there, the
    dimension. Without islpy as far as own arithmetic sees it.
    """
    if is_missing():
        for access in read(func).accesses:
            for axis in _not_seen(access):
                yield access.node, access.is_write, axis
        return
    for problem in check_bounds(func):
        yield problem.access.node, problem.access.is_write, problem.axis


def _not_seen(access: Access) -> list[int]:
    """The dimensions in which bounds of loops and conditions around do not show that an access
    stays in its buffer.
    """
    shape = access.buffer.shape
    if access.indices is None:
        return list(range(access.buffer.ndim))
    analyzer = Analyzer()
    for scope in access.scope.around():
        if isinstance(scope, InLoop) and scope.var is not None and scope.domain is not None:
            analyzer.bind(scope.var, scope.domain)
    for var, value in access.scope.values:
        analyzer.bind(var, value)
    with analyzer.constraint(*access.scope.conditions):
        return [
            axis
            for axis, (index, extent) in enumerate(zip(access.indices, shape, strict=True))
            if not all(
                analyzer.can_prove(p.greater_equal(x, 0)) and analyzer.can_prove(p.less(x, extent))
                for x in _ends(index)
            )
        ]


def _ends(index: PrimExpr) -> list[PrimExpr]:
    """The first and the last lane of an index; of a number itself."""
    if not isinstance(index, Ramp):
        return [index]
    return [index.base, index.base + index.stride * (index.lanes - 1)]


def _outside(access: Related, axis: int, known: Relations) -> OutOfBounds | None:
    """The first iteration in which an index of an access is not in the buffer."""
    outside = ask(lambda: access.relation.intersect_range(_beyond(access, axis, known)))
    if outside is not None and ask(outside.is_empty):
        return None
    point = first_point(outside.wrap()) if outside is not None and access.exact else None
    if outside is None or point is None:
        return OutOfBounds(access, axis, (), "", False)
    certain = ask(lambda: access.domain.params().is_subset(outside.params())) is True
    parts = (*access.buffer.shape, *getattr(access.node, "indices", ()))
    where = told(point, access.loops, known.text, parts)
    index = point.values[len(access.loops) :]
    return OutOfBounds(access, axis, index, where, True, certain)


def _beyond(access: Related, axis: int, known: Relations) -> Any:
    """{ [e0, e1] : e0 < 0 or e0 >= the extent }"""
    text = Translator(known.text.names)
    extent = text.value(access.buffer.shape[axis])
    elements = ", ".join(f"e{n}" for n in range(access.buffer.ndim))
    condition = text.where([f"e{axis} < 0 or e{axis} >= {extent}"])
    return read_set(f"{known.head}{{ [{elements}] : {condition} }}")


def verify_bounds(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """True if every access of a function, or of all loop functions of a module, is in bounds.

    Raises:
        WellFormedError: one is not, or is not proved to be, and `assert_mode` is True.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else [obj]
    for func in functions:
        problems = check_bounds(func) if isinstance(func, PrimFunc) else []
        if problems and not assert_mode:
            return False
        if problems:
            first = min(problems, key=lambda x: not x.exact)
            raise WellFormedError(
                first.message, where=first.access.node, root=func, hint=first.hint
            )
    return True


def OOBChecker() -> Any:
    """The pass of TVM's name: leaves a module as it is, or refuses it.

    Raises:
        WellFormedError: see `verify_bounds`.
    """

    @module_pass(opt_level=0, name="OOBChecker")
    def check(mod: IRModule, _context: Any) -> IRModule:
        """Refuse accesses that are not proved to be in bounds."""
        verify_bounds(mod)
        return mod

    return check
