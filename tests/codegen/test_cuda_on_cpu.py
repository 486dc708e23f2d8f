"""The CUDA C++ text itself, run: compiled by g++ over a header that stands in for a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.cuda.emit.helpers import INSTRUCTIONS
from mlcnb.codegen.interp import run_prim_func
from tests.codegen.gpu_programs import PROGRAMS
from tests.codegen.test_cuda import elementwise, symbolic

HEADER = Path(__file__).parent / "gpu_on_cpu.hpp"
COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")

ENTRY = """
namespace {name} {{
{source}
extern "C" void {name}(void** args, int* sizes) {{
  launch_({{sizes[0], sizes[1], sizes[2]}}, {{sizes[3], sizes[4], sizes[5]}}, [&] {{
    {name}_kernel({arguments});
  }});
}}
}}
"""


def vectors(x, y):
    """Arithmetic of lanes, and what C++ does otherwise than TIR."""
    return mlc.tir.max(x * y, mlc.tir.floormod(x, y)) + mlc.tir.exp(y)


def integers(x, y):
    """Division towards minus infinity."""
    return mlc.tir.floordiv(x, y) * 100 + mlc.tir.floormod(x, y)


SCHEDULES = {
    **{name: lambda make=make: make().schedule for name, make in PROGRAMS.items()},
    "symbolic": symbolic,
    "vectors": lambda: elementwise(vectors, "float32", "float32", lanes=4),
    "integers": lambda: elementwise(integers, "int32", "int32"),
    "wide": lambda: elementwise(integers, "int64", "int64", lanes=2),
    "narrow": lambda: elementwise(lambda x, y: x * y + x, "int8", "int8", lanes=4),
    "lefts": lambda: elementwise(mlc.tir.shift_left, "int32", "int32"),
    "rights": lambda: elementwise(mlc.tir.shift_right, "int8", "int8"),
    "truth": lambda: elementwise(lambda x, y: ~x ^ (x & ~y), "bool", "bool"),
    "whole": lambda: elementwise(lambda x: mlc.tir.Cast("int8", x), "float32"),
}


@pytest.fixture(scope="module")
def kernels():
    return {name: mlc.compile(make(), target="cuda").kernels[0] for name, make in SCHEDULES.items()}


@pytest.fixture(scope="module")
def library(kernels, tmp_path_factory):
    """The texts of all programs, compiled as one."""
    folder = tmp_path_factory.mktemp("cuda")
    text = f'#include "{HEADER}"\n' + "".join(_entry(*item) for item in kernels.items())
    (folder / "kernels.cpp").write_text(text)
    made = folder / "kernels.so"
    command = [COMPILER, "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread"]
    subprocess.run(
        [*command, str(folder / "kernels.cpp"), "-o", str(made)], check=True, timeout=240
    )
    return ctypes.CDLL(str(made))


def _entry(name: str, kernel) -> str:
    (source,) = kernel.sources.values()
    params = source.text[source.text.index("main_kernel(") + 12 : source.text.index(") {")]
    kinds = [p.strip().rpartition(" ")[0] for p in params.replace("__restrict__", "").split(",")]
    listed = [
        f"({kind})args[{i}]" if "*" in kind else f"*({kind}*)args[{i}]"
        for i, kind in enumerate(kinds)
    ]
    text = kernel.source.replace("main_kernel", f"{name}_kernel")
    for instruction in INSTRUCTIONS.values():  # the header has its own
        text = text.replace(instruction, "")
    return ENTRY.format(name=name, source=text, arguments=", ".join(listed))


class Compiled:
    """A machine for the host's part of a program, whose kernel is code of g++."""

    def __init__(self, function) -> None:
        self.function = function

    def launch(self, name, args, grid, block, shared):
        values = [a if isinstance(a, np.ndarray) else np.array(a, "int64") for a in args]
        pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        self.function(pointers, (ctypes.c_int * 6)(*grid, *block))


def run(kernel, library, name, args, dims=()):
    """Run the kernel on arrays; `dims` are the values of symbolic dimensions."""
    values = {b.data: a.reshape(-1) for b, a in zip(kernel.signature.params, args, strict=True)}
    values.update(zip(kernel.signature.dims, dims, strict=True))
    kernel.program.run(values, Compiled(getattr(library, name)))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_text_of_a_program_runs(name, kernels, library):
    made = PROGRAMS[name]()
    args = made.arguments()
    run(kernels[name], library, name, args)
    np.testing.assert_allclose(args[-1], made.expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 8, 13])
def test_symbolic_sizes(n, kernels, library):
    a, b = np.arange(n * 4, dtype="float32").reshape(n, 4), np.zeros((n, 4), "float32")
    run(kernels["symbolic"], library, "symbolic", [a, b], [n])
    np.testing.assert_array_equal(b, a + n)


@pytest.mark.parametrize(
    "name", ["vectors", "integers", "wide", "narrow", "lefts", "rights", "truth", "whole"]
)
def test_arithmetic_is_that_of_the_interpreter(name, kernels, library):
    kernel = kernels[name]
    *inputs, output = kernel.signature.params
    random = np.random.default_rng(1)
    args = [(random.standard_normal(64) * 100).astype(b.dtype.numpy) for b in inputs]
    if name == "truth":
        args = [random.integers(0, 2, 64).astype(bool) for _ in args]
    if name in ("integers", "wide"):
        args[1][args[1] == 0] = 3
    if name == "whole":
        args[0][:5] = [np.nan, np.inf, -np.inf, 127.9, -200]
    if name == "vectors":
        args = [x / 50 for x in args]
        args[0][:3] = [np.nan, -0.0, np.inf]
    out, expected = (np.zeros(64, output.dtype.numpy) for _ in range(2))
    run(kernel, library, name, [*args, out])
    run_prim_func(kernel.func, [*args, expected])
    np.testing.assert_allclose(out, expected, rtol=1e-6)
