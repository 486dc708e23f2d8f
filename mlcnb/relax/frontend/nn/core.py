"""The classes that everything is built of, under the name of the module that TVM has them in."""

from mlcnb.relax.frontend.nn.module import Module, ModuleDict, ModuleList
from mlcnb.relax.frontend.nn.tensor import (
    Effect,
    Object,
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
    wrap_nested,
)

__all__ = (
    "Effect Module ModuleDict ModuleList Object Parameter Tensor get_default_dtype "
    "set_default_dtype wrap_nested"
).split()
