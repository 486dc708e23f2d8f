"""Every access of a program in order, by NumPy: many iterations at once, none interpreted.

    stream(placed(func))    Stream(addresses, sites): one entry for each element that is touched

The order is that of the reference interpreter, whose record of a program is the same (tested).
A statement that runs for N iterations gives, for each, the accesses that it makes: a matrix of N
rows where every iteration makes the same, else rows of several lengths (`Piece`). A loop joins the
rows of its iterations, a sequence puts rows side by side. Outer loops run one after the other, in
stretches of about CHUNK accesses, so that memory is bounded.

What depends on values in memory (A[idx[i]], `while`, a condition that reads) is not known here:
`Unknown` is raised, and the interpreter has to run the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Frame, Unknown, evaluate
from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.machine.addresses import Placed
from mlcnb.machine.touching import Toucher, matrix
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.leaving import is_left_early
from mlcnb.tir.analysis.structure import work
from mlcnb.tir.buffer import reads_memory
from mlcnb.tir.functor import RUN_THROUGH, StmtFunctor, bodies

#: accesses that are made at once
CHUNK = 1 << 18
#: accesses of a program at most
MOST = 20_000_000
#: iterations that a loop counts for where its extent is not a number
_USUAL = 16


@dataclass(frozen=True)
class Stream:
    """The accesses of a program: of each its address in bytes, and the number of its site."""

    addresses: np.ndarray
    sites: np.ndarray

    def __len__(self) -> int:
        return len(self.addresses)


@dataclass
class Piece:
    """Accesses of N iterations.

    counts: how many each makes: one number for all, or N; addresses: of the first iteration, of the
    second, …; sites: as many, or those of one iteration where all make the same.
    """

    counts: int | np.ndarray
    addresses: np.ndarray
    sites: np.ndarray

    def ragged(self, n: int) -> Piece:
        """The same with counts and sites for each of the N iterations."""
        if not isinstance(self.counts, int):
            return self
        sites = np.tile(self.sites, n)
        return Piece(np.full(n, self.counts), self.addresses, sites)


NOTHING = Piece(0, np.empty(0, np.int64), np.empty(0, np.int32))


def too_long(most: int) -> MLCError:
    """What is raised where a program makes more accesses than are looked at."""
    return MLCError(
        f"accesses: the program makes more than {most:,} accesses",
        hint=f"first={most:_} plays where it begins; mlc.observe.access_counts counts all of them "
        "and plays none; or take smaller shapes: the order of its loops is the same",
    )


def stream(
    program: Placed, most: int = MOST, tick: Callable[[int], None] = lambda n: None
) -> Stream:
    """Every access of a program, in order.

    Args:
        program: the program with the places of its arrays.
        most: accesses at most.
        tick: called with the number of accesses of each stretch.

    Raises:
        Unknown: where it depends on values in memory.
        MLCError: more accesses than `most`.
    """
    found, count = [], 0
    for piece in pieces(program):
        count += len(piece)
        if count > most:
            raise too_long(most)
        found.append(piece)
        tick(len(piece))
    return joined(found)


def beginning(program: Placed, first: int) -> Stream:
    """The first accesses of a program, in order: so many, or all.

    Raises:
        Unknown: where they depend on values in memory.
    """
    found, count = [], 0
    for piece in pieces(program):
        found.append(Stream(piece.addresses[: first - count], piece.sites[: first - count]))
        count += len(found[-1])
        if count >= first:
            break
    return joined(found)


def pieces(program: Placed) -> Iterator[Stream]:
    """Every access of a program, in order, about CHUNK at a time.

    Raises:
        Unknown: where it depends on values in memory.
    """
    # half the memory where numbers are small: a long run has to fit beside what it is made into
    end = max((a.base + a.nbytes for a in program.arrays), default=0)
    kind, many = np.int32 if end < 1 << 31 else np.int64, len(program.sites) >= 1 << 16
    outer = _Outer(program).pieces(program.func.body, {})
    while True:
        with np.errstate(all="ignore"):
            piece = next(outer, None)
        if piece is None:
            return
        yield Stream(
            piece.addresses.astype(kind, copy=False),
            piece.sites.astype(np.int32 if many else np.uint16, copy=False),
        )


def joined(parts: Sequence[Stream]) -> Stream:
    """Streams one after the other."""
    if not parts:
        return Stream(NOTHING.addresses, NOTHING.sites)
    return Stream(
        np.concatenate([p.addresses for p in parts]), np.concatenate([p.sites for p in parts])
    )


def about(program: Placed) -> int:
    """About how many accesses a program makes."""
    return _Outer(program).size(program.func.body)


class _Outer:
    """The outer loops, one iteration (or a stretch of iterations) after the other."""

    def __init__(self, program: Placed) -> None:
        self.inner = _Inner(program)
        self.sizes: dict[int, int] = {}

    def size(self, n: Any) -> int:
        """About how many accesses a statement makes."""
        if id(n) not in self.sizes:
            self.sizes[id(n)] = int(work(n, _USUAL, _touches))
        return self.sizes[id(n)]

    def pieces(self, n: s.Stmt, frame: Frame) -> Iterator[Piece]:
        """The accesses of a statement, in stretches."""
        match n:
            case _ if self.size(n) <= CHUNK:
                yield self.inner.visit_stmt(n, frame, 1)
            case s.For() if not is_left_early(n.body):
                yield from self.loop(n, frame)
            case s.BlockRealize() if not n.block.iter_vars and n.block.init is None:
                if _scalar(evaluate(n.predicate, frame)):
                    yield from self.pieces(n.block.body, frame)
            case _ if isinstance(n, RUN_THROUGH):
                for part in bodies(n):
                    yield from self.pieces(part, frame)
            case _:
                yield self.inner.visit_stmt(n, frame, 1)

    def loop(self, n: s.For, frame: Frame) -> Iterator[Piece]:
        """A loop that is too long to be run at once."""
        first, extent = (_scalar(evaluate(x, frame)) for x in (n.min, n.extent))
        step = max(1, CHUNK // max(self.size(n.body), 1))
        for start in range(first, first + extent, step):
            count = min(step, first + extent - start)
            if count == 1:
                yield from self.pieces(n.body, {**frame, n.loop_var: start})
            else:
                yield self.inner.rounds(n, frame, 1, start, count)


def _touches(n: s.Stmt) -> int:
    """About how many accesses a store or a call makes."""
    return 1 + sum(isinstance(x, e.PrimExpr) and reads_memory(x) for x in walk(n))


def _scalar(x: Any) -> int:
    return int(x) if np.ndim(x) == 0 else int(np.asarray(x).reshape(-1)[0])


class _Inner(StmtFunctor):
    """Statements for many iterations at once."""

    def __init__(self, program: Placed) -> None:
        self.toucher = Toucher(program)

    def visit_stmt(self, n: Any, frame: Frame, count: int) -> Piece:
        """The accesses of a statement that runs for `count` iterations."""
        return super().visit_stmt(n, frame, count) if count else NOTHING

    def visit_inside(self, n: Any, frame: Frame, count: int) -> Piece:
        """Statements that only run what stands in them; others are unknown."""
        if not isinstance(n, RUN_THROUGH):
            raise Unknown(type(n).__name__)
        return _side_by_side([self.visit_stmt(part, frame, count) for part in bodies(n)], count)

    def visit_if_then_else_(self, n: s.IfThenElse, frame: Frame, count: int) -> Piece:
        """A test."""
        return self.branch(evaluate(n.condition, frame), n.then_case, n.else_case, frame, count)

    def visit_buffer_store_(self, n: s.BufferStore, frame: Frame, count: int) -> Piece:
        """A store, and what it reads."""
        return self._piece([*self.toucher.store(n, frame)], count)

    def visit_evaluate_(self, n: s.Evaluate, frame: Frame, count: int) -> Piece:
        """A call, and what it reads."""
        if isinstance(n.value, e.Call) and n.value.op == "tir.ret":
            raise Unknown("a return")
        return self._piece([*self.toucher.value(n.value, frame)], count)

    def visit_assert_stmt_(self, n: s.AssertStmt, frame: Frame, count: int) -> Piece:
        """What holds is passed."""
        if not np.all(evaluate(n.condition, frame)):
            raise Unknown("an assertion that fails")
        return self.visit_stmt(n.body, frame, count)

    def visit_let_stmt_(self, n: s.LetStmt, frame: Frame, count: int) -> Piece:
        """A variable; one that is read from memory is unknown, which matters only in an index."""
        own = self._piece([*self.toucher.value(n.value, frame)], count)
        known = None if reads_memory(n.value) else evaluate(n.value, frame, None)
        inner = self.visit_stmt(n.body, {**frame, n.var: known}, count)
        return _side_by_side([own, inner], count)

    def visit_block_realize_(self, n: s.BlockRealize, frame: Frame, count: int) -> Piece:
        """A block whose axes are gone."""
        if n.block.iter_vars or n.block.init is not None:
            raise Unknown("a block with axes")
        return self.branch(evaluate(n.predicate, frame), n.block.body, None, frame, count)

    def branch(self, condition: Any, yes: s.Stmt, no: s.Stmt | None, frame: Frame, count: int):  # type: ignore[no-untyped-def]
        """Two branches, each for the iterations that take it."""
        if np.ndim(condition) == 0 or np.size(condition) == 1 != count:
            chosen = yes if _scalar(condition) else no
            return NOTHING if chosen is None else self.visit_stmt(chosen, frame, count)
        if condition.all():
            return self.visit_stmt(yes, frame, count)
        found = [self.some(condition, yes, frame)]
        if no is not None:
            found.append(self.some(~condition, no, frame))
        return _side_by_side(found, count)

    def some(self, mask: np.ndarray, body: s.Stmt, frame: Frame) -> Piece:
        """A statement that runs in some of the iterations only."""
        at = np.flatnonzero(mask)
        piece = self.visit_stmt(body, _taken(frame, at), len(at)).ragged(len(at))
        counts = np.zeros(len(mask), np.int64)
        counts[at] = piece.counts
        return Piece(counts, piece.addresses, piece.sites)

    def visit_for_(self, n: s.For, frame: Frame, count: int) -> Piece:
        """A loop in each of the iterations."""
        if is_left_early(n.body):
            raise Unknown("a loop that is left early")
        first, extent = evaluate(n.min, frame), evaluate(n.extent, frame)
        if np.ndim(extent) == 0:
            return self.rounds(n, frame, count, first, int(extent))
        extent = np.maximum(extent, 0)
        outer = np.repeat(np.arange(count), extent)
        ends = np.cumsum(extent)
        inside = np.arange(len(outer)) - np.repeat(ends - extent, extent)
        begin = first if np.ndim(first) == 0 else first[outer]
        inner = {**_taken(frame, outer), n.loop_var: begin + inside}
        piece = self.visit_stmt(n.body, inner, len(outer)).ragged(len(outer))
        counts = np.bincount(outer, piece.counts, count).astype(np.int64)
        return Piece(counts, piece.addresses, piece.sites)

    def rounds(self, n: s.For, frame: Frame, count: int, first: Any, extent: int) -> Piece:
        """A loop of the same length in each of the iterations."""
        if extent <= 0:
            return NOTHING
        begin = first if np.ndim(first) == 0 else np.repeat(first, extent)
        inner = {
            v: x if np.ndim(x) == 0 else np.repeat(x, extent, axis=0) for v, x in frame.items()
        }
        inner[n.loop_var] = begin + np.tile(np.arange(extent), count)
        piece = self.visit_stmt(n.body, inner, count * extent)
        if isinstance(piece.counts, int):
            return Piece(piece.counts * extent, piece.addresses, np.tile(piece.sites, extent))
        counts = piece.counts.reshape(count, extent).sum(axis=1)
        return Piece(counts, piece.addresses, piece.sites)

    def _piece(self, touched: list[Any], count: int) -> Piece:
        """Accesses of one statement: (site, addresses, mask or None) each, in order."""
        if not touched:
            return NOTHING
        columns, sites, masks = [], [], []
        for site, at, mask in touched:
            at = matrix(at, count)
            columns.append(at)
            sites.append(np.full(at.shape[1], site, np.int32))
            masks.append(None if mask is None else np.broadcast_to(matrix(mask, count), at.shape))
        addresses, site = np.hstack(columns), np.concatenate(sites)
        if all(mask is None for mask in masks):
            return Piece(len(site), addresses.reshape(-1), site)
        kept = np.hstack(
            [
                np.ones(c.shape, bool) if m is None else m
                for m, c in zip(masks, columns, strict=True)
            ]
        )
        return Piece(kept.sum(axis=1), addresses[kept], np.broadcast_to(site, kept.shape)[kept])


def _taken(frame: Frame, at: np.ndarray) -> Frame:
    return {v: x if np.ndim(x) == 0 else x[at] for v, x in frame.items()}


def _side_by_side(pieces: list[Piece], count: int) -> Piece:
    """For each iteration the accesses of the first piece, then those of the second, …"""
    pieces = [p for p in pieces if len(p.addresses)]
    if len(pieces) < 2:
        return pieces[0] if pieces else NOTHING
    if all(isinstance(p.counts, int) for p in pieces):
        rows = [p.addresses.reshape(count, -1) for p in pieces]
        sites = np.concatenate([p.sites for p in pieces])
        return Piece(len(sites), np.hstack(rows).reshape(-1), sites)
    parts = [p.ragged(count) for p in pieces]
    counts: Any = np.sum(np.stack([np.asarray(p.counts) for p in parts]), axis=0)
    begin = np.cumsum(counts) - counts
    addresses = np.empty(int(counts.sum()), np.int64)
    site = np.empty(len(addresses), np.int32)
    for part in parts:
        own = np.cumsum(part.counts) - part.counts
        place = np.repeat(begin - own, part.counts) + np.arange(len(part.addresses))
        addresses[place], site[place] = part.addresses, part.sites
        begin = begin + part.counts
    return Piece(counts, addresses, site)
