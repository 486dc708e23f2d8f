"""What the virtual machine does at a call: of a kernel, of Python, of a plain operator.

Each rule takes the frame that the call stands in and the call, and gives its value; `frame.kernel`
says what ran. The rules of `mlcnb.runtime.frame` call these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from mlcnb.core import registry
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.ir.memory import aligned_empty
from mlcnb.ir.span import Span, told_of
from mlcnb.relax import expr as rx
from mlcnb.relax.operator import attrs_of, call_arguments, declaration, is_null
from mlcnb.relax.struct_info import TupleStructInfo, parts_of
from mlcnb.runtime import kernel_call
from mlcnb.runtime.shapes import match, shape_of
from mlcnb.runtime.tensor import Tensor, as_tensors, flatten, fresh

if TYPE_CHECKING:
    from mlcnb.runtime.frame import Frame


def by_meaning(frame: Frame, x: rx.Call) -> Any:
    """An operator without a loop nest (its result's size depends on data): its NumPy meaning."""
    args = [None if a is None else frame.value(a) for a in call_arguments(x)]
    result = attrs_of(x).numpy(*args)
    frame.kernel = f"numpy: {declaration(x.op).op_name}"
    return contiguous(result)


def contiguous(result: Any) -> Any:
    """A result whose arrays lie in one piece, as kernels want them."""
    if isinstance(result, tuple | list):
        return tuple(contiguous(r) for r in result)
    if isinstance(result, Tensor):
        result = result.numpy()
    return np.asarray(result, order="C") if isinstance(result, np.generic | np.ndarray) else result


def _outputs(frame: Frame, info: Any) -> list[np.ndarray]:
    infos: tuple[Any, ...] = parts_of(info)
    return [aligned_empty(shape_of(i, frame.dims), i.dtype.numpy) for i in infos]


@contextmanager
def naming(span: Span | None) -> Iterator[None]:
    """An error of what is run inside says what it came from, such as a node of the model."""
    try:
        yield
    except ExecutionError as error:
        if span is not None:
            error.message = f"at{told_of(span)}: {error.message}"
            error.args = (error.message,)
        raise


class VMInstrumentReturnKind(IntEnum):
    """What `VirtualMachine.set_instrument`'s function says before a kernel runs: go on, or not."""

    NO_OP = 0
    SKIP_RUN = 1


def _run(frame: Frame, name: str, values: list[Any]) -> None:
    """Run a kernel; who looks on is asked before and told after."""
    executable, look = frame.vm.executable, frame.vm.instrument
    frame.kernel = name
    if look is None:
        executable.run_kernel(name, values)
        return
    kernel, seen = executable.kernels[name], tuple(map(as_tensors, values))
    if look(kernel, name, True, None, *seen) != VMInstrumentReturnKind.SKIP_RUN:
        kernel_call.run(kernel, values)
    look(kernel, name, False, None, *seen)


def _call_tir(frame: Frame, x: rx.Call) -> Any:
    """The loops write into new memory, or in the place of arguments (`inplace_indices`)."""
    name = x.args[0].name_hint  # type: ignore[attr-defined]
    inputs = _inputs(frame, x.args[1])
    outputs = _outputs(frame, x.sinfo_args[0])
    new = outputs
    if x.op is not None and "inplace_indices" in (x.attrs or ()):
        where = x.attrs["inplace_indices"]
        new = [out for out, i in zip(outputs, where, strict=True) if i < 0]
        outputs = [out if i < 0 else inputs[i] for out, i in zip(outputs, where, strict=True)]
    scalars = list(frame.value(x.args[2])) if len(x.args) > 2 else []
    with naming(x.span):
        _run(frame, name, [*inputs, *new, *scalars])
    return _as_said_by(x.sinfo_args[0], outputs)


def _as_said_by(info: Any, outputs: list[Any]) -> Any:
    """One result, or a tuple of them."""
    return tuple(outputs) if isinstance(info, TupleStructInfo) else outputs[0]


def _call_tir_dyn(frame: Frame, x: rx.Call) -> Any:
    """Tensors, and the dimensions of a shape as scalars: the kernel writes where it is told."""
    name = x.args[0].name_hint  # type: ignore[attr-defined]
    values: list[Any] = []
    for value in _inputs(frame, x.args[1]):
        values.extend(value if isinstance(value, tuple) else (value,))
    with naming(x.span):
        _run(frame, name, values)
    return ()


def _inputs(frame: Frame, args: Any) -> list[Any]:
    value = frame.value(args)
    return list(value) if isinstance(value, tuple) else [value]


def packed(frame: Frame, name: str, args: Any, sinfo_args: Any) -> Any:
    """The value of a registered Python function, which is what the call says of it."""
    function = registry.get_global_func(name)
    assert function is not None
    frame.kernel = f"python: {name}"
    result = contiguous(function(*handed(frame, name, (frame.value(a) for a in args))))
    return as_said(frame, result, sinfo_args, f"the result of {name}")


def handed(frame: Frame, name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """What a registered function gets: Tensors where the caller came with them, else arrays (which
    the functions of a library always get).
    """
    if not frame.vm.tensors or name.startswith("vm.builtin."):
        return tuple(values)
    return tuple(map(as_tensors, values))


def as_said(frame: Frame, result: Any, sinfo_args: Any, what: str) -> Any:
    """A result that is what the call says of it, sizes bound."""
    infos = sinfo_args if len(sinfo_args) < 2 else (TupleStructInfo(tuple(sinfo_args)),)
    for info in infos:
        try:
            match(result, info, frame.dims, what)
        except RuntimeInputError as error:
            raise ExecutionError(error.message) from None
    return result


def _call_inplace_packed(frame: Frame, x: rx.Call) -> Any:
    """The function writes into some arguments; what others may still see is copied before."""
    name = x.args[0].global_symbol  # type: ignore[attr-defined]
    where = [i for i in _indices(x.attrs["inplace_indices"]) if i >= 0]
    values = [frame.value(a) for a in x.args[1:]]
    kept = flatten(frame.env[p] for p in frame.function.params)
    for i in where:
        values[i] = fresh(values[i], kept)
    frame.kernel = f"python: {name}"
    result = registry.get_global_func(name)(*handed(frame, name, values))  # type: ignore[misc]
    if result is None:
        made = tuple(values[i] for i in where)
        result = made[0] if len(made) == 1 else made
    return as_said(frame, contiguous(result), x.sinfo_args, f"the result of {name}")


def _indices(given: Any) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


def _call_py_func(frame: Frame, x: rx.Call) -> Any:
    """A Python function by its name, of the module or of the registry: its value is what the call
    says of it.
    """
    name: str = x.args[0].value  # type: ignore[attr-defined]
    own = frame.vm.executable.python.get(name)
    if own is not None:
        frame.kernel = f"python: {name}"
        result = contiguous(own(*handed(frame, name, map(frame.value, _operands(x.args[1])))))
        return as_said(frame, result, x.sinfo_args, f"the result of {name}")
    if registry.get_global_func(name, allow_missing=True) is None:
        raise ExecutionError(
            f"call_py_func of {name!r}: no Python function of that name is registered",
            hint=f"@mlcnb.register_func({name!r}) above a function of the arguments",
        )
    return packed(frame, name, _operands(x.args[1]), x.sinfo_args)


def _operands(args: Any) -> Any:
    return args.fields if isinstance(args, rx.Tuple) else (args,)


def _call_pure_packed(frame: Frame, x: rx.Call) -> Any:
    return packed(frame, x.args[0].global_symbol, x.args[1:], x.sinfo_args)  # type: ignore[attr-defined]


def _call_dps_packed(frame: Frame, x: rx.Call) -> Any:
    name = x.args[0].global_symbol  # type: ignore[attr-defined]
    outputs = _outputs(frame, x.sinfo_args[0])
    values = [*_inputs(frame, x.args[1]), *outputs]
    kernels = frame.vm.executable.kernels
    if name in kernels:  # a loop function of the module itself, called by its symbol
        with naming(x.span):
            kernel_call.run(kernels[name], values)
        frame.kernel = name
    else:
        function = frame.vm.packed(name)
        is_registered = function is registry.get_global_func(name, allow_missing=True)
        function(*(handed(frame, name, values) if is_registered else values))
        frame.kernel = f"python: {name}"
    return _as_said_by(x.sinfo_args[0], outputs)


def null(frame: Frame, x: rx.Op | rx.Call) -> Any:
    """What stands for nothing, and a call of it; any other operator is no value."""
    if is_null(x):
        return None
    raise ExecutionError(f"{x} is an operator, not a value")


def _print(frame: Frame, x: rx.Call) -> Any:
    text, *values = (frame.value(a) for a in x.args)
    print(text.format(*values) if text else " ".join(map(str, values)))
    return ()


def _assert(frame: Frame, x: rx.Call) -> Any:
    held, text, *values = (frame.value(a) for a in x.args)
    if not bool(np.asarray(held)):
        with naming(x.span):
            raise ExecutionError(f"assert_op: {text.format(*values)}" if text else "assert_op")
    return ()


def _tensor_to_shape(frame: Frame, x: rx.Call) -> Any:
    """Sizes that data tell."""
    frame.kernel = "numpy: relax.tensor_to_shape"
    return tuple(frame.value(x.args[0]).tolist())


OPS: dict[str, Callable[[Frame, rx.Call], Any]] = {
    "relax.call_tir": _call_tir,
    "relax.call_tir_with_grad": _call_tir,
    "relax.call_tir_inplace": _call_tir,
    "relax.vm.call_tir_dyn": _call_tir_dyn,
    "relax.call_inplace_packed": _call_inplace_packed,
    "relax.call_py_func": _call_py_func,
    "relax.call_dps_packed": _call_dps_packed,
    "relax.call_pure_packed": _call_pure_packed,
    "relax.null_value": null,
    "relax.tensor_to_shape": _tensor_to_shape,
    "relax.print": _print,
    "relax.assert_op": _assert,
}
