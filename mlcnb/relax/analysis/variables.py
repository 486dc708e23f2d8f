"""Variables of graph functions: which there are, what binds them, who uses them.

    def main(x):                 bound_vars   x, lv, gv       use_counts   {x: 2, lv: 1, gv: 1}
        lv = R.nn.relu(x)        get_var2val  {lv: R.nn.relu(x), gv: …}
        gv = R.add(lv, x)        udchain      {x: (lv, gv), lv: (gv,)}
        return gv

All of it is linear in the number of bindings: struct infos are looked into only for symbolic
variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from mlcnb.core.node import identical, replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.struct_info import TensorStructInfo


def nested(value: Any) -> tuple[rx.SeqExpr, ...]:
    """The sequences inside a value: the branches of an If, the body of a local function."""
    if isinstance(value, rx.If):
        return tuple(_as_seq(b) for b in (value.true_branch, value.false_branch))
    return (_as_seq(value.body),) if isinstance(value, rx.Function) else ()


def with_nested(value: Any, change: Callable[[rx.SeqExpr], rx.SeqExpr]) -> Any:
    """A value with the sequences inside of it changed; itself where none is."""
    old = nested(value)
    new = tuple(map(change, old))
    if identical(old, new):
        return value
    if isinstance(value, rx.If):
        return replace(value, true_branch=new[0], false_branch=new[1])
    return replace(value, body=new[0])


def _as_seq(expr: Any) -> rx.SeqExpr:
    return expr if isinstance(expr, rx.SeqExpr) else rx.SeqExpr((), expr)


def leaves(value: Any) -> Sequence[Any]:
    """The leaf expressions that a value uses, in order, tuples opened; nested bodies left out."""
    if (
        type(value) is rx.Call
        and type(value.op) is rx.Op
        and all(type(a) in _FLAT for a in value.args)
    ):
        return (value.op, *value.args)
    found = []
    stack = [value]
    while stack:
        n = stack.pop()
        if isinstance(n, rx.Call):
            stack.extend(reversed(n.args))
            stack.append(n.op)
        elif isinstance(n, rx.Tuple):
            stack.extend(reversed(n.fields))
        elif isinstance(n, rx.TupleGetItem):
            stack.append(n.tuple_value)
        elif isinstance(n, rx.If):
            stack.append(n.cond)
        elif isinstance(n, rx.SeqExpr):
            stack.append(n.body)
        elif not isinstance(n, rx.Function):
            found.append(n)
    return found


#: leaves that most of all arguments are
_FLAT = frozenset({rx.Var, rx.DataflowVar, rx.Constant})


def sequences_of(seq: rx.SeqExpr) -> Iterator[rx.SeqExpr]:
    """The sequence and every one inside of its values, an outer one before those in it."""
    stack = [seq]
    while stack:
        one = stack.pop()
        yield one
        bindings = (b for block in one.blocks for b in block.bindings)
        stack.extend(reversed([s for b in bindings for s in nested(b.value)]))


def bindings_of(expr: Any) -> Iterator[rx.Binding]:
    """Every binding below a function or sequence, in order; those of branches before their If's."""
    seq = _as_seq(expr.body) if isinstance(expr, rx.Function) else expr
    if not isinstance(seq, rx.SeqExpr):
        return
    stack = [_places(seq)]  # no generator inside of a generator: each level would cost a call
    while stack:
        for inner, binding in stack[-1]:
            if inner is None:
                yield binding
            else:
                stack.append(_places(inner))
                break
        else:
            stack.pop()


def _places(seq: rx.SeqExpr) -> Iterator[tuple[rx.SeqExpr | None, rx.Binding]]:
    """Each binding of a sequence, after the sequences inside of its value."""
    for block in seq.blocks:
        for binding in block.bindings:
            for inner in nested(binding.value):
                yield inner, binding
            yield None, binding


def uses(expr: Any) -> Iterator[Any]:
    """Every use of a leaf below a function, sequence or value: of variables, constants, GlobalVars.

    A variable that is the shape of a tensor's struct info counts as used by that tensor.
    """
    if isinstance(expr, rx.Function):
        yield from _seq_uses(_as_seq(expr.body))
    elif isinstance(expr, rx.SeqExpr):
        yield from _seq_uses(expr)
    else:
        yield from value_uses(expr)


def _seq_uses(seq: rx.SeqExpr) -> Iterator[Any]:
    for block in seq.blocks:
        for binding in block.bindings:
            yield from value_uses(binding.value)
            info = binding.var.struct_info
            if type(info) is TensorStructInfo and isinstance(info.shape, rx.Var):
                yield info.shape
    yield from leaves(seq.body)


def value_uses(value: Any) -> Iterable[Any]:
    """Uses of one bound value, those of nested bodies counted."""
    found, inside = leaves(value), nested(value)
    return chain(found, *map(_seq_uses, inside)) if inside else found


def all_vars(expr: Any) -> list[rx.Var]:
    """Every relax variable that is bound or used, in order, each once."""
    found: dict[rx.Var, None] = dict.fromkeys(bound_vars(expr))
    found.update(dict.fromkeys(n for n in uses(expr) if isinstance(n, rx.Var)))
    return list(found)


def bound_vars(expr: Any) -> list[rx.Var]:
    """Variables that are parameters or bound by a binding (branches and local functions too)."""
    found: dict[rx.Var, None] = {}
    _collect_bound(expr, found)
    return list(found)


def _collect_bound(expr: Any, found: dict[rx.Var, None]) -> None:
    if isinstance(expr, rx.Function):
        found.update(dict.fromkeys(expr.params))
    for binding in bindings_of(expr):
        if isinstance(binding.value, rx.Function):
            found.update(dict.fromkeys(binding.value.params))
        found.setdefault(binding.var)


def free_vars(expr: Any) -> list[rx.Var]:
    """Variables that are used but not bound inside."""
    bound = set(bound_vars(expr))
    return [v for v in all_vars(expr) if v not in bound]


def all_global_vars(expr: Any) -> list[GlobalVar]:
    """GlobalVars that are mentioned, in order, each once."""
    return list(dict.fromkeys(n for n in uses(expr) if isinstance(n, GlobalVar)))


called_global_vars = all_global_vars


def defined_symbolic_vars(func: rx.Function) -> list[PrimVar]:
    """Symbolic variables that parameters or match_casts define."""
    found: dict[PrimVar, None] = {}
    for param in func.params:
        found.update(dict.fromkeys(definable_vars(param.struct_info)))
    for binding in bindings_of(func):
        if isinstance(binding, rx.MatchCast):
            found.update(dict.fromkeys(definable_vars(binding.struct_info)))
    return list(found)


def free_symbolic_vars(func: rx.Function) -> list[PrimVar]:
    """Symbolic variables that are mentioned but defined nowhere in the function."""
    found: dict[PrimVar, None] = {}
    for param in func.params:
        found.update(dict.fromkeys(symbolic_vars(param.struct_info)))
    for binding in bindings_of(func):
        found.update(dict.fromkeys(symbolic_vars(binding.var.struct_info)))
        shapes = (n for n in leaves(binding.value) if isinstance(n, rx.ShapeExpr))
        found.update(dict.fromkeys(v for s in shapes for v in symbolic_vars(s)))
    defined = set(defined_symbolic_vars(func))
    return [v for v in found if v not in defined]


def get_var2val(func: rx.Function) -> dict[rx.Var, Any]:
    """What each variable is bound to."""
    return {b.var: b.value for b in bindings_of(func)}


def name_to_binding(func: rx.Function) -> dict[str, list[rx.Binding]]:
    """The bindings by the name of their variable."""
    found: dict[str, list[rx.Binding]] = {}
    for binding in bindings_of(func):
        found.setdefault(binding.var.name_hint, []).append(binding)
    return found


def udchain(expr: Any) -> dict[rx.Var, tuple[rx.Var, ...]]:
    """For each variable of a function or dataflow block, the variables computed from it directly.

    Uses by the result of the function have no variable; `use_counts` counts them.
    """
    users: dict[rx.Var, dict[rx.Var, None]] = {}
    bindings = bindings_of(expr) if isinstance(expr, rx.Function | rx.SeqExpr) else expr.bindings
    if isinstance(expr, rx.Function):
        users.update({p: {} for p in expr.params})
    for binding in bindings:
        users.setdefault(binding.var, {})
        for n in value_uses(binding.value):
            if isinstance(n, rx.Var):
                users.setdefault(n, {}).setdefault(binding.var)
    return {var: tuple(by) for var, by in users.items()}


def use_counts(expr: Any) -> dict[rx.Var, int]:
    """How often each variable is used: as an argument, in a tuple, as the result."""
    return {n: count for n, count in Counter(uses(expr)).items() if isinstance(n, rx.Var)}


def post_order_visit(expr: Any, visit: Callable[[Any], None]) -> None:
    """Call `visit` on every expression of a function or value, parts before the whole."""
    for binding in bindings_of(expr):
        _visit(binding.value, visit)
    body = expr.body if isinstance(expr, rx.Function) else expr
    _visit(body.body if isinstance(body, rx.SeqExpr) else body, visit)
    if isinstance(expr, rx.Function):
        visit(expr)


def _visit(value: Any, visit: Callable[[Any], None]) -> None:
    if isinstance(value, rx.Call):
        for part in (value.op, *value.args):
            _visit(part, visit)
    elif isinstance(value, rx.Tuple):
        for part in value.fields:
            _visit(part, visit)
    elif isinstance(value, rx.TupleGetItem):
        _visit(value.tuple_value, visit)
    visit(value)


def topological_functions(mod: IRModule) -> list[GlobalVar]:
    """The graph functions of a module, callees before callers where there is no recursion."""
    done: dict[GlobalVar, None] = {}
    for key in mod:
        _reach(mod, key, done, set())
    return [k for k in done if isinstance(mod.functions[k], rx.Function)]


def _reach(
    mod: IRModule, key: GlobalVar, done: dict[GlobalVar, None], doing: set[GlobalVar]
) -> None:
    if key in done or key in doing:
        return
    doing.add(key)
    func = mod.functions.get(key)
    for callee in all_global_vars(func) if isinstance(func, rx.Function) else ():
        if callee in mod.functions:
            _reach(mod, callee, done, doing)
    done[key] = None


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """Groups of graph functions that call each other in a circle (or themselves)."""
    calls = {
        key: [g for g in all_global_vars(f) if g in mod.functions]
        for key, f in mod.of_kind(rx.Function).items()
    }
    reach = {key: reached(inner, lambda k: calls.get(k, ())) for key, inner in calls.items()}
    groups: dict[frozenset[GlobalVar], list[GlobalVar]] = {}
    for key, below in reach.items():
        if key in below:
            circle = frozenset(k for k in below if key in reach.get(k, ()))
            groups.setdefault(circle, [k for k in calls if k in circle])
    return list(groups.values())


def reached(starts: Iterable[Any], following: Callable[[Any], Iterable[Any]]) -> set[Any]:
    """`starts`, and all that `following` leads to from them, step by step."""
    found: set[Any] = set()
    stack = list(starts)
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            stack.extend(following(one))
    return found


def result_of(func: rx.Function) -> Any:
    """The expression that a function returns."""
    return func.body.body if isinstance(func.body, rx.SeqExpr) else func.body
