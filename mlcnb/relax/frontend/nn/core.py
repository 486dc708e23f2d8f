"""The classes that everything is built of, under the name of the module that TVM has them in."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.nn.module": (
            "Module ModuleDict ModuleList ParameterDict ParameterList"
        ),
        "mlcnb.relax.frontend.nn.tensor": (
            "Effect Object Parameter Tensor get_default_dtype set_default_dtype wrap_nested"
        ),
    },
)
