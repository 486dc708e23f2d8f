"""Conversions of 16-bit floats that LLVM calls where the CPU has no instruction for them.

The names are those of LLVM's compiler-rt:

    __extendhfsf2   float16 -> float32       __truncsfhf2  float32 -> float16
    __truncsfbf2    float32 -> bfloat16      __truncdfhf2, __truncdfbf2  from float64

All round to nearest, ties to even. From float64 the way leads over a float32 rounded to odd, from
which the second rounding gives what one rounding would have given. Denormal float32 count as zero
while a program runs, so no way leads over one: a denormal float16 is a count of its smallest.
"""

from __future__ import annotations

NAMES = frozenset(("__extendhfsf2", "__truncdfbf2", "__truncdfhf2", "__truncsfbf2", "__truncsfhf2"))

SOURCE = """
define float @__extendhfsf2(half %x) {
  %h = bitcast half %x to i16
  %wide = zext i16 %h to i32
  %rest = and i32 %wide, 32767
  %sign.low = and i32 %wide, 32768
  %sign = shl i32 %sign.low, 16
  %moved = shl i32 %rest, 13
  %normal = add i32 %moved, 939524096
  %count = uitofp i32 %rest to float
  %counted = fmul float %count, 0x3E70000000000000
  %tiny = bitcast float %counted to i32
  %is.tiny = icmp ult i32 %rest, 1024
  %finite = select i1 %is.tiny, i32 %tiny, i32 %normal
  %special = icmp uge i32 %rest, 31744
  %full = or i32 %moved, 2139095040
  %magnitude = select i1 %special, i32 %full, i32 %finite
  %result = or i32 %magnitude, %sign
  %f = bitcast i32 %result to float
  ret float %f
}

define internal i16 @to_half(i32 %x) {
  %a = and i32 %x, 2147483647
  %sign.high = lshr i32 %x, 16
  %sign = and i32 %sign.high, 32768
  %f = bitcast i32 %a to float
  %aligned = fadd float %f, 5.000000e-01
  %aligned.bits = bitcast float %aligned to i32
  %tiny = sub i32 %aligned.bits, 1056964608
  %last.up = lshr i32 %a, 13
  %last = and i32 %last.up, 1
  %rebased = sub i32 %a, 939520001
  %rounded = add i32 %rebased, %last
  %normal = lshr i32 %rounded, 13
  %is.tiny = icmp ult i32 %a, 947912704
  %finite = select i1 %is.tiny, i32 %tiny, i32 %normal
  %is.large = icmp uge i32 %a, 1199566848
  %bounded = select i1 %is.large, i32 31744, i32 %finite
  %is.nan = icmp ugt i32 %a, 2139095040
  %magnitude = select i1 %is.nan, i32 32256, i32 %bounded
  %both = or i32 %magnitude, %sign
  %result = trunc i32 %both to i16
  ret i16 %result
}

define internal i16 @to_brain(i32 %x) {
  %last.up = lshr i32 %x, 16
  %last = and i32 %last.up, 1
  %more = add i32 %x, 32767
  %rounded = add i32 %more, %last
  %a = and i32 %x, 2147483647
  %is.nan = icmp ugt i32 %a, 2139095040
  %quiet = or i32 %x, 4194304
  %chosen = select i1 %is.nan, i32 %quiet, i32 %rounded
  %high = lshr i32 %chosen, 16
  %result = trunc i32 %high to i16
  ret i16 %result
}

define internal i32 @to_odd(double %x) {
  %f = fptrunc double %x to float
  %bits = bitcast float %f to i32
  %back = fpext float %f to double
  %size = call double @llvm.fabs.f64(double %x)
  %back.size = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %back.size, %size
  %one = zext i1 %above to i32
  %below = sub i32 %bits, %one
  %inexact = fcmp one double %back, %x
  %odd = zext i1 %inexact to i32
  %result = or i32 %below, %odd
  ret i32 %result
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %h = call i16 @to_half(i32 %bits)
  %result = bitcast i16 %h to half
  ret half %result
}
define half @__truncdfhf2(double %x) {
  %bits = call i32 @to_odd(double %x)
  %h = call i16 @to_half(i32 %bits)
  %result = bitcast i16 %h to half
  ret half %result
}
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %h = call i16 @to_brain(i32 %bits)
  %result = bitcast i16 %h to bfloat
  ret bfloat %result
}
define bfloat @__truncdfbf2(double %x) {
  %bits = call i32 @to_odd(double %x)
  %h = call i16 @to_brain(i32 %bits)
  %result = bitcast i16 %h to bfloat
  ret bfloat %result
}
"""
