"""The classes that everything is built of, under the name of the module that TVM has them in."""

__all__ = (
    "Effect Module ModuleDict ModuleList Object Parameter Tensor get_default_dtype "
    "set_default_dtype wrap_nested"
).split()
