"""When the tensors of a function live: from the step that makes them to their last use.

    step 0  lv  = conv(x)      lv   [0, 0..1]
    step 1  lv1 = relu(lv)     lv1  [1, 1..2]
    step 2  gv  = exp(lv1)     gv   is returned: memory of its own

Views (reshape) and tuples stand for the tensors that they show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.ir.expr import IntImm
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.memory import ALIGNMENT
from mlcnb.relax.analysis.struct_info import nbytes, substitute
from mlcnb.relax.analysis.variables import free_vars, leaves, value_uses
from mlcnb.relax.expr import Constant, Function, Tuple, TupleGetItem, Var
from mlcnb.relax.inplace import written_over
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo

#: kinds of a planned tensor
ARENA, OUTPUT, PARAM, CONSTANT, DYNAMIC = "arena", "output", "param", "constant", "dynamic"


@dataclass(slots=True, eq=False)
class PlannedTensor:
    """A tensor and where it lies.

    name: the variable's (with `.i` for a field of a tuple); kind: `arena`, `output` (returned: not
    in the arena), `param`, `constant`, or `dynamic` (size unknown: allocated at run time);
    nbytes: its size, aligned; first, last: the steps of its life; offset: in the arena, in bytes;
    shares: the tensor whose place it takes over; inside: the tensor that it is a part of, `shift`
    bytes from its start.

    `info` has the tensor's shape and dtype. Fields only: nothing is checked, nothing raised.
    """

    name: str
    info: Any
    kind: str
    nbytes: int = 0
    first: int = 0
    last: int = 0
    offset: int = -1
    shares: PlannedTensor | None = None
    inside: PlannedTensor | None = None
    shift: int = 0

    @property
    def root(self) -> PlannedTensor:
        """The tensor whose place this one lies in: its own, or that of another."""
        found = self
        while (around := found.shares or found.inside) is not None:
            found = around
        return found

    @property
    def distance(self) -> int:
        """Bytes from the start of `root`."""
        found, bytes_before = self, 0
        while (around := found.shares or found.inside) is not None:
            found, bytes_before = around, bytes_before + found.shift
        return bytes_before

    def lives_with(self, other: PlannedTensor) -> bool:
        """True where both hold values at the same time."""
        return self.first <= other.last and other.first <= self.last


class Lifetimes:
    """First and last step of every tensor; views and tuples stand for what they hold."""

    def __init__(self, dims: Mapping[PrimVar, int]) -> None:
        self.dims = {v: IntImm(v.dtype, int(n)) for v, n in dims.items()}
        self.places: dict[Var, Any] = {}
        self.tensors: list[PlannedTensor] = []
        self.steps = 0
        #: dtype and dimensions of a struct info -> the same of these sizes, and its bytes
        self.filled: dict[Any, tuple[Any, int | None]] = {}

    def new(self, name: str, info: Any, kind: str, step: int) -> Any:
        """Places for a value that is made at a step."""
        if isinstance(info, TupleStructInfo):
            parts = enumerate(info.fields)
            return tuple(self.new(f"{name}.{i}", f, kind, step) for i, f in parts)
        if not isinstance(info, TensorStructInfo):
            return ()
        info, size = self.of_these_sizes(info)
        if size is None and kind == ARENA:
            kind = DYNAMIC
        tensor = PlannedTensor(name, info, kind, aligned(size or 0), step, step)
        self.tensors.append(tensor)
        return tensor

    def of_these_sizes(self, info: TensorStructInfo) -> tuple[Any, int | None]:
        """A struct info with these sizes put in, and its bytes; None where they are not known."""
        dims = (
            None if info.dims is None else [d.value if type(d) is IntImm else d for d in info.dims]
        )
        key = None if dims is None else (info.dtype, info.vdevice, *dims)
        found = self.filled.get(key) if key is not None else None
        if found is None:
            made = substitute(info, self.dims)
            found = made, nbytes(made)
            if key is not None:
                self.filled[key] = found
        return found

    def use(self, place: Any, step: int) -> None:
        """The value is read at a step."""
        for tensor in flat(place):
            tensor.last = max(tensor.last, step)

    def of(self, expr: Any) -> Any:
        """The places of a leaf."""
        if isinstance(expr, Tuple):
            return tuple(map(self.of, expr.fields))
        return self.places.get(expr, ()) if isinstance(expr, Var) else ()

    def value(self, var: Var, value: Any, step: int) -> Any:
        """The places of what is bound: those of a view's operand, or new ones."""
        if isinstance(value, TupleGetItem):
            whole = self.of(value.tuple_value)
            return whole[value.index] if whole else ()
        if isinstance(value, Var | Tuple | Constant):
            return self.of(value)
        if isinstance(value, Function):
            return tuple(map(self.of, free_vars(value)))  # it reads them where it is called
        if called(value).view and isinstance(value.args[0], Var):
            return self.of(value.args[0])
        over = written_over(value)
        if isinstance(over, Var):
            return self.of(over)
        return self.new(var.name_hint, var.struct_info, ARENA, step)


def lifetimes(func: Function, dims: Mapping[PrimVar, int]) -> Lifetimes:
    """The tensors of a function with the steps of their lives; those returned are outputs."""
    lives = Lifetimes(dims)
    for param in func.params:
        lives.places[param] = lives.new(param.name_hint, param.struct_info, PARAM, 0)
    bindings = func.body.bindings
    for step, binding in enumerate(bindings):
        place = lives.value(binding.var, binding.value, step)
        if isinstance(binding.value, TupleGetItem):
            lives.use(place, step)  # the other fields are not read
        else:
            for leaf in value_uses(binding.value):
                lives.use(lives.of(leaf), step)
        lives.places[binding.var] = place
    for leaf in leaves(func.body.body):
        for tensor in flat(lives.of(leaf)):
            tensor.last = len(bindings)
            tensor.kind = OUTPUT if tensor.kind in (ARENA, DYNAMIC) else tensor.kind
    lives.steps = len(bindings)
    return lives


def flat(place: Any) -> Iterator[PlannedTensor]:
    """The tensors of a place, tuples opened."""
    if isinstance(place, PlannedTensor):
        yield place
    else:
        for part in place:
            yield from flat(part)


def aligned(count: int) -> int:
    """`count` rounded up to the alignment."""
    return (count + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
