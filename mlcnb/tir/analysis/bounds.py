"""Is every access within its buffer? Proved, or refuted by an iteration that leaves it.

for i in range(16):                A has 16 elements
    B[i] = A[i + 1]          ->    A[16] is read at i = 15: dimension 0 has indices 0..16
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlcnb.arith.presburger import Translator, ask, context
from mlcnb.core import display
from mlcnb.core.display import Shown
from mlcnb.core.errors import WellFormedError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.module import IRModule
from mlcnb.tir.analysis.dependences import Iteration, coordinates, iteration_of
from mlcnb.tir.analysis.relations import Access, Collector
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore, For


@dataclass(frozen=True, slots=True, eq=False)
class OutOfBounds(Shown):
    """An access that leaves its buffer, or is not proved to stay in it.

    access: the load or store; axis: the dimension; index: the index there; iteration: of the loops
    around it; sizes: the symbolic dimensions for which it happens; exact: it happens. Where it is
    not proved, there is no index and no iteration.
    """

    access: Access
    axis: int
    index: tuple[int, ...]
    iteration: Iteration
    sizes: Iteration
    exact: bool

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
        values = {**self.sizes, **self.iteration}
        when = ", ".join(f"{name} = {value}" for name, value in values.items())
        place = f" at {when}" if when else ""
        return f"{buffer.name}[{at}] is {verb}{place}: dimension {axis} has indices 0..{extent}"

    def __repr__(self) -> str:
        return self.message


def _element(access: Access) -> Any:
    """The load or store without its value."""
    n = access.node
    return BufferLoad(n.buffer, n.indices) if isinstance(n, BufferStore) else n


def check_bounds(func: PrimFunc) -> list[OutOfBounds]:
    """The accesses that leave their buffers or may do so; [] proves that none does."""
    collector = Collector(func)
    collector.visit(func.body)
    found = []
    for access in collector.found:
        for axis in range(access.buffer.ndim):
            problem = _outside(access, axis, collector)
            if problem is not None:
                found.append(problem)
    return found


def _outside(access: Access, axis: int, known: Collector) -> OutOfBounds | None:
    """The first iteration in which an index of an access is not in the buffer."""
    outside = ask(lambda: access.relation.intersect_range(_beyond(access, axis, known)))
    if outside is not None and ask(outside.is_empty):
        return None
    point = None
    if outside is not None and access.exact:
        point = ask(lambda: outside.wrap().lexmin().sample_point())
    if point is None:
        return OutOfBounds(access, axis, (), {}, {}, False)
    values, count = coordinates(point), len(access.loops)
    iteration = iteration_of(access, values[:count])
    return OutOfBounds(access, axis, values[count:], iteration, _sizes(point, access, known), True)


def _beyond(access: Access, axis: int, known: Collector) -> Any:
    """{ [e0, e1] : e0 < 0 or e0 >= the extent }"""
    import islpy as isl

    text = Translator(known.text.names)
    extent = text.value(access.buffer.shape[axis])
    elements = ", ".join(f"e{n}" for n in range(access.buffer.ndim))
    condition = text.where([f"e{axis} < 0 or e{axis} >= {extent}"])
    return isl.Set.read_from_str(context(), f"{known.head}{{ [{elements}] : {condition} }}")


def _sizes(point: Any, access: Access, known: Collector) -> Iteration:
    """The values of the symbolic dimensions that loops, indices or the buffer depend on."""
    import islpy as isl

    parts = [*access.buffer.shape, *getattr(access.node, "indices", ())]
    parts += [x for loop in access.loops if isinstance(loop, For) for x in (loop.min, loop.extent)]
    used = {n.name for part in parts for n in walk(part) if isinstance(n, e.Var)}
    names = {name: var.name for var, name in known.text.names.items()}
    space, found = point.get_space(), {}
    for n in range(space.dim(isl.dim_type.param)):
        name = names[space.get_dim_name(isl.dim_type.param, n)]
        if name in used:
            found[name] = int(point.get_coordinate_val(isl.dim_type.param, n).to_python())
    return found


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
                first.message, where=first.access.node, root=func, hint=_hint(first)
            )
    return True


def _hint(problem: OutOfBounds) -> str:
    if problem.exact:
        return "cut the block with T.where, or guard the access with T.if_then_else"
    return "an index that depends on values in memory, or is not linear, cannot be proved"
