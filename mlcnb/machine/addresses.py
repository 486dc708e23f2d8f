"""Where the arrays of a program lie, and which of its accesses is which.

    A: 96x96 float32 at 0, B at 36,864, C at 73,728        placed(func).arrays
    C[i, j] read, A[i, k] read, …, C[i, j] written         placed(func).sites

The arguments lie one after the other, each at a multiple of its alignment (64 bytes), then what the
program allocates, at one place for every time that it is allocated: as in an arena. Buffers that a
block allocates are cut to what is used first, as the compiler does it (CompactBufferAllocation).

Each load and store of `Placed.func` has a buffer of its own, named by the number of its site, over
the same memory: so whoever watches the program tells them apart, the interpreter as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, Node, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import IntImm, Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import uses_threads
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.transform.compact_buffer import compact_buffers
from mlcnb.tir.transform.convert_blocks_to_opaque import convert_blocks_to_opaque
from mlcnb.tir.transform.lower_init_block import lower_init_block
from mlcnb.tir.transform.lower_match_buffer import lower_match_buffer
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation

_STEPS = (
    lower_init_block,
    plan_buffer_allocation,
    convert_blocks_to_opaque,
    compact_buffers,
    lower_match_buffer,
)


@dataclass(frozen=True)
class Array:
    """Memory of a program: its name, shape and dtype, and where it begins."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    base: int
    nbytes: int
    is_argument: bool


@dataclass(frozen=True)
class Site:
    """A load or a store in the program: of which array (by number), in which block."""

    array: int
    is_write: bool
    block: str
    node: Any
    itemsize: int


@dataclass(frozen=True)
class Placed:
    """A program whose arrays have addresses.

    Attributes:
        func: the program, each load and store with a buffer of its own.
        arrays: in order of their addresses.
        sites: loads and stores, in the order of the program's text.
        numbers: buffer of `func` -> number of its site.
    """

    func: PrimFunc
    arrays: tuple[Array, ...]
    sites: tuple[Site, ...]
    numbers: dict[Buffer, int]


#: pointer, what tells its size, whether it is an argument
_Memory = tuple[Var, Buffer | s.Allocate, bool]
#: what a size that is not known counts as, where that may be guessed
UNKNOWN = 64


def placed(func: PrimFunc) -> Placed:
    """The arrays and accesses of a program.

    Raises:
        MLCError: it runs on the threads of a GPU, has sizes that are not known, elements that are
            vectors, or accesses through pointers, which nobody sees.
    """
    if uses_threads(func):
        raise MLCError(
            "accesses: the program runs on the threads of a GPU, which have no one order",
            hint="mlc.observe.warp_lens(func) looks at its warps; or look at it before bind",
        )
    for step in _STEPS:
        func = step(func)
    _refuse_pointers(func)
    return named(func)


def named(func: PrimFunc) -> Placed:
    """The arrays and accesses of a program without blocks, as it stands.

    Raises:
        MLCError: it has sizes that are not known, or accesses to memory that is not its own.
    """
    memory = list(_memory(func))
    namer = _Namer({data: n for n, (data, _, _) in enumerate(memory)})
    body = func.with_body(namer.body(func.body, ""))
    return Placed(body, tuple(_laid_out(memory)), tuple(namer.sites), namer.numbers)


#: pointer -> the memory that it points to
Layout = dict[Var, Array]


def guessed(func: PrimFunc) -> tuple[PrimFunc, Layout]:
    """Any program with the places of its arrays, as well as they can be told: for a prediction.

    Sizes that are not known count as `UNKNOWN`; what is touched through pointers is not seen.
    Buffers are cut to what is used only where that may change one.
    """
    func = _sized(func)
    if _is_staged(func):
        for step in (_without_init, *_STEPS[1:]):
            try:
                func = step(func)
            except MLCError:  # as it is, then
                continue
    memory = {owned[0]: owned for owned in _memory(func)}
    for buffer in (x for n in _top(func) for x in _uses(n)[0]):
        memory.setdefault(buffer.data, (buffer.data, buffer, False))
    return func, dict(zip(memory, _laid_out(list(memory.values()), UNKNOWN), strict=True))


def _top(func: PrimFunc) -> tuple[Any, ...]:
    """The statements that are done one after the other in the whole function."""
    n: Any = func.body
    while isinstance(n, s.BlockRealize) and not n.block.iter_vars:
        n = n.block.body
    return n.seq if isinstance(n, s.SeqStmt) else (n,)


@lru_cache(1024)
def _uses(n: Any) -> tuple[frozenset[Buffer], bool]:
    """The buffers that a statement touches, and whether it has any of its own."""
    buffers, stages = set(), False
    for x in walk(n):
        if isinstance(x, BufferLoad | s.BufferStore):
            buffers.add(x.buffer)
        elif isinstance(x, s.Allocate | s.Block):
            stages |= isinstance(x, s.Allocate) or bool(x.alloc_buffers or x.match_buffers)
    return frozenset(buffers), stages


def _is_staged(func: PrimFunc) -> bool:
    """Whether a buffer is, or may be, allocated inside of a loop."""
    top = [_uses(n) for n in _top(func)]
    if any(stages for _, stages in top):
        return True
    own = {data for data, _, is_argument in _memory_at_root(func) if not is_argument}
    used = Counter(data for buffers, _ in top for data in {b.data for b in buffers} & own)
    return any(times == 1 for times in used.values())


def _memory_at_root(func: PrimFunc) -> Iterator[_Memory]:
    n: Any = func.body
    while isinstance(n, s.BlockRealize) and not n.block.iter_vars:
        yield from ((buffer.data, buffer, False) for buffer in n.block.alloc_buffers)
        n = n.block.body


def _sized(func: PrimFunc) -> PrimFunc:
    """The function with numbers for the sizes that are not known."""
    shapes = (n for b in func.buffers for n in (*b.shape, *b.strides) if as_int(n) is None)
    free = {v for n in shapes for v in walk(n) if isinstance(v, Var)}
    free |= {v for v in func.params if v not in func.buffer_map and not v.dtype.is_handle}
    if not free:
        return func
    known = {v: IntImm(v.dtype, UNKNOWN) for v in free if v.dtype.is_int}
    buffers = {v: substitute(b, known) for v, b in func.buffer_map.items()}
    return replace(func, body=substitute(func.body, known), buffer_map=FrozenDict(buffers))


def _without_init(func: PrimFunc) -> PrimFunc:
    def rule(n: Node) -> Node | None:
        return replace(n, init=None) if isinstance(n, s.Block) and n.init is not None else None

    return func.with_body(rewrite_statements(func.body, rule))


def _refuse_pointers(func: PrimFunc) -> None:
    for n in walk(func.body):
        if isinstance(n, e.Call) and any(_is_pointer(arg) for arg in n.args):
            raise MLCError(
                f"accesses: {n.op} gets a pointer, and what it touches is not seen",
                where=n,
                root=func,
                hint="look at the program before tensorize",
            )
        if isinstance(n, BufferLoad | s.BufferStore) and n.buffer.dtype.lanes != 1:
            raise MLCError(
                f"accesses: {n.buffer.name} holds vectors ({n.buffer.dtype})",
                hint="look at the program before it is lowered",
            )


def _is_pointer(x: Any) -> bool:
    kind = getattr(x, "dtype", None)
    return not isinstance(x, e.StringImm) and getattr(kind, "is_handle", False)


def _memory(func: PrimFunc) -> Iterator[_Memory]:
    """All memory of a function, in order."""
    seen: set[Var] = set()
    for buffer in func.buffers:
        if buffer.data not in seen:
            seen.add(buffer.data)
            yield buffer.data, buffer, True
    for n in walk(func.body):
        if isinstance(n, s.Allocate):
            yield n.buffer_var, n, False
        for buffer in n.alloc_buffers if isinstance(n, s.Block) else ():
            yield buffer.data, buffer, False


def _laid_out(memory: list[_Memory], otherwise: int | None = None) -> Iterator[Array]:
    at = 0
    for data, owner, is_argument in memory:
        dims = owner.extents if isinstance(owner, s.Allocate) else owner.shape
        shape = [otherwise if as_int(n) is None else as_int(n) for n in dims]
        known = [n for n in shape if n is not None]
        if len(known) < len(shape):
            raise MLCError(
                f"accesses: the shape of {data.name} is not known",
                hint="take a program of fixed sizes: small ones show the same",
            )
        alignment = max(getattr(owner, "data_alignment", 64), 1)
        at += -at % alignment
        itemsize = owner.dtype.numpy.itemsize * owner.dtype.lanes
        nbytes = _reach(owner, known) * itemsize
        yield Array(
            getattr(owner, "name", data.name), tuple(known), str(owner.dtype), itemsize, at,
            nbytes, is_argument,
        )  # fmt: skip
        at += nbytes


def _reach(owner: Any, shape: list[int]) -> int:
    """Elements from the first to the last; padded rows count whole."""
    strides = [as_int(n) for n in getattr(owner, "strides", ())]
    if not strides or None in strides:
        return prod(shape)
    return 1 + sum((n - 1) * (step or 0) for n, step in zip(shape, strides, strict=True))


class _Namer:
    """Gives every load and store a buffer of its own."""

    def __init__(self, arrays: dict[Var, int]) -> None:
        self.arrays = arrays
        self.sites: list[Site] = []
        self.numbers: dict[Buffer, int] = {}

    def body(self, n: Any, block: str) -> Any:
        """A statement of a block; blocks inside are named for themselves."""

        def enter(x: Node) -> Node | None:
            if isinstance(x, Buffer | s.IterVar):
                return x
            if not isinstance(x, s.Block):
                return None
            inner = self.body(x.body, x.name_hint)
            return replace(x, body=inner, reads=(), writes=())

        def rule(x: Node) -> Node | None:
            if not isinstance(x, BufferLoad | s.BufferStore):
                return None
            return replace(x, buffer=self.alias(x, block))

        return rewrite(n, rule, enter)

    def alias(self, n: BufferLoad | s.BufferStore, block: str) -> Buffer:
        """Another buffer over the memory of an access, named by its number."""
        buffer = n.buffer
        if buffer.data not in self.arrays:
            raise MLCError(
                f"accesses: {buffer.name} lies in memory that the program does not own",
                hint="pass it as an argument with a shape",
            )
        itemsize = buffer.dtype.numpy.itemsize
        number = len(self.sites)
        is_write = isinstance(n, s.BufferStore)
        self.sites.append(Site(self.arrays[buffer.data], is_write, block, n, itemsize))
        alias = replace(buffer, name=str(number))
        self.numbers[alias] = number
        return alias
