"""Small objects as a cell shows them: the text here, the HTML in files."""

from __future__ import annotations

import re
from textwrap import dedent

import numpy as np
import pytest

import mlcnb
from mlcnb import view
from mlcnb.codegen.cuda.backend import CudaKernel
from mlcnb.core.errors import ScheduleError
from mlcnb.core.render import SHEET
from mlcnb.ir.expr import Var
from mlcnb.ir.instrument import trace
from mlcnb.ir.module import IRModule
from mlcnb.observe.diagnosis import Diagnosis, Finding
from mlcnb.observe.image import Classes, ClassScore
from mlcnb.observe.peers import Comparison
from mlcnb.relax.transform import FoldConstant, LegalizeOps
from mlcnb.runtime.strip import Strips
from mlcnb.runtime.tensor import tensor
from mlcnb.target import Target
from mlcnb.tir.analysis import blocks_of
from mlcnb.tir.buffer import decl_buffer
from mlcnb.tir.transform import lower
from mlcnb.view.tensor import CELLS, block_means
from tests.view.allowed import check_html
from tests.view.samples import (
    copied,
    matmul,
    mlp,
    named_strip,
    profiled,
    replayed,
    roof,
    scheduled,
    still,
    tuned,
)
from tests.view.snapshot import same


def shows(name: str, obj: object, text: str) -> None:
    """Assert the text, and the HTML of the file (pictures left out: their engines differ)."""
    assert view.to_text(obj) == dedent(text).strip("\n")
    html = view.to_html(obj)
    check_html(html)
    html = html.replace(SHEET, "")
    html = re.sub(r'src="data:[^"]*"', 'src="…"', html)
    html = re.sub(r"\.py:\d+", ".py:…", html)
    same(f"{name}.html", re.sub(r"µs|(?<=>)[\d.]+ ms", "…", html).replace("><", ">\n<"))


def test_module():
    shows(
        "module",
        mlp(),
        """
        IRModule: main; 4 operators; 120 FLOP
          inputs     x: float32 [1, 4], w: float32 [4, 8]
          output     float32 [1, 8]
          operators  add, matmul, relu, softmax
        graph: 4 operators: mod.graph()
        TVMScript, 12 lines:
          @I.ir_module
          class Module:
              @R.function
              def main(x: R.Tensor((1, 4), dtype="float32"), w: R.Tensor((4, 8), dtype="float32")) -> R.Tensor((1, 8), dtype="float32"):
                  R.func_attr({"num_input": 1})
                  with R.dataflow():
                      lv: R.Tensor((1, 8), dtype="float32") = R.matmul(x, w)
                      lv1: R.Tensor((1, 8), dtype="float32") = R.nn.relu(lv)
                      lv2: R.Tensor((1, 8), dtype="float32") = R.add(lv1, lv)
                      gv: R.Tensor((1, 8), dtype="float32") = R.nn.softmax(lv2)
                      R.output(gv)
                  return gv
        """,  # noqa: E501
    )


def test_an_empty_module():
    shows("empty", IRModule(), "IRModule: no functions")


def test_loops():
    shows(
        "loops",
        matmul,
        """
        PrimFunc matmul: made of C; 8.19 kFLOP; touches 3.58 kB; 2.29 FLOP/B
          parameter  dtype    shape        size  use
          A          float32  [16, 8]     512 B  read
          B          float32  [8, 32]   1.02 kB  read
          C          float32  [16, 32]  2.05 kB  written
        loops: 1 block, 3 loops:
                           extent  kind       times        work
            for i              16  serial        16  8.19 kFLOP
              for j            32  serial       512  8.19 kFLOP
                for k           8  serial     4,096  8.19 kFLOP
                  block C          SSR, init  4,096  8.19 kFLOP  A, B -> C
        cost:
            work                 8.19 kFLOP
            bytes of parameters  3.58 kB
            intensity            2.29 FLOP/B
            misses of L1         56
            misses of L2         56
            vector               1 element
            in parallel          1 task
          misses, vector and tasks are predicted, for caches of L1 32K/8way, L2 1M/8way (usual ones: the function names no target)
        TVMScript (loops), 11 lines:
          @T.prim_func
          def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer((16, 32), "float32")):
              # with T.block("root"):
              for i, j, k in T.grid(16, 32, 8):
                  with T.block("C"):
                      vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                      T.reads(A[vi, vk], B[vk, vj])
                      T.writes(C[vi, vj])
                      with T.init():
                          C[vi, vj] = T.float32(0.0)
                      C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,  # noqa: E501
    )


def test_lowered_loops_say_what_is_read_and_written():
    text = view.to_text(lower(matmul))
    assert re.findall(r"^  [ABC] .*float32.*$", text, re.M) == [
        "  A          float32  [16, 8]     512 B  read",
        "  B          float32  [8, 32]   1.02 kB  read",
        "  C          float32  [16, 32]  2.05 kB  read, written",
    ]


def test_schedule():
    sch = scheduled()
    text = re.sub(r" +(?:time|[\d.]+ [µm]s)  (\S.*)$", r"  \1", view.to_text(sch), flags=re.M)
    assert text == dedent("""\
        Schedule of matmul: 3 steps, 1 undone
                    step  call  legal
                       0  as given
                       1  split(loop j, factors=[None, 16])  by rule
                       2  reorder(loop i, loop j_0, loop k, loop j_1)  by rule
          >            3  annotate(loop i, ann_key='note', ann_val='outer')  by rule
          (undone)     4  vectorize(loop j_1)  by rule
        step 3: main: changed, +2 -1 lines:
            @T.prim_func
            def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer((16, 32), "float32")):
                T.func_attr({"global_symbol": "matmul"})
                # with T.block("root"):
          -     for i, j_0, k, j_1 in T.grid(16, 2, 8, 16):
          +     for i in T.serial(16, annotations={"note": "outer"}):
          +         for j_0, k, j_1 in T.grid(2, 8, 16):
          ~             with T.block("C"):
          ~                 vi = T.axis.spatial(16, i)
          … 7 lines indented anew
        loops now:
                             extent  kind       times        work
            for i                16  serial        16  8.19 kFLOP  note=outer
              for j_0             2  serial        32  8.19 kFLOP
                for k             8  serial       256  8.19 kFLOP
                  for j_1        16  serial     4,096  8.19 kFLOP
                    block C          SSR, init  4,096  8.19 kFLOP  A, B -> C
        cost before and after step 3:
                                      before        after
            work                  8.19 kFLOP   8.19 kFLOP
            bytes of parameters      3.58 kB      3.58 kB
            intensity            2.29 FLOP/B  2.29 FLOP/B
            misses of L1                  56           56
            misses of L2                  56           56
            vector                 1 element    1 element
            in parallel               1 task       1 task
          misses, vector and tasks are predicted, for caches of L1 32K/8way, L2 1M/8way (usual ones: the function names no target)
        TVMScript (loops), 15 lines:
          @T.prim_func
          def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer((16, 32), "float32")):
              T.func_attr({"global_symbol": "matmul"})
              # with T.block("root"):
              for i in T.serial(16, annotations={"note": "outer"}):
                  for j_0, k, j_1 in T.grid(2, 8, 16):
                      with T.block("C"):
                          vi = T.axis.spatial(16, i)
                          vj = T.axis.spatial(32, j_0 * 16 + j_1)
                          vk = T.axis.reduce(8, k)
                          T.reads(A[vi, vk], B[vk, vj])
                          T.writes(C[vi, vj])
                          with T.init():
                              C[vi, vj] = T.float32(0.0)
                          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]""")  # noqa: E501
    html = re.sub(r"[\d.]+ [µm]s", "…", view.to_html(sch))
    check_html(html)
    same("schedule.html", html.replace("><", ">\n<"))


def test_trace_of_a_schedule():
    text = view.to_text(scheduled().trace)
    assert text.splitlines()[0] == "Trace: 5 instructions"
    assert '  b0 = sch.get_block(name="C", func_name="main")' in text


def test_error():
    sch = scheduled()
    loops = sch.get_loops("C")
    with pytest.raises(ScheduleError) as info:
        sch.vectorize(loops[2])
    shows(
        "error",
        info.value,
        """
        ScheduleError: vectorize: loop k is not parallel: it runs over the reduce axis vk of block C: its iterations update the same elements of C
          2 | def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer((16, 32), "float32")):
          3 |     # with T.block("root"):
          4 |     for i in T.serial(16, annotations={"note": "outer"}):
        > 5 |         for j_0, k, j_1 in T.grid(2, 8, 16):
            |                  ^
          6 |             with T.block("C"):
          7 |                 vi = T.axis.spatial(16, i)
          8 |                 vj = T.axis.spatial(32, j_0 * 16 + j_1)
        counter-example for loop k
          order  block    iteration                       access
              1  block C  i = 0, j_0 = 0, k = 0, j_1 = 0  writes C[0, 0]
              2  block C  i = 0, j_0 = 0, k = 1, j_1 = 0  reads C[0, 0]
        block C, i = 0, j_1 = 0:
                 0  1  2  3  4  5  6  7  k
          j_0 0  1  2  ·  ·  ·  ·  ·  ·
              1  ·  ·  ·  ·  ·  ·  ·  ·
          element         C[0, 0]
          value expected  189.0
          value got       72.0
          run on shapes   (16, 8), (8, 32), (16, 32)
        hint: rfactor the loop first, or choose a spatial loop
          legal instead                                        known
          sch.vectorize(sch.get_loops("C")[3])                 by rule
          sch.vectorize(sch.get_loops("C")[1])                 by rule
          sch.rfactor(sch.get_loops("C")[2], factor_axis=0)    by rule
          sch.decompose_reduction("C", sch.get_loops("C")[2])  by rule
        """,  # noqa: E501
    )


def test_passes():
    run = still(trace([FoldConstant(), LegalizeOps()], mlp()))
    shows(
        "passes",
        run,
        """
        2 passes, 2.50 ms; 1 changed the module; operators 4 -> 4; temporaries 96 B -> 96 B
             pass            time  operators  temporaries  what it did
          1  LegalizeOps  1.25 ms          4         96 B  4 operators became calls of 4 loop functions
        one step with its diff: trace["NAME"] or trace[NUMBER]
        4 rules were applied: LegalizeOps.matmul ×1, LegalizeOps.nn.relu ×1, LegalizeOps.add ×1, LegalizeOps.nn.softmax ×1
        1 pass changed nothing: FoldConstant
        """,  # noqa: E501
    )


def test_a_step_of_a_pass():
    text = view.to_text(still(trace([LegalizeOps()], mlp()))[0])
    text = re.sub(r"\.py:\d+ +", ".py ", text)
    assert text == dedent("""\
        LegalizeOps: 4 operators became calls of 4 loop functions (1.25 ms)
        Replace every operator by a call_tir of the loop nest that its declaration gives.
          rule                    applied  written in                            what it does
          LegalizeOps.matmul            1  mlcnb/op/linear_algebra/matmul.py One reduction over the inner dimension; a second loop rounds half precision.
          LegalizeOps.nn.relu           1  mlcnb/op/nn/activation.py One loop.
          LegalizeOps.add               1  mlcnb/op/_elementwise.py One loop nest.
          LegalizeOps.nn.softmax        1  mlcnb/op/nn/softmax.py Five blocks, named as TVM does; the division is done once for each sum.
        what it does without one: step.without('LegalizeOps.matmul')
        main changed; matmul, relu, add, softmax added
        main: changed, +4 -4 lines:
            @R.function
            def main(x: R.Tensor((1, 4), dtype="float32"), w: R.Tensor((4, 8), dtype="float32")) -> R.Tensor((1, 8), dtype="float32"):
                R.func_attr({"num_input": 1})
                with R.dataflow():
          -         lv: R.Tensor((1, 8), dtype="float32") = R.matmul(x, w)
          +         lv = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((1, 8), dtype="float32"))
          -         lv1: R.Tensor((1, 8), dtype="float32") = R.nn.relu(lv)
          +         lv1 = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((1, 8), dtype="float32"))
          -         lv2: R.Tensor((1, 8), dtype="float32") = R.add(lv1, lv)
          +         lv2 = R.call_tir(cls.add, (lv1, lv), out_sinfo=R.Tensor((1, 8), dtype="float32"))
          -         gv: R.Tensor((1, 8), dtype="float32") = R.nn.softmax(lv2)
          +         gv = R.call_tir(cls.softmax, (lv2,), out_sinfo=R.Tensor((1, 8), dtype="float32"))
                    R.output(gv)
                return gv
        4 functions added: matmul, relu, add, softmax: print(diff.text)""")  # noqa: E501


def test_pipeline():
    text = view.to_text(mlcnb.get_pipeline("zero"))
    assert [line.split("  ")[:3] for line in text.splitlines()][:1] == [["zero: 5 passes"]]
    assert re.search(r"^  0  LegalizeOps\(\) +Replace every operator by a call_tir of", text, re.M)


def test_buffer():
    shows(
        "buffer",
        matmul.buffers[1],
        """
        Buffer B: float32 [8, 32], 1.02 kB
          scope    global, aligned to 64 bytes
          strides  32, 1 elements: compact, the last axis runs fastest
          memory   B[0, 0] at 0, B[0, 1] at 4, B[1, 0] at 128 bytes; a line of 64 bytes holds 16 of them
        """,  # noqa: E501
    )


def test_strided_buffer():
    made = decl_buffer((4, 8), "int8", "A", strides=(64, 2), elem_offset=16)
    assert view.to_text(made).splitlines() == [
        "Buffer A: int8 [4, 8], 32 B",
        "  scope    global, aligned to 64 bytes",
        "  strides  64, 2 elements",
        "  begins   at element 16 of its memory",
        "  memory   A[0, 0] at 0, A[0, 1] at 2, A[1, 0] at 64 bytes; "
        "a line of 64 bytes holds 32 of them",
    ]


def test_symbolic_buffer():
    n = Var("n", "int64")
    assert view.to_text(decl_buffer((n, 8, n), name="A")).splitlines() == [
        "Buffer A: float32 [n, 8, n]",
        "  scope    global, aligned to 64 bytes",
        "  strides  compact, the last axis runs fastest",
    ]


def test_block():
    sch = scheduled()
    (realize,) = blocks_of(sch.mod["main"])
    shows(
        "block",
        realize,
        """
        Block C
          axis  kind     values  is
          vi    spatial      16  i
          vj    spatial      32  j_0 * 16 + j_1
          vk    reduce        8  k
          reads        A[vi, vk], B[vk, vj]
          writes       C[vi, vj]
          starts with  C[vi, vj] = T.float32(0.0)
        TVMScript, 9 lines:
          with T.block("C"):
              vi = T.axis.spatial(16, i)
              vj = T.axis.spatial(32, j_0 * 16 + j_1)
              vk = T.axis.reduce(8, k)
              T.reads(A[vi, vk], B[vk, vj])
              T.writes(C[vi, vj])
              with T.init():
                  C[vi, vj] = T.float32(0.0)
              C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
    )


def test_loop():
    loop = scheduled().mod["main"].body.block.body.body
    assert view.to_text(loop).splitlines()[:7] == [
        "For j_0: serial loop of 2",
        "loops:",
        "                   extent  kind       times      work",
        "    for j_0             2  serial         2  512 FLOP",
        "      for k             8  serial        16  512 FLOP",
        "        for j_1        16  serial       256  512 FLOP",
        "          block C          SSR, init    256  512 FLOP  A, B -> C",
    ]


@pytest.mark.parametrize("shape", [(3, 5), (16, 40), (33, 81), (1, 100), (2, 3, 70, 41)])
def test_heat_maps_show_means(shape):
    data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    matrix = data.reshape(-1, *shape[-2:])[0]
    rows, columns = (-(-n // most) for n, most in zip(matrix.shape, CELLS, strict=True))
    expected = [
        [matrix[i : i + rows, j : j + columns].mean() for j in range(0, matrix.shape[1], columns)]
        for i in range(0, matrix.shape[0], rows)
    ]
    np.testing.assert_allclose(block_means(matrix.astype("float64"), [rows, columns]), expected)
    assert max(np.array(expected).shape) <= 40


def test_profile():
    shows(
        "profile",
        profiled("lv"),
        """
        Profile: 2.00 ms a run; 8.19 kFLOP at 0.0041 GFLOP/s; 2 calls of 2 kernels; median of 10 runs, 2 threads
          call  kernel     time   share                GFLOP/s     GB/s
          lv    matmul  1.50 ms  75.0 %  ████████████   0.0055   0.0027
          lv1   lv       500 µs  25.0 %  ████                   0.00026
        timeline of one run: profile.rows
        """,  # noqa: E501
    )


def test_target():
    target = Target("llvm -mcpu=x86-64-v3 -num-cores=4")
    shows(
        "target",
        target,
        """
        Target llvm -mcpu=x86-64-v3 -num-cores=4: CPU code through LLVM
          vectors     256 bits, 16 registers
          features    avx2, avx, fma, f16c, sse4.2
          cores       4
          caches      L1 32 KiB, L2 1 MiB, L3 16 MiB
          attributes  mcpu=x86-64-v3, num-cores=4
        """,
    )


def test_classes():
    shows(
        "classes",
        Classes([ClassScore(282, "tiger cat", 0.386), ClassScore(281, "tabby", 0.25)]),
        """
        top-1: tiger cat 0.386
          class      number  probability
          tiger cat     282       38.6 %  ████▋
          tabby         281       25.0 %  ███
        """,
    )


def test_comparison():
    shows(
        "comparison",
        Comparison(2.0, 4.0, "ONNX Runtime 1.23", 1, 20, 1e-6),
        """
        ratio to ONNX Runtime 1.23: 0.50
                              median
          mlcnb              2.00 ms  ██████
          ONNX Runtime 1.23  4.00 ms  ████████████
        20 runs in turns on 1 thread; largest difference of the results 1.0e-06
        """,
    )


def test_diagnosis():
    made = (Finding("CPU", "a fast one"), Finding("cupy", "none", False, "pip install cupy"))
    shows(
        "diagnosis",
        Diagnosis({"machine": made}),
        """
        what this machine has
          machine
          CPU         a fast one
          cupy     ✗  none
        to install:
        pip install cupy
        """,
    )


def test_tensor():
    shows(
        "tensor",
        tensor(np.array([[0.0, 1.5, np.nan], [3.0, np.inf, -1.5]], "float32")),
        """
        Tensor float32 [2, 3] on cpu(0), 24 B
          range   -1.5 .. 3, mean 0.75, standard deviation 1.677
          spread  █       █       █      █
          zeros   1; NaN 1; infinite 1
        heat map of all values, [2, 3]
        [[ 0.   1.5  nan]
         [ 3.   inf -1.5]]
        """,
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (np.zeros((0, 3)), "values  none"),
        (np.ones(4, bool), "true  4 of 4"),
        (np.full(100, 7), "range   7 .. 7, mean 7, standard deviation 0"),
        (np.arange(3_000_000), "sample  one value in 3 of 3,000,000"),
        (np.full(100, np.nan), "zeros  0; NaN 100; infinite 0"),
    ],
)
def test_odd_tensors(data, told):
    shown = view.to_text(tensor(data))
    assert told in shown
    check_html(view.to_html(tensor(data)))


def test_executable_of_loops():
    ex = mlcnb.compile(matmul, target="llvm")
    text = view.to_text(ex)
    assert text.startswith("Executable for llvm; matmul\n  arguments    A: float32 [16, 8], ")
    assert "machine code" in text
    assert "LLVM IR after optimisation, " in text
    html = view.to_html(ex)
    shown = check_html(html)
    for word in ("vfmadd", "define i32 @", "T.block", "ret"):
        assert word in shown


def test_executable_of_a_graph():
    ex = mlcnb.compile(mlp(), target="llvm")
    text = view.to_text(ex)
    first, *rest = text.splitlines()
    assert re.fullmatch(r"Executable for llvm; main; \d calls of \d kernels", first)
    assert any(re.match(r"  memory +arena .*, constants \d", line) for line in rest)
    assert "kernels: " in text
    check_html(view.to_html(ex))
    assert view.to_text(ex.kernels).startswith("Kernels: ")
    check_html(view.to_html(ex.kernels))


def test_executable_of_the_interpreter():
    ex = mlcnb.compile(mlp(), target="interp")
    assert "allocated step by step" in view.to_text(ex)
    assert "run by the reference interpreter" in view.to_text(ex.kernels[0])
    check_html(view.to_html(ex.kernels[0]))


def test_small_nodes():
    param = mlp()["main"].params[0]
    assert view.to_text(param.struct_info) == 'R.Tensor((1, 4), dtype="float32")'
    check_html(view.to_html(matmul.buffer_map[matmul.params[0]]))


def test_a_kernel_for_a_gpu():
    kernel = CudaKernel("k", copied("A"), Target("cuda"))
    text = view.to_text(kernel)
    assert text.splitlines()[0].startswith("Kernel k; ")
    assert "k_kernel  (1, 1, 1)  (8, 1, 1)" in text
    assert "CUDA C++, 7 lines: print(kernel.source)" in text
    html = view.to_html(kernel)
    check_html(html)
    assert "__global__" in html


def test_strip():
    shows(
        "strip",
        named_strip("fused_relu", 160e-9),
        """
        Strip of fused_relu: 8.19 kFLOP, 4.1 kB, 2 FLOP/B
          counted    hot loop of 2 instructions: 50.0 % vector (512 bits), 1 FMA, 1 load, 0 stores
          in loops   0 spills; 12 bytes of code for fused_relu
          calls      fused_relu
          measured   0.16 µs, 51.2 GFLOP/s on 2 threads
          predicted  100.0 GFLOP/s at most (compute): 51.2 % of the roof
        """,
    )


def test_strips():
    shows(
        "strips",
        Strips((named_strip("a", 160e-9),)),
        """
        Strips: 1 kernel; spills are those inside loops; each measured alone on 2 threads
          kernel  hot loop  vector  FMA  spills     time  GFLOP/s  of roof    limit
          a              2  50.0 %    1       0  0.16 µs     51.2   51.2 %  compute
        code and work:
            kernel  code        work  FLOP/B
            a       12 B  8.19 kFLOP       2
        """,
    )


def test_replay():
    shows(
        "replay",
        replayed("reorder"),
        """
        Replay of reorder: 2 stages of 3 steps on 2 threads
          step  then                  time                GFLOP/s  of roof  hot loop  vector  FMA  loads  stores  spills
             0  as given           0.40 µs  ███              20.5   20.5 %         2  50.0 %    1      1       0       0
             3  split ×2, reorder  0.10 µs  ████████████     81.9   81.9 %         2  50.0 %    1      1       0       0
        """,  # noqa: E501
    )


def test_roofline():
    shows(
        "roofline",
        roof(),
        """
        Roofline of 2 threads: 100 GFLOP/s in float32, measured
          level    holds  GB/s  compute-bound from
          L1      32 KiB   400         0.25 FLOP/B
          memory            20         5.00 FLOP/B
        """,
    )


def test_tuning_records():
    database = tuned()
    shows(
        "database",
        database,
        """
        MemoryDatabase: 3 records of 1 workload
          workload  records     best  GFLOP/s  first / best
          matmul          3  1.00 ms  0.00819             5
        matmul: record by record:
                  mean  speed         so far   instructions  target
            1  5.00 ms  ██▍           fastest             5  llvm -mcpu=x86-64-v3
            2  1.00 ms  ████████████  fastest             6  llvm -mcpu=x86-64-v3
            3   no run                                    6
        """,
    )
    shows(
        "tuning record",
        database.get_all_tuning_records()[0],
        """
        Tuning record of matmul: 5.00 ms
          instructions  5
          target        llvm -mcpu=x86-64-v3
          work          8.19 kFLOP, 0.00164 GFLOP/s
          runs          2, 4.00 ms to 6.00 ms
        steps: print(record.trace)
        TVMScript (loops), 11 lines:
          @T.prim_func
          def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer((16, 32), "float32")):
              # with T.block("root"):
              for i, j, k in T.grid(16, 32, 8):
                  with T.block("C"):
                      vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                      T.reads(A[vi, vk], B[vk, vj])
                      T.writes(C[vi, vj])
                      with T.init():
                          C[vi, vj] = T.float32(0.0)
                      C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,  # noqa: E501
    )
