"""LLVM IR text to object bytes to functions in this process."""

from __future__ import annotations

import ctypes
import math
import os
import re
import subprocess
import sys
import threading
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.llvm import engine, half, target_machine
from mlcnb.codegen.llvm.cache import Store
from mlcnb.codegen.llvm.engine import Options, compile_ir, compile_many
from mlcnb.codegen.llvm.library import link
from mlcnb.codegen.llvm.symbols import (
    LIBC_NAMES,
    code_sizes,
    defines,
    libc_address,
    needs,
    symbol_of,
)
from mlcnb.codegen.llvm.target_machine import Cpu, cpu_of
from mlcnb.core.errors import CodegenError
from mlcnb.runtime.tensor import tensor
from mlcnb.target import Target
from mlcnb.target.cpus import promised
from tests.view.names import NAMES
from tests.view.samples import named_loops

ADD = """
define i32 @{name}(i32 %a, i32 %b) {{
  %c = add i32 %a, %b
  ret i32 %c
}}
"""
SCALE = """
define void @scale(ptr noalias %x, ptr noalias %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %v = load float, ptr %from
  %w = call float @llvm.fmuladd.f32(float %v, float %v, float 1.5)
  store float %w, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def add_module(name: str) -> str:
    return ADD.format(name=name)


def int_function(library, name, arguments=2):
    return library.function(name, ctypes.c_int32, *[ctypes.c_int32] * arguments)


def test_text_becomes_a_function():
    compiled = compile_ir(add_module("add"))
    assert compiled.defines == ("add",)
    assert compiled.needs == ()
    assert set(compiled.seconds) == {"parse", "optimize", "emit"}
    assert "define i32 @add" in compiled.ir_after
    assert "add:" in compiled.assembly
    assert not compiled.cached
    library = link([compiled])
    assert library.names == ("add",)
    assert int_function(library, "add")(40, 2) == 42


def test_function_keeps_its_library_alive():
    f = int_function(link([compile_ir(add_module("add"))]), "add")
    assert f(1, 2) == 3


def test_equal_texts_are_compiled_once_and_order_is_kept():
    texts = [add_module("a"), add_module("b"), add_module("a")]
    done = []
    a, b, again = compile_many(texts, on_done=done.append)
    assert a is again
    assert (a.defines, b.defines) == (("a",), ("b",))
    assert done == [a, b]
    assert link([a, b, again]).names == ("a", "b")


def test_compiling_begins_before_the_last_text_is_made():
    started = threading.Event()

    def texts():
        yield add_module("a")
        assert started.wait(60), "the first text waits for the second"
        yield add_module("b")

    real = engine._compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_compile", lambda *args: started.set() or real(*args))
        assert [c.defines for c in compile_many(texts())] == [("a",), ("b",)]


def test_modules_call_each_other_and_the_c_library():
    caller = """
declare i32 @add(i32, i32)
declare float @cosf(float)
define i32 @twice(i32 %x) {
  %y = call i32 @add(i32 %x, i32 %x)
  ret i32 %y
}
define float @cosine(float %x) {
  %y = call float @cosf(float %x)
  ret float %y
}
"""
    compiled = compile_many([caller, add_module("add")])
    assert compiled[0].needs == ("add", "cosf")
    library = link(compiled)
    assert int_function(library, "twice", 1)(21) == 42
    assert library.function("cosine", ctypes.c_float, ctypes.c_float)(0.0) == 1.0


def test_outside_symbols_win_over_the_c_library():
    callback = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(lambda x: x + 100)
    ir = "declare float @cosf(float)\ndefine float @f(float %x) {\n"
    ir += "  %y = call float @cosf(float %x)\n  ret float %y\n}\n"
    address = ctypes.cast(callback, ctypes.c_void_p).value
    f = link([compile_ir(ir)], {"cosf": address}).function("f", ctypes.c_float, ctypes.c_float)
    assert f(1.0) == 101.0


def test_data_outside_is_reached():
    flag = ctypes.c_int32(7)
    ir = "@flag = external global i32\ndefine i32 @f() {\n"
    ir += "  %v = load i32, ptr @flag\n  ret i32 %v\n}\n"
    f = int_function(link([compile_ir(ir)], {"flag": ctypes.addressof(flag)}), "f", 0)
    assert f() == 7
    flag.value = 8
    assert f() == 8


@pytest.mark.parametrize(
    ("ir", "message"),
    [
        (
            "define i32 @f() {\n  %x = add i32 %y, 1\n  ret i32 %x\n}",
            "LLVM refuses line 2, column 16 of the module: use of undefined value '%y'\n"
            "      %x = add i32 %y, 1\n"
            "                   ^",
        ),
        (
            "define i32 @f(",
            "LLVM refuses line 1, column 15 of the module: expected type\n"
            "    define i32 @f(\n"
            "                  ^",
        ),
        (
            "define i32 @f(i1 %c) {\ne:\n  br i1 %c, label %a, label %b\na:\n"
            "  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 %x\n}",
            "LLVM refuses the module: Instruction does not dominate all uses! "
            "%x = add i32 1, 2 ret i32 %x",
        ),
    ],
)
def test_malformed_ir(ir, message):
    with pytest.raises(CodegenError) as error:
        compile_ir(ir)
    assert str(error.value) == message


def test_the_first_error_in_order_is_raised():
    texts = [add_module("a"), "define bad", "define worse", add_module("b")]
    with pytest.raises(CodegenError, match="define bad"):
        compile_many(texts, jobs=2)


def test_undefined_symbol():
    ir = "declare i32 @nowhere()\ndefine i32 @f() {\n  %x = call i32 @nowhere()\n  ret i32 %x\n}"
    with pytest.raises(CodegenError) as error:
        link([compile_ir(ir)])
    assert str(error.value) == (
        "undefined symbol nowhere, used by f\n"
        "hint: a kernel may call the runtime, its own helpers and the C library's memory and "
        "mathematics functions"
    )


def test_the_rest_of_the_process_is_out_of_reach():
    ir = "declare i32 @system(ptr)\ndefine i32 @f(ptr %p) {\n"
    ir += "  %x = call i32 @system(ptr %p)\n  ret i32 %x\n}"
    with pytest.raises(CodegenError, match="undefined symbol system, used by f"):
        link([compile_ir(ir)])
    assert libc_address("system") == 0
    assert libc_address("memcpy") != 0


@pytest.mark.parametrize("kind, letter", [("float", "f32"), ("double", "f64")])
def test_a_sine_and_a_cosine_of_one_number_are_found_when_llvm_joins_them(kind, letter):
    ir = f"""
declare {kind} @llvm.sin.{letter}({kind})
declare {kind} @llvm.cos.{letter}({kind})
define {kind} @f({kind} %x) {{
  %s = call {kind} @llvm.sin.{letter}({kind} %x)
  %c = call {kind} @llvm.cos.{letter}({kind} %x)
  %z = fsub {kind} %s, %c
  ret {kind} %z
}}"""
    of = {"float": ctypes.c_float, "double": ctypes.c_double}[kind]
    f = link([compile_ir(ir)]).function("f", of, of)
    x = 1e6
    assert math.isclose(f(x), math.sin(x) - math.cos(x), rel_tol=1e-6)


def test_name_defined_twice():
    first, second = compile_many([add_module("f"), add_module("f") + "; another text\n"])
    with pytest.raises(CodegenError, match="two modules define f"):
        link([first, second])


@pytest.mark.parametrize(
    ("cpu", "marks"),
    [
        ("x86-64-v3", ("%ymm", "vfmadd")),
        ("x86-64-v4", ("vfmadd",)),
        ("x86-64", ("mulps", "addps")),
        ("cortex-a72", ("fmla\tv", ".4s")),
        ("apple-m1", ("fmla.4s",)),
        ("riscv64", ("fmadd.s",)),
    ],
)
def test_code_for_other_cpus_can_be_read(cpu, marks):
    features = "+f,+d" if cpu == "riscv64" else ""
    compiled = compile_ir(SCALE, Cpu.named(cpu, features))
    assert compiled.defines == ("scale",)
    for mark in marks:
        assert mark in compiled.assembly


@pytest.mark.parametrize("cpu", ["znver3", "znver4", "host"])
def test_no_instruction_of_sse4a_is_chosen(cpu):
    """Three bytes of a vector and a zero: `extrq` where AMD's CPUs may use it."""
    lanes = "<i32 0, i32 1, i32 2, i32 16>"
    ir = f"""
define void @f(ptr %p, ptr %q) {{
  %x = load <16 x i8>, ptr %p
  %r = shufflevector <16 x i8> %x, <16 x i8> zeroinitializer, <4 x i32> {lanes}
  store <4 x i8> %r, ptr %q
  ret void
}}
"""
    words = compile_ir(ir, Cpu.named(cpu)).assembly.split()
    assert "retq" in words and not {"extrq", "insertq"} & {*words}


def test_code_for_other_cpus_does_not_run():
    other = "x86-64-v3" if Cpu.host().arch == "aarch64" else "cortex-a72"
    compiled = compile_ir(SCALE, Cpu.named(other))
    with pytest.raises(CodegenError, match=f"code for {other} .* cannot run here"):
        link([compiled])


@pytest.mark.skipif(Cpu.host().arch != "x86_64", reason="levels of x86-64")
@pytest.mark.parametrize("name", ["x86-64", "nehalem", "corei7"])
def test_lower_levels_of_this_architecture_run_here(name):
    assert Cpu.named(name).runs_here
    compiled = compile_ir(SCALE, Cpu.named(name))
    x, y = np.arange(37, dtype=np.float32), np.empty(37, np.float32)
    pointer = ctypes.c_void_p
    scale = link([compiled]).function("scale", None, pointer, pointer, ctypes.c_int64)
    scale(x.ctypes.data, y.ctypes.data, 37)
    assert (y == x * x + np.float32(1.5)).all()


@pytest.mark.skipif(Cpu.host().arch != "x86_64", reason="CPUs of x86-64")
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("sandybridge", "sse4.2 avx"),
        ("ivybridge", "avx f16c"),
        ("haswell", "avx2 fma bmi2 movbe"),
        ("znver3", "avx2 fma bmi2 lzcnt"),
        ("skylake-avx512", "avx2 avx512f avx512bw"),
        ("cascadelake", "avx512f avx512vnni"),
        ("znver4", "avx512bf16 avx512vbmi2"),
        ("sapphirerapids", "avx512bf16 avx512fp16"),
        ("znver3 +avx512fp16", "avx2 avx512fp16"),
    ],
)
def test_an_older_cpu_s_code_runs_where_all_that_it_uses_is_there(name, needs, monkeypatch):
    here = Cpu(Cpu.host().triple, "another")
    found = Cpu(here.triple, *name.split())
    all_there = dict.fromkeys(promised("sapphirerapids"), True)
    monkeypatch.setattr(target_machine, "_host", lambda: here)
    for each in needs.split():
        monkeypatch.setattr(target_machine, "_host_features", lambda: all_there)
        assert found.runs_here
        monkeypatch.setattr(
            target_machine, "_host_features", lambda each=each: {**all_there, each: False}
        )
        assert not found.runs_here


@pytest.mark.skipif(Cpu.host().triple != "x86_64-unknown-linux-gnu", reason="its spellings")
def test_a_triple_of_this_computer_may_be_spelled_otherwise():
    for triple in ("x86_64-linux-gnu", "x86_64-pc-linux-gnu", "amd64-unknown-linux-gnu"):
        assert cpu_of(Target(f"llvm -mtriple={triple} -mcpu=native")) == Cpu.host()
        assert cpu_of(Target(f"llvm -mtriple={triple} -mcpu=x86-64-v2")).runs_here
    assert not cpu_of(Target("llvm -mtriple=x86_64-linux-musl -mcpu=x86-64-v2")).runs_here


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        (Cpu("arm64-apple-darwin", "apple-m1"), "bzero"),
        (Cpu("x86_64-apple-darwin20.1.0", "x86-64-v3"), "__bzero"),
        (Cpu("aarch64-unknown-linux-gnu", "neoverse-n1"), "memset"),
        (Cpu("x86_64-pc-windows-msvc", "x86-64-v3"), "memset"),
    ],
)
def test_memory_is_cleared_by_a_function_that_the_linker_knows(cpu, name):
    clears = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @f(ptr %x, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %x, i8 0, i64 %n, i1 false)
  ret void
}
"""
    assert compile_ir(clears, cpu).needs == (name,)
    assert name in LIBC_NAMES


def test_named_cpus():
    host = Cpu.host()
    assert Cpu.named("host") == Cpu.named(host.cpu) == host
    assert Cpu.named("host", "-avx").features.endswith(",-avx")
    assert Cpu.named("apple-m1").triple == "arm64-apple-darwin"
    with pytest.raises(CodegenError, match="no architecture known for CPU 'pentagon'"):
        Cpu.named("pentagon")
    with pytest.raises(CodegenError, match="LLVM has no target 'nonsense-none'"):
        compile_ir(add_module("f"), Cpu("nonsense-none", "x"))


def test_intrinsics_that_the_cpu_lacks_are_refused_before_llvm_aborts():
    avx = """
declare <8 x float> @llvm.x86.avx.max.ps.256(<8 x float>, <8 x float>)
define <8 x float> @f(<8 x float> %x) {
  %y = call <8 x float> @llvm.x86.avx.max.ps.256(<8 x float> %x, <8 x float> %x)
  ret <8 x float> %y
}
"""
    with pytest.raises(CodegenError) as error:
        compile_ir(avx, Cpu("x86_64-unknown-linux-gnu", "x86-64", "-avx"))
    assert str(error.value) == (
        "llvm.x86.avx.max.ps.256 needs the CPU feature avx, which x86-64 here lacks\n"
        "hint: take the vector instructions from the target's features"
    )
    with pytest.raises(CodegenError, match=r"llvm.x86.avx.max.ps.256 is not an instruction of"):
        compile_ir(avx, Cpu.named("cortex-a72"))


def test_options():
    cpu = Cpu.named("x86-64-v3")
    assert "%ymm" in compile_ir(SCALE, cpu).assembly
    assert "%ymm" not in compile_ir(SCALE, cpu, Options(loop_vectorize=False)).assembly
    assert "%ymm" not in compile_ir(SCALE, cpu, Options(level=0)).assembly


def test_threads_make_the_same_objects_as_one():
    texts = [SCALE.replace("1.5", f"{i}.5").replace("@scale", f"@scale{i}") for i in range(12)]
    serial = [c.object for c in compile_many(texts, jobs=1)]
    for _ in range(3):
        assert [c.object for c in compile_many(texts, jobs=4)] == serial


def test_many_python_threads_compile_and_run():
    errors = []

    def work(me):
        for i in range(10):
            try:
                library = link([compile_ir(add_module(f"f{me}_{i}"))])
                assert int_function(library, f"f{me}_{i}")(me, i) == me + i
            except (CodegenError, AssertionError) as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_same_text_same_bytes_in_every_process():
    code = (
        "import sys, hashlib\n"
        "from mlcnb.codegen.llvm.engine import compile_ir\n"
        "c = compile_ir(sys.stdin.read())\n"
        "print(hashlib.sha256(c.object + c.ir_after.encode()).hexdigest())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=SCALE,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_store_gives_back_all(tmp_path):
    store = Store(tmp_path)
    texts = [add_module("a"), SCALE]
    cold = compile_many(texts, store=store)
    warm = compile_many(texts, store=store)
    assert [c.cached for c in cold] == [False, False]
    assert [c.cached for c in warm] == [True, True]
    for old, new in zip(cold, warm, strict=True):
        assert (new.object, new.bitcode) == (old.object, old.bitcode)
        assert (new.ir, new.ir_after, new.assembly) == (old.ir, old.ir_after, old.assembly)
        assert new.seconds == pytest.approx(old.seconds, abs=1e-6)
    assert int_function(link(warm), "a")(1, 2) == 3


def test_store_keeps_cpus_and_options_apart(tmp_path):
    store = Store(tmp_path)
    for cpu in ("x86-64-v3", "cortex-a72"):
        for options in (Options(), Options(level=1)):
            assert not compile_ir(SCALE, Cpu.named(cpu), options, store=store).cached
            assert compile_ir(SCALE, Cpu.named(cpu), options, store=store).cached


def test_symbols_of_elf_and_mach_o():
    ir = add_module("inner") + (
        "declare float @expf(float)\ndefine float @outer(float %x) {\n"
        "  %y = call float @expf(float %x)\n  ret float %y\n}\n"
        "define internal i32 @hidden(i32 %x) noinline {\n  ret i32 %x\n}\n"
    )
    for cpu in ("x86-64-v3", "cortex-a72", "apple-m1"):
        obj = compile_ir(ir, Cpu.named(cpu)).object
        assert defines(obj) == ("inner", "outer")
        assert needs(obj) == ("expf",)
    elf = compile_ir(ir, Cpu.named("cortex-a72")).object
    assert code_sizes(elf)["inner"] == 8
    for damaged in (b"", b"garbage", elf[:100], elf[: len(elf) - 70], elf[:0x28] + b"\xff" * 8):
        with pytest.raises(CodegenError):
            defines(damaged)


def loop_over(function: str, source: str, result: str) -> str:
    return f"""
define void @drive_{function}(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr {source}, ptr %x, i64 %i
  %to = getelementptr {result}, ptr %y, i64 %i
  %v = load {source}, ptr %from
  %w = call {result} @{function}({source} %v)
  store {result} %w, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""


HALF_FUNCTIONS = {
    "__extendhfsf2": ("half", "float"),
    "__truncsfhf2": ("float", "half"),
    "__truncdfhf2": ("double", "half"),
    "__truncsfbf2": ("float", "bfloat"),
    "__truncdfbf2": ("double", "bfloat"),
}


@pytest.fixture(scope="module")
def convert():
    loops = "".join(loop_over(name, *kinds) for name, kinds in HALF_FUNCTIONS.items())
    library = link([compile_ir(half.SOURCE + loops)])

    def run(name, x, dtype):
        y = np.empty(x.size, dtype)
        pointer = ctypes.c_void_p
        f = library.function(f"drive_{name}", None, pointer, pointer, ctypes.c_int64)
        f(x.ctypes.data, y.ctypes.data, x.size)
        return y

    return run


def same_bits(a, b):
    a16, b16 = a.view(np.uint16), b.view(np.uint16)
    return ((a16 == b16) | (np.isnan(a.astype(np.float32)) & np.isnan(b.astype(np.float32)))).all()


def test_half_conversions(convert):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    wide = convert("__extendhfsf2", halves, np.float32)
    good = wide.view(np.uint32) == halves.astype(np.float32).view(np.uint32)
    assert (good | np.isnan(halves)).all()
    with np.errstate(all="ignore"):
        x = np.arange(0, 2**32, 4999, dtype=np.uint64).astype(np.uint32).view(np.float32)
        assert same_bits(convert("__truncsfhf2", x, np.float16), x.astype(np.float16))
        brains = convert("__truncsfbf2", x, np.uint16).view(ml_dtypes.bfloat16)
        assert same_bits(brains, x.astype(ml_dtypes.bfloat16))
        near_ties = (halves[:-1].astype(np.float64) + halves[1:]) / 2
        d = np.concatenate([near_ties, near_ties * (1 + 2**-45), near_ties * (1 - 2**-45)])
        assert same_bits(convert("__truncdfhf2", d, np.float16), d.astype(np.float16))


def test_float64_to_bfloat16_rounds_once(convert):
    rng = np.random.default_rng(0)
    d = rng.normal(0, 1, 2000) * 2.0 ** rng.integers(-100, 100, 2000)
    ties = d.astype(ml_dtypes.bfloat16).astype(np.float64) * (1 + 2.0**-9)
    d = np.concatenate([d, ties, ties * (1 + 2.0**-40), ties * (1 - 2.0**-40)])
    got = convert("__truncdfbf2", d, np.uint16)
    for value, bits in zip(d, got, strict=True):
        neighbours = np.array([bits - 1, bits, bits + 1], np.uint16).view(ml_dtypes.bfloat16)
        errors = [abs(Fraction(float(v)) - Fraction(value)) for v in neighbours]
        assert errors[1] <= min(errors[0], errors[2])


@pytest.mark.skipif(Cpu.host().arch != "x86_64", reason="baseline x86-64 lacks half conversions")
def test_half_conversions_are_found_by_the_linker():
    ir = """
define i32 @f(float %x) {
  %h = fptrunc float %x to half
  %b = bitcast half %h to i16
  %i = zext i16 %b to i32
  ret i32 %i
}
"""
    compiled = compile_ir(ir, Cpu.named("x86-64"))
    assert compiled.needs == ("__truncsfhf2",)
    f = link([compiled]).function("f", ctypes.c_int32, ctypes.c_float)
    assert f(1.0) == np.float16(1).view(np.uint16)


def test_what_is_shown():
    assert repr(compile_ir(add_module("add"))).startswith("Compiled(add: ")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_name_is_no_ir(name):
    """A function, its loops and buffers may have any name; the symbol says it in plain letters."""
    made = mlc.compile(named_loops(name), target="llvm")
    kernel = made.kernels[0]
    assert re.fullmatch(r"kernel\.[\w.$]{0,150}", kernel.symbol, re.ASCII)
    assert kernel.facts.hottest.name == kernel.symbol
    a, b = np.ones((16, 8), "float32"), np.full((8, 32), 2, "float32")
    c = tensor(np.zeros((16, 32), "float32"))
    made(tensor(a), tensor(b), c)
    assert (c.numpy() == 16).all()


def test_symbols_differ_where_names_do():
    names = ["a b", "a$20b", "a_b", "a-b", "x" * 500, "x" * 501]
    assert len({symbol_of(name) for name in names}) == len(names)
