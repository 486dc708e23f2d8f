"""Simplify as a pass: what is known at a place is used there; options of `tir.Simplify`."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.testing import CompareBeforeAfter
from mlcnb.tir.transform import Simplify


class TestTestUnderItself(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.serial(8):
            if i == n and n < 5:
                if i == n:
                    A[i] = 1
                if n < 7:
                    A[i] = 2
                if i != n:
                    A[i] = 3

    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.serial(8):
            if i == n and n < 5:
                A[i] = 1
                A[i] = 2


class TestElseSideKnowsBothParts(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((8,), "int32"), n: T.int32, m: T.int32):
        if n == 3 or m == 4:
            A[0] = 0
        else:
            if m == 4:
                A[1] = 1
            else:
                A[2] = 2

    def expected(A: T.Buffer((8,), "int32"), n: T.int32, m: T.int32):
        if n == 3 or m == 4:
            A[0] = 0
        else:
            A[2] = 2


class TestWhatMemoryHeldIsForgotten(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((1,), "int32"), n: T.int32):
        if A[0] == n:
            A[0] = A[0] + 1
            if A[0] == n:
                A[0] = 0

    expected = before


class TestVariablesDecide(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((4,), "bool")):
        for i in T.serial(4):
            small = i < 3
            if small or i >= 3:
                A[i] = small

    def expected(A: T.Buffer((4,), "bool")):
        for i in T.serial(4):
            small = i < 3
            A[i] = small


class TestStoreOfWhatWasRead(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((4,), "float32")):
        A[1] = A[2 - 1]

    def expected(A: T.Buffer((4,), "float32")):
        T.evaluate(0)


class TestIntegersArePutInForTheirVariables(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        x: T.int32 = n + 2
        y: T.int32 = x * 2
        z: T.int32 = A[0]
        if x - 2 == n:
            A[1] = y - x
        A[2] = z + y

    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        z: T.int32 = A[0]
        A[1] = n + 2
        A[2] = z + n * 2 + 4


class TestWhatDeclaresABufferStays(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        x: T.int32 = n + 2
        B = T.decl_buffer((4,), "int32", data=A.data, elem_offset=x)
        B[0] = x

    expected = before


def test_values_that_would_double_stay_in_their_variables():
    """Forty squares, one of the other: put in, they would be 2 ** 40 factors."""
    body = ["x0: T.int32 = n"]
    body += [f"x{i + 1}: T.int32 = T.max(x{i} * x{i}, x{i} * n)" for i in range(40)]
    lines = "\n    ".join([*body, "A[0] = x40"])
    func = parse(f"@T.prim_func\ndef f(A: T.Buffer((1,), 'int32'), n: T.int32):\n    {lines}")
    after = Simplify()(IRModule.make({"f": func}))["f"]
    assert len(after.script()) < 10_000


class TestAThreadAxisOfOneStays(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((16,), "int32")):
        tx = T.launch_thread("threadIdx.x", 1)
        A[tx + 1] = tx

    def expected(A: T.Buffer((16,), "int32")):
        tx = T.launch_thread("threadIdx.x", 1)
        A[1] = 0


class TestTheSecondHalfOfOrKnowsThatTheFirstFails(CompareBeforeAfter):
    def before(A: T.Buffer((1,), "bool"), i: T.int32, j: T.int32):
        A[0] = i == 5 or (i != 5 and j == 6)

    def expected(A: T.Buffer((1,), "bool"), i: T.int32, j: T.int32):
        A[0] = i == 5 or j == 6

    @staticmethod
    def transform(mod):
        option = {"apply_constraints_to_boolean_branches": True}
        with PassContext(config={"tir.Simplify": option}):
            return Simplify()(mod)


@T.prim_func(private=True)
def conditions(A: T.Buffer((4,), "bool"), n: T.int32):
    A[0] = n < 10 and n < 5
    A[1] = A[2] or (A[3] and A[0])


@T.prim_func(private=True)
def branches_applied(A: T.Buffer((4,), "bool"), n: T.int32):
    A[0] = n < 5
    A[1] = A[2] or (A[3] and A[0])


@T.prim_func(private=True)
def and_of_ors(A: T.Buffer((4,), "bool"), n: T.int32):
    A[0] = n < 5
    A[1] = (A[2] or A[3]) and (A[2] or A[0])


@pytest.mark.parametrize(
    "option, expected",
    [
        ("apply_constraints_to_boolean_branches", branches_applied),
        ("convert_boolean_to_and_of_ors", and_of_ors),
    ],
)
def test_an_option_says_how_conditions_are_written(option, expected):
    with PassContext(config={"tir.Simplify": {option: True}}):
        after = Simplify()(IRModule.from_expr(conditions))["main"]
    assert_structural_equal(after, expected)


def test_an_unknown_option_is_refused():
    with pytest.raises(PassError) as error:
        PassContext(config={"tir.UnrollLoop": {"max_steps": 1}})
    assert str(error.value) == (
        "PassContext: tir.UnrollLoop has no option 'max_steps'\n"
        "hint: its options: auto_max_step, auto_max_depth, auto_max_extent, explicit_unroll, "
        "unroll_local_access"
    )
    with pytest.raises(PassError) as error:
        PassContext(config={"tir.Simplify": True})
    assert str(error.value).startswith(
        "PassContext: tir.Simplify is a table of options, not True\nhint: its options: transitively"
    )


class TestSizesAreNotNegative(CompareBeforeAfter):
    transform = Simplify()

    def before(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n * 4, 8), "int32")
        if 0 <= n:
            A[T.max(n, -1), T.min(n, 0) + 3] = 1

    def expected(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n * 4, 8), "int32")
        A[n, 3] = 1


class TestChoiceInAChoice(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2, 8), "int32")):
        for i, j in T.grid(2, 8):
            B[i, j] = T.if_then_else(
                i == 1 and 6 <= j, 0, T.max(0, T.if_then_else(i == 1 and 6 <= j, 0, A[i, j]))
            )

    def expected(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2, 8), "int32")):
        for i, j in T.grid(2, 8):
            B[i, j] = T.if_then_else(i == 1 and 6 <= j, 0, T.max(A[i, j], 0))


class TestBoundsAreAsStrictAsTheyWereGiven(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((8,), "bool"), i: T.int32, n: T.int32):
        A[0] = i <= 0
        A[1] = i < 1
        A[2] = 0 < i
        A[3] = i >= 1
        A[4] = i * 4 <= 11
        A[5] = i + 2 > 0

    def expected(A: T.Buffer((8,), "bool"), i: T.int32, n: T.int32):
        A[0] = i <= 0
        A[1] = i < 1
        A[2] = 0 < i
        A[3] = 1 <= i
        A[4] = i <= 2
        A[5] = -2 < i


class TestTwoTestsSayMoreThanOne(CompareBeforeAfter):
    transform = Simplify()

    def before(A: T.Buffer((8,), "bool"), i: T.int32, j: T.int32):
        if i <= 0:
            A[0] = 0 <= i
            A[1] = i != 0
        if i != j:
            A[2] = i <= j
            A[3] = j <= i
        if i <= j:
            A[4] = j <= i
            A[5] = j != i
            A[6] = i <= j
            A[7] = i == j

    def expected(A: T.Buffer((8,), "bool"), i: T.int32, j: T.int32):
        if i <= 0:
            A[0] = i == 0
            A[1] = i < 0
        if i != j:
            A[2] = i < j
            A[3] = j < i
        if i <= j:
            A[4] = j == i
            A[5] = i < j
            A[6] = True
            A[7] = i == j
