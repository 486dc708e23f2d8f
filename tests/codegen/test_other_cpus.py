"""What the default schedules become on CPUs that are not this one: AArch64 (NEON) and AVX2.

Nothing runs here: the assembly is read. In the loops floats are computed with vectors only;
products and convolutions multiply and add in one instruction, of vectors as wide as the CPU has
them, in their loops and outside, and hold their tiles in registers.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

import mlcnb as mlc
from mlcnb.codegen.llvm.inspect import Facts
from mlcnb.codegen.llvm.symbols import LIBC_NAMES
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Var, const, tensor_info
from mlcnb.runtime import threads
from mlcnb.target import Target
from tests.runtime.programs import random

CPUS = {"neoverse-n1": 128, "x86-64-v3": 256}
#: arithmetic on one float: `fmul s0, …`, `vmulss …`
ONE_FLOAT = {
    "neoverse-n1": r"^\s*f(?:n?madd|n?msub|n?mul|add|sub|div|max\w*|min\w*|sqrt)\s+[sd]\d",
    "x86-64-v3": r"^\s*v(?:fn?m(?:add|sub)\w*|mul|add|sub|div|max|min|sqrt)s[sd]\b",
}
#: multiply-adds of vectors as wide as the CPU has them
WHOLE_VECTORS = {
    "neoverse-n1": r"\bfml[as]\s+v\d+\.4s",
    "x86-64-v3": r"\bvfn?m(?:add|sub)\w+ps\s.*%ymm",
}
#: programs that multiply and add, and how many instructions that do stand in their loops at least
PRODUCTS = {
    "conv3x3": 8,
    "winograd": 12,
    "conv1x1": 8,
    "first": 8,
    "depthwise": 12,
    "dense": 4,
    "matmul": 8,
}


def weight(*shape: int):
    return const(random(*shape) / 8)


#: name -> shape of the input, the operators
PROGRAMS = {
    "conv3x3": ((1, 32, 14, 14), lambda x: op.nn.conv2d(x, weight(64, 32, 3, 3), strides=2)),
    "winograd": ((1, 32, 14, 14), lambda x: op.nn.conv2d(x, weight(64, 32, 3, 3), padding=1)),
    # of few places: one of more, alone, is a product of the plain layout
    "conv1x1": ((1, 64, 6, 10), lambda x: op.nn.relu(op.nn.conv2d(x, weight(64, 64, 1, 1)))),
    "first": ((1, 3, 32, 32), lambda x: op.nn.conv2d(x, weight(32, 3, 3, 3), strides=2)),
    "depthwise": (
        (1, 64, 14, 14),
        lambda x: op.nn.conv2d(x, weight(64, 1, 3, 3), padding=1, groups=64),
    ),
    "dense": ((1, 256), lambda x: op.matmul(x, weight(256, 128))),
    "matmul": ((96, 64), lambda x: op.matmul(x, weight(64, 96))),
    "pool": ((1, 64, 14, 14), lambda x: op.nn.max_pool2d(x, pool_size=3, strides=2)),
    "elementwise": ((64, 128), lambda x: op.multiply(op.tanh(x), op.exp(x))),
    "norm": ((64, 128), lambda x: op.nn.softmax(x)),
}


def executable(name: str, **target: str) -> mlc.runtime.Executable:
    """A program, compiled for a CPU."""
    shape, operators = PROGRAMS[name]
    x = Var("x", tensor_info(shape, "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(operators(x)))
        bb.emit_func_output(out)
    return mlc.compile(bb.get(), target=Target({"kind": "llvm", **target}))


@cache
def facts_of(name: str, cpu: str) -> dict[str, Facts]:
    """What there is to know of every function with a loop in the program's kernels, by name."""
    kernels = executable(name, mcpu=cpu).kernels.values()
    found = {f"{k.name}: {n}": f for k in kernels for n, f in k.facts.items()}
    return {n: f for n, f in found.items() if f.hot is not None}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_compute_with_vectors(name, cpu):
    for where, found in facts_of(name, cpu).items():
        assert 128 <= found.vector_bits <= CPUS[cpu], where
        assert found.looped.vector_share > 0.3, where
        assert not re.findall(ONE_FLOAT[cpu], found.hot_text, re.M), where
        assert set(found.calls) <= {"memset", "memcpy", "mlcnb_parallel_for"}, where


@pytest.mark.parametrize("name", ["winograd", "pool"])
def test_what_windows_asks_of_its_stack_is_known(name):
    """Tiles of more than a page lie on it: `__chkstk` is Windows' own."""
    found = executable(name, mcpu="x86-64-v3", mtriple="x86_64-pc-windows-msvc").kernels.values()
    needs = {need for kernel in found for need in kernel.compiled.needs}
    assert ("__chkstk" in needs) == (name == "winograd")
    assert needs <= LIBC_NAMES | threads.symbols().keys()


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_multiply_and_add_in_one_instruction(name, cpu):
    most = max(facts_of(name, cpu).values(), key=lambda f: f.looped.fma)
    assert most.looped.fma >= PRODUCTS[name]
    spilled = most.hot if name == "winograd" else most.looped  # its tiles lie on the stack
    assert spilled.spills == 0
    for where, found in facts_of(name, cpu).items():
        assert len(re.findall(WHOLE_VECTORS[cpu], found.text)) == found.total.fma, where
        assert not re.findall(ONE_FLOAT[cpu], found.text, re.M), where
