"""Schedules for CPUs. A rule is a function `rule(sch, survey, target) -> bool`: True if it took it.

RULES, first that fits:    dot_window       convolutions of bytes or bfloat16 on blocked channels
                           dot_matmul       products of bytes or bfloat16 with a packed matrix
                           attention        softmax(Q K^T) V, whole
                           depthwise        convolutions in which each channel has its own window
                           pool             windows of one operand, on blocked channels
                           pool_rows        windows of one operand, on the plain layout
                           lrn              windows along channels in blocks
                           winograd         convolutions by Winograd's minimal filtering
                           pointwise        1 x 1 convolutions
                           blocked_window   convolutions on blocked channels
                           packed_matmul    products with a packed matrix
                           gemv             few rows or a column times a matrix
                           matmul           products of matrices as they lie, packed where it pays
                           sums             any other sum whose operands are read again, in tiles
                           rows             softmax, normalisations, reductions along rows
                           pairs            matrices with two rows of bfloat16 together
                           fours            matrices of bytes with four rows together, filled up
                           columns          reductions over leading or middle axes
                           transpose        copies along another axis, in tiles turned in registers
                           interpolation    images in another size: rows, then columns
                           sampling         images read at places from data: channels last
                           general          everything else: parallel outside, vectors inside

By TVM's names, for `ApplyDefaultSchedule`: `Attention`, `GEMV`, `Matmul`, `Reduction` and
`GeneralReduction` (rows, else columns), `Transpose`, `Fallback` (general).
"""

from __future__ import annotations

from mlcnb.dlight.cpu.attention import attention
from mlcnb.dlight.cpu.blocked_window import blocked_window
from mlcnb.dlight.cpu.columns import columns
from mlcnb.dlight.cpu.depthwise import depthwise
from mlcnb.dlight.cpu.dot_matmul import dot_matmul
from mlcnb.dlight.cpu.dot_window import dot_window
from mlcnb.dlight.cpu.fours import fours
from mlcnb.dlight.cpu.gemv import gemv
from mlcnb.dlight.cpu.general import general
from mlcnb.dlight.cpu.interpolation import interpolation
from mlcnb.dlight.cpu.lrn import lrn
from mlcnb.dlight.cpu.matmul import matmul
from mlcnb.dlight.cpu.packed_matmul import packed_matmul
from mlcnb.dlight.cpu.pairs import pairs
from mlcnb.dlight.cpu.pointwise import pointwise
from mlcnb.dlight.cpu.pool import pool
from mlcnb.dlight.cpu.pool_rows import pool_rows
from mlcnb.dlight.cpu.rows import rows
from mlcnb.dlight.cpu.sampling import sampling
from mlcnb.dlight.cpu.sums import sums
from mlcnb.dlight.cpu.transpose import transpose
from mlcnb.dlight.cpu.winograd import winograd
from mlcnb.dlight.rule import ScheduleRule, first_that_fits, is_scheduled
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule import Schedule

RULES = (
    dot_window,
    dot_matmul,
    attention,
    depthwise,
    pool,
    pool_rows,
    lrn,
    winograd,
    pointwise,
    blocked_window,
    packed_matmul,
    gemv,
    matmul,
    sums,
    rows,
    pairs,
    fours,
    columns,
    transpose,
    interpolation,
    sampling,
    general,  # always applies
)

Attention = ScheduleRule(attention)
GEMV = ScheduleRule(gemv)
Matmul = ScheduleRule(matmul)
Reduction = GeneralReduction = ScheduleRule(rows, columns)
Transpose = ScheduleRule(transpose)
Fallback = ScheduleRule(general)


def schedule_cpu(func: PrimFunc, target: Target) -> Schedule | None:
    """A fast schedule for `func`; None where it has been scheduled already.

    The result's trace says what was done: `print(schedule_cpu(func, target).trace)`.
    """
    if is_scheduled(func):
        return None
    return first_that_fits(RULES, func, target) or Schedule(func)
