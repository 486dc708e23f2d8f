"""CUDA C++: its text in files, what NVRTC makes of it without a GPU, launches, refusals."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.cuda.backend import CudaKernel
from mlcnb.codegen.cuda.emit.helpers import HELPERS
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import (
    CodegenError,
    DeviceError,
    ExecutionError,
    MissingDependencyError,
    PassError,
    UnsupportedDtypeError,
    UnsupportedOpError,
)
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Let, Var
from mlcnb.script import parse
from tests.codegen.gpu_programs import PROGRAMS, Program
from tests.view.snapshot import same

SNAPSHOTS = Path(__file__).parent / "snapshots"
RNG = np.random.default_rng(0)

needs_nvrtc = pytest.mark.skipif(
    not nvrtc.is_available(), reason="NVRTC is not installed (nvidia-cuda-nvrtc)"
)
needs_headers = pytest.mark.skipif(
    not nvrtc.has_headers(), reason="CUDA's headers are not installed (nvidia-cuda-runtime, -cccl)"
)


def built(func, **options) -> CudaKernel:
    return mlc.compile(func, target="cuda", **options).kernels[0]


def refusal(error, func) -> str:
    with pytest.raises(error) as caught:
        built(func)
    return caught.value.message


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def program(request) -> tuple[str, Program]:
    return request.param, PROGRAMS[request.param]()


# text, code, launches ----------------------------------------------------------------------------


def test_text_of_a_program(program):
    name, made = program
    same(f"{name}.cu", built(made.schedule).source.rstrip("\n"), SNAPSHOTS)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_code_of_a_program(program, arch):
    name, made = program
    kernel = mlc.compile(made.schedule, target=f"cuda -arch={arch}").kernels[0]
    (facts,) = kernel.resources.values()
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    assert 0 < facts.registers <= 128
    assert kernel.cubin[:4] == b"\x7fELF"
    assert ".visible .entry main_kernel(" in kernel.ptx


class Interpreted:
    """A machine for the host's part: arrays of NumPy, kernels run by the interpreter."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.launches = []

    def allocate(self, kind, size):
        return np.full(size, 99, kind.numpy)

    def launch(self, name, args, grid, block, shared):
        self.launches.append((name, tuple(grid), tuple(block), shared))
        run_prim_func(self.kernel.device_functions[name], list(args))


def launched(kernel, *args, **dims):
    """Run the host's part of a kernel; gives its launches."""
    params = kernel.signature.params
    values = {}
    for param, arg in zip(params, args, strict=True):
        values[getattr(param, "data", param)] = arg.reshape(-1) if hasattr(arg, "ndim") else arg
    for dim in kernel.signature.dims:
        values[dim] = dims[dim.name]
    machine = Interpreted(kernel)
    kernel.program.run(values, machine)
    return machine.launches


def test_launches_of_a_program(program):
    _, made = program
    kernel = built(made.schedule)
    args = made.arguments()
    assert len(launched(kernel, *args)) == 1
    np.testing.assert_allclose(args[-1], made.expected, rtol=1e-5, atol=1e-6)


def test_several_kernels_share_memory_of_the_host():
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[5 - i, j] + 1.0, name="C")
    sch = tir.Schedule(te.create_prim_func([A, C]))
    for name in "BC":
        i, j = sch.get_loops(name)
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")
    kernel = built(sch)
    a, c = RNG.standard_normal((6, 8), "float32"), np.zeros((6, 8), "float32")
    launches = launched(kernel, a, c)
    assert launches == [
        ("main_kernel", (6, 1, 1), (8, 1, 1), 0),
        ("main_kernel_1", (6, 1, 1), (8, 1, 1), 0),
    ]
    np.testing.assert_array_equal(c, a[::-1] * 2 + 1)


def symbolic():
    n = tir.Var("n", dtype("int64"))
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] + p.cast("float32", n), name="B")
    sch = tir.Schedule(te.create_prim_func([A, B]))
    i, j = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, 8])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j, "threadIdx.x")
    return sch


@pytest.mark.parametrize("n", [1, 8, 13])
def test_symbolic_sizes_are_arguments_of_the_kernel(n):
    kernel = built(symbolic())
    a, b = RNG.standard_normal((n, 4), "float32"), np.zeros((n, 4), "float32")
    assert launched(kernel, a, b, n=n) == [("main_kernel", (-(-n // 8), 1, 1), (4, 8, 1), 0)]
    np.testing.assert_array_equal(b, a + np.float32(n))


def test_text_of_symbolic_sizes():
    assert built(symbolic()).source == dedent(
        """\
        // grid ((n + 7) / 8, 1, 1), block (4, 8, 1)
        extern "C" __global__ void __launch_bounds__(32)
        main_kernel(const float* __restrict__ A, float* __restrict__ B, long long n) {
          const long long i_0 = blockIdx.x;
          const long long j = threadIdx.x;
          const long long i_1 = threadIdx.y;
          if (i_0 * 8 + i_1 < n) {
            B[i_0 * 32 + i_1 * 4 + j] = A[i_0 * 32 + i_1 * 4 + j] + (float)n;
          }
        }
        """
    )


# dtypes, functions, vectors ----------------------------------------------------------------------


def elementwise(fn, *kinds, n=64, lanes=1):
    """fn of arrays, bound to threads; `lanes` elements for each thread as a vector."""
    tensors = [te.placeholder((n,), kind, f"x{i}") for i, kind in enumerate(kinds)]
    made = te.compute((n,), lambda i: fn(*(t[i] for t in tensors)), name="out")
    sch = tir.Schedule(te.create_prim_func([*tensors, made]))
    i, lane = sch.split(sch.get_loops("out")[0], [None, lanes])
    sch.bind(i, "threadIdx.x")
    if lanes > 1:
        sch.vectorize(lane)
    return sch


def statement(fn, *kinds) -> str:
    """The line that stores the result."""
    (line,) = [x for x in built(elementwise(fn, *kinds)).source.splitlines() if "] = " in x]
    return line.strip().partition(" = ")[2].rstrip(";")


@pytest.mark.parametrize(
    ("fn", "kinds", "expected"),
    [
        (lambda x, y: (x + y) * x, ["float32"] * 2, "(x0[i_0] + x1[i_0]) * x0[i_0]"),
        (lambda x, y: x - (y - x), ["float32"] * 2, "x0[i_0] - (x1[i_0] - x0[i_0])"),
        (lambda x: x / 3.0, ["float32"], "x0[i_0] / 3.0f"),
        (lambda x: x + 0.1, ["float64"], "x0[i_0] + 0.1"),
        (lambda x: tir.exp(x), ["float32"], "expf(x0[i_0])"),
        (lambda x: tir.exp(x), ["float64"], "exp(x0[i_0])"),
        (lambda x: tir.exp(x), ["float16"], "half(expf(float(x0[i_0])))"),
        (lambda x: x * x, ["bfloat16"], "x0[i_0] * x0[i_0]"),
        (lambda x: x + 1.5, ["float16"], "x0[i_0] + half(1.5f)"),
        (lambda x: p.cast("float32", x), ["bfloat16"], "float(x0[i_0])"),
        (lambda x: p.cast("float16", x), ["float32"], "half(x0[i_0])"),
        (lambda x: p.cast("float32", x), ["int32"], "(float)x0[i_0]"),
        (
            lambda x: p.cast("int8", x), ["float32"],
            "to_integer<signed char>(x0[i_0], -128, 127)",
        ),
        (lambda x, y: x + y, ["int8"] * 2, "(signed char)(x0[i_0] + x1[i_0])"),
        (lambda x, y: x * y, ["int32"] * 2, "x0[i_0] * x1[i_0]"),
        (lambda x, y: tir.floordiv(x, y), ["int32"] * 2, "floordiv<int>(x0[i_0], x1[i_0])"),
        (lambda x, y: tir.floormod(x, y), ["uint32"] * 2, "x0[i_0] % x1[i_0]"),
        (lambda x, y: tir.truncdiv(x, y), ["int64"] * 2, "x0[i_0] / x1[i_0]"),
        (lambda x, y: p.maximum(x, y), ["float32"] * 2, "maximum<float>(x0[i_0], x1[i_0])"),
        (lambda x, y: x < y, ["float32"] * 2, "x0[i_0] < x1[i_0]"),
        (lambda x, y: p.select(x, y, 0.0), ["bool", "float32"], "x0[i_0] ? x1[i_0] : 0.0f"),
        (lambda x: x << 3, ["int32"], "x0[i_0] << 3"),
        (lambda x: x & 7 | 8, ["int32"], "x0[i_0] & 7 | 8"),
        (lambda x: tir.popcount(x), ["uint8"], "__popc((unsigned char)(x0[i_0]))"),
        (lambda x: tir.isnan(x), ["float16"], "isnan(float(x0[i_0]))"),
        (lambda x: x + p.infinity("float32"), ["float32"], "x0[i_0] + __int_as_float(0x7f800000)"),
        (lambda x: x + (1 << 40), ["int64"], "x0[i_0] + 1099511627776LL"),
    ],
)  # fmt: skip
def test_expressions(fn, kinds, expected):
    assert statement(fn, *kinds) == expected


KINDS = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()


@needs_nvrtc
@needs_headers
@pytest.mark.parametrize("kind", [*KINDS, "bool"])
def test_every_dtype_compiles(kind):
    if kind == "bool":
        kernel = built(elementwise(lambda x, y: p.logical_and(x, p.logical_not(y)), kind, kind))
    else:
        kernel = built(
            elementwise(lambda x, y: p.maximum(x * y - x, p.minimum(x, y)) + x, kind, kind, lanes=4)
        )
    assert kernel.resources["main_kernel"].registers > 0


@needs_nvrtc
@needs_headers
@pytest.mark.parametrize("source", [*KINDS, "bool"])
def test_every_cast_compiles(source):
    """One kernel with a cast to each dtype."""
    x = te.placeholder((32,), source, "x")
    outs = [
        te.compute((32,), lambda i, k=kind: p.cast(k, x[i]), name=f"to_{kind}")
        for kind in [*KINDS, "bool"]
        if kind != source
    ]
    sch = tir.Schedule(te.create_prim_func([x, *outs]))
    for out in outs:
        sch.bind(sch.get_loops(out.op.name)[0], "threadIdx.x")
    assert len(built(sch).resources) == len(KINDS)


UNARY = (
    "exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt tanh sigmoid erf sin cos tan asin acos "
    "atan sinh cosh asinh acosh atanh floor ceil round trunc nearbyint fabs isnan isinf isfinite"
).split()


@needs_nvrtc
@needs_headers
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_every_function_compiles(kind):
    def many(x, y):
        results = [getattr(tir, name)(x) for name in UNARY]
        results += [getattr(tir, name)(x, y) for name in ("pow", "fmod", "atan2", "copysign")]
        results += [tir.hypot(x, y), tir.floormod(x, y), tir.floordiv(x, y), tir.ldexp(x, 2)]
        return sum((p.cast(kind, r) for r in results), p.const(0.0, kind))

    assert built(elementwise(many, kind, kind)).resources


@needs_nvrtc
@needs_headers
@pytest.mark.parametrize(
    "names",
    [
        "and or not xor compl bitand nullptr static_cast decltype char16_t wchar_t export NULL",
        "__global__ __restrict__ __CUDA_ARCH__ __func__ __nv_bfloat16 half vec threadIdx status",
        f"{' '.join(UNARY)} pow powf fmaxf rint isnan isinf expf",
    ],
)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_a_buffer_may_be_called_anything(names, kind):
    """What C++ or CUDA means by a word, or a kernel calls, is not what it is hidden by."""
    each = [te.placeholder((32,), kind, name) for name in dict.fromkeys(names.split())]

    def called(i):
        terms = [
            p.cast(kind, getattr(tir, UNARY[n % len(UNARY)])(x[i])) for n, x in enumerate(each)
        ]
        return sum(terms, p.const(0.0, kind))

    sch = tir.Schedule(te.create_prim_func([*each, te.compute((32,), called, name="out")]))
    sch.bind(sch.get_loops("out")[0], "threadIdx.x")
    assert built(sch).resources


@needs_nvrtc
def test_every_helper_compiles():
    nvrtc.compile_text("\n\n".join(HELPERS.values()) + "\n__global__ void f() {}\n", "sm_80")


def test_a_copy_is_one_access():
    kernel = built(elementwise(lambda x: x, "float32", lanes=4))
    assert "*(float4*)(out + i_0 * 4) = *(const float4*)(x0 + i_0 * 4);" in kernel.source
    kernel = built(elementwise(lambda x: x, "float16", lanes=8))
    assert "*(vec<half, 8>*)(out + i_0 * 8) = *(const vec<half, 8>*)(x0 + i_0 * 8);" in (
        kernel.source
    )


def test_a_vector_is_computed_lane_by_lane():
    kernel = built(elementwise(lambda x, y: x * y + 1.0, "float32", "float32", lanes=4))
    body = kernel.source[kernel.source.index("  {\n") :]
    assert dedent(body.removesuffix("}\n")) == dedent(
        """\
        {
          const vec<float, 4> x0_lanes = *(const vec<float, 4>*)(x0 + i_0 * 4);
          const vec<float, 4> x1_lanes = *(const vec<float, 4>*)(x1 + i_0 * 4);
          vec<float, 4> out_1;
          #pragma unroll
          for (int lane = 0; lane < 4; ++lane) {
            out_1[lane] = x0_lanes[lane] * x1_lanes[lane] + 1.0f;
          }
          *(vec<float, 4>*)(out + i_0 * 4) = out_1;
        }
        """
    )


def test_a_named_part_of_a_vector_is_named_lane_by_lane():
    def named(x):
        part = Var("part", "float32")
        return Let(part, x + 1.0, part * part)

    kernel = built(elementwise(named, "float32", lanes=4))
    line = "out_1[lane] = (x0_lanes[lane] + 1.0f) * (x0_lanes[lane] + 1.0f);"
    assert line in kernel.source


@needs_nvrtc
def test_loads_that_are_not_aligned_are_made_lane_by_lane():
    """Address i * 4 + 1 is no multiple of 16 bytes: one load of four floats would fault."""
    A = te.placeholder((65,), name="A")
    B = te.compute((64,), lambda i: A[i + 1] * 2.0, name="B")
    sch = tir.Schedule(te.create_prim_func([A, B]))
    i, lane = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.bind(i, "threadIdx.x")
    sch.vectorize(lane)
    kernel = built(sch)
    assert "A[i_0 * 4 + 1 + lane] * 2.0f" in kernel.source
    assert "*(const" not in kernel.source
    assert "ld.global.nc.v4" not in kernel.ptx and "st.global.v4" in kernel.ptx


@needs_nvrtc
def test_aligned_vectors_are_one_instruction():
    ptx = built(elementwise(lambda x, y: x + y, "float32", "float32", lanes=4)).ptx
    assert ptx.count("ld.global.nc.v4") == 2 and ptx.count("st.global.v4") == 1


def test_large_buffers_are_indexed_in_64_bits():
    func = parse(
        dedent(
            """
        @T.prim_func
        def main(A: T.Buffer((65536, 65536), "float32")):
            for i in T.thread_binding(65536, thread="blockIdx.x"):
                for j in T.thread_binding(1024, thread="threadIdx.x"):
                    A[i, j] = T.float32(0)
        """
        )
    )
    assert "A[(long long)i * 65536 + (long long)j] = 0.0f;" in built(func).source


GATHER = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    for i in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            assert I[vi] >= 0, "indices must not be negative"
            B[vi] = A[I[vi]]
"""


@needs_nvrtc
def test_indices_that_come_from_data_are_checked():
    kernel = built(parse(GATHER))
    (source,) = kernel.sources.values()
    assert "int* __restrict__ status) {" in source.text
    assert "B[i] = A[check_index(I[i], 16, status, 17)];" in source.text
    assert "if (!(0 <= I[i])) {" in source.text and "atomicExch(status, 16);" in source.text
    assert source.reports
    assert source.messages == (
        "indices must not be negative",
        "A[I_1[i]] is read, dimension 0: the index is out of bounds",
    )
    assert kernel.resources


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("index", "message"),
    [(16, "dimension 0: the index is out of bounds"), (-1, "indices must not be negative")],
)
def test_a_kernel_that_stops_says_why(index, message):
    a, i, b = np.arange(16, dtype="float32"), np.arange(8, dtype="int32"), np.zeros(8, "float32")
    ex = mlc.compile(parse(GATHER), target="cuda")
    ex(a, i, b)
    np.testing.assert_array_equal(b, a[:8])
    i[3] = index
    with pytest.raises(ExecutionError, match=message):
        ex(a, i, b)


# memory ------------------------------------------------------------------------------------------

DYNAMIC = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("root"):
            T.reads(A[0:64])
            T.writes(B[0:64])
            S = T.alloc_buffer((64,), "float16", scope="shared.dyn")
            R = T.alloc_buffer((30000,), scope="shared.dyn")
            with T.block("S"):
                S[tx] = T.Cast("float16", A[tx])
            with T.block("R"):
                R[tx * 476] = A[tx]
            with T.block("B"):
                B[tx] = T.Cast("float32", S[63 - tx]) + R[(63 - tx) * 476]
"""


@needs_nvrtc
@needs_headers
def test_dynamic_shared_memory():
    kernel = built(parse(DYNAMIC))
    assert "extern __shared__ __align__(16) unsigned char shared_memory[];" in kernel.source
    assert "half* S = (half*)(shared_memory + 0);" in kernel.source
    assert "float* R = (float*)(shared_memory + 128);" in kernel.source
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    assert launched(kernel, a, b) == [("main_kernel", (1, 1, 1), (64, 1, 1), 120096)]
    np.testing.assert_array_equal(b, a[::-1] * 2)
    assert kernel.resources["main_kernel"].shared == 0
    with pytest.raises(PassError, match="uses 120,096 bytes of shared.dyn memory"):
        mlc.compile(parse(DYNAMIC), target="cuda -arch=sm_86")


# refusals ----------------------------------------------------------------------------------------


def test_what_is_not_bound_to_threads():
    made = PROGRAMS["softmax"]()
    assert refusal(CodegenError, made.before) == (
        "main: block M is not bound to threads: it cannot run on a GPU"
    )


def test_schedules_of_rules():
    made = PROGRAMS["vector_add"]()
    assert (
        "blockIdx.x"
        in mlc.compile(made.before, target="cuda", schedule="default").kernels[0].source
    )
    rules = mlc.compile(made.before, target="cuda", schedule=lambda func, target: made.schedule)
    assert rules.kernels[0].source == built(made.schedule).source


def test_dtypes_and_functions_that_cuda_does_not_have():
    def nonsense(x):
        return tir.call_intrin("float32", "tir.nonsense", x)

    assert (
        refusal(UnsupportedDtypeError, elementwise(lambda x: x, "float8_e4m3fn"))
        == "the cuda backend has no form for float8_e4m3fn"
    )
    assert (
        refusal(
            UnsupportedOpError,
            elementwise(lambda x: tir.call_intrin("float32", "tir.nonsense", x), "float32"),
        )
        == "the cuda backend knows no intrinsic tir.nonsense"
    )


def test_memory_of_a_block_that_two_kernels_use():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    sch = tir.Schedule(te.create_prim_func([A, C]))
    sch.set_scope("B", 0, "shared")
    for name in "BC":
        sch.bind(sch.get_loops(name)[0], "threadIdx.x")
    assert refusal(CodegenError, sch) == "B is in shared memory, but several kernels use it"


def test_memory_that_the_host_would_read():
    func = parse(
        dedent("""
            @T.prim_func
            def f(A: T.Buffer((4,), "int32"), B: T.Buffer((64,), "float32")):
                if A[0] > 0:
                    for i in T.thread_binding(64, thread="threadIdx.x"):
                        B[i] = T.float32(1)
        """)
    )
    assert refusal(CodegenError, func) == "A is read on the host, outside of any kernel"


def test_too_many_threads():
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[i, j], name="B")
    sch = tir.Schedule(te.create_prim_func([A, B]))
    for loop, axis in zip(sch.get_loops("B"), ("threadIdx.y", "threadIdx.x"), strict=True):
        sch.bind(loop, axis)
    assert refusal(PassError, sch) == (
        "VerifyGPUCode: a block has 4096 threads (threadIdx.x 64 * threadIdx.y 64), the GPU takes "
        "at most 1024"
    )


@pytest.mark.skipif(mlc.cuda(0).exist, reason="there is a GPU")
def test_running_without_a_gpu():
    made = PROGRAMS["vector_add"]()
    with pytest.raises((DeviceError, MissingDependencyError)) as caught:
        mlc.compile(made.schedule, target="cuda")(*made.arguments())
    assert caught.value.hint.endswith(
        "its source, PTX and resources can be read without a GPU: kernel.source, .ptx, .resources"
    )


def test_text_that_nvrtc_refuses():
    if not nvrtc.is_available():
        with pytest.raises(MissingDependencyError, match="NVRTC"):
            nvrtc.compile_text("", "sm_80")
        return
    with pytest.raises(CodegenError, match=r"kernel.cu\(1\): error"):
        nvrtc.compile_text("nonsense", "sm_80")


def test_what_kernels_write_comes_back_from_the_gpu(program):
    """By stores, and by atomics, which are no stores."""
    _, made = program
    kernel = built(made.schedule)
    assert [p.data in kernel.written for p in kernel.signature.params] == [
        *(False for _ in made.inputs), True
    ]  # fmt: skip


def test_an_instruction_that_the_gpu_lacks_is_refused():
    with pytest.raises(
        PassError, match="ptx_cp_async is an instruction since sm_80, the GPU is sm_75"
    ):
        mlc.compile(PROGRAMS["matmul_async"]().schedule, target="cuda -arch=sm_75")


def test_a_kernel_that_spills_for_one_more_block_is_bounded(monkeypatch):
    """As many blocks as fit by their registers, then fewer; what does not spill is left alone."""
    tried = []

    def run(source, options):
        tried.append([line for line in source.splitlines() if "bounds" in line])
        spilled = 0 if "__launch_bounds__(256, 1) worse(" in source else 8
        facts = (
            "{} bytes stack frame, {} bytes spill stores, {} bytes spill loads\nUsed {} registers"
        )
        log = "Compiling entry function 'fine' for\n" + facts.format(0, 0, 0, 40)
        log += "\nCompiling entry function 'worse' for\n" + facts.format(*[spilled] * 3, 125)
        return b"code", log

    monkeypatch.setattr(nvrtc, "_run", run)
    fine, worse = "__launch_bounds__(64) fine(", "__launch_bounds__({}) worse("
    start = nvrtc._machine_code("\n".join([fine, worse.format(256)]), "sm_80")
    made = nvrtc._without_spills(start)
    wanted = [[fine, worse.format(x)] for x in ("256", "256, 2", "256, 1")]
    assert tried == wanted and made.source.splitlines() == wanted[-1]
    assert made.resources["worse"].spill_stores == 0
