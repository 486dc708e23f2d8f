"""BasePyModule: Python functions beside loop and graph functions, which call each other.

    @I.ir_module
    class Model(BasePyModule):                     Model                 a PyModuleFactory
        @T.prim_func                               Model.script()        of its programs
        def double(A: …, B: …): …
        @I.pyfunc                                  model = Model(cpu())  compiled, an object
        def main(self, x):                         model.main(x)         Python, on torch or NumPy
            y = self.call_tir(self.double, [x], R.Tensor((4,), "float32"))
            return torch.relu(y)

A graph function calls one by `R.call_py_func("main", (x,), out_sinfo=…)`. Arrays come back as what
went in: torch tensors, Tensors or NumPy.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np

from mlcnb.core import registry
from mlcnb.core.errors import MLCError, RuntimeInputError
from mlcnb.core.text import suggestion
from mlcnb.driver import compile as compile_module
from mlcnb.ir.expr import Var
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis.struct_info import symbolic_vars
from mlcnb.relax.expr import Function
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.runtime.device import Device, cpu
from mlcnb.runtime.shapes import evaluate, match_shapes
from mlcnb.runtime.tensor import Tensor, aligned_empty, as_array, as_tensors, is_torch, like_input
from mlcnb.script.frames import DimString
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc


class BasePyModule:
    """A compiled module whose functions are attributes of it, Python's among them.

    Loop functions are called in destination-passing style, `model.double(a, b)`; graph functions
    give their results. Arrays may be of any shape and dtype that the functions take.

    Args:
        ir_mod: loop functions and graph functions.
        device: where it runs; default: the CPU.
        target: what it is compiled for; default: what the device is.

    Attributes:
        pyfuncs: Python functions by name, bound to this object.
        compiled_tir_funcs: the loop functions by name.
        relax_vm: the machine of the graph functions; None without any.
        tir_func_names, relax_func_names: in order.
    """

    def __init__(self, ir_mod: IRModule, device: Device | None = None, target: Any = None) -> None:
        self.ir_mod = ir_mod
        self.device = device or cpu()
        self.target = Target(target or ("llvm" if self.device.kind == "cpu" else self.device.kind))
        self.pyfuncs: dict[str, Callable[..., Any]] = {}
        self.tir_func_names = [v.name_hint for v, f in ir_mod.of_kind(PrimFunc).items()]
        self.relax_func_names = [v.name_hint for v, f in ir_mod.of_kind(Function).items()]
        self._as_torch = False
        loops = ir_mod.without_functions(self.relax_func_names)
        self._loops = compile_module(loops, self.target) if self.tir_func_names else None
        self._graphs = compile_module(ir_mod, self.target) if self.relax_func_names else None
        self.relax_vm = None if self._graphs is None else self._graphs.vm
        self.compiled_tir_funcs = {name: self._loop_function(name) for name in self.tir_func_names}
        for name, function in self.compiled_tir_funcs.items():
            setattr(self, name, function)
        for name in self.relax_func_names:
            setattr(self, name, self._graph_function(name))
        if self._graphs is not None:
            self._graphs.python = _Python(self)

    @classmethod
    def __ir_module__(cls, ir_mod: IRModule, pyfuncs: Mapping[str, Any]) -> PyModuleFactory:
        """What `@I.ir_module` makes of a class that is one of these."""
        return PyModuleFactory(ir_mod, pyfuncs, cls)

    def add_python_function(self, name: str, func: Callable[..., Any]) -> None:
        """Add a Python function; one whose first parameter is `self` gets this object there.

        Raises:
            MLCError: the module has a loop or graph function of that name, or it is no function.
        """
        if not callable(func):
            raise MLCError(f"add_python_function: {name!r} is no function")
        if name in (*self.tir_func_names, *self.relax_func_names):
            raise MLCError(f"the module has a function {name!r}", hint="give it another name")
        takes_self = next(iter(inspect.signature(func).parameters), None) == "self"
        made = MethodType(func, self) if takes_self else func
        self.pyfuncs[name] = made
        setattr(self, name, made)

    def list_functions(self) -> dict[str, list[str]]:
        """The names of "python", "tir" and "relax" functions."""
        return {
            "python": list(self.pyfuncs),
            "tir": list(self.tir_func_names),
            "relax": list(self.relax_func_names),
        }

    def get_function(self, name: str) -> Callable[..., Any] | None:
        """A function of any kind by its name, or None."""
        names = (*self.pyfuncs, *self.tir_func_names, *self.relax_func_names)
        return getattr(self, name) if name in names else None

    def call_py_func(self, func_name: str, args: Sequence[Any]) -> Any:
        """The result of a Python function.

        Raises:
            MLCError: there is none of that name.
        """
        found = self.pyfuncs.get(func_name)
        if found is None:
            raise MLCError(
                f"no Python function {func_name!r} in the module",
                hint=suggestion(func_name, list(self.pyfuncs)),
            )
        return found(*args)

    def call_tir(
        self, tir_func: Any, args: Sequence[Any], out_sinfo: Any, tir_vars: Any = None
    ) -> Any:
        """The results of a loop function, in new arrays.

        Args:
            tir_func: one of this module's, or its name.
            args: arrays of any kind.
            out_sinfo: shape and dtype of the result, `R.Tensor((4, n), "float32")`, or a list of
                them; what is symbolic is what the function's parameters call so.
            tir_vars: values of its scalar parameters.

        Raises:
            MLCError: there is no such loop function.
            RuntimeInputError: arguments do not fit, or a size of the result is not known.
        """
        name = tir_func if isinstance(tir_func, str) else getattr(tir_func, "__name__", "")
        if name not in self.compiled_tir_funcs:
            raise MLCError(
                f"no loop function {name!r} in the module",
                hint=suggestion(name, list(self.compiled_tir_funcs)),
            )
        given = args if isinstance(args, list | tuple) else [args]
        arrays = [as_array(a, f"argument {i} of {name}") for i, a in enumerate(given)]
        sizes = _sizes(self.ir_mod[name], arrays, name)
        outs = [_new(info, sizes, name) for info in _infos(out_sinfo)]
        assert self._loops is not None
        self._loops[name](*arrays, *outs, *(tir_vars or ()))
        return like_input(outs[0] if len(outs) == 1 else tuple(outs), given)

    def call_dps_packed(self, func_name: str, args: Sequence[Any], out_sinfo: Any) -> Any:
        """The results of a registered function that fills the arrays it is handed last.

        Raises:
            MLCError: there is no such function.
        """
        function: Any = registry.get_global_func(func_name)
        given = args if isinstance(args, list | tuple) else [args]
        outs = [_new(info, {}, func_name) for info in _infos(out_sinfo)]
        handed = [as_tensors(as_array(a, func_name)) if _is_array(a) else a for a in given]
        function(*handed, *as_tensors(tuple(outs)))
        return like_input(outs[0] if len(outs) == 1 else tuple(outs), given)

    def script(self, **options: Any) -> str:
        """The module as text, Python functions as they are written."""
        return _text(self.ir_mod.script(**options), type(self).__name__, self.pyfuncs)

    def show(self, **options: Any) -> None:
        """Print the text."""
        print(self.script(**options))

    def _loop_function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            assert self._loops is not None
            return self._loops[name](*args)

        call.__name__ = name
        return call

    def _graph_function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            assert self._graphs is not None
            with self._calling(any(map(is_torch, args))):
                return self._graphs[name](*args, **named)

        call.__name__ = name
        return call

    @contextmanager
    def _calling(self, as_torch: bool) -> Iterator[None]:
        """Python functions that a graph calls are handed what its caller has."""
        before, self._as_torch = self._as_torch, as_torch
        try:
            yield
        finally:
            self._as_torch = before

    def handed(self, value: Any) -> Any:
        """What a Python function is handed by a graph."""
        if not self._as_torch or not isinstance(value, np.ndarray | Tensor):
            return value
        import torch

        return like_input(np.array(as_array(value, "an argument")), (torch.empty(0),))


class _Python(Mapping[str, Callable[..., Any]]):
    """The Python functions of a module as its graphs call them."""

    def __init__(self, module: BasePyModule) -> None:
        self._module = module

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = self._module.pyfuncs[name]
        return lambda *args: _plain(function(*map(self._module.handed, args)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._module.pyfuncs)

    def __len__(self) -> int:
        return len(self._module.pyfuncs)


class PyModuleFactory:
    """What `@I.ir_module` makes of `class Model(BasePyModule)`: `Model(cpu())` is an object of it.

    Everything else that a module has, it has too: `Model.script()`, `Model["main"]`; `Model.mod` is
    the module for passes and `compile`.
    """

    def __init__(self, ir_module: IRModule, pyfuncs: Mapping[str, Any], original: type) -> None:
        self.ir_module = self.mod = ir_module
        self.pyfuncs = dict(pyfuncs)
        self.pyfunc_methods = list(pyfuncs)
        self.original_class = original
        self.__name__ = original.__name__

    def __call__(self, device: Device | None = None, target: Any = None) -> BasePyModule:
        """The module compiled for a device, its Python functions bound to it."""
        made = BasePyModule(self.ir_module, device, target)
        for name, func in self.pyfuncs.items():
            made.add_python_function(name, func)
        return made

    def __getattr__(self, name: str) -> Any:
        if name == "ir_module":
            raise AttributeError(name)
        return getattr(self.ir_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self.ir_module[key]

    def __contains__(self, key: Any) -> bool:
        return key in self.ir_module

    def script(self, **options: Any) -> str:
        """The module as text, Python functions as they are written."""
        return _text(self.ir_module.script(**options), self.__name__, self.pyfuncs)

    def show(self, **options: Any) -> None:
        """Print the text."""
        print(self.script(**options))


def _text(programs: str, name: str, pyfuncs: Mapping[str, Any]) -> str:
    """The text of a module with Python functions at its end."""
    parts = [programs.rstrip().replace("class Module:", "class Module(BasePyModule):", 1)]
    for function in pyfuncs.values():
        try:
            source = textwrap.dedent(inspect.getsource(function)).rstrip()
        except (OSError, TypeError):
            source = f"def {function.__name__}{inspect.signature(function)}: ..."
        if "pyfunc" not in source.partition("def ")[0]:
            source = f"@I.pyfunc\n{source}"
        parts.append(textwrap.indent(source, "    "))
    return "\n\n".join(parts) + "\n"


def _infos(out_sinfo: Any) -> list[Any]:
    if isinstance(out_sinfo, TupleStructInfo):
        return list(out_sinfo.fields)
    return list(out_sinfo) if isinstance(out_sinfo, list | tuple) else [out_sinfo]


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | Tensor) or is_torch(value)


def _plain(value: Any) -> Any:
    """What a Python function gave, as arrays."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return as_array(value, "the result") if is_torch(value) else value


def _sizes(func: PrimFunc, arrays: Sequence[np.ndarray], name: str) -> dict[Var, int]:
    """What the symbolic sizes of a loop function are with these arguments."""
    dims: dict[Var, int] = {}
    pairs = enumerate(zip(func.buffers, arrays, strict=False))
    match_shapes(((a.shape, b.shape, f"argument {i} of {name}") for i, (b, a) in pairs), dims)
    return dims


def _new(info: Any, sizes: Mapping[Var, int], name: str) -> np.ndarray:
    """An array for a result."""
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
        raise RuntimeInputError(
            f"{name}: the result needs a shape and a dtype, but is {info}",
            hint='R.Tensor((4, 8), "float32")',
        )
    by_name = {v.name: size for v, size in sizes.items()}
    return aligned_empty(tuple(_size(d, by_name, name) for d in info.dims), info.dtype.numpy)


def _size(dim: Any, by_name: Mapping[str, int], name: str) -> int:
    """A dimension of a result, by what the loop function's parameters call its sizes."""
    if isinstance(dim, DimString) and dim.text in by_name:
        return by_name[dim.text]
    used = [] if isinstance(dim, DimString) else symbolic_vars(dim)
    if isinstance(dim, DimString) or any(v.name not in by_name for v in used):
        known = ", ".join(by_name) or "none"
        raise RuntimeInputError(
            f"{name}: the size {dim} of the result is not among those of its arguments: {known}",
            hint="say it as a number, or by the name that the loop function has for it",
        )
    return evaluate(dim, {v: by_name[v.name] for v in used})
