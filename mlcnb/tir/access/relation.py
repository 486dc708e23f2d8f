"""Accesses of a loop program as integer relations, exact where indices and conditions are linear.

for i in range(4):                     loops  { [i] : 0 <= i < 4 }
    B[i + 1] = A[i // 2]        ->     A      { [i] -> [floor(i/2)] }   read
                                       B      { [i] -> [i + 1] }        write

A block's axes are looked through to the loops that they are bound to; its predicate, and conditions
around an access, cut the domain. What is not linear (`A[idx[i]]`) may be any element: such a
relation is too large, never too small, and says so (`exact`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.isl import ask, read_map
from mlcnb.arith.presburger import Translator
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.tir.access.read import Reading, read
from mlcnb.tir.access.scope import Access, InBlock, InLoop, Named, Scope, Under
from mlcnb.tir.analysis.variables import match_defines, undefined_vars
from mlcnb.tir.function import PrimFunc


@dataclass(frozen=True, slots=True, eq=False)
class Related(Access):
    """An access as a relation.

    Args:
        relation: an isl map from iterations of the loops to elements of the buffer.
        domain: those iterations.
        exact: relation and domain are not too large.
    """

    relation: Any
    domain: Any
    exact: bool


def accesses_of(func: PrimFunc) -> list[Related]:
    """All reads and writes of a function, in the order of the program."""
    return Relations.of(func).accesses()


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A scope in isl's text.

    text: writes expressions there; conditions: what holds there; dims: the loops around.
    """

    text: Translator
    conditions: tuple[str, ...]
    dims: tuple[str, ...]


class Relations:
    """The accesses of a program as relations.

    reading: the program, read; head: how isl text begins, with the names of the parameters;
    text: writes expressions outside of all loops.
    """

    def __init__(self, reading: Reading, parameters: Iterable[Var], sizes: Iterable[Any]) -> None:
        self.reading = reading
        self.text = Translator()
        for x in dict.fromkeys(parameters):
            self.text.names[x] = f"p{len(self.text.names)}"
        known = tuple(f"{self.text.value(n)} >= 0" for n in sizes if not isinstance(n, e.IntImm))
        self.head = f"[{', '.join(self.text.names.values())}] -> "
        self._known: dict[Scope, Told] = {}
        self._outermost = Told(self.text, known, ())

    @staticmethod
    def of(func: PrimFunc) -> Relations:
        """Those of a function: scalars and symbolic dimensions, no less than 0, are parameters."""
        scalars = [x for x in func.params if x not in func.buffer_map and x.dtype.is_integer]
        for buffer in func.buffers:
            scalars += [x for x in match_defines(buffer) if not x.dtype.is_handle]
        return Relations(read(func), scalars, [n for b in func.buffers for n in b.shape])

    @staticmethod
    def inside(reading: Reading) -> Relations:
        """Those of a part of a program: what comes from outside of it is a parameter."""
        free = undefined_vars(reading.root)
        return Relations(reading, [x for x in free if x.dtype.is_integer], ())

    def accesses(self) -> list[Related]:
        """All of them, in the order of the program."""
        return [self.related(access) for access in self.reading.accesses]

    def related(self, access: Access) -> Related:
        """One access: of an element, of the lanes of a vector, or of any element."""
        around = self.at(access.scope)
        text, buffer = around.text.copy(), access.buffer
        if access.is_masked or self.reading.ends_early:
            text.exact = False
        at = [] if access.indices is None else [text.value(index) for index in access.indices]
        if access.indices is None:
            at = [text.unknown() for _ in buffer.shape]
        elements = [f"e{n}" for n in range(len(at))]
        same = [f"{name} = {x}" for name, x in zip(elements, at, strict=True)]
        bounds = text.where([*around.conditions, *same])
        shape = f"[{', '.join(around.dims)}] -> [{', '.join(elements)}]"
        relation = ask(lambda: read_map(f"{self.head}{{ {shape} : {bounds} }}"))
        if relation is None:
            relation, text.exact = read_map(f"{self.head}{{ {shape} }}"), False
        return Related(
            buffer, access.node, access.indices, access.is_write, access.scope, access.path,
            access.stmt, relation, relation.domain(), text.exact, is_atomic=access.is_atomic,
        )  # fmt: skip

    def at(self, scope: Scope) -> Told:
        """A scope in isl's text."""
        found = self._known.get(scope)
        if found is None:
            around = self._outermost if scope.outer is None else self.at(scope.outer)
            found = self._known[scope] = self._inner(scope, around)
        return found

    def _inner(self, scope: Scope, around: Told) -> Told:
        text, conditions, dims = around.text.copy(), around.conditions, around.dims
        match scope:
            case InLoop(var=var, domain=domain):
                name = f"i{len(dims)}"
                dims = (*dims, name)
                if var is None or domain is None:
                    text.exact = False
                    conditions = (*conditions, f"0 <= {name}")
                else:
                    conditions = (*conditions, _within(text, domain, name))
                    text.names[var] = name
            case Under(condition=condition, holds=holds):
                conditions = (*conditions, text.condition(condition, holds))
            case Named(var=var, value=value) if var.dtype.is_integer:
                text.bind(var, value)
            case InBlock(node=n):
                for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                    name = text.bind(axis.var, value)
                    if axis.var in text.loose:
                        conditions = (*conditions, _within(text, axis.dom, name))
        return Told(text, conditions, dims)


def _within(text: Translator, domain: e.Range, name: str) -> str:
    low = text.value(domain.min)
    return f"{low} <= {name} < {low} + {text.value(domain.extent)}"
