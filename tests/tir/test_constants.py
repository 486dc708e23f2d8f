"""T.allocate_const: a constant that stands in a function, from its text to the object."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import tir
from mlcnb.core.errors import CodegenError, MLCError, WellFormedError
from mlcnb.ir import load_json, save_json, structural_equal, structural_hash
from mlcnb.ir.dtype import dtype
from mlcnb.script import ir_builder, parse, script
from mlcnb.script.ir_builder import tir as build
from mlcnb.tir.schedule import Schedule
from tests.tir.transform.lowering import check_lowering, same_bits

TABLE = """
@T.prim_func
def main(I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "{kind}")):
    K = T.allocate_const({data}, "{kind}", {shape})
    table = T.decl_buffer({shape}, "{kind}", data=K)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = table[{index}]
"""
SMALL = TABLE.format(kind="int32", data=[5, -6, 7], shape=[3], index="I[vi] % 3")


def looked_up(array):
    """A function that looks up elements of a constant, by their place in memory."""
    shape, index, size = list(array.shape), [], array.size
    for extent in shape:
        size //= extent
        index.append(f"I[vi] // {size} % {extent}")
    values = [v if math.isfinite(v) else f'float("{v}")' for v in array.reshape(-1).tolist()]
    data = f"[{', '.join(map(str, values))}]"
    return parse(
        TABLE.format(kind=array.dtype.name, data=data, shape=shape, index=", ".join(index))
    )


def test_text():
    func = parse(SMALL)
    assert '    K = T.allocate_const([5, -6, 7], "int32", [3])\n' in script(func)
    assert structural_equal(parse(script(func)), func)
    other = parse(SMALL.replace("-6", "6"))
    assert not structural_equal(func, other)
    assert structural_hash(func) != structural_hash(other)


def test_a_large_constant_stands_in_the_metadata():
    func = looked_up(np.arange(300, dtype="float32"))
    text = script(func, show_meta=True)
    assert 'T.allocate_const(metadata["relax.expr.Constant"][0], "float32", [300])' in text
    assert structural_equal(parse(text), func)


def test_builder():
    with ir_builder.IRBuilder() as made, build.prim_func():
        build.func_name("main")
        out = build.arg("B", build.Buffer((3,), "int32"))
        with build.allocate_const([5, -6, 7], "int32", [3]) as data:
            table = build.Buffer((3,), "int32", data=data)
            with build.serial(0, 3) as i:
                build.buffer_store(out, table[i], [i])
    found = np.zeros(3, "int32")
    mlc.compile(made.get())(found)
    assert found.tolist() == [5, -6, 7]


KINDS = ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16", "bool"]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(0, 2**32),
)
def test_every_backend_reads_it(kind, shape, seed):
    rng = np.random.default_rng(seed)
    array = (rng.standard_normal(shape) * 50).astype(dtype(kind).numpy)
    if array.dtype.kind == "f" and kind != "bfloat16":
        array.flat[0] = rng.choice([np.nan, np.inf, -0.0, 1e-45])
    func = looked_up(array)
    assert structural_equal(parse(script(func, show_meta=True)), func)
    stored = load_json(save_json(mlc.IRModule({"main": func})))["main"]
    index = rng.integers(0, array.size, 8).astype("int32")
    expected = array.reshape(-1)[index]
    scheduled = Schedule(func)
    scheduled.parallel(scheduled.split(scheduled.get_loops("B")[0], [2, None])[0])
    for made in (func, stored, scheduled.mod["main"]):
        for target in ("interp", "llvm"):
            found = np.zeros(8, array.dtype)
            mlc.compile(made, target=target)(index, found)
            np.testing.assert_array_equal(found.view("uint8"), expected.view("uint8"))


def test_lowering_keeps_it():
    check_lowering(parse(SMALL), parse(SMALL))
    lowered = tir.transform.lower(parse(SMALL))
    assert 'T.allocate_const([5, -6, 7], "int32", [3])' in script(lowered)
    same_bits(parse(SMALL), lowered)


def test_it_lies_in_the_object():
    kernel = mlc.compile(looked_up(np.array([1234567891234567891], "int64"))).kernels[0]
    raw = "".join(f"\\{b:02X}" for b in np.int64(1234567891234567891).tobytes())
    assert f'private unnamed_addr constant [8 x i8] c"{raw}", align 64' in kernel.llvm_ir


STORING = """
@T.prim_func
def main(I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    K = T.allocate_const([5, -6, 7], "int32", [3])
    table = T.decl_buffer((3,), "int32", data=K)
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(B[vi], table[0:3])
            X = T.match_buffer(table[0:3], (3,), "int32", offset_factor=1)
            B[vi] = 1
            {0}[1] = 2
"""


@pytest.mark.parametrize("name", ["table", "X"])
def test_a_store_is_refused(name):
    func = parse(STORING.format(name))
    for run in (
        lambda: tir.analysis.verify_well_formed(func),
        lambda: mlc.compile(func),
        lambda: mlc.compile(func, bounds="trust"),
        lambda: mlc.compile(func, target="interp")(np.zeros(8, "int32"), np.zeros(8, "int32")),
    ):
        with pytest.raises(WellFormedError, match="is a constant, and nothing may write it"):
            run()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[5, -6, 7]", "[5, -6]", "the constant has 2 elements, the extents .3. take 3"),
        ("-6", "'a'", "the constant is no array of int32: invalid literal"),
        ("[5, -6, 7]", "[5, 2**40, 7]", "the constant is no array of int32"),
        ('"int32", [3])\n    table', '"int32", [I[0]])\n    table', "extents that are numbers"),
    ],
)
def test_what_is_no_constant_is_refused(old, new, why):
    with pytest.raises(MLCError, match=why):
        parse(SMALL.replace(old, new))


def test_cuda_wants_it_as_a_buffer():
    sch = Schedule(parse(SMALL))
    sch.bind(sch.get_loops("B")[0], "threadIdx.x")
    with pytest.raises(CodegenError) as error:
        mlc.compile(sch.mod["main"], target="cuda")
    assert error.value.message == "K is a constant in the function"
    assert error.value.hint == "pass the constant as a buffer"
    found, index = np.zeros(8, "int32"), np.arange(8, dtype="int32")
    mlc.compile(sch.mod["main"], target="cuda-sim")(index, found)
    assert found.tolist() == [5, -6, 7, 5, -6, 7, 5, -6]
