"""topi: operators as tensor expressions, by TVM's names.

A, B = te.placeholder((4, 8)), te.placeholder((8,))
C = topi.nn.relu(topi.add(A, B))                  # te tensors in, te tensors out
te.create_prim_func([A, B, C])

Each is the `compute` of the operator's declaration in `mlcnb.op`, which is what LegalizeOps makes
kernels of; here are the names and the order of arguments that TVM has.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.compat.topi.elementwise": (
            "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor identity isfinite "
            "isinf isnan log log10 log2 negative round rsqrt sigmoid sign sin sinh sqrt tan tanh "
            "trunc add subtract multiply divide floor_divide mod floor_mod truncmod maximum "
            "minimum power left_shift right_shift bitwise_and bitwise_or bitwise_xor bitwise_not "
            "logical_and logical_or logical_xor logical_not equal not_equal less less_equal "
            "greater greater_equal where clip cast fast_exp fast_tanh fast_erf"
        ),
        "mlcnb.compat.topi.reduction": "sum max min prod argmax argmin",
        "mlcnb.compat.topi.transform": (
            "transpose reshape expand_dims squeeze concatenate stack split take strided_slice flip "
            "tile repeat broadcast_to full full_like matmul einsum cumsum gather gather_nd "
            "layout_transform argsort sort topk shape ndarray_size trilu arange one_hot"
        ),
    },
    submodules=("nn", "image", "utils", "tag", "testing"),
)
