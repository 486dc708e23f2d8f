"""Arguments worth trying: for each primitive, at one block or loop.

    split(loop, factors)          [None, 2], [None, 4], … : the divisors of the extent
    reorder(*loops)               the loop in exchange with each other one of its nest
    compute_at(block, loop)       the block under every loop; every block under the loop
    bind(loop, thread_axis)       blockIdx.x, threadIdx.x, …

Made from the signatures: what a parameter is called and what it is says which values it takes. A
parameter that takes anything (a layout, a dtype, a key) makes its primitive one that asks the
caller: `free` names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.function import TensorIntrin
from mlcnb.tir.schedule.primitives.bind import THREAD_AXES
from mlcnb.tir.schedule.record.step import Primitive
from mlcnb.tir.schedule.record.tree import Tree

#: tile sizes that are tried where nothing divides better
TILES = (2, 4, 8, 16, 32)
#: values of one parameter, and calls of one primitive, that are tried
MOST = 24
SCOPES = ("global", "local", "shared")


@dataclass(frozen=True)
class Named:
    """A loop or block and the Python text that gets it."""

    node: s.For | s.Block
    text: str


@dataclass
class Site:
    """One block or loop of a function, and what else is there.

    blocks, loops: everything in the function that has a name.
    """

    tree: Tree
    target: Named
    blocks: list[Named] = field(default_factory=list)
    loops: list[Named] = field(default_factory=list)

    @staticmethod
    def of(tree: Tree, node: s.For | s.Block) -> Site:
        """The site of a node."""
        blocks = [Named(b, json.dumps(b.name_hint)) for b in tree.blocks]
        found: dict[s.For, Named] = {}
        for block in tree.blocks:
            text = f"sch.get_loops({json.dumps(block.name_hint)})"
            for n, loop in enumerate(tree.loops(block)):
                found.setdefault(loop, Named(loop, f"{text}[{n}]"))
        loops = list(found.values())
        named = (x for x in (*blocks, *loops) if x.node is node)
        target = next(named, None) or Named(node, "loop")  # a loop around no block has no name
        return Site(tree, target, blocks, loops)

    @property
    def is_loop(self) -> bool:
        """True for a loop, False for a block."""
        return isinstance(self.target.node, s.For)

    @property
    def block(self) -> s.Block:
        """The block itself, or the first one in the loop."""
        node = self.target.node
        if isinstance(node, s.Block):
            return node
        return next(iter(self.tree.blocks_under(node)), self.tree.root)

    @property
    def nest(self) -> list[Named]:
        """The other loops of the loop's own nest."""
        around = self.tree.loops(self.block)
        return [x for x in self.loops if x.node in around and x.node is not self.target.node]


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
        known = _kind(str(q.annotation)) or _values(primitive, name)
        if q.default is q.empty and q.kind is not q.VAR_POSITIONAL and not known:
            return name
    return None


def calls(primitive: Primitive, site: Site) -> Iterator[Call]:
    """The calls of a primitive that have the target among their arguments."""
    if primitive.varargs:
        if site.is_loop:
            yield from (Call(primitive, {primitive.varargs: v}) for v in _several(primitive, site))
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


def _values(primitive: Primitive, name: str) -> Callable[[Site], Iterable[Any]] | None:
    return _SPECIAL.get((primitive.name, name)) or _VALUES.get(name)


def _takes(q: Any, site: Site) -> bool:
    kind = _kind(str(q.annotation))
    return kind == "any" or kind == ("loop" if site.is_loop else "block")


def _kind(annotation: str) -> str | None:
    """What a parameter takes: a loop, a block, any of them; None for anything else."""
    kinds = set(annotation.split(" | "))
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
            take = _values(primitive, name)
            found = take(site) if take is not None else ()
        names.append(name)
        values.append(list(found))
    for chosen in product(*values):
        yield Call(primitive, dict(zip(names, chosen, strict=True)))


def _several(primitive: Primitive, site: Site) -> Iterator[list[Named]]:
    """Lists of loops with the target first or last: a chain to fuse, two to exchange or merge."""
    if primitive.name == "fuse":
        around = [x for x in site.loops if x.node in site.tree.loops(site.block)]
        start = next((n for n, x in enumerate(around) if x.node is site.target.node), 0)
        yield from (around[start:stop] for stop in range(start + 2, len(around) + 1))
    elif primitive.name == "merge":
        for other in site.loops:
            if other not in site.nest and other.node is not site.target.node:
                yield [site.target, other]
    else:
        for other in site.nest:
            outer = site.tree.inside(site.target.node, other.node)
            yield [site.target, other] if outer else [other, site.target]


# -- values of parameters -----------------------------------------------------------------


def _factors(site: Site) -> list[list[Any]]:
    extent = p.as_int(site.target.node.extent) if isinstance(site.target.node, s.For) else None
    if extent is None:
        return [[None, n] for n in TILES]
    tiles = [n for n in range(2, extent) if extent % n == 0] or [n for n in TILES if n < extent]
    return [[None, n] for n in tiles[:MOST]]


def _pieces(site: Site) -> list[list[Any]]:
    return [[n, None] for _, n in _factors(site)]


def _indices(regions: str) -> Callable[[Site], Iterable[int]]:
    return lambda site: range(len({r.buffer for r in getattr(site.block, regions)}))


def _buffers(site: Site) -> list[tuple[str, int]]:
    reads, writes = site.block.reads, site.block.writes
    return [("read", n) for n in range(len(reads))] + [("write", n) for n in range(len(writes))]


def _orders(site: Site) -> list[list[int]]:
    """Every exchange of two axes."""
    count = len(site.block.iter_vars)
    found = []
    for a in range(count):
        for b in range(a + 1, count):
            order = list(range(count))
            order[a], order[b] = b, a
            found.append(order)
    return found


def _positions(site: Site) -> range:
    return range(max((len(r.region) for r in site.block.writes), default=0) + 1)


def _axes(site: Site) -> range:
    return range(max((len(r.region) for r in site.block.writes), default=0))


def _keys(site: Site) -> list[str]:
    return list(site.target.node.annotations)


def _paddings(site: Site) -> list[list[int]]:
    count = len(site.block.iter_vars)
    return [[n] * count for n in TILES[:3]]


#: a parameter's name -> the values to try
_VALUES: dict[str, Callable[[Site], Iterable[Any]]] = {
    "factors": _factors,
    "thread_axis": lambda _: THREAD_AXES,
    "storage_scope": lambda _: SCOPES,
    "read_buffer_index": _indices("reads"),
    "write_buffer_index": _indices("writes"),
    "buffer_index": _indices("writes"),
    "factor_axis": _positions,
    "new_order": _orders,
    "axis": _axes,
    "factor": lambda _: [32],
    "offset": lambda _: [8],
    "padding": _paddings,
    "tensor_intrin": lambda _: TensorIntrin.names(),
    "ann_key": _keys,
}
#: parameters whose values are others for one primitive
_SPECIAL: dict[tuple[str, str], Callable[[Site], Iterable[Any]]] = {
    ("loop_partition", "factors"): _pieces,
    ("reindex", "buffer"): _buffers,
}
