"""statements: loops of statements over whole buffers, a block of threads for each outer iteration.

with T.block("steps"):                     for n in T.thread_binding(batch, "blockIdx.x"):
    state = T.alloc_buffer(h)                  with T.block("steps"):
    for n in range(batch):                         state = T.alloc_buffer(h, scope="shared")
        for j in range(h):            ->           for tx in T.thread_binding(h, "threadIdx.x"):
            state[j] = …                               state[j] = …
        for t in range(steps):                     for t in range(steps):
            for j in range(h): …                       for tx in T.thread_binding(h, …): …

Such are recurrent layers: outer iterations are samples, inner ones places of a state. That outer
iterations fill what they read of the memory that each gets for itself, and that inner ones touch
nothing of each other, is proved by the steps `parallel` and `bind`; barriers come by lowering.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from mlcnb.core.node import replace, walk
from mlcnb.dlight.gpu.threads import THREADS, bytes_of, most_threads
from mlcnb.dlight.rule import no
from mlcnb.dlight.survey import Survey
from mlcnb.ir import prim_ops as p
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import complete_regions
from mlcnb.tir.analysis.leaving import leaves
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.analysis.verify_gpu_code import GpuLimits
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import heads, map_bodies, substitute
from mlcnb.tir.schedule import Schedule

#: what may stand around inner loops
AROUND = (s.SeqStmt, s.For, s.IfThenElse, s.LetStmt)
#: threads that run in step
WARP = 32


def by_statements(sch: Schedule, survey: Survey, target: Target) -> Schedule | bool:
    """A block of threads for each iteration of the outer loops of one block of statements."""
    func: Any = sch.mod[sch.func_working_on]
    steps = _steps(func.body.block)
    nests = [] if steps is None else _listed(steps.body)
    if steps is None or not all(isinstance(x, s.For) and not _is_inner(x) for x in nests):
        return no("no loops of statements over whole buffers, with memory of their own")
    if any(leaves(x) for x in walk(steps.body)) or not _all_inside(steps.body, _stored(steps)):
        return no("something touches memory outside of inner loops, or leaves one")
    threads = _threads(steps, target)
    if threads is None:
        return no("inner loops, or the memory of their own, are of no known size, or too large")
    apart = [_own(steps, nest) for nest in nests]
    trial = _schedule(func, [_realized(block) for block in apart])
    for block in trial.get_child_blocks(trial.get_block("root")):
        trial.parallel(trial.get_loops(trial.get_child_blocks(block)[0])[0])
    made = _schedule(func, [_moved(block) for block in apart])
    for block in made.get_child_blocks(made.get_block("root")):
        made.bind(made.get_loops(block)[0], "blockIdx.x")
        for inner in made.get_child_blocks(block):
            _, lanes = made.split(made.get_loops(inner)[-1], [None, threads])
            made.bind(lanes, "threadIdx.x")
    return made


def _steps(root: s.Block) -> s.Block | None:
    """The one block without axes that has memory of its own and holds all statements."""
    block = root
    while isinstance(block.body, s.BlockRealize) and not block.alloc_buffers:
        block = block.body.block
        if block.iter_vars or block.match_buffers or block.init is not None:
            return None
    return block if block.alloc_buffers and block is not root else None


def _listed(n: s.Stmt) -> list[s.Stmt]:
    return list(n.seq) if isinstance(n, s.SeqStmt) else [n]


def _is_inner(n: s.Stmt) -> TypeGuard[s.For]:
    """True for a loop without loops and blocks in it."""
    below = list(statements(n))[1:]
    return isinstance(n, s.For) and not any(isinstance(x, s.For | s.BlockRealize) for x in below)


def _stored(steps: s.Block) -> set[Buffer]:
    """What the statements store to, and memory of their own."""
    stores = (x.buffer for x in statements(steps.body) if isinstance(x, s.BufferStore))
    return {*stores, *steps.alloc_buffers}


def _all_inside(n: s.Stmt, stored: set[Buffer]) -> bool:
    """True if everything stands in inner loops, which steps ask about; around them may be loops,
    conditions and values of what nobody stores to.
    """
    inner = {y for x in statements(n) if _is_inner(x) for y in statements(x.body)}
    around = [x for x in statements(n) if x not in inner]
    loads = (y for x in around for h in heads(x) for y in walk(h) if isinstance(y, BufferLoad))
    kinds = {x.kind for x in around if isinstance(x, s.For)}
    is_plain = all(isinstance(x, AROUND) for x in around) and kinds <= {s.ForKind.SERIAL}
    return is_plain and not any(x.buffer in stored for x in loads)


def _threads(steps: s.Block, target: Target) -> int | None:
    """How many threads the longest inner loop keeps busy; None where that is not known."""
    loops = [x for x in statements(steps.body) if isinstance(x, s.For) and _is_inner(x)]
    lengths = [n for x in loops if (n := p.as_int(x.extent)) is not None]
    room = [n for b in steps.alloc_buffers if (n := bytes_of(b)) is not None]
    if not loops or len(lengths) < len(loops) or len(room) < len(steps.alloc_buffers):
        return None
    if sum(room) > GpuLimits.of(target).max_shared_memory_per_block:
        return None
    longest = -(-max(lengths) // WARP) * WARP
    return min(longest, THREADS, most_threads(target))


def _in_blocks(n: s.Stmt) -> s.Stmt:
    """The statements in each inner loop as a block."""
    if _is_inner(n):
        return replace(n, body=_realized(s.Block((), (), (), "step", n.body)))
    return map_bodies(n, _in_blocks)


def _realized(block: s.Block) -> s.BlockRealize:
    return s.BlockRealize((), p.const(True), complete_regions(block))


def _own(steps: s.Block, nest: s.Stmt) -> s.Block:
    """An outer loop in a block with the memory that it uses, which threads share."""
    used = {x for x in walk(nest) if isinstance(x, Buffer)}
    own = {
        b: decl_buffer(b.shape, b.dtype, b.name, scope="shared")
        for b in steps.alloc_buffers
        if b in used
    }
    body = substitute(_in_blocks(nest), own)
    return s.Block((), (), (), steps.name_hint, body, alloc_buffers=tuple(own.values()))


def _moved(block: s.Block) -> s.Stmt:
    """Such a loop with the block inside: each iteration has memory of its own."""
    nest: Any = block.body
    return replace(nest, body=_realized(replace(block, body=nest.body)))


def _schedule(func: PrimFunc, parts: list[s.Stmt]) -> Schedule:
    root: Any = func.body
    return Schedule(func.with_body(replace(root, block=replace(root.block, body=s.seq(*parts)))))
