"""Integers that leave their dtype: the compiled kernel computes what the interpreter does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import script
from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import FrozenDict
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import decl_buffer
from mlcnb.tir.function import PrimFunc
from tests.arith.test_wrapping import VARIABLES, assigned, points
from tests.arith.wrapping import KINDS, evaluate, expressions

TARGETS = ("interp", "llvm")


def program(params: str, body: str, shape: int = 4, dtype: str = "int64") -> PrimFunc:
    head = f'{params}B: T.Buffer(({shape},), "{dtype}")'
    return script.from_source(
        f"from mlcnb.script import tir as T\n@T.prim_func\ndef main({head}):\n{body}\n"
    )


def run(func: PrimFunc, target: str, *args: int, shape: int = 4, dtype: str = "int64") -> list[int]:
    B = np.zeros(shape, dtype)
    mlc.compile(func, target=target)(*args, B)
    return B.tolist()


def storing(x: e.PrimExpr) -> PrimFunc:
    """B[0] = x, whose variables are the parameters."""
    B = decl_buffer((1,), "int64", "B")
    handle = e.Var("b", p.dtype("handle"))
    body = s.BufferStore(B, p.cast("int64", x), (p.const(0),))
    return PrimFunc((*VARIABLES, handle), body, buffer_map=FrozenDict({handle: B}))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS).flatmap(lambda kind: expressions(VARIABLES, kind)), points)
def test_a_kernel_wraps_where_the_dtype_does(x, numbers):
    kernel = mlc.compile(storing(x), target="llvm")
    for values in map(assigned, numbers):
        found = np.zeros(1, "int64")
        kernel(*(values[v] for v in VARIABLES), found)
        note(f"{x} of {values}")
        assert found[0] == evaluate(x, values)


OF_A_LOOP = {
    "uint32 quotient": "T.Cast('uint32', i) * T.uint32(2654435761) // T.uint32(65536)",
    "uint32 remainder": "T.Cast('uint32', i) * T.uint32(2654435761) % T.uint32(1000)",
    "uint32 widened": "T.Cast('uint32', i) * T.uint32(2654435761)",
    "uint8 below zero": "T.Cast('uint8', i) - T.uint8(3)",
    "int8 widened": "T.Cast('int8', i + 120) * T.int8(3)",
    "int32 widened": "i * 1103515245 + 12345",
    "int32 as float": "T.Cast('float64', i * 1103515245 + 12345)",
}


@pytest.mark.parametrize("name", OF_A_LOOP)
def test_what_is_made_of_a_loop_variable_wraps(name):
    func = program(
        "", f"    for i in range(8):\n        B[i] = T.Cast('int64', {OF_A_LOOP[name]})", 8
    )
    assert run(func, "llvm", shape=8) == run(func, "interp", shape=8)


FAR = {
    "range(n * 65536)": "B[0] = B[0] + T.int64(1)",
    "range(n * 65536, n * 65536 + 3)": "B[0] = T.Cast('int64', i)",
    "T.parallel(n * 65536)": "if i == 70000:\n            B[0] = T.int64(1)",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loop", FAR)
def test_a_loop_that_counts_too_far_is_an_error_that_names_it(loop, target):
    func = program("n: T.int32, ", f"    for i in {loop}:\n        {FAR[loop]}")
    told = loop.replace("T.parallel", "range").replace("(", r"\(").replace(")", r"\)")
    told = told.replace("*", r"\*").replace("+", r"\+")
    message = f"i in {told}: the range leaves int32, in which i counts; make the sizes int64"
    with pytest.raises(ExecutionError, match=message):
        run(func, target, 65537)
    assert run(func, target, 2) == run(func, "interp", 2)


@pytest.mark.parametrize("target", ["interp", "cuda-sim"])
def test_a_launch_that_counts_too_far_is_an_error_that_names_it(target):
    func = program(
        "n: T.int32, ",
        "    for b in T.thread_binding(n * 65536, thread='blockIdx.x'):\n"
        "        if b < 4:\n            B[b] = T.int64(1)",
    )
    with pytest.raises(ExecutionError, match=r"b in range\(n \* 65536\): the range leaves int32"):
        run(func, target, 65537)


def test_an_iteration_is_counted_up_to_the_end_of_its_dtype():
    func = program("n: T.int32, ", "    for i in range(n - 3, n + 1):\n        B[n - i] = i")
    for target in TARGETS:
        assert run(func, target, 2**31 - 2, dtype="int64") == [2**31 - 2 - k for k in range(4)]


@pytest.mark.parametrize("target", TARGETS)
def test_memory_has_the_size_that_is_asked_for(target):
    body = """    A = T.alloc_buffer((n * 65536,), "int8")
    for i in range(1):
        with T.block("a"):
            A[70000] = T.int8(3)
    for i in range(1):
        with T.block("b"):
            B[0] = T.Cast("int64", A[70000])"""
    # of 4 GiB only the pages that are touched are there
    assert run(program("n: T.int32, ", body), target, 2)[0] == 3
