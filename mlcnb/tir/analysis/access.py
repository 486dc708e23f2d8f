"""What a block reads and writes, as boxes: the union of its accesses while its inner loops run.

with T.block("B"):
    vi = T.axis.spatial(4, i)                T.reads(A[vi * 4:vi * 4 + 4])
    for j in range(4):                  ->   T.writes(B[vi])
        B[vi] = B[vi] + A[vi * 4 + j]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.emission import emit, emit_shorter
from mlcnb.arith.ends import Ends, ends_of, union
from mlcnb.core.node import children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import reduced_over_threads
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
    detector = AccessDetector(block, around)
    if block.init is not None:
        detector.visit(block.init)
    detector.visit(block.body)
    writes = detector.regions(detector.writes)
    written = {region.buffer for region in writes} if block.init is not None else set()
    reads = detector.regions({b: x for b, x in detector.reads.items() if b not in written})
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
    found: Found = {}
    for region in regions:
        box = [_range_ends(analyzer, bounds) for bounds in region.region]
        found.setdefault(region.buffer, []).append(box)
    return _as_regions(analyzer, found)


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


class AccessDetector:
    """Walks a block's body; collects the box of each access with inner loops run out."""

    def __init__(self, block: s.Block, around: Iterable[Buffer] = ()) -> None:
        self.analyzer = Analyzer()
        self.reads: Found = {}
        self.writes: Found = {}
        self.domains: dict[Var, Range] = {}
        self.local: set[Buffer] = set(block.alloc_buffers)
        #: variables whose value depends on such buffers
        self.hidden: set[Var] = set()
        self.matched: dict[Buffer, BufferRegion] = {}
        self.known: dict[Var, Buffer] = {}
        for axis in block.iter_vars:
            if not p.is_const(axis.dom.extent, 1):  # such an axis keeps its name in the regions
                self.analyzer.bind(axis.var, axis.dom)
        for match in block.match_buffers:
            self.matched[match.buffer] = match.source
        self.note_buffers(block)
        for buffer in around:
            self.known.setdefault(buffer.data, buffer)

    def note_buffers(self, block: s.Block) -> None:
        """Know the buffers behind the pointers that calls may get."""
        for n in walk(block.body):
            if isinstance(n, BufferLoad | s.BufferStore):
                self.known.setdefault(n.buffer.data, n.buffer)
        for region in (*block.reads, *block.writes):
            self.known.setdefault(region.buffer.data, region.buffer)

    def regions(self, found: Found) -> Regions:
        """The boxes united: one region for each buffer."""
        return _as_regions(self.analyzer, found)

    def visit(self, n: Any) -> None:
        """Look at a statement or an expression."""
        handler = _HANDLERS.get(type(n))
        if handler is not None:
            getattr(self, handler)(n)
        elif not isinstance(n, Buffer):
            for child in children(n):
                self.visit(child)

    def load(self, n: BufferLoad) -> None:
        """A read, and the reads in its indices."""
        self.access(self.reads, n.buffer, n.indices)
        for index in n.indices:
            self.visit(index)
        if n.predicate is not None:
            self.visit(n.predicate)

    def store(self, n: s.BufferStore) -> None:
        """A write, and the reads in its indices and its value."""
        self.access(self.writes, n.buffer, n.indices)
        for part in (*n.indices, n.value, n.predicate):
            if part is not None:
                self.visit(part)

    def access(self, found: Found, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        """Note one access of a buffer."""
        self.add(found, buffer, [(self.ends(i), i.dtype.element) for i in indices])

    def add(self, found: Found, buffer: Buffer, box: list[Side]) -> None:
        """Note an access, through match_buffers to the buffer outside."""
        if buffer in self.matched:
            source = self.matched[buffer]
            self.add(found, source.buffer, [self.relaxed(r) for r in source.region])
        elif self.is_seen(buffer):
            found.setdefault(buffer, []).append(box)

    def is_seen(self, buffer: Buffer) -> bool:
        """True for a buffer that counts: one that does not live inside."""
        return buffer not in self.local

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
            n in self.hidden if isinstance(n, Var) else n.buffer in self.local for n in inside
        )

    def relaxed(self, bounds: Range) -> Side:
        """The ends of a range while the inner loops run."""
        low, _ = self.ends(bounds.min)
        _, high = self.ends(bounds.min + bounds.extent - 1)
        return (low, high), bounds.min.dtype

    def loop(self, n: s.For) -> None:
        """A loop: its variable runs."""
        self.visit(n.min)
        self.visit(n.extent)
        if self.reads_local(n.min) or self.reads_local(n.extent):
            self.hidden.add(n.loop_var)
        self.analyzer.bind(n.loop_var, Range(n.min, n.extent))
        self.domains[n.loop_var] = Range(n.min, n.extent)
        self.visit(n.body)
        del self.domains[n.loop_var]

    def let(self, n: Any) -> None:
        """A variable that stands for a value."""
        self.visit(n.value)
        if self.reads_local(n.value):
            self.hidden.add(n.var)
        elif n.value.dtype in ("int32", "int64"):
            self.analyzer.bind(n.var, n.value)
        self.visit(n.body)

    def inner_block(self, n: s.BlockRealize) -> None:
        """Of a block inside, its reads and writes count, with its axes where they are bound."""
        for value in n.iter_values:
            self.visit(value)
        self.visit(n.predicate)
        block = n.block
        if not block.reads and not block.writes:
            block = complete_regions(block)
        with self.analyzer.scope():
            for axis, value in zip(block.iter_vars, n.iter_values, strict=True):
                self.analyzer.bind(axis.var, value)
            for found, regions in ((self.reads, block.reads), (self.writes, block.writes)):
                for region in regions:
                    self.add(found, region.buffer, [self.relaxed(r) for r in region.region])

    def declared(self, n: s.DeclBuffer) -> None:
        """A view of memory."""
        self.known[n.buffer.data] = self.known.get(n.buffer.data, n.buffer)
        self.visit(n.body)

    def allocated(self, n: s.Allocate) -> None:
        """Memory that lives inside."""
        for buffer in {x.buffer for x in walk(n.body) if isinstance(x, BufferLoad | s.BufferStore)}:
            if buffer.data is n.buffer_var:
                self.local.add(buffer)
        self.visit(n.body)

    def call(self, n: e.Call) -> None:
        """A call: pointers in it reach a whole buffer."""
        reduced = reduced_over_threads(n)
        if reduced is not None:
            for arg in reduced[0]:
                self.visit(arg)
            for result in reduced[1]:
                self.access(self.writes, result.buffer, result.indices)
            return
        if n.op == "tir.tvm_access_ptr":
            self.pointer(n.args[1], p.as_int(n.args[4]) or 3)
            for arg in n.args[2:4]:
                self.visit(arg)
        elif n.op == "tir.address_of":
            load: Any = n.args[0]
            self.whole(self.reads, load.buffer)
            self.whole(self.writes, load.buffer)
            for index in load.indices:
                self.visit(index)
        else:
            for arg in n.args:
                self.visit(arg)

    def pointer(self, data: PrimExpr, mask: int) -> None:
        """A pointer that is read (mask 1) or written (mask 2)."""
        buffer = self.known.get(data)  # type: ignore[call-overload]
        if buffer is not None:
            if mask & 1:
                self.whole(self.reads, buffer)
            if mask & 2:
                self.whole(self.writes, buffer)

    def variable(self, n: Var) -> None:
        """A bare pointer: whoever gets it may read and write."""
        if n.dtype.is_handle:
            self.pointer(n, 3)

    def whole(self, found: Found, buffer: Buffer) -> None:
        """An access of a whole buffer."""
        self.add(found, buffer, [((None, None), extent.dtype) for extent in buffer.shape])


_HANDLERS: dict[type, str] = {
    BufferLoad: "load",
    s.BufferStore: "store",
    s.For: "loop",
    s.LetStmt: "let",
    e.Let: "let",
    s.BlockRealize: "inner_block",
    s.DeclBuffer: "declared",
    s.Allocate: "allocated",
    e.Call: "call",
    Var: "variable",
}
