"""Arguments worth trying: for each primitive, at one block or loop.

    split(loop, factors)          [None, 2], [None, 4], … : the divisors of the extent
    reorder(*loops)               the loop in exchange with each other one of its nest
    compute_at(block, loop)       the block under every loop; every block under the loop
    bind(loop, thread_axis)       blockIdx.x, threadIdx.x, …

Made from the signatures, and from what a primitive says it takes (`@does(tries=…)`). A parameter
that takes anything (a layout, a dtype, a key) makes its primitive one that asks the caller: `free`
names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from mlcnb.tir.schedule.record.facts import Tries
from mlcnb.tir.schedule.record.site import Named, Site
from mlcnb.tir.schedule.record.step import Primitive

#: calls of one primitive that are tried
MOST = 24


@dataclass(frozen=True)
class Call:
    """A call: the values of the parameters that are given, by name."""

    primitive: Primitive
    given: dict[str, Any]

    @property
    def text(self) -> str:
        """The call as Python text that runs."""
        parts = []
        for name, value in self.given.items():
            if name == self.primitive.varargs:
                parts += [_text(v) for v in value]
            else:
                plain = not self.primitive.varargs and isinstance(value, Named)
                parts.append(_text(value) if plain else f"{name}={_text(value)}")
        return f"sch.{self.primitive.name}({', '.join(parts)})"

    def on(self, sch: Any, handle: Callable[[Any], Any]) -> Any:
        """Do it on a schedule, with what `handle` gives in place of nodes."""
        given = {name: _handles(value, handle) for name, value in self.given.items()}
        spread = given.pop(self.primitive.varargs) if self.primitive.varargs else ()
        return getattr(sch, self.primitive.name)(*spread, **given)


def _handles(value: Any, handle: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_handles(v, handle) for v in value]
    return handle(value.node) if isinstance(value, Named) else value


def _text(value: Any) -> str:
    if isinstance(value, Named):
        return value.text
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def missing_argument(primitive: Primitive) -> str | None:
    """The parameter that only the caller can give; None where all can be tried."""
    for name, q in primitive.signature.parameters.items():
        known = _kind(str(q.annotation)) or _tries(primitive, name)
        if q.default is q.empty and q.kind is not q.VAR_POSITIONAL and not known:
            return name
    return None


def calls(primitive: Primitive, site: Site) -> Iterator[Call]:
    """The calls of a primitive that have the target among their arguments."""
    if primitive.varargs:
        if site.is_loop:
            found = _values(primitive, primitive.varargs, site)
            yield from (Call(primitive, {primitive.varargs: v}) for v in found)
        return
    wanted = [n for n, q in primitive.signature.parameters.items() if _takes(q, site)]
    seen = set()
    for own in wanted:
        for call in islice(_with(primitive, site, own), MOST):
            if call.text not in seen:
                seen.add(call.text)
                yield call


def fits(primitive: Primitive, site: Site) -> bool:
    """True if one of the arguments of a primitive may be the target."""
    return any(_takes(q, site) for q in primitive.signature.parameters.values())


def _tries(primitive: Primitive, name: str) -> Tries | None:
    return primitive.facts.tries.get(name) or _VALUES.get(name)


def _values(primitive: Primitive, name: str, site: Site) -> Iterable[Any]:
    """The values to try of a parameter that takes neither a loop nor a block."""
    found = _tries(primitive, name) or ()
    return found(site) if callable(found) else found


def _takes(q: Any, site: Site) -> bool:
    kind = _kind(str(q.annotation))
    return kind == "any" or kind == ("loop" if site.is_loop else "block")


def _kind(annotation: str) -> str | None:
    """What a parameter takes: a loop, a block, any of them; None for anything else."""
    kinds = {kind.rpartition(".")[2] for kind in annotation.split(" | ")}  # s.For is For
    if {"Block", "For"} <= kinds:
        return "any"
    if "For" in kinds:
        return "loop"
    return "block" if "Block" in kinds else None


def _with(primitive: Primitive, site: Site, own: str) -> Iterator[Call]:
    """Calls whose parameter `own` is the target."""
    names, values = [], []
    for name, q in primitive.signature.parameters.items():
        if name == own:
            found: Iterable[Any] = [site.target]
        elif q.default is not q.empty:
            continue
        elif _kind(str(q.annotation)) == "loop":
            found = site.loops
        elif _kind(str(q.annotation)) == "block":
            found = [b for b in site.blocks if b.node is not site.tree.root]
        else:
            found = _values(primitive, name, site)
        names.append(name)
        values.append(list(found))
    for chosen in product(*values):
        yield Call(primitive, dict(zip(names, chosen, strict=True)))


def _indices(regions: str) -> Callable[[Site], Iterable[int]]:
    return lambda site: range(len({r.buffer for r in getattr(site.block, regions)}))


#: a parameter's name -> the values to try, where a primitive says nothing of its own
_VALUES: dict[str, Tries] = {
    "storage_scope": ("global", "local", "shared"),
    "read_buffer_index": _indices("reads"),
    "write_buffer_index": _indices("writes"),
    "buffer_index": _indices("writes"),
}
