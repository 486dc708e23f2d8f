"""Passes of TVM whose work is done elsewhere here: they refuse a program that asks for it.

LowerWarpMemory()(mod)     mod, where no memory lies in a warp; else an UnsupportedError that says
                           what does that work

A program without anything for such a pass goes through, so that pipelines written for TVM run.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, ClassVar

from mlcnb.core.errors import UnsupportedError
from mlcnb.core.node import Node, walk
from mlcnb.ir.expr import Call
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.kernels import THREAD_AXES, bound_axis
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Allocate, AttrStmt, Block, For, SeqStmt


class _Refused(PrimFuncPass):
    """Base of these passes: what they `want` is what they would work on."""

    #: what is not done, and what to do
    why: ClassVar[tuple[str, str]]

    @staticmethod
    def wants(n: Any) -> bool:
        """True if a node asks for the pass; by default none does."""
        return False

    def asks(self, func: PrimFunc) -> Node | None:
        """The first node that asks for the pass; None where nothing does."""
        return next((n for n in walk(func.body) if self.wants(n)), None)

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """The function itself.

        Raises:
            UnsupportedError: there is something for the pass to do.
        """
        found = self.asks(func)
        if found is None:
            return func
        message, hint = self.why
        raise UnsupportedError(f"{self.name}: {message}", where=found, root=func, hint=hint)


def _is_memory(n: Any, scopes: Collection[str]) -> bool:
    """True for memory of one of the scopes."""
    if isinstance(n, Allocate):
        return n.scope in scopes
    return isinstance(n, Block) and any(b.scope in scopes for b in n.alloc_buffers)


def _is_marked(n: Any, key: str) -> bool:
    """True for an attribute, or what has an annotation, of that name."""
    if isinstance(n, AttrStmt):
        return n.attr_key == key
    return isinstance(n, For | Block) and key in n.annotations


class LowerWarpMemory(_Refused):
    """Memory of a warp as registers and shuffles: refused where there is some."""

    wants = partial(_is_memory, scopes=("warp",))
    why = (
        "memory of scope warp is not turned into shuffles",
        "leave the pass out: the CUDA code generator keeps such memory in registers",
    )


def _fills_fragment(n: Any) -> bool:
    names = ("tir.tvm_load_matrix_sync", "tir.tvm_fill_fragment")
    return isinstance(n, Call) and n.op in names


class InferFragment(_Refused):
    """Shapes and layouts of fragments of tensor cores: refused where there are some."""

    wants = staticmethod(_fills_fragment)
    why = (
        "fragments are not marked",
        "leave the pass out: the CUDA code generator reads shapes and layouts from the calls",
    )


class TransformMmaBufferLayout(_Refused):
    """Memory of fragments in the layout of their threads: refused where there is some."""

    wants = partial(_is_memory, scopes=[f"m16n8k8.matrix{letter}" for letter in "ABC"])
    why = (
        "there are no scopes m16n8k8.matrix",
        "use sch.transform_layout, or the intrinsics of mlcnb.tir.tensor_intrin",
    )


class InjectPermutedLayout(_Refused):
    """Shared memory with permuted columns: refused where a block asks for it."""

    wants = partial(_is_marked, key="permuted_layout")
    why = (
        "the annotation permuted_layout is not read",
        "use sch.storage_align or sch.transform_layout against conflicts of banks",
    )


class ManifestSharedMemoryLocalStage(_Refused):
    """A copy to shared memory through registers: refused where a block asks for it."""

    wants = partial(_is_marked, key="tir.manifest_shared_memory_local_stage")
    why = (
        "no stage in registers is made of the annotation",
        'use sch.cache_read(block, 0, "local") on the block that copies',
    )


class MergeSharedMemoryAllocations(_Refused):
    """Shared memory as one allocation: refused where there are several that would be merged.

    Those are of scope shared.dyn, and with the config `tir.merge_static_smem` of scope shared too.
    """

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """As of the base, by the config."""
        static = ("shared",) if ctx.get_config("tir.merge_static_smem") else ()
        self.scopes: tuple[str, ...] = ("shared.dyn", *static)
        return super().transform_function(func, mod, ctx)

    def asks(self, func: PrimFunc) -> Node | None:
        """The second allocation of one scope."""
        for scope in self.scopes:
            found = [n for n in walk(func.body) if _is_memory(n, (scope,))]
            if len(found) > 1:
                return found[1]
        return None

    why = (
        "allocations of shared memory are not merged",
        "leave the pass out: the CUDA code generator lays them one behind the other",
    )


class InjectRollingBuffer(_Refused):
    """Buffers that roll along a loop: refused where an attribute asks for them."""

    wants = partial(_is_marked, key="rolling_buffer_scope")
    why = ("the attribute rolling_buffer_scope is not read", "use sch.rolling_buffer")


def _binds_one_axis_twice(n: Any) -> bool:
    """True for a sequence in a block with several loops that bind one axis."""
    if not isinstance(n, SeqStmt):
        return False
    per_part = [{bound_axis(x) for x in walk(part)} & {*THREAD_AXES} for part in n.seq]
    return sum(map(len, per_part)) > len(set().union(*per_part))


class LiftThreadBinding(_Refused):
    """Threads of several loops bound once around their block: refused where loops are several."""

    wants = staticmethod(_binds_one_axis_twice)
    why = (
        "an axis is bound by several loops",
        "use UnifyThreadBinding after LowerOpaqueBlock, as `tir.transform.lower` does",
    )


def _is_special(n: Any) -> bool:
    """True for memory of a scope with a kind of its own, as "global.vtcm"."""
    if not isinstance(n, Allocate):
        return False
    scope, _, kind = n.scope.partition(".")
    return bool(kind) and scope != "wmma" and (scope, kind) != ("shared", "dyn")


class LowerDeviceStorageAccessInfo(_Refused):
    """Memory of a kind that a registered function describes: refused where there is some."""

    wants = staticmethod(_is_special)
    why = (
        "memory of a scope of its own is not described by anybody",
        "use the scopes global, shared, shared.dyn, local, warp or wmma.…",
    )


class ExtractPrimFuncConstants(_Refused):
    """Constants inside of functions as attributes of the module: they stay in the function."""

    #: a kernel holds its constants in its object
    why = ("constants stay in their function", "pass the constant as a buffer")


class PointerValueTypeRewrite(_Refused):
    """Pointers to vectors where memory is used by vectors: nothing to do here.

    Every backend loads and stores vectors through pointers to scalars.
    """

    why = ("pointers keep their dtype", "leave the pass out")
