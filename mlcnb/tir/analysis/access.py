"""What a block reads and writes, as boxes: the union of its accesses while its inner loops run.

with T.block("B"):
    vi = T.axis.spatial(4, i)                T.reads(A[vi * 4:vi * 4 + 4])
    for j in range(4):                  ->   T.writes(B[vi])
        B[vi] = B[vi] + A[vi * 4 + j]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from mlcnb.arith import Analyzer
from mlcnb.arith.emission import emit, emit_shorter
from mlcnb.arith.ends import Ends, ends_of, union
from mlcnb.core.groups import grouped
from mlcnb.core.node import replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import InLoop, Named, Scope
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion

Regions = tuple[BufferRegion, ...]
#: the ends of one index, and its dtype
Side = tuple[Ends, DType]
Found = dict[Buffer, list[list[Side]]]


def complete_regions(block: s.Block, around: Iterable[Buffer] = ()) -> s.Block:
    """`block` with reads and writes as its body has them."""
    reads, writes = detect_buffer_access(block, around)
    return replace(block, reads=reads, writes=writes)


def detect_buffer_access(block: s.Block, around: Iterable[Buffer] = ()) -> tuple[Regions, Regions]:
    """(reads, writes) of a block, for one value of its axes.

    `around` are buffers that are known there: a bare pointer in a call may be one of theirs.

    As TVM's `get_block_read_write_region`: loops inside the block run; of inner blocks their own
    reads and writes count; what a reduction block updates (its `init` writes it) is not read;
    buffers that live inside do not appear. A pointer handed to a call may be read and written
    everywhere.
    """
    boxes = Boxes(block, around)
    writes = boxes.regions(boxes.writes)
    written = {region.buffer for region in writes} if block.init is not None else set()
    reads = boxes.regions({b: x for b, x in boxes.reads.items() if b not in written})
    return reads, writes


def get_block_read_write_region(
    block: s.Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> tuple[Regions, Regions]:
    """`detect_buffer_access`, by TVM's name.

    buffer_var_map: pointer -> buffer, for pointers that calls get and that the body does not show.
    """
    return detect_buffer_access(block, (buffer_var_map or {}).values())


def get_block_access_region(
    block: s.Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> tuple[Regions, Regions, Regions]:
    """(reads, writes, opaque): opaque ones are both read and written, through a pointer."""
    reads, writes = detect_buffer_access(block, (buffer_var_map or {}).values())
    calls = [n for n in walk(block.body) if isinstance(n, e.Call)]
    pointers = {arg for call in calls for arg in call.args if isinstance(arg, Var)}
    opaque = {r.buffer for r in writes if r.buffer.data in pointers}
    return (
        tuple(r for r in reads if r.buffer not in opaque),
        tuple(r for r in writes if r.buffer not in opaque),
        tuple(r for r in writes if r.buffer in opaque),
    )


def union_regions(regions: Any, analyzer: Analyzer | None = None) -> Regions:
    """One region for each buffer: the smallest box that holds all of its regions."""
    analyzer = analyzer or Analyzer()
    boxes = ((r.buffer, [_range_ends(analyzer, bounds) for bounds in r.region]) for r in regions)
    return _as_regions(analyzer, grouped(boxes))


def _range_ends(analyzer: Analyzer, bounds: Range) -> Side:
    first = analyzer.normal_form(bounds.min)
    return (first, first.plus(analyzer.normal_form(bounds.extent)).shifted(-1)), bounds.min.dtype


def _as_regions(analyzer: Analyzer, found: Found) -> Regions:
    return tuple(
        BufferRegion(buffer, tuple(_box(analyzer, buffer, boxes)))
        for buffer, boxes in found.items()
    )


def _box(analyzer: Analyzer, buffer: Buffer, boxes: list[list[Side]]) -> list[Range]:
    ranges = []
    for axis, extent in enumerate(buffer.shape):
        kind = max((box[axis][1] for box in boxes), key=lambda d: d.bits)
        low, high = union([box[axis][0] for box in boxes], analyzer, kind)
        if low is None or high is None:
            ranges.append(Range(p.const(0, extent.dtype), extent))
        else:
            ranges.append(_range(low, high, kind))
    return ranges


def _range(low: Any, high: Any, kind: DType) -> Range:
    return Range(emit(low, kind), emit_shorter(high.shifted(1), low, kind))


class Boxes(Reading):
    """The walk of a block's body; collects the box of each access with inner loops run out.

    Of a block inside, its reads and writes count, with its axes where they are bound.
    """

    def __init__(
        self, block: s.Block, around: Iterable[Buffer] = (), analyzer: Analyzer | None = None
    ) -> None:
        self.analyzer = analyzer or Analyzer()
        self.reads: Found = {}
        self.writes: Found = {}
        self.domains: dict[Var, Range] = {}
        #: memory that lives inside, and variables whose value depends on it
        self.local = {buffer.data for buffer in block.alloc_buffers}
        self.hidden: set[Var] = set()
        for axis in block.iter_vars:
            if not p.is_const(axis.dom.extent, 1):  # such an axis keeps its name in the regions
                self.analyzer.bind(axis.var, axis.dom)
        named = (region.buffer for region in (*block.reads, *block.writes))
        super().__init__(block, (*around, *named))

    def regions(self, found: Found) -> Regions:
        """The boxes united: one region for each buffer."""
        return _as_regions(self.analyzer, found)

    # what is found

    def _access(self, node: Any, is_write: bool, is_atomic: bool = False) -> None:
        box = [(self.ends(i), i.dtype.element) for i in node.indices]
        self.add(self.writes if is_write else self.reads, node.buffer, box)

    def _note(
        self, buffer: Buffer, node: Any, indices: Any, is_write: bool, is_atomic: bool = False
    ) -> None:
        """Any element of a buffer."""
        box: list[Side] = [((None, None), extent.dtype) for extent in buffer.shape]
        self.add(self.writes if is_write else self.reads, buffer, box)

    def add(self, found: Found, buffer: Buffer, box: list[Side]) -> None:
        """Note an access, through match_buffers to the buffer outside."""
        if buffer in self.matched:
            source = self.matched[buffer]
            self.add(found, source.buffer, [self.relaxed(r) for r in source.region])
        elif self.is_seen(buffer):
            found.setdefault(buffer, []).append(box)

    def is_seen(self, buffer: Buffer) -> bool:
        """True for a buffer that counts: one that does not live inside."""
        return buffer.data not in self.local

    def ends(self, index: PrimExpr) -> Ends:
        """The ends of an index while the inner loops run."""
        if isinstance(index, e.Ramp):
            low, _ = self.ends(index.base)
            _, high = self.ends(index.base + index.stride * (index.lanes - 1))
            return low, high
        if isinstance(index, e.Broadcast):
            return self.ends(index.value)
        if index.dtype not in ("int32", "int64") or self.reads_local(index):
            return None, None
        return ends_of(self.analyzer, self.analyzer.normal_form(index), self.domains)

    def reads_local(self, index: PrimExpr) -> bool:
        """True for an index that depends on a buffer which lives inside the block."""
        inside = (n for n in walk(index) if isinstance(n, BufferLoad | Var))
        return any(
            n in self.hidden if isinstance(n, Var) else n.buffer.data in self.local for n in inside
        )

    def relaxed(self, bounds: Range) -> Side:
        """The ends of a range while the inner loops run."""
        low, _ = self.ends(bounds.min)
        _, high = self.ends(bounds.min + bounds.extent - 1)
        return (low, high), bounds.min.dtype

    # what is gone through

    def _block(self, block: s.Block) -> None:
        for match in block.match_buffers:
            self.matched[match.buffer] = match.source
            self.pointers[match.buffer.data] = match.buffer
        self._visit_all((block.init, block.body))

    def _outer_first(self, n: BufferLoad) -> None:
        """A read, then those in its indices."""
        self._access(n, False)
        self._visit_all((*n.indices, n.predicate))

    def _by_regions(self, n: s.BlockRealize) -> None:
        self._visit_all((*n.iter_values, n.predicate))
        block = n.block
        if not block.reads and not block.writes:
            block = complete_regions(block)
        with self.bound(n):
            for found, regions in ((self.reads, block.reads), (self.writes, block.writes)):
                for region in regions:
                    self.add(found, region.buffer, [self.relaxed(r) for r in region.region])

    @contextmanager
    def bound(self, n: s.BlockRealize) -> Iterator[None]:
        """The axes of a block inside are what they are bound to."""
        with self.analyzer.scope():
            for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                self.analyzer.bind(axis.var, value)
            yield

    def _place(self, n: s.Stmt) -> None:
        if isinstance(n, s.Allocate):
            self.local.add(n.buffer_var)

    def _inside(self, scope: Scope, body: Any) -> None:
        """Variables of loops run; others stand for their values."""
        match scope:
            case _ if scope is self._scope:  # a part of a sequence
                pass
            case InLoop(node=s.For(), var=Var() as var, domain=Range() as domain):
                if self.reads_local(domain.min) or self.reads_local(domain.extent):
                    self.hidden.add(var)
                self.analyzer.bind(var, domain)
                self.domains[var] = domain
                super()._inside(scope, body)
                del self.domains[var]
                return
            case Named(var=var, value=value) if self.reads_local(value):
                self.hidden.add(var)
            case Named(var=var, value=value) if value.dtype in ("int32", "int64"):
                self.analyzer.bind(var, value)
        super()._inside(scope, body)

    handlers: ClassVar = {
        **Reading.handlers,
        s.Block: _block,
        BufferLoad: _outer_first,
        s.BlockRealize: _by_regions,
    }
