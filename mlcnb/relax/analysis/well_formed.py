"""well_formed: the rules that every graph program keeps, and what breaks them.

every variable is bound once, before its uses, and seen only in its scope;
values are in A-normal form: arguments are leaves; branches and bodies are sequences;
every variable has struct info, and what it is bound to fits it;
symbolic variables are defined by parameters or match_cast;
dataflow blocks and pure functions have no effects;
functions, operators and PrimFuncs that are called exist and take what they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mlcnb.core.errors import MLCError, WellFormedError
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.calls import HINT, Misfit, wrong_places
from mlcnb.relax.analysis.purity import has_effects
from mlcnb.relax.analysis.struct_info import (
    BaseCheckResult,
    definable_vars,
    struct_info_base_check,
    symbolic_vars,
)
from mlcnb.relax.analysis.variables import leaves
from mlcnb.relax.emitter import block_is_dataflow
from mlcnb.relax.infer import Functions, infer, is_leaf
from mlcnb.relax.operator import called, declaration
from mlcnb.relax.struct_info import FuncStructInfo, StructInfo, TupleStructInfo, describe
from mlcnb.tir.function import PrimFunc


def well_formed(obj: IRModule | rx.Function, check_struct_info: bool = True) -> bool:
    """True if a module or graph function keeps all rules; `assert_well_formed` says what is wrong.

    Args:
        obj: what to check.
        check_struct_info: also check that struct infos are there and fit.
    """
    try:
        assert_well_formed(obj, check_struct_info)
    except WellFormedError:
        return False
    return True


def assert_well_formed(obj: IRModule | rx.Function, check_struct_info: bool = True) -> None:
    """Check all rules.

    Raises:
        WellFormedError: a rule is broken; the error points at the place.
    """
    if isinstance(obj, rx.Function):
        _Checker(obj, {}, check_struct_info, obj).function(obj)
        return
    for key, func in obj.items():
        _check_name(obj, key, func)
        if isinstance(func, rx.Function):
            _Checker(obj, obj.functions, check_struct_info, func, key).function(func)
        elif isinstance(func, PrimFunc):
            _check_prim_func(obj, key, func)


def _check_name(mod: IRModule, key: GlobalVar, func: Any) -> None:
    symbol = func.attrs.get("global_symbol")
    if symbol is not None and symbol != key.name_hint and not isinstance(func, PrimFunc):
        raise WellFormedError(
            f"function {key.name_hint!r} has the global_symbol {symbol!r}",
            where=func,
            root=mod,
            hint="both names are the same, or the attribute is left out",
        )


def _check_prim_func(mod: IRModule, key: GlobalVar, func: PrimFunc) -> None:
    from mlcnb.tir.analysis import verify_well_formed

    try:
        verify_well_formed(func)
    except MLCError as error:
        raise WellFormedError(
            f"{key.name_hint}: {error.message}", where=error.where, root=mod, hint=error.hint
        ) from error


def _is_checked(func: rx.Function) -> bool:
    """True for a function in which calls with effects are refused."""
    return func.is_pure and not func.attrs.get("relax.force_pure", False)


class _Checker:
    """Walks one function; `fail` raises with the place."""

    def __init__(
        self,
        root: Any,
        functions: Functions,
        infos: bool,
        func: rx.Function,
        key: GlobalVar | None = None,
    ) -> None:
        self.root, self.functions, self.infos = root, functions, infos
        self.name = key.name_hint if key else func.attrs.get("global_symbol", "function")
        self.bound: set[rx.Var] = set()
        self.scope: set[rx.Var] = set()
        self.symbols: set[PrimVar] = set()
        self.pure = _is_checked(func)
        self.in_dataflow = False

    def fail(self, message: str, where: Any, hint: str | None = None) -> None:
        """Raise, with the function's name before the message."""
        raise WellFormedError(f"{self.name}: {message}", where=where, root=self.root, hint=hint)

    @contextmanager
    def inner_scope(self) -> Iterator[None]:
        """What is bound inside the `with` block is not seen after it."""
        scope, symbols, flow = set(self.scope), set(self.symbols), self.in_dataflow
        yield
        self.scope, self.symbols, self.in_dataflow = scope, symbols, flow

    # functions and sequences ---------------------------------------------------------------------

    def function(self, func: rx.Function) -> None:
        """Parameters, body, result."""
        for param in func.params:
            self.parameter(param)
        if not func.is_pure and func.attrs.get("relax.force_pure", False):
            self.fail("relax.force_pure of a function that is not pure", func, "leave out one")
        if not isinstance(func.body, rx.SeqExpr):
            self.fail("the body is no sequence of bindings", func.body, _NORMALIZE)
        self.sequence(func.body)
        if self.infos:
            self.result(func)

    def parameter(self, param: Any) -> None:
        """A Var with struct info; its dimensions define symbolic variables."""
        if isinstance(param, rx.DataflowVar) or not isinstance(param, rx.Var):
            self.fail(f"a parameter is {kind_of(param)}", param, "parameters are Vars")
        if self.infos and param.struct_info is None:
            self.fail(f"parameter {param.name_hint} has no struct info", param)
        self.define(param)
        self.symbols.update(definable_vars(param.struct_info))
        self.symbols.update(symbolic_vars(param.struct_info))

    def result(self, func: rx.Function) -> None:
        """What is returned fits `ret_struct_info`."""
        declared, given = func.ret_struct_info, func.body.struct_info
        if declared is None:
            self.fail("the function has no ret_struct_info", func, _NORMALIZE)
        elif given is not None:
            self.fits(declared, given, func.body.body, "the result")

    def sequence(self, seq: rx.SeqExpr) -> None:
        """Blocks, then a leaf."""
        for block in seq.blocks:
            self.block(block)
        if not is_leaf(seq.body):
            kind = type(seq.body).__name__
            self.fail(f"the result of a sequence is a {kind}, not a leaf", seq.body, _NORMALIZE)
        self.leaf(seq.body)

    def block(self, block: Any) -> None:
        """Bindings in order; DataflowVars are seen only inside."""
        self.in_dataflow = block_is_dataflow(block)
        inner = []
        for binding in block.bindings:
            self.binding(binding)
            if isinstance(binding.var, rx.DataflowVar):
                inner.append(binding.var)
        self.scope.difference_update(inner)
        self.in_dataflow = False

    def binding(self, binding: rx.Binding) -> None:
        """The value, then the variable."""
        var, value = binding.var, binding.value
        if isinstance(var, rx.DataflowVar) and not self.in_dataflow:
            self.fail(f"{var.name_hint} is a DataflowVar outside of a dataflow block", binding)
        local = isinstance(value, rx.Function)
        if local:
            self.define(var)
        if isinstance(binding, rx.MatchCast):
            self.match_cast(binding)
        else:
            self.value(value, var)
        if not local:
            self.define(var)
        if self.infos:
            self.variable_info(binding)

    def match_cast(self, binding: rx.MatchCast) -> None:
        """The value is a leaf; the struct info may define symbolic variables."""
        self.argument(binding.value, binding)
        self.symbols.update(definable_vars(binding.struct_info))

    def define(self, var: rx.Var) -> None:
        """Each variable is bound once."""
        if var in self.bound:
            self.fail(f"{var.name_hint} is bound twice", var, "every binding has a new Var")
        self.bound.add(var)
        self.scope.add(var)

    def variable_info(self, binding: rx.Binding) -> None:
        """The variable has struct info, its symbols are defined, and the value fits."""
        var = binding.var
        info = var.struct_info
        if info is None:
            self.fail(f"{var.name_hint} has no struct info", binding, _NORMALIZE)
            return
        self.known_symbols(info, f"the struct info of {var.name_hint}", binding)
        given = binding.struct_info if isinstance(binding, rx.MatchCast) else self.info_of(binding)
        if given is not None:
            self.fits(info, given, binding, var.name_hint)

    def info_of(self, binding: rx.Binding) -> StructInfo | None:
        """The struct info of a bound value; a call has to carry its own."""
        value = binding.value
        if isinstance(value, rx.Call) and value.struct_info is None:
            self.fail(f"the call bound to {binding.var.name_hint} has no struct info", binding)
        return infer(value, self.functions)

    def fits(self, wanted: StructInfo, given: StructInfo, where: Any, what: str) -> None:
        """Refuse a struct info that can never be the other one."""
        if struct_info_base_check(wanted, given) is BaseCheckResult.FAIL_L0:
            self.fail(f"{what} is {describe(given)}, declared as {describe(wanted)}", where)

    def known_symbols(self, node: Any, what: str, where: Any) -> None:
        """Every symbolic variable is defined before, or by the parameters of a function's type."""
        params = node.params or () if isinstance(node, FuncStructInfo) else ()
        own = {v for p in params for v in definable_vars(p)}
        for var in symbolic_vars(node):
            if var not in self.symbols and var not in own:
                self.fail(
                    f"{what} mentions the symbolic variable {var.name}, defined nowhere before",
                    where,
                    "a parameter's shape or R.match_cast defines it",
                )

    # values --------------------------------------------------------------------------------------

    def value(self, value: Any, var: rx.Var) -> None:
        """What a binding may hold."""
        check = _VALUES.get(type(value))
        if check is not None:
            check(self, value, var)
        elif not is_leaf(value) or isinstance(value, rx.Op):
            self.fail(f"{var.name_hint} is bound to {kind_of(value)}", value, _NORMALIZE)
        else:
            self.leaf(value)

    def argument(self, arg: Any, where: Any) -> None:
        """An argument is a leaf that is in scope."""
        if not is_leaf(arg):
            kind = type(arg).__name__
            self.fail(f"a {kind} stands as an argument, not a leaf", where, _NORMALIZE)
        self.leaf(arg)

    def leaf(self, expr: Any) -> None:
        """Variables are in scope, functions exist, symbols are defined."""
        for part in leaves(expr):
            if isinstance(part, rx.Var):
                self.use(part)
            elif isinstance(part, GlobalVar):
                self.callee(part)
            elif isinstance(part, rx.ShapeExpr) and self.infos:
                self.known_symbols(part, "a shape", part)

    def use(self, var: rx.Var) -> None:
        """The variable is bound before and seen from here."""
        if var in self.scope:
            return
        if var in self.bound:
            why = "is local to its block and used outside of it"
            hint = "R.output(...) makes a variable of a dataflow block seen outside"
            self.fail(f"{var.name_hint} {why}", var, hint)
        self.fail(f"{var.name_hint} is used but not bound before", var)

    def callee(self, key: GlobalVar) -> None:
        """The function is in the module."""
        if isinstance(self.root, IRModule) and key not in self.functions:
            names = ", ".join(k.name_hint for k in self.functions)
            self.fail(f"no function {key.name_hint!r} in the module", key, f"it has {names}")

    def call(self, call: rx.Call, var: rx.Var) -> None:
        """The head exists, arguments are leaves, effects are allowed."""
        if isinstance(call.op, rx.Op):
            self.operator(call)
        else:
            self.argument(call.op, call)
        for arg in (a for a in call.args if not isinstance(a, rx.Op)):
            self.argument(arg, call)
        for info in call.sinfo_args:
            self.known_symbols(info, f"the result of {var.name_hint}", call)
        if has_effects(call, self.functions) and not called(call).allocates:
            self.effect(call, var)

    def effect(self, call: rx.Call, var: rx.Var) -> None:
        """Effects are refused in dataflow blocks and in pure functions."""
        if self.in_dataflow:
            self.fail(
                f"{var.name_hint}: a call with effects stands in a dataflow block",
                call,
                "move it out of `with R.dataflow()`, or use R.call_pure_packed",
            )
        if self.pure:
            self.fail(
                f"{var.name_hint}: a call with effects stands in a function declared pure",
                call,
                "@R.function(pure=False), or R.call_pure_packed",
            )

    def operator(self, call: rx.Call) -> None:
        """A declared operator, or one of the calling conventions."""
        check = _CONVENTIONS.get(call.op.name)
        if check is not None:
            check(self, call)
        elif call.op.name not in _BASE and declaration(call.op, missing_ok=True) is None:
            self.fail(f"no operator {call.op.name!r} is declared", call, "see mlcnb.op.names()")

    def call_tir(self, call: rx.Call) -> None:
        """A PrimFunc that takes inputs, outputs and scalars."""
        key: Any = call.args[0]
        func = self.functions.get(key) if isinstance(key, GlobalVar) else None
        if not isinstance(key, GlobalVar):
            self.fail("call_tir of what is no GlobalVar", call)
        if len(call.sinfo_args) != 1:
            self.fail("call_tir without out_sinfo", call)
        if len(call.args) < 2 or not isinstance(call.args[1], rx.Tuple):
            self.fail("the arguments of call_tir are no tuple", call, "R.call_tir(f, (x, y), …)")
        if isinstance(func, rx.Function):
            self.fail(f"call_tir of {key.name_hint}, which is a graph function", call)
        self.takes(call, func)

    def takes(self, call: rx.Call, func: Any = None) -> None:
        """What the PrimFunc takes, where it is known; outputs have places of their own."""
        found = Misfit.of(call, func) if isinstance(func, PrimFunc) else wrong_places(call)
        if found is not None:
            self.fail(found, call, HINT)

    def choice(self, choice: rx.If, var: rx.Var) -> None:
        """Control flow stays out of dataflow blocks; branches are sequences."""
        if self.in_dataflow:
            self.fail(f"{var.name_hint}: an If stands in a dataflow block", choice)
        self.argument(choice.cond, choice)
        for branch in (choice.true_branch, choice.false_branch):
            if not isinstance(branch, rx.SeqExpr):
                self.fail("a branch of an If is no sequence", choice, _NORMALIZE)
            with self.inner_scope():
                self.sequence(branch)  # type: ignore[arg-type]

    def local(self, func: rx.Function, _var: rx.Var) -> None:
        """A function inside the function: it sees what is bound before."""
        pure = self.pure
        self.pure = _is_checked(func)
        with self.inner_scope():
            self.function(func)
        self.pure = pure

    def tuple_value(self, value: rx.Tuple, _var: rx.Var) -> None:
        """Fields are leaves."""
        for part in value.fields:
            self.argument(part, value)

    def item(self, item: rx.TupleGetItem, var: rx.Var) -> None:
        """The tuple is a leaf and has that field."""
        self.argument(item.tuple_value, item)
        info = item.tuple_value.struct_info
        if isinstance(info, TupleStructInfo) and not 0 <= item.index < len(info.fields):
            self.fail(
                f"{var.name_hint}: a tuple of {len(info.fields)} has no field {item.index}", item
            )


_NORMALIZE = "run relax.transform.Normalize()"

_VALUES: dict[type, Callable[[_Checker, Any, rx.Var], None]] = {
    rx.Call: _Checker.call,
    rx.If: _Checker.choice,
    rx.Function: _Checker.local,
    rx.Tuple: _Checker.tuple_value,
    rx.TupleGetItem: _Checker.item,
}

_CONVENTIONS: dict[str, Callable[[_Checker, rx.Call], None]] = {
    "relax.call_tir": _Checker.call_tir,
    "relax.call_tir_inplace": _Checker.call_tir,
    "relax.call_tir_with_grad": _Checker.call_tir,
    "relax.call_inplace_packed": _Checker.takes,
}

_BASE = frozenset(
    f"relax.{name}"
    for name in "call_dps_packed call_pure_packed call_py_func call_builtin_with_ctx print "
    "assert_op invoke_closure invoke_pure_closure make_closure null_value".split()
)
