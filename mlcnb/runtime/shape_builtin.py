"""Builtins that keep sizes in a heap: what `VMShapeLower` writes in place of symbolic sizes.

heap = vm.builtin.alloc_shape_heap(vm, 3)
vm.builtin.match_shape(x, heap, 2, STORE_TO_HEAP, 0, ASSERT_EQUAL_TO_IMM, 4, "")
vm.builtin.make_shape(heap, 2, LOAD_SHAPE, 0, USE_IMM, 4)      (n, 4)

The codes are those of TVM's runtime. A check that fails is a RuntimeInputError, which is what a
wrong input is.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np

from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir.dtype import dtype
from mlcnb.runtime.shapes import is_number_of


class MatchShapeCode(IntEnum):
    """What is done with one dimension; the number after it is a value, or a place in the heap."""

    ASSERT_EQUAL_TO_IMM = 0
    STORE_TO_HEAP = 1
    NO_OP = 2
    ASSERT_EQUAL_TO_LOAD = 3


class MakeShapeCode(IntEnum):
    """Where one dimension comes from: the number after the code, or that place in the heap."""

    USE_IMM = 0
    LOAD_SHAPE = 1


def alloc_shape_heap(_vm: Any, size: int) -> np.ndarray:
    """Room for so many sizes."""
    return np.zeros(int(size), np.int64)


def match_shape(value: Any, heap: Any, count: int, *rest: Any) -> tuple[()]:
    """Compare or keep the dimensions of a tensor or shape: a code and a number for each, then what
    an error begins with.
    """
    *codes, context = rest
    dims = tuple(value) if isinstance(value, tuple) else np.shape(value)
    if len(dims) != count:
        raise _wrong(context, f"expected {count} dimensions, got {len(dims)}")
    for axis, dim in enumerate(dims):
        _match(int(dim), heap, codes[2 * axis], codes[2 * axis + 1], context, f"dimension {axis}")
    return ()


def match_prim_value(value: Any, heap: Any, code: int, number: int, context: str) -> tuple[()]:
    """Compare or keep a scalar."""
    _match(int(value), heap, code, number, context, "the value")
    return ()


def _match(value: int, heap: Any, code: int, number: int, context: str, what: str) -> None:
    if code == MatchShapeCode.STORE_TO_HEAP:
        heap[number] = value
        return
    if code == MatchShapeCode.NO_OP:
        return
    wanted = number if code == MatchShapeCode.ASSERT_EQUAL_TO_IMM else int(heap[number])
    if value != wanted:
        raise _wrong(context, f"{what} is {value}, expected {wanted}")


def make_shape(heap: Any, count: int, *codes: int) -> tuple[int, ...]:
    """A shape of numbers and of what the heap holds."""
    pairs = [(codes[2 * i], codes[2 * i + 1]) for i in range(count)]
    return tuple(make_prim_value(heap, code, number) for code, number in pairs)


def make_prim_value(heap: Any, code: int, number: int) -> int:
    """A number, or what the heap holds at its place."""
    return int(number) if code == MakeShapeCode.USE_IMM else int(heap[number])


def check_tensor_info(value: Any, ndim: int, kind: str, context: str) -> tuple[()]:
    """A tensor of that rank (-1: any) and dtype ("void": any)."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise _wrong(context, f"expected a tensor, got {type(value).__name__}")
    if ndim not in (-1, len(value.shape)):
        raise _wrong(context, f"expected {ndim} dimensions, got {len(value.shape)}")
    if kind not in ("", "void") and str(value.dtype) != kind:
        raise _wrong(context, f"expected dtype {kind}, got {value.dtype}")
    return ()


def check_shape_info(value: Any, ndim: int, context: str) -> tuple[()]:
    """A shape of that many dimensions (-1: any)."""
    if not isinstance(value, tuple):
        raise _wrong(context, f"expected a shape, got {type(value).__name__}")
    if ndim not in (-1, len(value)):
        raise _wrong(context, f"expected {ndim} dimensions, got {len(value)}")
    return ()


def check_tuple_info(value: Any, size: int, context: str) -> tuple[()]:
    """A tuple of that many fields."""
    if not isinstance(value, tuple | list) or len(value) != size:
        raise _wrong(context, f"expected a tuple of {size}, got {type(value).__name__}")
    return ()


def check_func_info(value: Any, context: str) -> tuple[()]:
    """A function value."""
    if not callable(value) and not hasattr(value, "function") and not hasattr(value, "params"):
        raise _wrong(context, f"expected a function, got {type(value).__name__}")
    return ()


def check_prim_value_info(value: Any, kind: str, context: str) -> tuple[()]:
    """A number of that dtype."""
    if not is_number_of(value, dtype(str(kind))):
        found = value if isinstance(value, int | float) else type(value).__name__
        raise _wrong(context, f"expected a scalar of {kind}, got {found}")
    return ()


def tuple_getitem(value: Any, index: int) -> Any:
    """A field of a value that was found to be a tuple."""
    return value[index]


def _wrong(context: str, message: str) -> RuntimeInputError:
    return RuntimeInputError(f"{context}{message}")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        alloc_shape_heap,
        match_shape,
        match_prim_value,
        make_shape,
        make_prim_value,
        check_tensor_info,
        check_shape_info,
        check_tuple_info,
        check_func_info,
        check_prim_value_info,
        tuple_getitem,
    )
}
