"""A lowered PrimFunc as LLVM IR text.

    module text with   define i32 @NAME(ptr %argv)

`argv` is an array of 8-byte slots: a pointer for each buffer, the value of each scalar, that of
each symbolic dimension, then a workspace where one is needed (see `codegen.kernel.Signature`). The
status returned is 0, or a code of `STATUS`.
"""

from __future__ import annotations

from mlcnb.codegen.llvm.emit.kernel import KernelText, emit_kernel
from mlcnb.codegen.llvm.emit.status import STATUS

__all__ = ["STATUS", "KernelText", "emit_kernel"]
