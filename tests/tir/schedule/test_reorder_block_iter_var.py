"""reorder_block_iter_var: whole programs and refusals."""

from __future__ import annotations

from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, elementwise, matmul, refuses


def test_axes_of_a_reduction():
    sch = Schedule(matmul(2, 3, 4))
    C = sch.get_block("C")
    sch.reorder_block_iter_var(C, [2, 0, 1])
    assert [v.var.name for v in sch.get(C).iter_vars] == ["v_k", "v_i", "v_j"]
    becomes(
        sch,
        """
        for i, j, k in T.grid(2, 3, 4):
            with T.block("C"):
                v_k, v_i, v_j = T.axis.remap("RSS", [k, i, j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_after_tiles_that_do_not_divide():
    sch = Schedule(matmul(5, 3, 4))
    sch.split(sch.get_loops("C")[0], [None, 2])
    sch.reorder_block_iter_var("C", [1, 0, 2])
    becomes(
        sch,
        """
        for i_0, i_1, j, k in T.grid(3, 2, 3, 4):
            with T.block("C"):
                v_j = T.axis.spatial(3, j)
                v_i = T.axis.spatial(5, i_0 * 2 + i_1)
                v_k = T.axis.reduce(4, k)
                T.where(i_0 * 2 + i_1 < 5)
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_refusals():
    sch = Schedule(matmul())
    C = sch.get_block("C")
    for order in ([0, 1], [0, 1, 1], [1, 2, 3], [0, 1, 2, 3]):
        with refuses(
            sch,
            f"reorder_block_iter_var: {order} is no order of the 3 axes of block C",
            hint="name each of 0 to 2 once; the axes are v_i, v_j, v_k",
        ):
            sch.reorder_block_iter_var(C, order)
    sch = Schedule(elementwise())
    root = sch.get_block("root")
    with refuses(sch, "reorder_block_iter_var: [0] is no order of the 0 axes of block root"):
        sch.reorder_block_iter_var(root, [0])
