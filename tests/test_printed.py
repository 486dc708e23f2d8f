"""What is expected of a program is compared as a whole, however it is spelt."""

from __future__ import annotations

import pytest

from mlcnb.tir.schedule import Schedule
from tests.printed import has_body
from tests.tir.schedule.programs import copy_2d

BODY = """
for i in T.serial(0, 8):
    for j in range(8):
        with T.block("B"):
            v_i = T.axis.spatial(8, i)
            v_j = T.axis.spatial(8, j)
            B[v_i, v_j] = A[v_i, v_j] * T.float32(2)
"""


def test_regions_are_those_of_the_statements_and_loops_may_be_spelt_otherwise():
    func = copy_2d()
    has_body(func, BODY)
    said = "            T.reads(A[v_i, v_j])\n            T.writes(B[v_i, v_j])\n"
    has_body(func, BODY.replace("            B[", said + "            B["))


@pytest.mark.parametrize(
    ("there", "other"),
    [("range(8)", "range(7)"), ("v_j", "v_k"), ('"B"', '"C"'), ("* T.float32(2)", "")],
)
def test_what_differs_is_found(there, other):
    with pytest.raises(AssertionError):
        has_body(copy_2d(), BODY.replace(there, other))


def test_regions_that_are_wider_are_found():
    sch = Schedule(copy_2d())
    wider = lambda i, j: [(i, i + 1), (0, 8)]
    sch.annotate_buffer_access("B", 0, "read", wider)
    with pytest.raises(AssertionError):
        has_body(sch.mod["main"], BODY)
    mark = 'T.block_attr({"explicit_read_region": [0]})'
    said = (
        f"            T.reads(A[v_i, 0:8])\n            T.writes(B[v_i, v_j])\n            {mark}\n"
    )
    has_body(sch.mod["main"], BODY.replace("            B[", said + "            B["))
