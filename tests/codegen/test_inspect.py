"""Facts read from assembly text."""

from __future__ import annotations

import pytest

from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.inspect import Counts, facts, facts_of_text, strip
from mlcnb.codegen.llvm.target_machine import Cpu

X86 = """\
	.file	"<string>"
	.section	.rodata.cst4,"aM",@progbits,4
.LCPI0_0:
	.long	0x3fc00000                      # float 1.5
	.text
	.globl	dot
	.type	dot,@function
dot:                                    # @dot
	.cfi_startproc
	pushq	%rbp
	xorl	%eax, %eax
	vbroadcastss	.LCPI0_0(%rip), %zmm0
.LBB0_1:                                # =>This Loop Header
	movq	%rax, %rcx
.LBB0_2:                                #   Parent Loop
	vmovups	(%rdi,%rcx,4), %zmm1
	vfmadd231ps	(%rsi,%rcx,4){1to16}, %zmm1, %zmm0
	vmovaps	%zmm1, 64(%rsp)                 # 64-byte Spill
	vmovaps	64(%rsp), %zmm2                 # 64-byte Reload
	vmovss	(%rdx), %xmm3
	vmovups	%zmm2, (%rdx) {%k1}
	addq	%rax, (%r8)
	cmpq	%rcx, (%r9)
	jne	.LBB0_2
	jmp	.LBB0_1
	callq	expf@PLT
	popq	%rbp
	vzeroupper
	retq
.Lfunc_end0:
	.size	dot, .Lfunc_end0-dot
	.cfi_endproc
	.globl	tiny
	.type	tiny,@function
tiny:
	leaq	(%rdi,%rsi), %rax
	retq
.Lfunc_end1:
	.section	.data
table:
	.long	1
"""

ARM_DARWIN = """\
	.section	__TEXT,__text,regular,pure_instructions
	.globl	_axpy                           ; -- Begin function axpy
_axpy:                                  ; @axpy
	.cfi_startproc
; %bb.0:
	mov	x8, #0                          ; =0x0
LBB0_1:                                 ; =>This Inner Loop Header
	ldp	q1, q2, [x0], #32
	fmla.4s	v3, v1, v0
	str	q3, [sp, #16]                   ; 16-byte Folded Spill
	ldr	q3, [sp, #16]
	ldr	x9, [sp, #8]
	stp	q3, q2, [x1], #32
	subs	x2, x2, #8
	b.ne	LBB0_1
	bl	_expf
	ret
	.cfi_endproc
"""


def test_x86():
    found = facts_of_text(X86, "x86_64", {"dot": 96})
    assert list(found) == ["dot", "tiny"]
    dot = found["dot"]
    assert dot.hot == Counts(
        instructions=9,
        vector=5,
        fma=1,
        loads=5,
        stores=3,
        spill_stores=1,
        spill_loads=1,
        vector_fma=1,
    )
    assert dot.total.instructions == 18
    assert (dot.vector_bits, dot.calls, dot.code_bytes) == (512, ("expf",), 96)
    assert str(dot) == (
        "18 instructions, 0.1 kB; 512-bit; hot loop: 9 instructions, 56 % vector, 1 FMA, 5 loads, "
        "3 stores, 2 spills; calls expf"
    )
    assert str(found["tiny"]) == "2 instructions; no loop"


def test_aarch64_of_apple():
    axpy = facts_of_text(ARM_DARWIN, "aarch64")["axpy"]
    assert axpy.hot == Counts(
        instructions=8,
        vector=5,
        fma=1,
        loads=3,
        stores=2,
        spill_stores=1,
        spill_loads=1,
        vector_fma=1,
    )
    assert (axpy.vector_bits, axpy.calls, axpy.code_bytes) == (128, ("expf",), None)


def test_strip_keeps_labels_and_instructions():
    assert strip(X86, "x86_64").splitlines()[:6] == [
        "dot:",
        "    pushq %rbp",
        "    xorl %eax, %eax",
        "    vbroadcastss .LCPI0_0(%rip), %zmm0",
        ".LBB0_1:",
        "    movq %rax, %rcx",
    ]
    assert "cfi" not in strip(X86, "x86_64")
    assert strip(ARM_DARWIN, "aarch64").startswith("axpy:\n    mov x8, #0\nLBB0_1:\n")


def micro_kernel(rows: int, lanes: int) -> str:
    """C[rows x lanes] += a column times a row, k times, accumulators in registers."""
    vector = f"<{lanes} x float>"
    lines = ["define i32 @tile(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n) {", "entry:"]
    lines += ["  br label %loop", "loop:", "  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]"]
    lines += [
        f"  %acc{r} = phi {vector} [ zeroinitializer, %entry ], [ %new{r}, %loop ]"
        for r in range(rows)
    ]
    lines += [f"  %b.at = getelementptr {vector}, ptr %b, i64 %k"]
    lines += [f"  %row = load {vector}, ptr %b.at, align 4"]
    lines += [f"  %a.at = getelementptr [{rows} x float], ptr %a, i64 %k"]
    for r in range(rows):
        lines += [
            f"  %a{r}.at = getelementptr float, ptr %a.at, i64 {r}",
            f"  %a{r} = load float, ptr %a{r}.at",
            f"  %i{r} = insertelement {vector} poison, float %a{r}, i64 0",
            f"  %s{r} = shufflevector {vector} %i{r}, {vector} poison, "
            f"<{lanes} x i32> zeroinitializer",
            f"  %new{r} = call {vector} @llvm.fma.v{lanes}f32("
            f"{vector} %s{r}, {vector} %row, {vector} %acc{r})",
        ]
    lines += ["  %k.next = add i64 %k, 1", "  %more = icmp slt i64 %k.next, %n"]
    lines += ["  br i1 %more, label %loop, label %end", "end:"]
    for r in range(rows):
        lines += [f"  %c{r}.at = getelementptr {vector}, ptr %c, i64 {r}"]
        lines += [f"  store {vector} %new{r}, ptr %c{r}.at, align 4"]
    return "\n".join([*lines, "  ret i32 0", "}"])


@pytest.mark.parametrize(
    ("cpu", "lanes", "fits", "too_many"),
    [("x86-64-v3", 8, 12, 20), ("cortex-a72", 4, 16, 40), ("apple-m1", 4, 16, 40)],
)
def test_spills_show_tiles_that_are_too_large(cpu, lanes, fits, too_many):
    good = facts(compile_ir(micro_kernel(fits, lanes), Cpu.named(cpu)))["tile"]
    assert good.hot is not None
    assert (good.hot.fma, good.hot.spills) == (fits, 0)
    bad = facts(compile_ir(micro_kernel(too_many, lanes), Cpu.named(cpu)))["tile"]
    assert bad.hot is not None
    assert bad.hot.fma == too_many
    assert bad.hot.spills > 0
    assert 0.5 < good.hot.vector_share < 1


def test_code_size_comes_from_the_object():
    compiled = compile_ir(micro_kernel(4, 8), Cpu.named("x86-64-v3"))
    size = facts(compiled)["tile"].code_bytes
    assert size is not None and 0 < size < len(compiled.object)


def test_unknown_architectures_are_counted_only():
    only = facts_of_text("\t.text\nf:\n\tnop\n\tnop\n", "mips")["f"]
    assert only.total == Counts(instructions=2)


def test_rbp_is_the_stack_only_where_it_is_a_frame_pointer():
    loop = ["f:", "{}", ".LBB0_1:", "\tvmovups (%rbp), %zmm0", "\taddq $64, %rbp", "\tjne .LBB0_1"]
    for first, spills in (("\tmovq %rdi, %rbp", 0), ("\tmovq %rsp, %rbp", 1)):
        text = "\n".join(["\t.text", *loop, "\tretq", ""]).format(first)
        assert facts_of_text(text, "x86_64")["f"].hot.spills == spills


#: rows outside of an image are skipped: the jump back of the shortcut comes first
SHORTCUT = """\
	.text
f:
	xorl	%ecx, %ecx
	jmp	.L2
.L4:
	incq	%rcx
	cmpq	$4, %rcx
	jae	.L5
.L2:
	cmpq	$27, %rcx
	ja	.L4
	vfmadd231ps	(%rdi), %zmm0, %zmm1
	vfmadd231ss	(%rdi), %xmm0, %xmm2
	jmp	.L4
.L5:
	retq
"""


def test_a_loop_with_a_shortcut_is_one_loop():
    hot = facts_of_text(SHORTCUT, "x86_64")["f"].hot
    assert (hot.instructions, hot.fma, hot.vector_fma) == (8, 2, 1)


def test_a_loop_around_that_begins_at_the_same_place_is_not_the_hot_one():
    loop = [".L1:", "\tvfmadd231ps (%rdi), %zmm0, %zmm1", "\tjne .L1", "\tincq %rax", "\tjne .L1"]
    found = facts_of_text("\n".join(["\t.text", "f:", *loop, "\tretq", ""]), "x86_64")["f"]
    assert (found.hot.instructions, found.looped.instructions) == (2, 4)
