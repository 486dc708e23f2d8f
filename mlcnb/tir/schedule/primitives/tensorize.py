"""tensorize: a tile becomes one instruction.

for i_1, j_1, k_1 in T.grid(4, 4, 4):        with T.block("C_o"):
    with T.block("C"):                  ->       A_1 = T.match_buffer(A[...], (4, 4)); ...
        C[v_i, v_j] += ...                       T.call_extern("", "dot_4x4x4", ...)

The instruction is a `tir.TensorIntrin`: `desc` says what it computes, `impl` is put in its place.
"""

from __future__ import annotations

from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.expr import Var
from mlcnb.tir.buffer import Buffer, BufferRegion, MatchBufferRegion
from mlcnb.tir.function import PrimFunc, TensorIntrin
from mlcnb.tir.schedule.edit.prepare import prepared_function
from mlcnb.tir.schedule.edit.rebuild import BufferSwap, FreshCopy
from mlcnb.tir.schedule.legality.matching import Matcher, Mismatch
from mlcnb.tir.schedule.legality.regions import known_bounds
from mlcnb.tir.schedule.legality.stored import stores_all
from mlcnb.tir.schedule.primitives.blockize import blockize
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State, arrived
from mlcnb.tir.schedule.record.tree import Edit, Tree
from mlcnb.tir.stmt import Block, BlockRealize, For


@does(still=True, tries={"tensor_intrin": lambda _: TensorIntrin.names()})
def tensorize(
    state: State,
    block_or_loop: Block | For,
    tensor_intrin: str,
    preserve_unit_iters: bool = True,
) -> Change:
    """Put the implementation of a tensor intrinsic in the place of what it describes.

    Shapes, dtypes, scopes and the body have to be those of its `desc`.

    Args:
        state: the program.
        block_or_loop: a loop, which is made a block first, or such a block.
        tensor_intrin: the name under which the intrinsic was registered.
        preserve_unit_iters: as in blockize.

    Raises:
        ScheduleError: there is no such intrinsic, or the tile computes something else.
    """
    intrinsic = _intrinsic(state, block_or_loop, tensor_intrin)
    made: Change | None = None
    tree, block = state.tree, block_or_loop
    if isinstance(block, For):
        made = blockize(state, block, preserve_unit_iters)  # type: ignore[assignment]
        tree, block = Tree(made.func, tree.name), made.outputs  # type: ignore[union-attr]
    assert isinstance(block, Block)
    regions = _matched(state, tree, block, intrinsic, tensor_intrin)
    new = _implemented(block, intrinsic, regions)
    if state.checks:
        _refuse_hidden_holes(state, block, new, tensor_intrin)
    edit = Edit(tree)
    edit.put(block, new)
    edit.became(block, new)
    func = edit.done()
    if made is None:
        return Change(func, edit.forward)
    both = {old: arrived(edit.forward, n) for old, n in made.forward.items()}
    return Change(func, {**edit.forward, **both})


def _intrinsic(state: State, where: Block | For, name: str) -> TensorIntrin:
    try:
        found = TensorIntrin.get(name)
        assert found is not None
        return found
    except MLCError as error:
        raise state.refusal(f"tensorize: {error.message}", where, error.hint) from error


def _root(func: PrimFunc) -> Block:
    body = prepared_function(func).body
    assert isinstance(body, BlockRealize)
    return body.block


def _matched(
    state: State, tree: Tree, block: Block, intrinsic: TensorIntrin, name: str
) -> dict[Buffer, BufferRegion]:
    """What part of which buffer each buffer of the implementation is."""
    corners = {r.buffer: r for r in (*block.reads, *block.writes)}
    matcher = Matcher(corners, known_bounds(tree, block))
    try:
        matcher.stmt(block.body, _root(intrinsic.desc).body)
    except Mismatch as error:
        raise state.refusal(
            f"tensorize: {name_of(block)} is not what {name} computes: {error}", block
        ) from error
    pairs = zip(intrinsic.desc.buffers, intrinsic.impl.buffers, strict=True)
    return {theirs: matcher.regions[told] for told, theirs in pairs if told in matcher.regions}


def _refuse_hidden_holes(state: State, block: Block, new: Block, name: str) -> None:
    """Refuse if elements that are left out, as the loops show, were believed to be written."""
    for region in block.writes:
        if stores_all(new, region) and not stores_all(block, region):
            raise state.refusal(
                f"tensorize: {name_of(block)} does not store all that it says it writes of "
                f"{region.buffer.name}, and behind the pointers of {name} nobody would see it",
                block,
            )


def _renewed(old: Buffer, values: dict[Var, Var]) -> Buffer:
    """The same buffer with a pointer, strides and an offset of its own: each use has its own."""
    for x in (*old.strides, old.elem_offset):
        if isinstance(x, Var) and x not in values:
            values[x] = Var(x.name, x.dtype)
    fresh = FreshCopy({}, values)
    return replace(
        old,
        data=Var(old.data.name, old.data.dtype, old.data.pointee),
        strides=fresh.exprs(old.strides),
        elem_offset=None if old.elem_offset is None else fresh.expr(old.elem_offset),
    )


def _implemented(
    block: Block, intrinsic: TensorIntrin, regions: dict[Buffer, BufferRegion]
) -> Block:
    """The block with the implementation for its body, its buffers matched to the regions."""
    root = _root(intrinsic.impl)
    values: dict[Var, Var] = {}
    own = {old: _renewed(old, values) for old in (*regions, *root.alloc_buffers)}
    body = BufferSwap(own, {}).stmt(FreshCopy({}, values).stmt(root.body))
    matches = tuple(MatchBufferRegion(own[old], region) for old, region in regions.items())
    return replace(
        block,
        body=body,
        alloc_buffers=(*block.alloc_buffers, *(own[old] for old in root.alloc_buffers)),
        match_buffers=(*block.match_buffers, *matches, *root.match_buffers),
        annotations=FrozenDict({**block.annotations, **root.annotations}),
    )
