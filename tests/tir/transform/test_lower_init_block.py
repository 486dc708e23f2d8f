"""LowerInitBlock and ConvertBlocksToOpaque: reductions start with an if, axes are values."""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.transform import ConvertBlocksToOpaque, LowerInitBlock
from tests.tir.transform.lowering import check, run_pass


@T.prim_func
def sums(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k, m in T.grid(4, 2, 3):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            r = T.axis.reduce((0, 6), k * 3 + m)
            T.where(k * 3 + m < 5)
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, r]


def test_init_becomes_a_branch_and_axes_become_values():
    started = check(
        LowerInitBlock(),
        sums,
        """
        for i, k, m in T.grid(4, 2, 3):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                r = T.axis.reduce(6, k * 3 + m)
                T.where(k * 3 + m < 5)
                T.reads(A[v, r])
                T.writes(B[v])
                if r == 0:
                    B[v] = T.float32(0.0)
                B[v] = B[v] + A[v, r]
        """,
    )
    check(
        ConvertBlocksToOpaque(),
        started,
        """
        for i, k, m in T.grid(4, 2, 3):
            with T.block("B"):
                T.where(k * 3 + m < 5)
                T.reads(A[i, k * 3 + m])
                T.writes(B[i])
                if k * 3 + m == 0:
                    B[i] = T.float32(0.0)
                B[i] = B[i] + A[i, k * 3 + m]
        """,
    )


@T.prim_func
def two_axes(A: T.Buffer((4, 6), "float32"), B: T.Buffer((1,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            r, s = T.axis.remap("RR", [i, k])
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[r, s]


def test_every_reduce_axis_is_at_its_start():
    check(
        LowerInitBlock(),
        two_axes,
        """
        for i, k in T.grid(4, 6):
            with T.block("B"):
                r, s = T.axis.remap("RR", [i, k])
                T.reads(A[r, s])
                T.writes(B[0])
                if r == 0 and s == 0:
                    B[0] = T.float32(0.0)
                B[0] = B[0] + A[r, s]
        """,
    )


@T.prim_func
def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]


def test_nothing_to_do():
    assert run_pass(LowerInitBlock(), copy) is copy
    assert run_pass(ConvertBlocksToOpaque(), copy) is copy
