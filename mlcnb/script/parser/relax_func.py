"""`@R.function`: the signature with its symbolic dimensions, then the bindings."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from mlcnb.ir.attrs import frozen
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.function import BaseFunc
from mlcnb.relax.analysis.struct_info import return_info, same_info, struct_info_lca, symbolic_vars
from mlcnb.relax.expr import Function, SeqExpr, Tuple, Var
from mlcnb.relax.struct_info import StructInfo
from mlcnb.script.dialect import known_attrs
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.relax_body import BodyParser
from mlcnb.script.parser.symbols import declared_symbols, resolve_dims
from mlcnb.script.relax.struct_infos import info


class FunctionParser:
    """Reads one function definition.

    Args:
        ev: evaluates expressions in the scope around the function.
        node: its tree.
        functions: the functions of the module that are read already, for inference.
        private: leave out the attribute `global_symbol`.
        pure: whether it has no effects.
    """

    def __init__(
        self,
        ev: Evaluator,
        node: ast.FunctionDef,
        functions: dict[GlobalVar, BaseFunc],
        private: bool,
        pure: bool,
    ) -> None:
        self.ev = ev
        self.node = node
        self.functions = functions
        self.private = private
        self.pure = pure
        self.attrs: dict[str, Any] = {}
        #: called with the parameters and the result before the body is read
        self.known: Callable[[list[Var], StructInfo], None] | None = None
        #: variables that the body declares, until it does
        self.symbols: dict[str, PrimVar] = {}
        #: variables that the parameters speak of: to declare one, in any block, is to name it
        self.named: dict[str, PrimVar] = {}

    def parse(self) -> Function:
        """The function."""
        before, self.ev.int_dtype = self.ev.int_dtype, "int64"
        with self.ev.scope.inner() as frame:
            self._declare()
            params = [self._param(arg) for arg in self._args()]
            spoken = {v for p in params for v in symbolic_vars(p.struct_info)}
            self.named = {n: v for n, v in frame.items() if isinstance(v, PrimVar) and v in spoken}
            ret = self._ret()
            if self.known is not None and ret is not None:
                self.known(params, ret)
            body = BodyParser(self.ev, self).function_body(self.node.body, self.node)
        self.ev.int_dtype = before
        attrs = {} if self.private else {"global_symbol": self.node.name}
        attrs.update(self.attrs)
        result = _finer(ret, _well_defined(params, body))
        return Function(tuple(params), body, result, self.pure, frozen(attrs))

    def signature(self) -> Function:
        """The function without its body: what callers need to know."""
        with self.ev.scope.inner():
            self._declare()
            params = tuple(self._param(arg) for arg in self._args())
            return Function(params, SeqExpr((), Tuple(())), self._ret(), self.pure)

    def _declare(self) -> None:
        self.symbols = declared_symbols(self.ev, self.node)
        self.ev.scope.frames[-1].update(self.symbols)

    def _args(self) -> list[ast.arg]:
        args = self.node.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.defaults:
            raise self.ev.error(self.node, "a function of TVMScript has plain parameters only")
        return [*args.posonlyargs, *args.args]

    def _param(self, arg: ast.arg) -> Var:
        if arg.annotation is None:
            hint = f'{arg.arg}: R.Tensor((4,), dtype="float32")'
            raise self.ev.error(arg, f"parameter {arg.arg!r} has no type", hint)
        var = Var(arg.arg, self.struct_info(arg.annotation))
        self.ev.scope.define(arg.arg, var)
        return var

    def _ret(self) -> StructInfo | None:
        return None if self.node.returns is None else self.struct_info(self.node.returns)

    def struct_info(self, node: ast.expr) -> StructInfo:
        """The type that an annotation says, its string dimensions read."""
        value = self.ev.value(node)
        with self.ev.blame(node):
            found = info(value)
        return resolve_dims(self.ev, found, node)

    def set_attrs(self, attrs: dict[str, Any]) -> None:
        """`R.func_attr({…})`"""
        self.attrs.update(known_attrs(attrs))


def _finer(declared: StructInfo | None, given: StructInfo | None) -> StructInfo | None:
    """What is declared, or what the body gives where that says more."""
    if declared is None or given is None:
        return declared or given
    says_more = declared.is_base_of(given) and same_info(declared, struct_info_lca(declared, given))
    return given if says_more else declared


def _well_defined(params: list[Var], body: SeqExpr) -> StructInfo | None:
    """The type of the body, without symbolic variables that only the body knows."""
    return None if body.struct_info is None else return_info(params, body.struct_info)
