"""A lowered PrimFunc as LLVM IR text.

    module text with   define i32 @NAME(ptr %argv)

`argv` is an array of 8-byte slots: a pointer for each buffer, the value of each scalar, that of
each symbolic dimension, then a workspace where one is needed (see `codegen.kernel.Signature`). The
status returned is 0, or a code of `STATUS`.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.codegen.llvm.emit.kernel": "KernelText emit_kernel",
        "mlcnb.codegen.llvm.emit.status": "STATUS",
    },
)
