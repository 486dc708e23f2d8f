"""call_tir gives its PrimFunc what that takes: refused where not, checked where it is open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import relax, tir
from mlcnb.core.errors import MLCError, RuntimeInputError, WellFormedError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import well_formed
from mlcnb.script import ir as I
from mlcnb.script import parse
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing.evaluate import evaluate
from tests.tir.programs import FUZZ

MODULE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(A: T.Buffer({a}, "{adt}"), B: T.Buffer({b}, "{bdt}")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.Cast("{bdt}", A[vi])

    @R.function
    def main(x: R.Tensor({x}, "{xdt}")) -> R.Tensor({y}, "{ydt}"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor({y}, "{ydt}"))
            R.output(y)
        return y
"""
PLAIN = {
    "a": "(8,)", "adt": "float32", "b": "(8,)", "bdt": "float32",
    "x": "(8,)", "xdt": "float32", "y": "(8,)", "ydt": "float32",
}  # fmt: skip
TAKES = "main: f takes {}: Tensor((8,), float32), but "
WRONG = [
    ({"x": "(4,)"}, TAKES.format("A") + "x is Tensor((4,), float32): dimension 0 is 4"),
    ({"x": "(9,)"}, TAKES.format("A") + "x is Tensor((9,), float32): dimension 0 is 9"),
    ({"x": "(2, 4)"}, TAKES.format("A") + "x is Tensor((2, 4), float32): it has 2 dimensions"),
    ({"xdt": "float64"}, TAKES.format("A") + "x is Tensor((8,), float64): the dtype is float64"),
    ({"y": "(4,)"}, TAKES.format("B") + "output 0 is Tensor((4,), float32): dimension 0 is 4"),
    ({"ydt": "int8"}, TAKES.format("B") + "output 0 is Tensor((8,), int8): the dtype is int8"),
]  # fmt: skip


def first_line(error):
    return str(error.value).split("\n")[0]


@pytest.mark.parametrize(("change", "message"), WRONG)
@pytest.mark.parametrize("target", ["llvm", "interp"])
@pytest.mark.parametrize("pipeline", ["default", None])
def test_what_does_not_fit_is_refused(change, message, target, pipeline):
    mod = parse(MODULE.format(**PLAIN | change), check_well_formed=False)
    assert not relax.analysis.well_formed(mod)
    with pytest.raises(WellFormedError) as error:
        relax.analysis.assert_well_formed(mod)
    assert first_line(error) == message
    with pytest.raises(WellFormedError) as error:
        mlc.compile(mod, target=target, relax_pipeline=pipeline)
    assert first_line(error) == message
    assert "R.call_tir(cls.f, (x,)" in error.value.excerpt()


SYMBOLIC = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(a: T.handle, b: T.handle, c: T.handle{scalar}):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, ({b},), "float32")
        C = T.match_buffer(c, (n,), "float32")
        for i in range(n):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                C[vi] = B[vi] + A[vi]

    @R.function
    def main(x: R.Tensor(("p",), "float32"), y: R.Tensor(("q",), "float32")):
        p = T.int64()
        q = T.int64()
        cls = Module
        with R.dataflow():
            z = R.call_tir(cls.f, (x, y), out_sinfo=R.Tensor(({out},), "float32"){given})
            w = R.add(z, z)
            R.output(w)
        return w
"""


def symbolic(b="n", out="q", scalar="", given=""):
    return parse(SYMBOLIC.format(b=b, out=out, scalar=scalar, given=given))


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_open_sizes_are_checked_when_they_are_known(target):
    mod = symbolic()
    assert relax.analysis.well_formed(mod)
    ex = mlc.compile(mod, target=target)
    np.testing.assert_array_equal(np.asarray(ex(np.ones(4, "f"), np.ones(4, "f"))), np.full(4, 4))
    for p, q in ((4, 9), (9, 4), (1000000, 4), (4, 1000000)):
        with pytest.raises(RuntimeInputError) as error:
            ex(np.ones(p, "f"), np.ones(q, "f"))
        assert str(error.value).endswith(f"expected {p} (shape ({q},) against (n))")


def test_symbolic_sizes_that_can_never_be_equal():
    with pytest.raises(WellFormedError) as error:
        relax.analysis.assert_well_formed(_off_by_one())
    assert first_line(error) == (
        "main: f takes B: Tensor((n + 1,), float32), but y is Tensor((p,), float32): "
        "dimension 0 is p, and n + 1 is p + 1 here"
    )


def _off_by_one():
    text = SYMBOLIC.format(b="n + 1", out="p", scalar="", given="").replace('("q",)', '("p",)')
    return parse(text.replace("        q = T.int64()\n", ""), check_well_formed=False)


def test_scalars_bind_sizes():
    mod = symbolic(b="m", out="p", scalar=", m: T.int64", given=", tir_vars=R.shape([p])")
    ex = mlc.compile(mod)
    np.testing.assert_array_equal(np.asarray(ex(np.ones(4, "f"), np.ones(4, "f"))), np.full(4, 4))
    with pytest.raises(RuntimeInputError, match="dimension 0 is 5, expected 4"):
        ex(np.ones(4, "f"), np.ones(5, "f"))


WRITTEN = "written to s: Tensor((8,), float32)"
INPLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + T.float32(1)

    @R.function
    def main(x: R.Tensor({x}, "{xdt}")) -> R.Tensor({y}, "{ydt}"):
        cls = Module
        with R.dataflow():
            s = R.add(x, x)
            y = R.call_tir_inplace(
                cls.f, (s,), out_sinfo=R.Tensor({y}, "{ydt}"), inplace_indices=[0])
            R.output(y)
        return y
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": "(4,)", "y": "(4,)"},
         TAKES.format("A") + "s is Tensor((4,), float32): dimension 0 is 4"),
        ({"y": "(9,)"}, "main: output 0 is Tensor((9,), float32), " + WRITTEN),
        ({"ydt": "int8"}, "main: output 0 is Tensor((8,), int8), " + WRITTEN),
    ],
)  # fmt: skip
def test_calls_in_place(change, message):
    values = {k: PLAIN[k] for k in ("x", "xdt", "y", "ydt")}
    assert relax.analysis.well_formed(parse(INPLACE.format(**values)))
    mod = parse(INPLACE.format(**values | change), check_well_formed=False)
    with pytest.raises(WellFormedError) as error:
        mlc.compile(mod)
    assert first_line(error) == message


SHAPE = st.sampled_from(["(8,)", "(8,)", "(8,)", "(7,)", "(9,)", "(1,)", "(2, 4)", "(8, 1)", "()"])
DTYPE = st.sampled_from(["float32", "float32", "float32", "float64", "int8", "int32", "float16"])


@settings(max_examples=40 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.fixed_dictionaries({"x": SHAPE, "xdt": DTYPE, "y": SHAPE, "ydt": DTYPE}))
def test_random_calls(change):
    """A call runs if and only if everything is as the PrimFunc has it."""
    note(change)
    mod = parse(MODULE.format(**PLAIN | change), check_well_formed=False)
    fits = all(PLAIN[key] == value for key, value in change.items())
    assert relax.analysis.well_formed(mod) == fits
    try:
        ex = mlc.compile(mod)
        ran = np.asarray(ex(np.arange(8, dtype="f")))
    except MLCError:
        assert not fits
        return
    assert fits
    np.testing.assert_array_equal(ran, np.arange(8))


@settings(max_examples=30 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["n", "p", "n * 2", "n + q"]), st.sampled_from(["p", "q", "p + q", "4"]),
       st.integers(0, 9), st.integers(0, 9))  # fmt: skip
def test_random_open_calls(b, out, p, q):
    """What runs on LLVM is what runs step by step; what does not fit is an error in both."""
    b = b.replace("p", "n").replace("q", "n")
    mod = parse(SYMBOLIC.format(b=b, out=out, scalar="", given=""), check_well_formed=False)
    sizes = {"p": p, "q": q, "n": p}
    fits = _size(b, sizes) == q and _size(out, sizes) == p
    for target in ("llvm", "interp"):
        try:
            made = mlc.compile(mod, target=target)(np.ones(p, "f"), np.ones(q, "f"))
            assert fits and np.asarray(made).shape == (p,)
        except MLCError:
            assert not fits


def _size(text, sizes):
    left, _, right = text.partition(" ")
    value = sizes.get(left) if left in sizes else int(left)
    if not right:
        return value
    sign, other = right.split(" ")
    other = sizes[other] if other in sizes else int(other)
    return value + other if sign == "+" else value * other


OWN = """
@I.ir_module
class Module:
    @T.prim_func
    def f({params}):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                {store}

    @R.function
    def main(x: R.Tensor({shape}, "float32")):
        {around}
        return r
"""
STORES = {"copy": "A[vi]", "backwards": "A[7 - vi]", "add": "A[vi] + 1.0", "fill": "T.float32(3)"}


@settings(max_examples=12 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(list(STORES)), in_place=st.booleans(), flows=st.booleans(),
       then=st.sampled_from(["r = y", "r = R.reshape(y, (2, 4))", "r = R.exp(y)"]),
       shape=st.sampled_from(['("n",)', "None"]), size=st.sampled_from([4, 8, 8, 9, 0]),
       target=st.sampled_from(["llvm", "interp"]))  # fmt: skip
def test_no_pass_drops_the_check_of_an_open_call(kind, in_place, flows, then, shape, size, target):
    """A call of eight elements takes eight, whatever becomes of its loops."""
    info = 'R.Tensor((8,), "float32")'
    where = ", inplace_indices=[0]" if in_place else ""
    call = f"R.call_tir{'_inplace' * in_place}(Module.f, (s,), out_sinfo={info}{where})"
    lines = ["s = R.nn.relu(x)" if in_place else "s = x", f"y = {call}", then]
    if flows:
        lines = ["with R.dataflow():", *("    " + x for x in (*lines, "R.output(r)"))]
    params = 'A: T.Buffer((8,), "float32")'
    store = f"A[vi] = {STORES['copy' if kind == 'backwards' else kind]}"
    if not in_place:
        params, store = params + ', B: T.Buffer((8,), "float32")', f"B[vi] = {STORES[kind]}"
    around = ("\n" + " " * 8).join(lines)
    ex = mlc.compile(
        parse(OWN.format(params=params, store=store, shape=shape, around=around)), target=target
    )
    given_ = np.arange(size, dtype="f")
    if size != 8:
        with pytest.raises(MLCError):
            ex(given_)
        return
    wanted = {"copy": given_, "add": given_ + 1, "fill": np.full(8, 3, "f")}
    wanted["backwards"] = given_ if in_place else given_[::-1]
    made = wanted[kind].reshape(2, 4) if "reshape" in then else wanted[kind]
    np.testing.assert_allclose(
        np.asarray(ex(given_)), np.exp(made) if "exp" in then else made, 1e-6
    )


def test_a_shape_is_read_dimension_by_dimension():
    n = tir.Var("n", "int64")
    shape = relax.ShapeExpr((n, tir.const(4, "int64")))
    assert [x is y for x, y in zip(shape, shape.values, strict=True)] == [True, True]
    assert shape[0] is n
    assert shape[-1].value == 4


NUMBERS = """
@I.ir_module
class Module:
    @T.prim_func
    def add(x: T.Buffer((4,), "float32"), n: T.{kind}, y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi] + T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor((4,), "float32"), n: R.Prim("{kind}")):
        cls = Module
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.add, (a, n), out_sinfo=R.Tensor((4,), "float32"))
            one = R.prim_value(T.{kind}(1))
            c = R.call_tir(cls.add, (b, one), out_sinfo=R.Tensor((4,), "float32"))
            d = R.add(c, c)
            R.output(d)
        return d
"""


@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("pipeline", ["zero", "default", "default_build"])
def test_a_number_among_the_tensors(kind: str, pipeline: str) -> None:
    mod = parse(NUMBERS.format(kind=kind))
    assert well_formed(mod)
    assert_structural_equal(parse(mod.script()), mod)
    x = np.arange(4, dtype="float32") / 4
    value = {"bool": True, "float32": 1.5, "float64": 1.5}.get(kind, 3)
    expected = 2 * (np.exp(x) + value + 1)
    np.testing.assert_allclose(mlc.compile(mod, relax_pipeline=pipeline)(x, value), expected, 1e-6)
    np.testing.assert_allclose(evaluate(mod, x, value), expected, 1e-6)


def test_a_number_of_another_dtype_is_refused() -> None:
    @I.ir_module(check_well_formed=False)
    class Module:
        @T.prim_func
        def add(x: T.Buffer((4,), "float32"), n: T.int64, y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi] + T.Cast("float32", n)

        @R.function
        def main(x: R.Tensor((4,), "float32"), n: R.Prim("float32")):
            y = R.call_tir(Module.add, (x, n), out_sinfo=R.Tensor((4,), "float32"))
            return y

    with pytest.raises(WellFormedError, match="add takes the scalar n, but n is a scalar of float"):
        mlc.compile(Module)
