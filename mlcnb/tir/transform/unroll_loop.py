"""UnrollLoop: an unrolled loop becomes its iterations, one after the other.

for i in T.unroll(2):                    ->     C[0] = A[0]
    C[i] = A[i]                                 C[1] = A[1]

A nest that would become many statements stays as it is, for the code generator to write out: it
does so thirty times faster, and the loops can be read. Fewer are too many for it where lanes are
loaded from here and there: only of numbers is it seen which of them lie together. Where it
alone decides about branches, LLVM may thread its jumps through them, lose the count of iterations
and say on standard error that it could not do as told: those are written out here too, and each
iteration keeps what it does.

TVM's options and pragmas unroll what is not marked:

with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}}):   loops of 16 steps or fewer
T.attr(0, "pragma_auto_unroll_max_step", 16)                         below it: the same

A step is a statement that does something; a loop has as many as its body times its iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import simplify
from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import EQ, And, PrimExpr, Ramp, Select, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING, bodies, map_bodies, rewrite_statements, substitute, taken
from mlcnb.tir.stmt import For, ForKind, Stmt, flattened, seq

#: a loop of more iterations than this stays a loop
MAX_EXTENT = 256
#: an unrolled loop that would become more statements than this is left to the code generator
MAX_STATEMENTS = 4
#: the same of a loop whose variable says where the lanes of a load lie that is no row of elements,
#: or which of several values is taken: each statement is left with its own
MAX_PICKED = 16
#: the same of a loop whose variable decides about branches, all alone
MAX_DECIDED = 256


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """`func` with short loops of kind UNROLLED and constant extent written out."""
    return func.with_body(rewrite_statements(func.body, _unroll))


def _unroll(n: Node) -> Node | None:
    if not isinstance(n, For) or n.kind is not ForKind.UNROLLED:
        return flattened(n)
    start, extent = p.as_int(n.min), p.as_int(n.extent)
    if start is None or extent is None or not 0 < extent <= MAX_EXTENT:
        return replace(n, kind=ForKind.SERIAL)
    if is_left_early(n.body):
        return replace(n, kind=ForKind.SERIAL)
    count = extent * _statements(n.body)
    is_decided = count <= MAX_DECIDED and _decides(n)
    is_picked = count <= MAX_PICKED and (_picks_by(n) or _chooses(n))
    if count > MAX_STATEMENTS and not is_decided and not is_picked:
        return None
    values = (p.const(start + i, n.loop_var.dtype) for i in range(extent))
    steps = (_iteration(n.body, {n.loop_var: value}) for value in values)
    made = seq(*(rewrite_statements(step, _taken) for step in steps))
    return taken(made) or made


def _iteration(body: Stmt, values: Mapping[Var, PrimExpr]) -> Stmt:
    """The body for these values; what they do not choose goes first, since it is the most of it."""
    return substitute(rewrite(body, lambda _: None, lambda n: _chosen(n, values)), values)


def _chosen(n: Node, values: Mapping[Var, PrimExpr]) -> Node | None:
    """The value that is taken of some; None where that is open."""
    found: Node | None = None
    while isinstance(n, Select):
        test = substitute(n.condition, values)
        if not p.is_const(test):
            break
        found = n = n.false_value if p.is_const(test, 0) else n.true_value
    return found


def _taken(n: Node) -> Node | None:
    """A branch that is decided now, or a loop in the written ones that is written out now."""
    return _unroll(n) if isinstance(n, For) else taken(n)


def _picks_by(loop: For) -> bool:
    """Whether lanes of a load lie at places that are no row, and that the loop's variable moves."""
    return any(
        loop.loop_var in set(walk(index))
        for load in walk(loop.body)
        if isinstance(load, BufferLoad)
        for index in load.indices
        if index.dtype.lanes > 1 and not isinstance(index, Ramp)
    )


def _chooses(loop: For) -> bool:
    """Whether the loop's variable alone decides which of several values is taken."""
    choices = (x.condition for x in walk(loop.body) if isinstance(x, Select))
    return any(undefined_vars(test) == [loop.loop_var] for test in choices)


def _decides(loop: For) -> bool:
    """Whether the loop's variable, with those of unrolled loops in it, decides about a branch; not
    whether a sum begins, which LLVM sees through.
    """
    inside = list(statements(loop.body))
    loops = [x for x in inside if isinstance(x, For) and x.kind is ForKind.UNROLLED]
    known = {loop.loop_var, *(x.loop_var for x in loops)}
    tests = (x.condition for x in inside if isinstance(x, s.IfThenElse))
    used = (undefined_vars(test) for test in tests if not _is_start(test))
    return any(loop.loop_var in test and known.issuperset(test) for test in used)


def _is_start(test: PrimExpr) -> bool:
    """Whether variables have one value each: the first step of a sum, say."""
    if isinstance(test, And):
        return _is_start(test.a) and _is_start(test.b)
    return isinstance(test, EQ)


def _statements(n: Stmt) -> int:
    """How many statements do something, those of unrolled loops counted each time."""
    times = p.as_int(n.extent) if isinstance(n, For) and n.kind is ForKind.UNROLLED else 1
    return (times or 1) * (sum(map(_statements, bodies(n))) or 1)


class UnrollLoop(PrimFuncPass):
    """Write out loops of kind unroll, iteration by iteration.

    Which other ones, and how: `PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}})`;
    a loop of kind unroll is then written out whatever its size.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `unroll_loops`, and `unroll_as_asked` where the context has options."""
        if "tir.UnrollLoop" in ctx.config:
            return unroll_as_asked(func, ctx.get_config("tir.UnrollLoop"))
        return unroll_loops(func)


_STEPS = "pragma_auto_unroll_max_step"
_EXPLICIT = "pragma_unroll_explicit"
_LOCAL = ("local", "local.")


def unroll_as_asked(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """`func` with loops written out, or marked, as the options say.

    Raises:
        PassError: a loop that must be unrolled has no known number of iterations.
    """
    made, _ = _Unroller(func, dict(options)).visit(func.body)
    return func.with_body(made)


@dataclass(frozen=True)
class _Size:
    """steps; how many loops stay loops, and how many are unrolled, one in the other."""

    steps: int = 0
    normal: int = 0
    unrolled: int = 0

    def beside(self, other: _Size) -> _Size:
        """Of two statements, one after the other."""
        deeper = max(self.normal, other.normal), max(self.unrolled, other.unrolled)
        return _Size(self.steps + other.steps, *deeper)


class _Unroller:
    def __init__(self, func: PrimFunc, options: dict[str, Any]) -> None:
        self.func = func
        self.options = options

    def visit(self, n: Any) -> tuple[Any, _Size]:
        """A statement with its loops unrolled, and its size."""
        if isinstance(n, s.For):
            return self.loop(n)
        if isinstance(n, s.AttrStmt) and n.attr_key in (_STEPS, _EXPLICIT):
            return self.pragma(n)
        size = _Size(0 if bodies(n) else 1)

        def child(x: Any) -> Any:
            nonlocal size
            made, below = self.visit(x)
            size = size.beside(below)
            return made

        made = map_bodies(n, child)
        return s.flattened(made) or made, size

    def pragma(self, n: s.AttrStmt) -> tuple[s.Stmt, _Size]:
        """Below a pragma another limit holds; it is done with then."""
        key = "auto_max_step" if n.attr_key == _STEPS else "explicit_unroll"
        before, self.options[key] = self.options[key], int(n.value)
        made = self.visit(n.body)
        self.options[key] = before
        return made

    def loop(self, n: s.For) -> tuple[s.Stmt, _Size]:
        """Written out, marked, or left."""
        body, size = self.visit(n.body)
        extent = p.as_int(simplify(n.extent))
        asked = n.kind is s.ForKind.UNROLLED
        if asked and extent is None:
            raise PassError(
                f"UnrollLoop: loop {n.loop_var.name} has no constant extent",
                where=n,
                root=self.func,
            )
        auto = asked or (
            n.kind is s.ForKind.SERIAL and extent is not None and self.fits(extent, size)
        )
        is_serial = n.kind is s.ForKind.SERIAL and extent is not None
        local = self.options["unroll_local_access"] and is_serial
        auto = auto or (local and indexes_local(n))
        if extent is not None and extent <= self.options["auto_max_extent"] == 1:
            return self.written_out(replace(n, body=body), extent), size
        if not auto or extent is None:
            deeper = _Size(size.steps, size.normal + 1, size.unrolled)
            return replace(n, body=body), deeper
        size = _Size(size.steps * extent, size.normal, size.unrolled + 1)
        if self.options["explicit_unroll"]:
            return self.written_out(replace(n, body=body), extent), size
        return replace(n, body=body, kind=s.ForKind.UNROLLED), size

    def fits(self, extent: int, size: _Size) -> bool:
        """Whether a loop with such a body is unrolled by itself."""
        if size.normal or size.unrolled > self.options["auto_max_depth"]:
            return False
        few = extent * size.steps <= self.options["auto_max_step"]
        return few or extent <= self.options["auto_max_extent"]

    @staticmethod
    def written_out(n: s.For, extent: int) -> s.Stmt:
        """The iterations one after the other."""
        if extent == 0:
            return NOTHING
        values = (p.add(n.min, p.const(i, n.loop_var.dtype)) for i in range(extent))
        return s.seq(*(substitute(n.body, {n.loop_var: value}) for value in values))


def indexes_local(n: s.For) -> bool:
    """True where the loop's variable says which register is used."""
    return any(
        isinstance(x, BufferLoad | s.BufferStore)
        and x.buffer.scope.startswith(_LOCAL)
        and any(v is n.loop_var for i in x.indices for v in walk(i))
        for x in walk(n.body)
    )
