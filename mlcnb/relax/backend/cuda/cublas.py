"""cublas: products of matrices on an NVIDIA GPU, through CuPy's matmul."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.registry import register_func
from mlcnb.ir.module import IRModule
from mlcnb.relax.backend.cuda.arrays import made_by
from mlcnb.relax.backend.pattern_registry import partition, register_patterns
from mlcnb.relax.backend.patterns import matmul_patterns
from mlcnb.relax.backend.utils import dtype_of, has_leaking_intermediate_variables
from mlcnb.relax.transform.fuse_ops_by_pattern import PatternCheckContext

_DTYPES = ("float16", "float32", "float64")


def _is_supported(context: PatternCheckContext) -> bool:
    """Floats of one dtype, nothing used from outside."""
    names = context.annotated_expr
    kinds = {dtype_of(names[name]) for name in ("lhs", "rhs", "root")}
    if has_leaking_intermediate_variables(context):
        return False
    return len(kinds) == 1 and kinds <= set(_DTYPES)


@register_func("relax.ext.cublas", override=True)
def cublas(functions: Any, options: Mapping[str, Any], constants: Any) -> Any:
    """What runs functions of products on the GPU.

    Raises:
        MissingDependencyError: CuPy is not installed.
        DeviceError: there is no GPU.
    """
    return made_by(
        "cublas", functions, lambda cp: {"relax.matmul": lambda _, a, b: cp.matmul(a, b)}
    )


register_patterns(matmul_patterns("cublas", _is_supported))


def partition_for_cublas(mod: IRModule, bind_constants: bool = False) -> IRModule:
    """`mod` with what cublas can do, products with bias and activation, in functions.

    Constants are handed to them, unless `bind_constants`. No GPU is asked for.
    """
    return partition(mod, "cublas", bind_constants=bind_constants)
