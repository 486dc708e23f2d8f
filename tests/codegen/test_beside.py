"""What would end LLVM's process: other machines, odd features, intrinsics by name."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.codegen.llvm.beside import ChildProcess, is_safe
from mlcnb.codegen.llvm.target_machine import MARK, Cpu
from mlcnb.target import Target
from mlcnb.target.cpus import PLAIN_CPUS
from tests.codegen.foreign import VALUES, answer

MADE = "made: True True"
X86 = Cpu.host().arch == "x86_64"


@pytest.fixture(scope="module")
def told():
    """Answers of one process: if LLVM ended it, the test would fail."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as worker:
        yield lambda *question: worker.submit(answer, *question).result(timeout=120)


@pytest.mark.parametrize("arch", PLAIN_CPUS)
def test_a_triple_alone_is_enough(told, arch):
    assert told(f"llvm -mtriple={arch}-linux-gnu") == MADE


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "llvm -mtriple=riscv64-linux-gnu -mcpu=znver3",
            "TargetError: LLVM knows no CPU 'znver3' of riscv64\n"
            "hint: mcpu is LLVM's name of a CPU, such as x86-64-v3, cortex-a72 or generic; mattr "
            "is a list such as +avx2,-fma",
        ),
        (
            "llvm -mtriple=x86_64-linux-gnu -mcpu=pentagon",
            "TargetError: LLVM knows no CPU 'pentagon' of x86_64\n"
            "hint: mcpu is LLVM's name of a CPU, such as x86-64-v3, cortex-a72 or generic; mattr "
            "is a list such as +avx2,-fma",
        ),
        (
            "llvm -mtriple=x86_64-linux-gnu -mattr=-64bit",
            "TargetError: LLVM makes no code of this for x86-64 (x86_64-linux-gnu): LLVM ERROR: "
            "64-bit code requested on a subtarget that doesn't support it!\n"
            "hint: give the triple, mcpu and mattr of one machine: llvm -mtriple=riscv64-linux-gnu",
        ),
        (
            "llvm -mtriple=aarch64-linux-gnu -mattr=+speed",
            "TargetError: LLVM knows no CPU feature '+speed' of aarch64\n"
            "hint: mcpu is LLVM's name of a CPU, such as x86-64-v3, cortex-a72 or generic; mattr "
            "is a list such as +avx2,-fma",
        ),
        (
            "llvm -mtriple=hexagon",
            "TargetError: kernels are written for CPUs of 64 bits, lowest byte first, and "
            "'hexagon' is none\nhint: a triple such as riscv64-linux-gnu; there are x86_64, "
            "aarch64, riscv64, powerpc64le, loongarch64, mips64el",
        ),
        (
            "llvm -opt-level=9",
            "TargetError: target attribute opt-level='9' is not 0, 1, 2 or 3",
        ),
        (
            "llvm -vector-bits=7",
            "TargetError: target attribute vector-bits='7' is not 64, 128, 256, 512, 1024 or 2048",
        ),
    ],
    ids=lambda x: x.partition(":")[0],
)
def test_what_is_no_machine(told, target, message):
    assert told(target) == message
    assert told("llvm") == MADE  # and life goes on


def test_the_cpu_of_this_computer_is_no_other():
    if X86:
        with pytest.raises(Exception, match="mcpu=host is this computer's CPU, and no riscv64"):
            from mlcnb.codegen.llvm.backend import cpu_of

            cpu_of(Target("llvm -mtriple=riscv64-linux-gnu -mcpu=host"))
    assert Target("llvm -mtriple=riscv64-linux-gnu").features == frozenset()
    assert Target("llvm -mtriple=aarch64-linux-gnu").vector_bits == 128


ARCHES = ["x86_64", "aarch64", "arm64", "riscv64", "powerpc64le", "loongarch64", "mips64el",
          "armv7", "riscv32", "i386", "wasm32", "s390x", "avr", "hexagon", "amdgcn", "nvptx64",
          "sparcv9", "bpfel", "msp430", "nothing"]  # fmt: skip
SYSTEMS = ["linux-gnu", "unknown-linux-gnu", "apple-darwin", "pc-windows-msvc", "none-elf", "", "-"]
CPU_NAMES = ["", "generic", "x86-64", "znver4", "cortex-a72", "generic-rv64", "sifive-u74",
             "ppc64le", "i386", "pentium", "host", "no such"]  # fmt: skip
FEATURES = ["", "+avx2", "-sse2", "+v", "+v,+zvl1024b", "-neon", "+sve", "+soft-float", "-fp-armv8",
            "+avx512f,-avx2", "-64bit", "+nothing", "-f,-d", "+e", "-c,+m"]  # fmt: skip
KINDS = ["float32", "float64", "float16", "bfloat16", "int8", "int64"]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(ARCHES),
    st.sampled_from(SYSTEMS),
    st.sampled_from(CPU_NAMES),
    st.sampled_from(FEATURES),
    st.sampled_from(KINDS),
    st.sampled_from(VALUES),
)
def test_any_triple_cpu_and_features(told, arch, system, cpu, features, kind, value):
    """Code, or a typed error; the process that asked is whole."""
    spec = f"llvm -mtriple={arch}-{system}"
    spec += f" -mcpu={cpu.replace(' ', '-')}" if cpu else ""
    said = told(spec + (f" -mattr={features}" if features else ""), kind, value)
    assert said == MADE or said.startswith(("TargetError: ", "CodegenError: ", "UnsupportedDtype"))


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("T.call_llvm_pure_intrin('float32', 'llvm.fma.f32', A[v, 0], A[v, 1], A[v, 2])", MADE),
        ("T.call_llvm_pure_intrin('float32', 'llvm.canonicalize.f32', A[v, 0])", MADE),
        ("T.call_llvm_pure_intrin('float32', 'llvm.bogus.f32', A[v, 0])", "CodegenError: "),
        ("T.call_llvm_pure_intrin('float32', 'llvm.amdgcn.rcp.f32', A[v, 0])", "CodegenError: "),
        ("T.call_llvm_pure_intrin('float32', 'memcpy', A[v, 0])", "CodegenError: 'memcpy' is no "),
        ("T.call_llvm_pure_intrin('float32', 'llvm.x86.sse.rcp.ss', A[v, 0])", "CodegenError: "),
        ("T.Cast('float32', T.call_llvm_pure_intrin('int64', 'llvm.coro.size.i64'))", ""),
        ("T.Cast('float32', T.call_llvm_pure_intrin('int32', 'llvm.vscale.i32'))", ""),
        ("T.call_llvm_pure_intrin('float32', 'llvm.matrix.transpose.f32', A[v, 0])", ""),
        ("T.Cast('float32', T.call_llvm_pure_intrin('int64', 'llvm.experimental.gc.result'))", ""),
    ],
)
def test_intrinsics_by_name(told, value, start):
    """Of those that are not known here, LLVM is asked in another process."""
    said = told("llvm", "float32", value)
    assert said.startswith(start)
    assert said == MADE or said.startswith(("CodegenError: ", "TargetError: "))
    assert told("llvm") == MADE


def test_what_is_compiled_here():
    here = Cpu.host()
    assert is_safe("", here)
    assert not is_safe(f"{MARK} llvm.bogus", here)
    assert not is_safe("", Cpu.named("host", "-avx"))
    assert not is_safe("", Cpu.named("riscv64"))


def test_a_process_ends_though_it_was_not_told_everything():
    """What is left of a question cannot be written any more; no file stays open."""
    child = ChildProcess("mlcnb.codegen.llvm.worker")
    child._process.stdin.write(b"half of a question")
    assert child.end() != 0
    pipes = child._process.stdin, child._process.stdout, child._words
    assert all(pipe.closed for pipe in pipes)
