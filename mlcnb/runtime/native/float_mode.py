"""Denormal numbers are zero while a program runs, as LLVM IR.

    i64  flush_denormals()          sets the thread's mode, gives the one before
    void restore_mode(i64 mode)

A float32 below 1.2e-38 costs a hundred cycles to compute with; the far tails of activations are
full of them. Both what is read and what is written counts as zero, as in most inference engines;
the mode of the calling thread is put back when the run ends.
"""

from __future__ import annotations

_X86_64 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @flush_denormals() {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %old = load volatile i32, ptr %place
  %new = or i32 %old, 32832
  store volatile i32 %new, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  %wide = zext i32 %old to i64
  ret i64 %wide
}
define internal void @restore_mode(i64 %mode) {
  %place = alloca i32
  %narrow = trunc i64 %mode to i32
  store volatile i32 %narrow, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""
_AARCH64 = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal i64 @flush_denormals() {
  %old = call i64 @llvm.aarch64.get.fpcr()
  %new = or i64 %old, 16777216
  call void @llvm.aarch64.set.fpcr(i64 %new)
  ret i64 %old
}
define internal void @restore_mode(i64 %mode) {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""
_NONE = """
define internal i64 @flush_denormals() {
  ret i64 0
}
define internal void @restore_mode(i64 %mode) {
  ret void
}
"""


def source(arch: str) -> str:
    """The two functions for an architecture; they do nothing where we know of no such mode."""
    return {"x86_64": _X86_64, "aarch64": _AARCH64}.get(arch, _NONE)
