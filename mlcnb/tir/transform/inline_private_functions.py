"""InlinePrivateFunctions: what only this module calls stands where it is called.

def main(A):                                    def main(A):
    for i in range(16):                             for i in range(16):
        cls.fill(A.data, i)              ->             B = T.decl_buffer(16, data=A.data)
def fill(data, i):  # private                           B[i] = 0
    B = T.decl_buffer(16, data=data)
    B[i] = 0

A function stays that takes buffers, returns a value, calls itself, or is the value of something.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, walk
from mlcnb.ir.expr import Call, GlobalVar, PrimExpr, Var
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import callee, rewrite_statements, substitute
from mlcnb.tir.renew import Renewer
from mlcnb.tir.stmt import DeclBuffer, Evaluate, LetStmt, Stmt, flattened


def inline_private_functions(mod: IRModule) -> IRModule:
    """The module with calls of private loop functions replaced by what they do."""
    functions = mod.of_kind(PrimFunc)
    inlined = {k.name_hint: f for k, f in functions.items() if _can_go(k, f, functions)}
    if not inlined:
        return mod
    made = {k: _inlined(f, inlined) for k, f in functions.items() if k.name_hint not in inlined}
    return mod.with_functions(made).without_functions(inlined)


def _can_go(key: GlobalVar, func: PrimFunc, functions: dict[GlobalVar, PrimFunc]) -> bool:
    if "global_symbol" in func.attrs or func.buffer_map or func.ret_type is not None:
        return False
    if any(isinstance(n, Call) and n.op == "tir.ret" for n in walk(func.body)):
        return False
    if _reaches(key.name_hint, key.name_hint, functions, set()):
        return False
    calls = [f for f in functions.values() if key.name_hint in _called(f, statements_only=False)]
    return all(_only_statements(key.name_hint, f) for f in calls) and bool(calls)


def _called(func: PrimFunc, statements_only: bool) -> list[str]:
    nodes = (n.value if isinstance(n, Evaluate) else n for n in walk(func.body)
             if isinstance(n, Evaluate) or not statements_only)  # fmt: skip
    return [name for name in map(callee, nodes) if name is not None]


def _only_statements(name: str, func: PrimFunc) -> bool:
    """Every call of it is a statement: `walk` meets such a call twice, also in its line."""
    lines = _called(func, statements_only=True).count(name)
    return _called(func, statements_only=False).count(name) == 2 * lines


def _reaches(start: str, name: str, functions: dict[GlobalVar, PrimFunc], seen: set[str]) -> bool:
    """Whether a function calls itself, at whatever distance."""
    func = functions.get(GlobalVar(name))
    for called in _called(func, statements_only=False) if func is not None else ():
        if called == start:
            return True
        if called not in seen:
            seen.add(called)
            if _reaches(start, called, functions, seen):
                return True
    return False


def _inlined(func: PrimFunc, bodies: dict[str, PrimFunc]) -> PrimFunc:
    def rule(n: Node) -> Node | None:
        if not isinstance(n, Evaluate) or not isinstance(n.value, Call):
            return flattened(n)
        call = n.value
        body = bodies.get(getattr(call.op, "name_hint", ""))
        if body is None:
            return None
        fresh = Renewer(everywhere=True).function(body)
        return rewrite_statements(_given(fresh, call), rule)

    return func.with_body(rewrite_statements(func.body, rule))


def _given(func: PrimFunc, call: Call) -> Stmt:
    """The body with its arguments; a pointer that is computed has a name, as buffers want one."""
    values = dict(zip(func.params, call.args, strict=True))
    views = {n.data for n in walk(func.body) if isinstance(n, Buffer)}
    named = {v: x for v, x in values.items() if v in views and not isinstance(x, Var)}
    body = substitute(func.body, {v: x for v, x in values.items() if v not in named})
    for var, value in reversed(named.items()):
        body = _named(body, var, value)
    return body


def _named(body: Stmt, var: Var, value: PrimExpr) -> Stmt:
    """A pointer bound where its first buffer is declared, if it is not used before."""
    declared = next((n for n in statements(body) if _declares(n, var)), None)
    if declared is None or _uses(body, var) != _uses(declared, var):
        return LetStmt(var, value, body)
    return rewrite_statements(body, lambda n: LetStmt(var, value, n) if n is declared else None)


def _declares(n: Node, var: Var) -> bool:
    return isinstance(n, DeclBuffer) and n.buffer.data is var


def _uses(n: Node, var: Var) -> int:
    return sum(x is var for x in walk(n))


class InlinePrivateFunctions(ModulePass):
    """Put what private functions do in the place of their calls."""

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """See `inline_private_functions`."""
        return inline_private_functions(mod)
