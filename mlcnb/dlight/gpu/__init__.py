"""Schedules for GPUs. A rule is a function `rule(sch, survey, target) -> bool`: True if it took it.

RULES, first that fits:    flash_attention  softmax(Q K^T) V of halves, on tensor cores
                           attention        the same as one kernel, scores in shared memory
                           tensor_cores     products, convolutions of halves or of int8 by mma.sync
                           matmul           products and convolutions, in tiles in shared memory
                           gemv             a vector times a matrix, which is read once
                           low_batch_gemv   a few rows times a matrix
                           rows             softmax, normalisations, reductions along rows
                           transpose        copies along another axis, by tiles in shared memory
                           by_statements    loops of statements: the inner ones on threads
                           fallback         a thread for each element, or for a vector of them
                           fallback_in_parts  the same; what cannot be spread on one thread
                           one_thread       everything on one thread, whatever it is

By TVM's names, for `ApplyDefaultSchedule`: `Attention`, `Matmul` (on tensor cores where they
multiply its dtype; float32, which they round to tf32, with `tf32=True` only; `wide=True` for larger
tiles of float32, of which no GPU has told yet whether they are faster), `GEMV`, `LowBatchGEMV`,
`Reduction`, `GeneralReduction` and `RMSNorm` (rows), `Transpose`, `Fallback`.
`WarpgroupMatmul` (products of halves by `wgmma` on sm_90a; with `loads="tma"` its tiles come as
boxes of tensor maps) is checked by simulation and offline compilation, not yet on a GPU: it applies
only where it is named.
"""

from __future__ import annotations

from mlcnb.core.errors import ScheduleError
from mlcnb.dlight.gpu.attention import attention
from mlcnb.dlight.gpu.fallback import fallback, fallback_in_parts
from mlcnb.dlight.gpu.flash_attention import flash_attention
from mlcnb.dlight.gpu.gemv import gemv, low_batch_gemv
from mlcnb.dlight.gpu.matmul import matmul, matmul_wide
from mlcnb.dlight.gpu.one_thread import one_thread
from mlcnb.dlight.gpu.rows import rows
from mlcnb.dlight.gpu.statements import by_statements
from mlcnb.dlight.gpu.tensor_cores import tensor_cores, tensor_cores_tf32
from mlcnb.dlight.gpu.transpose import transpose
from mlcnb.dlight.gpu.wgmma import wgmma, wgmma_by_boxes
from mlcnb.dlight.rule import ScheduleRule, first_that_fits, is_scheduled
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

RULES = (
    flash_attention,
    attention,
    tensor_cores,
    matmul,
    gemv,
    low_batch_gemv,
    rows,
    transpose,
    by_statements,
    fallback,
    fallback_in_parts,
    one_thread,
)


class _Warpgroups(ScheduleRule):
    """The rule of `WarpgroupMatmul`, with its option."""

    def __call__(self, loads: str = "cp.async") -> ScheduleRule:
        """The rule whose tiles come by "cp.async", or as boxes of tensor maps by "tma".

        Raises:
            ScheduleError: by anything else.
        """
        if loads not in ("cp.async", "tma"):
            raise ScheduleError(
                f"WarpgroupMatmul has no loads={loads!r}", hint='"cp.async" or "tma"'
            )
        return self if loads == "cp.async" else ScheduleRule(wgmma_by_boxes)


class _Products(ScheduleRule):
    """The rule of `Matmul`, with its options."""

    def __call__(self, tf32: bool = False, wide: bool = False) -> ScheduleRule:
        """The rule; tf32: products of float32 go on tensor cores, too, which take 11 of the 24 bits
        of each operand (relative error up to 2^-11 each; sums are float32). wide: what goes on no
        tensor core is done in tiles of 256 x 128 (`matmul_wide`).
        """
        if not (tf32 or wide):
            return self
        tensors = tensor_cores_tf32 if tf32 else tensor_cores
        return ScheduleRule(tensors, *([matmul_wide] if wide else []), matmul)


Attention = ScheduleRule(flash_attention, attention)
Matmul = _Products(tensor_cores, matmul)
WarpgroupMatmul = _Warpgroups(wgmma)
GEMV = ScheduleRule(gemv)
LowBatchGEMV = ScheduleRule(low_batch_gemv)
Reduction = GeneralReduction = RMSNorm = ScheduleRule(rows)
Transpose = ScheduleRule(transpose)
Fallback = ScheduleRule(fallback, fallback_in_parts, one_thread)


def schedule_gpu(func: PrimFunc, target: Target) -> Schedule | None:
    """A schedule for `func` on the threads of a GPU; None where it has been scheduled already."""
    return None if is_scheduled(func) else first_that_fits(RULES, func, target)
