"""UnrollLoop: short loops are written out, long ones are left to the code generator."""

from __future__ import annotations

from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform.unroll_loop import MAX_DECIDED, MAX_STATEMENTS, unroll_loops

COPY = """
@T.prim_func
def copy(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
{body}
"""


def copy(body: str):
    return parse(COPY.format(body=body))


def test_a_short_loop_becomes_its_iterations():
    before = copy("    for i in T.unroll(2):\n        B[i] = A[i]\n")
    assert_structural_equal(unroll_loops(before), copy("    B[0] = A[0]\n    B[1] = A[1]\n"))


def test_a_nest_of_many_statements_stays_for_the_code_generator():
    loops = (
        f"    for i in T.unroll({MAX_STATEMENTS}):\n"
        "        for j in T.unroll(2):\n"
        "            B[i * 2 + j] = A[i * 2 + j]\n"
    )
    inner = (
        f"    for i in T.unroll({MAX_STATEMENTS}):\n"
        "        B[i * 2] = A[i * 2]\n"
        "        B[i * 2 + 1] = A[i * 2 + 1]\n"
    )
    assert_structural_equal(unroll_loops(copy(loops)), copy(inner))


def test_loads_from_here_and_there_are_written_out_until_they_are_too_many():
    """Of numbers the code generator sees that lanes of a reflected row lie together."""
    body = """
    for i in T.unroll({count}):
        B[i * 8:i * 8 + 8] = A[{index}]
    """
    turned = "T.min(T.Ramp(i * 8, 1, 8), T.Broadcast(200, 8) - T.Ramp(i * 8, 1, 8))"
    for count, index, out in (
        (8, turned, True),
        (17, turned, False),
        (8, "T.Ramp(0, 2, 8)", False),
    ):
        before = copy(body.format(count=count, index=index))
        made = unroll_loops(before).script()
        assert ("T.unroll" not in made) is out
        assert made.count("B[") == (count if out else 1)


def test_a_loop_whose_variable_decides_about_branches_is_written_out():
    """The code generator is not asked for what it may be unable to do."""
    alone = "    for i in T.unroll(8):\n        if i < 3:\n            B[i] = A[i]\n"
    after = "".join(f"    B[{i}] = A[{i}]\n" for i in range(3))
    assert_structural_equal(unroll_loops(copy(alone)), copy(after))
    both = (
        "    for i in T.unroll(3):\n"
        "        for j in T.unroll(6):\n"
        "            if i + j < 3:\n"
        "                B[i * 6 + j] = A[i * 6 + j]\n"
    )
    places = [i * 6 + j for i in range(3) for j in range(6) if i + j < 3]
    after = "".join(f"    B[{i}] = A[{i}]\n" for i in places)
    assert_structural_equal(unroll_loops(copy(both)), copy(after))


def test_of_values_that_a_loop_chooses_between_each_iteration_keeps_its_own():
    last = "T.Select(i == 2, T.float32(3) * A[2], A[i])"
    value = f"T.Select(i == 0, A[7], T.Select(i == 1, A[0] + A[1], {last}))"
    before = copy(f"    for i in T.unroll(6):\n        B[i] = {value}\n")
    values = ["A[7]", "A[0] + A[1]", "T.float32(3) * A[2]", "A[3]", "A[4]", "A[5]"]
    after = "".join(f"    B[{i}] = {value}\n" for i, value in enumerate(values))
    assert_structural_equal(unroll_loops(before), copy(after))
    lanes = "    for i in T.unroll(6):\n        B[i * 4:i * 4 + 4] = {value}\n"
    chosen = "T.Select(T.Broadcast(i == 5, 4), A[0:4], A[4:8])"
    before_lanes = copy(lanes.format(value=chosen))
    after = "".join(
        f"    B[{4 * i}:{4 * i + 4}] = A[{'0:4' if i == 5 else '4:8'}]\n" for i in range(6)
    )
    assert_structural_equal(unroll_loops(before_lanes), copy(after))


def test_a_choice_that_hangs_on_another_loop_too_stays_for_the_code_generator():
    for test in ("i < o", "A[i] < A[0]"):
        before = copy(
            "    for o in range(4):\n"
            "        for i in T.unroll(8):\n"
            f"            B[i] = T.Select({test}, A[i], A[o])\n"
        )
        assert_structural_equal(unroll_loops(before), before)


def test_a_branch_that_hangs_on_a_loop_around_stays_for_the_code_generator():
    inner = (
        "    for o in range(4):\n"
        "        for i in T.unroll(8):\n"
        "            if i < o:\n"
        "                B[i] = A[i]\n"
    )
    assert_structural_equal(unroll_loops(copy(inner)), copy(inner))
    many = "    for i in T.unroll({count}):\n        if i < 3:\n            B[i] = A[i]\n"
    many = many.replace("B[i] = A[i]\n", "B[i] = A[i]\n            B[i + 3] = A[i]\n")
    long = copy(many.format(count=MAX_DECIDED // 2 + 1))
    assert_structural_equal(unroll_loops(long), long)


def test_a_loop_that_is_too_long_is_a_plain_loop():
    before = copy("    for i in T.unroll(257):\n        B[0] = A[0]\n")
    assert_structural_equal(
        unroll_loops(before), copy("    for i in range(257):\n        B[0] = A[0]\n")
    )


def test_a_test_that_does_something_is_done_where_nothing_hangs_on_it():
    @T.prim_func(private=True)
    def before():
        for i in T.unroll(2):
            if T.call_extern("int32", "step", i) > 0:
                T.evaluate(0)

    @T.prim_func(private=True)
    def after():
        T.evaluate(T.call_extern("int32", "step", 0) > 0)
        T.evaluate(T.call_extern("int32", "step", 1) > 0)

    assert_structural_equal(unroll_loops(before), after)
