"""RunCodegen: functions that name a library are given to it, and what it makes is called instead.

gv = cls.fused_matmul_blas(x, w)        I.module_attrs({"external_mods": [I.external_module(…)]})
def fused_matmul_blas(x, w):      ->    gv = R.call_dps_packed("fused_matmul_blas", (x, w), …)
    R.func_attr({"Codegen": "blas"})

A library is a global function `relax.ext.NAME`: it takes the functions, its options and names for
their constants, and returns what runs them - ExternalModules, or {symbol: Python function}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.core.registry import LIBRARY, get_global_func, list_global_func_names
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.external import EXTERNAL_MODULES, ExternalModule
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.variables import all_global_vars, bindings_of, reached, uses
from mlcnb.relax.expr import Call, Constant, Function, Tuple, Var, call_dps_packed
from mlcnb.relax.mutator import CallsOf
from mlcnb.relax.struct_info import TupleStructInfo


class RunCodegen(ModulePass):
    """Let each library make its functions; the module keeps what they made.

    A function is called in destination-passing style: its results are allocated in the shapes and
    dtypes that it says.

    Raises:
        PassError: there is no such library, it made no function of that name, or it returned
            something else.
    """

    #: library -> options that it is given
    target_options: Any = None
    #: names of functions that are looked into; None: all
    entry_functions: Any = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All functions of each library at once."""
        given = _by_library(mod, self._called(mod))
        if not given:
            return mod
        options = self.target_options or {}
        made = list(mod.attrs.get(EXTERNAL_MODULES, ()))
        for library, functions in given.items():
            made += _made(library, functions, options.get(library, {}), mod)
        gone = {g: symbol_of(g, mod) for fs in given.values() for g in fs}
        caller = _Caller(mod.functions, gone)
        kept = {k: f for k, f in mod.items() if k not in gone}
        changed = {k: caller.rewrite(f) if isinstance(f, Function) else f for k, f in kept.items()}
        ctx.note(", ".join(f"{len(fs)} functions of {name}" for name, fs in given.items()))
        return (
            mod.without_functions(gone)
            .with_functions(changed)
            .with_attr(EXTERNAL_MODULES, tuple(made))
        )

    def _called(self, mod: IRModule) -> set[Any]:
        """The functions that the entry functions mention; all where none are named."""
        if self.entry_functions is None:
            return set(mod)
        graph = mod.of_kind(Function)
        starts = [mod.get_global_var(name) for name in self.entry_functions]
        return reached(starts, lambda k: all_global_vars(graph[k]) if k in graph else ())


def symbol_of(key: GlobalVar, mod: IRModule) -> str:
    """The name under which a library's function is called."""
    return str(mod.functions[key].attrs.get("global_symbol", key.name_hint))


def _by_library(mod: IRModule, called: set[Any]) -> dict[str, list[GlobalVar]]:
    found: dict[str, list[GlobalVar]] = {}
    for key, func in mod.of_kind(Function).items():
        if key in called and "Codegen" in func.attrs:
            found.setdefault(str(func.attrs["Codegen"]), []).append(key)
    return found


def _made(library: str, keys: list[GlobalVar], options: Any, mod: IRModule) -> list[ExternalModule]:
    """What a library makes of its functions.

    Raises:
        PassError: there is no such library, or it did not make what was asked.
    """
    symbol = LIBRARY + library
    make = get_global_func(symbol, allow_missing=True)
    if make is None:
        known = [n.removeprefix(LIBRARY) for n in list_global_func_names() if n.startswith(LIBRARY)]
        raise PassError(
            f"RunCodegen: no library {library!r}: there is no global function {symbol!r}",
            where=mod.functions[keys[0]],
            root=mod,
            hint=f"mlcnb.register_func({symbol!r}, f); there are {', '.join(known)}",
        )
    functions = [mod.functions[k].with_attr("global_symbol", symbol_of(k, mod)) for k in keys]  # type: ignore[attr-defined]
    symbols = [symbol_of(k, mod) for k in keys]
    result = make(functions, options, _constants(functions))
    modules = _as_modules(library, result)
    missing = [s for s in symbols if not any(s in m for m in modules)]
    if missing:
        raise PassError(
            f"RunCodegen: the library {library!r} made no function {missing[0]!r}",
            hint="it returns {symbol: function}, symbol = the function's attrs['global_symbol']",
        )
    return modules


def _as_modules(library: str, result: Any) -> list[ExternalModule]:
    if isinstance(result, Mapping):
        return [ExternalModule.of(library, result)]
    modules = list(result) if isinstance(result, list | tuple) else [result]
    for module in modules:
        if not isinstance(module, ExternalModule):
            raise PassError(
                f"RunCodegen: the library {library!r} returned {kind_of(module)}",
                hint="it returns {symbol: function} or a list of ExternalModule",
            )
    return modules


def _constants(functions: list[Any]) -> dict[Constant, str]:
    """A name for each constant in the functions."""
    found: dict[Constant, str] = {}
    for func in functions:
        inner = [b.value for b in bindings_of(func) if isinstance(b.value, Function)]
        for n in (n for f in (func, *inner) for n in uses(f)):
            if isinstance(n, Constant):
                found.setdefault(n, f"const_{len(found)}")
    return found


class _Caller(CallsOf):
    """Turns calls of libraries' functions into call_dps_packed."""

    def called(self, call: Call, told: str, var: Var) -> Any:
        """`cls.fused(x)` -> `R.call_dps_packed("fused", (x,), out_sinfo=…)`."""
        out: Any = call.struct_info
        infos = list(out.fields) if isinstance(out, TupleStructInfo) else out
        made = call_dps_packed(told, Tuple(call.args), infos)
        return replace(made, span=call.span)
