"""A program as a function of Python's own: its arguments are checked, and it is run, natively.

    call = entry(program, [Given(float32, (64, 64), slots, written=False), …], results, fail)
    call(a, b, c)      runs the program, with new arrays for its results; NotImplemented where the
                       arguments are not just what it takes, or somebody else is running it

From Python a check costs as much as a small product. So one native function (native/entry.py) makes
it, and the table that it reads is made here. It needs CPython, its objects as they have been since
NumPy 1.7; where anything is not so, `entry` gives None and callers go on in Python.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.library import Library, link
from mlcnb.runtime import native
from mlcnb.runtime.native import entry as ir
from mlcnb.runtime.native_graph import NativeProgram

#: METH_FASTCALL: a function is given its arguments as they lie on the stack
_FASTCALL = 0x80
#: modules that have NumPy's table of functions, since 2.0 and before
_CAPSULES = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")


@dataclass(frozen=True)
class Given:
    """An argument: a plain array of this dtype and shape, whose address goes into these slots of
    the program. What is `written` must be writeable."""

    dtype: np.dtype
    shape: tuple[int, ...]
    slots: tuple[int, ...]
    written: bool = False


@dataclass(frozen=True)
class Made:
    """A result: a new array, whose address goes into these slots of the program."""

    dtype: np.dtype
    shape: tuple[int, ...]
    slots: tuple[int, ...]


#: from the arguments to a result that no kernel makes
Other = Callable[[Sequence[np.ndarray]], Any]


def entry(
    program: NativeProgram,
    given: Sequence[Given],
    made: Sequence[Made],
    fail: Callable[[int], Any],
    *,
    form: int = ir.NOTHING,
    pairs: Sequence[tuple[int, int]] = (),
    is_short: bool = False,
) -> Callable[..., Any] | None:
    """The program as a function; None where there can be none.

    Args:
        program: from now on run by nobody else.
        given, made: its arguments and its results.
        fail: raises what a status other than 0 means.
        form: what it gives: `NOTHING`, its only result (`ONE`), all of them (`TUPLE`).
        pairs: arguments (one that is written to, another) that may not share memory.
        is_short: it is over before anybody could press Ctrl-C.
    """
    library = _library()
    kinds = [g.dtype for g in given] + [m.dtype for m in made]
    if library is None or not all(_singleton(k) == k and not k.hasobject for k in kinds):
        return None
    table = _Table(program)
    spec = table.spec(given, made, fail, form, pairs, is_short)
    spec.kept = (table, program, fail, kinds, library)
    function: Callable[..., Any] = _new_function()(ctypes.addressof(_method()), spec, None)
    return function


def joined(
    native: Callable[..., Any], others: Sequence[Other | None], is_tuple: bool
) -> Callable[..., Any]:
    """A native function that makes some of the results, with the others among them."""

    def run(*args: Any) -> Any:
        made = native(*args)
        if made is NotImplemented:
            return made
        rest = iter(made)
        found = tuple([next(rest) if o is None else o(args) for o in others])
        return found if is_tuple else found[0]

    return run


class _Spec(np.ndarray):
    """A %Spec, with all that it points to."""

    kept: Any


class _Table:
    """Makes the records that native code reads, and keeps them."""

    def __init__(self, program: NativeProgram) -> None:
        self._arena = program.arena.ctypes.data
        self._frame = program.address
        self._kept: list[np.ndarray] = []

    def words(self, values: Sequence[int]) -> int:
        """Where these numbers stand, as int64."""
        self._kept.append(np.array([*values, 0], np.int64))
        return self._kept[-1].ctypes.data

    def slots(self, numbers: Sequence[int]) -> tuple[int, int]:
        """How many slots of the program, and where their addresses stand."""
        return len(numbers), self.words([self._arena + 8 * number for number in numbers])

    def spec(
        self,
        given: Sequence[Given],
        made: Sequence[Made],
        fail: Callable[[int], Any],
        form: int,
        pairs: Sequence[tuple[int, int]],
        is_short: bool,
    ) -> _Spec:
        """The record that all others hang on."""
        inputs = [self._tensor(g, _flags(g), _nbytes(g)) for g in given]
        outputs = [(*self._tensor(m, _nbytes(m)), 0) for m in made]
        lists = [(len(x), self.words([*itertools.chain(*x)])) for x in (inputs, outputs, pairs)]
        spec = np.zeros(len(ir.SPEC), np.int64).view(_Spec)
        spec[:] = (0, not is_short, self._frame, id(fail), form, *itertools.chain(*lists))
        return spec

    def _tensor(self, tensor: Given | Made, *numbers: int) -> tuple[int, ...]:
        kind, shape = id(_singleton(tensor.dtype)), tensor.shape
        return (kind, len(shape), self.words(shape), *numbers, *self.slots(tensor.slots))


def _flags(given: Given) -> int:
    return ir.PLAIN | (ir.WRITEABLE if given.written else 0)


def _nbytes(tensor: Given | Made) -> int:
    return math.prod(tensor.shape) * tensor.dtype.itemsize


def _singleton(dtype: np.dtype) -> np.dtype:
    """The one object that stands for a dtype of NumPy's own in nearly every array."""
    return np.dtype(dtype.type)


@cache
def _method() -> ctypes.Structure:
    """The PyMethodDef of all entries."""
    return _Method(b"entry", _library()["mlcnb_entry"], _FASTCALL, None)  # type: ignore[index]


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _new_function() -> Any:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(("PyCFunction_NewEx", ctypes.pythonapi))


@cache
def _library() -> Library | None:
    """The native function, linked with this Python and this NumPy; None where that cannot be."""
    fields = ir.Fields.after(object.__basicsize__)
    if sys.implementation.name != "cpython" or not _hold(fields):
        return None
    table = _numpy_functions()
    runtime = native.library()
    guarded = "mlcnb_run_guarded" if "mlcnb_run_guarded" in runtime.names else "mlcnb_run_frame"
    if table is None or guarded == "mlcnb_run_frame":
        return None
    names = ("mlcnb_run_frame", guarded, "mlcnb_ready", "mlcnb_main_thread")
    symbols = {name: runtime[name] for name in names} | table | _objects() | _python_functions()
    return link([compile_ir(ir.source(fields, guarded), store=disk.user_store())], symbols)


def _hold(fields: ir.Fields) -> bool:
    """Whether an array's fields are where they are taken to be."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or np.ndarray.__basicsize__ < fields.end:
        return False
    for array in (np.zeros((3, 5), np.float32), np.zeros((2, 1, 7), np.int8)[:, :, ::2]):
        at = id(array)
        pointers = {"type": id(np.ndarray), "data": array.ctypes.data, "descr": id(array.dtype)}
        if any(_read(ctypes.c_void_p, at, getattr(fields, n)) != p for n, p in pointers.items()):
            return False
        if _read(ctypes.c_int, at, fields.ndim) != array.ndim:
            return False
        if _read(ctypes.c_int, at, fields.flags) & 0xFFFF != array.flags.num:
            return False
        shape = (ctypes.c_int64 * array.ndim).from_address(_read(ctypes.c_void_p, at, fields.shape))
        if tuple(shape) != array.shape:
            return False
    return True


def _read(kind: Any, at: int, offset: int) -> int:
    return int(kind.from_address(at + offset).value or 0)


def _objects() -> dict[str, int]:
    """Where Python's and NumPy's own objects are."""
    return {
        "mlcnb_none": id(None),
        "mlcnb_not_implemented": id(NotImplemented),
        "mlcnb_ndarray": id(np.ndarray),
        "mlcnb_bytes": id(np.dtype(np.uint8)),
    }


def _python_functions() -> dict[str, int]:
    api = ctypes.pythonapi
    return {name: _address(getattr(api, name)) for name in ir.PYTHON}


def _numpy_functions() -> dict[str, int] | None:
    """What is called of NumPy's C functions; None where they are not found."""
    module = next((sys.modules[name] for name in _CAPSULES if name in sys.modules), None)
    capsule = getattr(module, "_ARRAY_API", None)
    if capsule is None:
        return None
    make = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    begin = make(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None)
    table = (ctypes.c_void_p * (max(ir.NUMPY.values()) + 1)).from_address(begin)
    if table[ir.NUMPY["PyArray_Type"]] != id(np.ndarray):
        return None
    names = [name for name in ir.NUMPY if name != "PyArray_Type"]
    return {f"mlcnb_numpy_{name}": table[ir.NUMPY[name]] or 0 for name in names}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
