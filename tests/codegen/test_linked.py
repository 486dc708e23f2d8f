"""Debug locations and what is made of them: which line of a program each instruction is from."""

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.llvm import apart
from mlcnb.codegen.llvm.emit.debug import emit_located
from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.inspect import strip
from mlcnb.codegen.llvm.library import link
from mlcnb.codegen.llvm.linked import MACHINES, Linked
from mlcnb.codegen.llvm.listing import assembly_listing, ir_listing
from mlcnb.codegen.llvm.symbols import PREFIX
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import walk
from mlcnb.ir.structural import structural_equal
from mlcnb.runtime import threads
from mlcnb.script import from_source
from mlcnb.script.places import origin, placed
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.lower import lower

SCALE = """
@T.prim_func
def scale(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(8):
        for j in T.vectorized(8):
            with T.block("B"):
                v = T.axis.spatial(64, i * 8 + j)
                B[v] = A[v] * T.float32(2)
"""
PLAIN = """
@T.prim_func
def scale(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * T.float32(2)
"""
MATMUL = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"),
         C: T.Buffer((64, 64), "float32")):
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
GRAPHS = {
    "softmax": """
@R.function
def main(x: R.Tensor((16, 128), "float32")):
    with R.dataflow():
        y = R.nn.softmax(x, axis=-1)
        R.output(y)
    return y
""",
    "convolution": """
@R.function
def main(x: R.Tensor((1, 32, 14, 14), "float32"), w: R.Tensor((32, 32, 3, 3), "float32")):
    with R.dataflow():
        y = R.nn.conv2d(x, w, padding=(1, 1))
        z = R.nn.relu(y)
        R.output(z)
    return z
""",
    "integers": """
@R.function
def main(x: R.Tensor((37, 5), "int64"), i: R.Tensor((9,), "int64")):
    with R.dataflow():
        y = R.take(x, i, axis=0)
        z = R.floor_divide(y, R.const(3, "int64"))
        R.output(z)
    return z
""",
}
V3 = "llvm -mcpu=x86-64-v3"


def kernels():
    """Kernels of several kinds, as the default rules schedule them."""
    found = list(mlc.compile(from_source(MATMUL), schedule="default").kernels.values())
    for text in GRAPHS.values():
        found += mlc.compile(from_source(text)).kernels.values()
    return found


@pytest.fixture(scope="module")
def compiled():
    return kernels()


@pytest.fixture(scope="module")
def scale():
    """A kernel whose code is the same wherever the test runs."""
    return Linked(mlc.compile(from_source(SCALE), target=V3).kernels[0])


# -- the substance: locations change nothing -------------------------------------------------------


def test_locations_change_neither_ir_nor_code(compiled):
    assert len(compiled) >= 5
    for kernel in compiled:
        target = kernel.target
        located = emit_located(
            kernel.lowered,
            PREFIX + kernel.name,
            target.vector_bits,
            features=target.features,
            tuning=kernel.compiled.cpu.tuning,
        )
        assert located.kernel.ir != kernel.llvm_ir
        assert located.plain == kernel.llvm_ir
        made = compile_ir(located.kernel.ir, kernel.compiled.cpu, kernel.compiled.options)
        arch = made.cpu.arch
        assert strip(made.assembly, arch) == strip(kernel.asm, arch)


def test_code_with_locations_computes_the_same():
    import ctypes

    kernel = mlc.compile(from_source(MATMUL), schedule="default").kernels[0]
    located = emit_located(kernel.lowered, PREFIX + "main", kernel.target.vector_bits)
    library = link([compile_ir(located.kernel.ir)], threads.symbols())
    rng = np.random.default_rng(0)
    a, b = (rng.random((64, 64), dtype="float32") for _ in range(2))
    c = np.zeros((64, 64), "float32")
    argv = (ctypes.c_void_p * 4)(a.ctypes.data, b.ctypes.data, c.ctypes.data, None)
    assert library.function("kernel.main", ctypes.c_int, ctypes.c_void_p)(argv) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_statements_keep_their_line_through_lowering(compiled):
    for kernel in compiled:
        marked = placed(kernel.scheduled)
        page, lowered = marked.page, lower(marked.func)
        assert structural_equal(lowered, kernel.lowered)
        kinds = (s.For, s.BufferStore, s.IfThenElse, s.LetStmt)
        found = [n for n in walk(lowered.body) if isinstance(n, kinds)]
        assert found
        assert [n for n in found if origin(n) is None] == []
        for n in found:
            text = page.text_lines[origin(n)[0] - 1]
            if isinstance(n, s.BufferStore):
                assert " = " in text


def test_every_instruction_before_optimisation_has_a_line():
    kernel = mlc.compile(from_source(MATMUL), schedule="default").kernels[0]
    made = Linked(kernel)
    found, total = made.emitted.located()
    assert total - found == sum("alloca" in line for line in made.emitted.lines)


# -- the map of a small program, whole -------------------------------------------------------------


def test_the_map_of_a_small_program(scale):
    assert scale.lowered.texts == [
        "@T.prim_func",
        'def scale(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):',
        '    T.func_attr({"tir.is_flat": True})',
        "    for i in range(8):",
        "        B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] * T.Broadcast(T.float32(2.0), 8)",
    ]
    assert [sorted(x) for x in scale.scheduled.links] == [[], [], [], [4], [], [], [], [], [], [5]]
    assert scale.scheduled.texts[3] == "    for i in range(8):"
    assert scale.scheduled.texts[9].strip() == "B[v] = A[v] * T.float32(2.0)"
    assert scale.source.first == 2
    assert scale.source.texts == SCALE.strip().splitlines()
    assert [sorted(x) for x in scale.source.links] == [[], [], [4], [], [], [], [5]]
    assert scale.trace is None
    emitted = [
        (place, line.strip())
        for line, place in zip(scale.emitted.lines, scale.emitted.places, strict=True)
        if place and place[0] > 2
    ]
    assert emitted == [
        ((4, 5), "br label %loop1"),
        ((4, 5), "%i.3 = phi i64 [ 0, %entry ], [ %next4, %loop1 ]"),
        ((5, 30), "%i5 = mul nsw i64 %i.3, 8"),
        ((5, 30), "%p6 = getelementptr inbounds float, ptr %arg0, i64 %i5"),
        ((5, 30), "%v7 = load <8 x float>, ptr %p6, align 4"),
        ((5, 30), "%v8 = fmul contract <8 x float> %v7, splat (float 0x4000000000000000)"),
        ((5, 9), "%i9 = mul nsw i64 %i.3, 8"),
        ((5, 9), "%p10 = getelementptr inbounds float, ptr %arg1, i64 %i9"),
        ((5, 9), "store <8 x float> %v8, ptr %p10, align 4"),
        ((4, 5), "%next4 = add nsw i64 %i.3, 1"),
        ((4, 5), "%v11 = icmp slt i64 %next4, 8"),
        ((4, 5), "br i1 %v11, label %loop1, label %end2"),
    ]


def test_the_assembly_of_a_small_program(scale):
    code = scale.code().assembly
    rows = list(zip(code.places, code.lines, strict=True))
    steps = []
    for n in range(8):
        at = f"{32 * n}" if n else ""
        steps += [
            ((5, 30), f"    vmovups {at}(%rax), %ymm0"),
            ((5, 30), "    vaddps %ymm0, %ymm0, %ymm0"),
            ((5, 9), f"    vmovups %ymm0, {at}(%rcx)"),
        ]
    assert rows == [
        (None, "kernel.scale:"),
        ((2, 1), "    movq (%rdi), %rax"),
        ((2, 1), "    movq 8(%rdi), %rcx"),
        *steps,
        ((2, 1), "    xorl %eax, %eax"),
        ((2, 1), "    vzeroupper"),
        ((2, 1), "    retq"),
    ]
    assert code.kinds == " LL" + "LVS" * 8 + "ssJ"
    assert code.located() == (29, 29)


def test_steps_of_a_schedule_are_linked_to_what_they_made():
    sch = Schedule(from_source(MATMUL))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 8])
    sch.reorder(i0, j, k, i1)
    sch.unroll(i1)
    made = Linked(mlc.compile(sch.mod, target=V3).kernels[0], sch)
    told = dict(zip(made.trace.texts, made.trace.links, strict=True))
    line = {text.strip(): n for n, text in enumerate(made.lowered.texts, 1)}
    outer, inner = line["for i_0 in range(8):"], line["for i_1 in T.unroll(8):"]
    split = next(links for text, links in told.items() if "sch.split(" in text)
    unroll = next(links for text, links in told.items() if "sch.unroll(" in text)
    assert (set(split), set(unroll)) == ({outer, inner}, {inner})


# -- other machines, levels, and LLVM at work ------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_has_code_with_lines(scale, machine):
    code = scale.code(machine)
    found, total = code.assembly.located()
    assert total >= 20
    assert 0.6 * total < found <= total
    assert code.assembly.at(5)
    assert code.ir.at(5)


def test_less_optimised_code_is_longer_and_knows_more_lines():
    target = "llvm -mcpu=x86-64-v4"  # shares of lines depend on the vectors that there are
    made = Linked(mlc.compile(from_source(MATMUL), target, schedule="default").kernels[0])
    plain, best = made.code(level=0), made.code()
    assert len(plain.assembly.lines) > len(best.assembly.lines)
    shares = [found / total for found, total in (c.assembly.located() for c in (plain, best))]
    assert shares[0] > shares[1] > 0.6
    found, total = made.hot_located
    assert found >= 0.8 * total


def test_llvm_is_watched():
    made = Linked(mlc.compile(from_source(PLAIN), target=V3).kernels[0])
    told = {(r.line, r.text) for r in made.remarks}
    assert (4, "vectorized loop (vectorization width: 8, interleaved count: 4)") in told
    names = [p.name for p in made.passes]
    assert names.index("LoopVectorize") < names.index("X86 DAG->DAG Instruction Selection")
    wide = next(p for p in made.passes if p.name == "LoopVectorize")
    assert not any("<8 x float>" in line for line in wide.before)
    assert any(line.startswith("+") and "<8 x float>" in line for line in wide.diff)
    added, removed = wide.counts
    assert added - removed == len(wide.after) - len(wide.before)
    assert not any("!dbg" in line for p in made.passes for line in p.after)


def test_a_target_that_llvm_lacks_ends_another_process(scale):
    ir = scale.located().kernel.ir
    with pytest.raises(CodegenError, match=r"LLVM makes no code of this for none \(nonsense\): "):
        apart.read_apart(ir, Cpu("nonsense-unknown-linux", "none"))


def test_without_a_second_process_there_are_no_remarks(scale, monkeypatch):
    def refused(*_args, **_named):
        raise OSError("processes are not supported")

    monkeypatch.setattr(apart.subprocess, "run", refused)
    with pytest.raises(CodegenError, match="no second process for LLVM: processes are not"):
        apart.observe(scale.located().kernel.ir, Cpu.host(), 3, ["kernel.scale"])


def test_a_text_without_locations_has_no_places():
    ir = "define i32 @f() {\nentry:\n  ret i32 0\n}\n"
    assert ir_listing(ir).places == (None, None, None, None)
    assert ir_listing(ir).located() == (0, 1)
    assert assembly_listing("", "x86_64").lines == ()
