"""What an integer of a program may be: the one place that decides, and who passes it."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb import te
from mlcnb.arith import Analyzer
from mlcnb.codegen.interp.numerics import wrapper
from mlcnb.core.errors import IntegerRangeError, MLCError, ModelError, ParseError, ScheduleError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.json import load_json, save_json
from mlcnb.script import from_source
from mlcnb.tir import IndexMap, IntImm
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import copy_2d, matmul

KINDS = st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "bool"])
NUMBERS = st.builds(
    lambda power, by, sign: sign * (2**power + by),
    st.integers(0, 65),
    st.integers(-2, 2),
    st.sampled_from([1, -1]),
)


@given(KINDS, NUMBERS)
def test_a_constant_is_what_its_dtype_holds(kind, value):
    low, high = dtype(kind).min_value, dtype(kind).max_value
    if low <= value <= high:
        assert IntImm(kind, value).value == value
    else:
        with pytest.raises(IntegerRangeError) as error:
            IntImm(kind, value)
        assert str(error.value) == f"{value} is no {kind}: these run from {low} to {high}"


@given(KINDS.filter(lambda k: k != "bool"), NUMBERS)
def test_a_cast_wraps_around_and_a_size_does_not(kind, value):
    given_as = p.wrapped(value, "int64")
    assert p.cast(kind, given_as).value == wrapper(dtype(kind))(given_as.value)
    if dtype(kind).holds(given_as.value):
        assert p.fitted(kind, given_as).value == given_as.value
    else:
        with pytest.raises(IntegerRangeError):
            p.fitted(kind, given_as)


@given(NUMBERS, NUMBERS, st.sampled_from([(p.add, operator.add), (p.multiply, operator.mul)]))
def test_what_overflows_is_not_folded(a, b, how):
    build, meaning = how
    a, b = (p.wrapped(x, "int32") for x in (a, b))
    made, exact = build(a, b), meaning(a.value, b.value)
    assert p.as_int(made) == (exact if dtype("int32").holds(exact) else None)


def _sums(variables):
    leaf = st.sampled_from(variables) | NUMBERS.map(lambda n: p.wrapped(n, "int32"))
    kinds = [e.Add, e.Sub, e.Mul, e.Min, e.Max]
    return st.recursive(
        leaf,
        lambda x: st.builds(lambda k, a, b: k(a, b), st.sampled_from(kinds), x, x),
        max_leaves=6,
    )


VARIABLES = [e.Var("n"), e.Var("m")]
COMPARISONS = st.sampled_from([e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE])


@given(COMPARISONS, _sums(VARIABLES), _sums(VARIABLES))
def test_simplify_makes_no_number_out_of_range(kind, a, b):
    """Nothing is raised, and what comes out is a program: its constants are checked when made."""
    simple = Analyzer().simplify(kind(a, b))
    assert simple.dtype == "bool"
    Analyzer().can_prove(kind(a, b))
    Analyzer().const_int_bound(a)
    assert Analyzer().simplify(a).dtype == "int32"


def test_a_comparison_stays_as_it_is_where_the_other_side_does_not_fit():
    n = e.Var("n")
    x = e.EQ(e.Add(n, IntImm("int32", -(2**31))), IntImm("int32", 0))
    assert repr(Analyzer().simplify(x)) == "n + -2147483648 == 0"
    product = e.Mul(e.Mul(n, p.const(1 << 20)), p.const(1 << 20))
    assert repr(Analyzer().simplify(product)) == "n * 1048576 * 1048576"


def test_text_json_and_numbers_beside_expressions():
    with pytest.raises(ParseError, match="2147483648 is no int32"):
        from_source("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(T.int32(2147483648))")
    with pytest.raises(IntegerRangeError, match="4294967296 is no int32"):
        e.Var("n") + 2**32
    text = save_json(IntImm("int32", 7)).replace('"value": 7', '"value": 4294967296')
    with pytest.raises(ModelError) as error:
        load_json(text)
    assert str(error.value) == (
        "load_json: damaged text, 4294967296 is no int32: these run from -2147483648 to 2147483647"
    )


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            lambda sch, i, j: sch.split(i, [None, 2**31]),
            "split: 2147483648 is no int32: these run from -2147483648 to 2147483647",
        ),
        (
            lambda sch, i, j: sch.split(i, [2**16, 2**16]),
            "split: factors [65536, 65536] make 4294967296 iterations, more than int32, the dtype "
            "of loop i, can count",
        ),
        (
            lambda sch, i, j: sch.split(i, [2**31 + 4, 2]),
            "split: factors [2147483652, 2] make 4294967304 iterations, more than int32, the dtype "
            "of loop i, can count",
        ),
        (
            lambda sch, i, j: sch.split(i, [IntImm("int64", 2**32 + 8), 1]),
            "split: factors [4294967304, 1] make 4294967304 iterations, more than int32, the dtype "
            "of loop i, can count",
        ),
        (
            lambda sch, i, j: sch.split(
                i, [None, sch.sample_categorical([2**40], [1.0], decision=0)]
            ),
            "split: factors [None, 1099511627776] make 1099511627776 iterations, more than int32, "
            "the dtype of loop i, can count",
        ),
        (
            lambda sch, i, j: sch.loop_partition(i, [2**32, None]),
            "loop_partition: 4294967296 is no int32: these run from -2147483648 to 2147483647",
        ),
        (
            lambda sch, i, j: sch.transform_layout("B", ("write", 0), lambda i, j: [i * 2**33, j]),
            "transform_layout: 8589934592 is no int32: these run from -2147483648 to 2147483647",
        ),
    ],
)
def test_steps_whose_numbers_do_not_fit(step, message):
    """Refused; neither the program nor the trace remembers them."""
    sch = Schedule(copy_2d())
    i, j = sch.get_loops("B")
    before = sch.mod
    with pytest.raises(ScheduleError) as error:
        step(sch, i, j)
    assert error.value.message == message
    assert sch.mod is before and len(sch.steps) == 1


def test_loops_whose_product_is_too_large_are_not_fused():
    n = 2**16
    A = te.placeholder((n, n), "int8", name="A")
    func = te.create_prim_func([A, te.compute((n, n), lambda i, j: A[i, j], name="B")])
    sch = Schedule(func)
    loops = sch.get_loops("B")
    if sch.get(loops[0]).loop_var.dtype == "int64":  # as te makes them; by hand they are int32
        sch.fuse(*loops)
        assert sch.get(sch.get_loops("B")[0]).extent.value == 2**32
    narrow = Schedule(te.create_prim_func([A, *_computed(A)], index_dtype_override="int32"))
    with pytest.raises(ScheduleError) as error:
        narrow.fuse(*narrow.get_loops("B"))
    assert error.value.message == (
        "fuse: 4294967296 is no int32: these run from -2147483648 to 2147483647"
    )


def _computed(A):
    return [te.compute(A.shape, lambda i, j: A[i, j], name="B")]


def test_a_decision_of_a_trace_that_does_not_fit_is_adapted_or_refused():
    sch = Schedule(matmul())
    i = sch.get_loops(sch.get_block("C"))[0]
    drawn = sch.sample_perfect_tile(i, n=2, decision=[2**40, 2**40])
    extent = sch.get(i).extent.value
    assert [int(sch.get(x)) for x in drawn] == [1, extent]
    data = sch.trace.as_json()
    data[1][0][1] = [2**33, 2**31]
    again = Schedule(matmul())
    type(sch.trace).apply_json_to_schedule(data, again)
    assert again.trace.as_json()[1][0][1] == [1, extent]


def test_a_layout_of_too_many_elements():
    with pytest.raises(MLCError, match="is no int32"):
        IndexMap.from_func(lambda i, j: i * 65536 + j).map_shape([65536, 65536])


@pytest.mark.parametrize("name", ["shift_left", "shift_right", "bitwise_not", "popcount", "clz"])
def test_bits_are_those_of_integers(name):
    x = te.var("x", "float32")
    more = (1,) if name.startswith("shift") else ()
    with pytest.raises(MLCError, match=f"^{name} needs integers, got float32$"):
        getattr(te, name)(x, *more)
    with pytest.raises(MLCError, match="^ldexp needs integers, got float32$"):
        te.ldexp(x, x)
