"""The rules, postprocessors and mutators that a target has by default.

| set | rules | beside |
| --- | --- | --- |
| llvm | custom, constants, inline, rfactor, Winograd, registers, "SSRSRS", notes, place | |
| vnni, avx512, avx2 | the same | tiles around a dot product of bytes |
| cuda | custom, "SSSRRSRS" tiles in shared memory, constants, inline, threads, notes | |
| cuda-tensorcore | the same | tiles of 16 x 8 around mma.sync |

https://tvm.apache.org/docs/reference/api/python/meta_schedule.html has the same names.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.meta_schedule import mutator as m
from mlcnb.meta_schedule import postproc as p
from mlcnb.meta_schedule import schedule_rule as r
from mlcnb.target import Target

#: set -> the dot product of bytes around which tiles are laid
DOTS = {"vnni": "dot_16x4_vnni", "avx512": "dot_16x4_avx512", "avx2": "dot_8x4_avx2"}
_GPU = ("cuda", "cuda-tensorcore")


def kind_of_target(target: Any) -> str:
    """The set that a target has: "llvm", "vnni", "avx512", "avx2", "cuda" or "cuda-tensorcore".

    Raises:
        MLCError: there are no rules for it.
    """
    if isinstance(target, str) and target in ("llvm", *DOTS, *_GPU):
        return target
    where = Target(target)
    if where.kind in ("cuda", "cuda-sim"):
        number = "".join(c for c in str(where.attrs.get("arch", "")) if c.isdigit())
        return "cuda-tensorcore" if int(number or 0) >= 75 else "cuda"
    if where.kind != "llvm":
        raise MLCError(f"no schedule rules for {where}", hint="llvm or cuda")
    if "avx512vnni" in where.features:
        return "vnni"
    if {"avx512f", "avx512bw"} <= where.features:
        return "avx512"
    return "avx2" if "avx2" in where.features else "llvm"


def default_rules(target: Any) -> list[Any]:
    """The schedule rules of a target, each new.

    Raises:
        MLCError: there are none for it.
    """
    kind = kind_of_target(target)
    if kind in _GPU:
        tensors = [r.MultiLevelTilingTensorCore()] if kind == "cuda-tensorcore" else []
        return [r.ApplyCustomRule(), *tensors, *_gpu_rules()]
    keep = r.ReuseType("may", [1, 2], "global")
    tiles = [r.MultiLevelTiling("SSRSRS", None, 64, None, None, keep)]
    if kind in DOTS:
        tiles = [r.MultiLevelTilingWithIntrin("SSRSRS", None, 64, None, None, keep,
                                              intrin_name=DOTS[kind]), *tiles]  # fmt: skip
    return [
        r.ApplyCustomRule(),
        r.InlineConstantScalars(),
        r.AutoInline(),
        r.AddRFactor(16, 64),
        r.Winograd(),
        r.RegisterTiling(),
        *tiles,
        r.ParallelizeVectorizeUnroll(16, 64, (0, 16, 64, 512), True),
        r.RandomComputeLocation(),
    ]


def _gpu_rules() -> list[Any]:
    return [
        r.MultiLevelTiling(
            "SSSRRSRS",
            ("blockIdx.x", "vthread.x", "threadIdx.x"),
            64,
            (1, 2, 4),
            r.ReuseType("must", [4], "shared"),
            r.ReuseType("must", [3], "local"),
        ),
        r.InlineConstantScalars(),
        r.AutoInline(True, True, True, False, False, False, None),
        r.CrossThreadReduction(),
        r.ParallelizeVectorizeUnroll(-1, -1, (0, 16, 64, 512), True),
        r.AutoBind(),
    ]


def default_postprocs(target: Any) -> list[Any]:
    """The postprocessors of a target, each new."""
    kind = kind_of_target(target)
    if kind in _GPU:
        tensors = [p.RewriteTensorize()] if kind == "cuda-tensorcore" else []
        return [
            p.DisallowDynamicLoop(),
            p.RewriteCooperativeFetch(),
            p.RewriteUnboundBlock(256),
            p.RewriteParallelVectorizeUnroll(),
            p.RewriteReductionBlock(),
            *tensors,
            p.DisallowAsyncStridedMemCopy(),
            p.VerifyGPUCode(),
        ]
    tensors = [p.RewriteTensorize(vectorize_init_loop=True)] if kind in DOTS else []
    return [
        p.DisallowDynamicLoop(),
        p.RewriteParallelVectorizeUnroll(),
        p.RewriteReductionBlock(),
        *tensors,
        p.RewriteLayout(),
    ]


def default_mutators(target: Any) -> dict[Any, float]:
    """Mutators of a target, each new -> how likely it is."""
    if kind_of_target(target) in _GPU:
        return {m.MutateTileSize(): 0.9, m.MutateUnroll(): 0.08, m.MutateThreadBinding(): 0.02}
    return {
        m.MutateTileSize(): 0.9,
        m.MutateComputeLocation(): 0.05,
        m.MutateUnroll(): 0.03,
        m.MutateParallel(16): 0.02,
    }
