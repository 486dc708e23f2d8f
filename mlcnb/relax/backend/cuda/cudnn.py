"""cudnn: convolutions (NCHW, OIHW) on an NVIDIA GPU, through CuPy's bindings of cuDNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.errors import MissingDependencyError
from mlcnb.core.registry import register_func
from mlcnb.ir.module import IRModule
from mlcnb.relax.backend.cuda.arrays import made_by
from mlcnb.relax.backend.pattern_registry import partition, register_patterns
from mlcnb.relax.backend.patterns import make_conv2d_pattern, with_endings
from mlcnb.relax.backend.utils import dtype_of, has_leaking_intermediate_variables
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform.fuse_ops_by_pattern import PatternCheckContext


def _is_supported(context: PatternCheckContext) -> bool:
    """Floats in NCHW with the same padding on both sides, nothing used from outside."""
    root: Any = context.annotated_expr["root"]
    attrs: Any = attrs_of(root)
    if has_leaking_intermediate_variables(context) or dtype_of(root) not in ("float16", "float32"):
        return False
    top, left, bottom, right = attrs.padding
    layouts = (attrs.data_layout, attrs.kernel_layout)
    return (top, left) == (bottom, right) and layouts == ("NCHW", "OIHW")


@register_func("relax.ext.cudnn", override=True)
def cudnn(functions: Any, options: Mapping[str, Any], constants: Any) -> Any:
    """What runs functions of convolutions on the GPU.

    Raises:
        MissingDependencyError: CuPy, or its bindings of cuDNN, are not installed.
        DeviceError: there is no GPU.
    """
    return made_by("cudnn", functions, _calls)


def _calls(cp: Any) -> dict[str, Any]:
    try:
        from cupy import cudnn as library
    except ImportError:
        raise MissingDependencyError(
            "cudnn: this CuPy has no bindings of cuDNN", hint="the library cublas needs none"
        ) from None

    def conv2d(attrs: Any, data: Any, weight: Any) -> Any:
        sizes = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(
                data.shape[2:],
                attrs.padding[:2],
                attrs.dilation,
                weight.shape[2:],
                attrs.strides,
                strict=True,
            )
        ]
        out = cp.empty((data.shape[0], weight.shape[0], *sizes), data.dtype)
        library.convolution_forward(
            data, weight, None, out, attrs.padding[:2], attrs.strides, attrs.dilation, attrs.groups,
            auto_tune=True, tensor_core="auto",
        )  # fmt: skip
        return out

    return {"relax.nn.conv2d": conv2d}


register_patterns(with_endings("cudnn.conv2d", make_conv2d_pattern, _is_supported, "relu"))


def partition_for_cudnn(mod: IRModule) -> IRModule:
    """`mod` with what cudnn can do, convolutions with bias and relu, in functions.

    Constants are handed to them. No GPU is asked for.
    """
    return partition(mod, "cudnn", bind_constants=False)
