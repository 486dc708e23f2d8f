"""The expressions of T that are no plain intrinsic: `T.min`, `T.Cast`, `T.Ramp`, `T.call_extern` …

All build the node as written, without folding; outside of a program they give expressions too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, StringImm
from mlcnb.script import build
from mlcnb.script.dialect import known_key
from mlcnb.script.frames import NewVar, Sliced, VectorStore, meta_var
from mlcnb.script.intrinsics import ITER_TYPES, TYPED, TYPED_LAST
from mlcnb.script.operators import BITS
from mlcnb.script.ranges import make_range
from mlcnb.script.tir.layouts import IndexMapWord
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.stmt import CommReducer, IterVar


def _kind(name: Any) -> Any:
    return dtype(str(getattr(name, "dtype", name)))


def select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    """condition ? true_value : false_value, evaluating both."""
    a, b = build.matched(true_value, false_value)
    return e.Select(build.as_expr(condition), a, b)


def if_then_else(cond: Any, t: Any, f: Any, dtype: Any = None) -> PrimExpr:
    """cond ? t : f, evaluating only the one that is chosen; `dtype` follows from t and f."""
    a, b = build.matched(t, f)
    return e.Call(a.dtype, "tir.if_then_else", (build.as_expr(cond), a, b))


def cast_to(dtype: Any, value: Any) -> PrimExpr:
    """`T.Cast("float32", x)`: a Cast, even of a constant."""
    return e.Cast(_kind(dtype), build.as_expr(value))


def cast(value: Any, dtype: Any) -> PrimExpr:
    """`T.cast(x, "float32")`; of a constant, the constant of that dtype."""
    return p.cast(_kind(dtype), build.as_expr(value))


def ramp(base: Any, stride: Any, lanes: int) -> PrimExpr:
    """The vector base, base + stride, … of `lanes` lanes."""
    base, stride = build.matched(base, stride)
    return e.Ramp(base, stride, _lanes(lanes))


def broadcast(value: Any, lanes: int) -> PrimExpr:
    """`lanes` copies of a value."""
    return e.Broadcast(build.as_expr(value), _lanes(lanes))


def _lanes(lanes: Any) -> Any:
    if e.vscale_factor(lanes):
        return lanes
    count = p.as_int(lanes)
    if count is None or count < 1:
        raise MLCError("a vector has a constant number of lanes")
    return count


def masked_load(dtype: Any, buffer: Buffer, *indices_and_mask: Any) -> PrimExpr:
    """A load of a vector; lanes where the mask is False are not read: a word of 0.27."""
    *at, mask = indices_and_mask
    made = BufferLoad(buffer, Sliced(buffer, tuple(at)).indices(), build.as_expr(mask))
    if made.dtype != _kind(dtype):
        raise MLCError(f"T.masked_load: {dtype} is said, {made.dtype} is loaded")
    return made


def masked_store(buffer: Buffer, value: Any, *indices_and_mask: Any) -> VectorStore:
    """A store of a vector; lanes where the mask is False are not written: a word of 0.27."""
    *at, mask = indices_and_mask
    return VectorStore(buffer, tuple(at), value, mask)


def shuffle(vectors: Sequence[Any], indices: Sequence[Any]) -> PrimExpr:
    """The lanes `indices` of the concatenated vectors."""
    if not (vectors and indices):
        raise MLCError("T.Shuffle takes at least one vector and one index")
    return e.Shuffle(tuple(map(build.as_expr, vectors)), tuple(map(build.as_expr, indices)))


def logical_not(a: Any) -> PrimExpr:
    """a does not hold."""
    return e.Not(build.as_expr(a))


def _fold(kind: type, empty: bool) -> Callable[..., PrimExpr]:
    def build_all(*conditions: Any) -> PrimExpr:
        exprs = [build.as_expr(c) for c in conditions] or [p.const(empty)]
        result = exprs[0]
        for one in exprs[1:]:
            result = kind(result, one)
        return result

    return build_all


def ceildiv(a: Any, b: Any) -> PrimExpr:
    """a / b rounding towards plus infinity, for b > 0."""
    return p.ceildiv(build.as_expr(a), b)


def absolute(x: Any) -> PrimExpr:
    """|x|"""
    from mlcnb.tir import op

    return op.abs(x)


def _dtype_first(name: str, args: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The arguments of a call that says its dtype, in front or as `dtype=`."""
    if dtype is None and not args:
        raise MLCError(f"T.{name} says the dtype of its result first")
    if name in TYPED_LAST and isinstance(args[-1], str):
        args = (args[-1], *args[:-1])
    return args if dtype is None else (dtype, *args)


def _typed(name: str) -> Callable[..., PrimExpr]:
    def build_call(*args: Any, dtype: Any = None) -> PrimExpr:
        kind, *given = _dtype_first(name, args, dtype)
        return e.Call(_kind(kind), f"tir.{name}", tuple(map(build.as_expr, given)))

    build_call.__name__ = name
    return build_call


def call_intrin(*args: Any, dtype: Any = None) -> PrimExpr:
    """Any intrinsic by its full name: `T.call_intrin("float32", "tir.exp", x)`.

    The dtype stands first, or behind as `dtype=` in older text.
    """
    kind, *given = _dtype_first("call_intrin", args, dtype)
    if not given:
        raise MLCError("T.call_intrin names the intrinsic behind the dtype")
    op, *given = given
    return e.Call(_kind(kind), known_key(str(op)), tuple(map(build.as_expr, given)))


def call(dtype: Any, op: Any, args: Sequence[Any]) -> PrimExpr:
    """`T.Call("int32", cls.f, [x])`: a call of a function of the module that returns a scalar."""
    name = op if isinstance(op, str | e.GlobalVar) else str(op)
    return e.Call(_kind(dtype), name, tuple(map(build.as_expr, args)))


def address_of(obj: Any, dtype: Any = "handle") -> PrimExpr:
    """The address of an element, or of a buffer's first element; a handle in any case."""
    if isinstance(obj, Buffer):
        obj = BufferLoad(obj, tuple(p.const(0, extent.dtype) for extent in obj.shape))
    return e.Call(_kind("handle"), "tir.address_of", (build.as_expr(obj),))


def type_annotation(dtype: Any) -> PrimExpr:
    """A dtype as an argument."""
    return e.Call(_kind(dtype), "tir.type_annotation", ())


def llvm_lookup_intrinsic_id(name: str) -> PrimExpr:
    """What names an intrinsic of LLVM in a call: its name."""
    return StringImm(name)


def ret(value: Any, dtype: Any = None) -> PrimExpr:
    """End the function with `value` as its result."""
    value = build.as_expr(value)
    return e.Call(value.dtype, "tir.ret", (value,))


def range_(begin: Any, end: Any) -> e.Range:
    """The integers from begin up to end."""
    return make_range(begin, end)


def iter_var(var: e.Var, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    """An axis: a variable, its range, what it does."""
    return IterVar(dom, var, ITER_TYPES[iter_type], thread_tag)


def static_assert(condition: Any, message: str = "") -> None:
    """Stop the parser unless a Python value is true.

    Raises:
        MLCError: it is not.
    """
    if isinstance(condition, PrimExpr) and not isinstance(condition, e.IntImm):
        raise MLCError(
            "T.static_assert takes a Python value, this is known when the program runs",
            hint='assert condition, "message"',
        )
    if not condition:
        raise MLCError(message or "T.static_assert does not hold")


def var(dtype: Any, is_size_var: bool = False) -> NewVar:
    """`n = T.var("int32")`: as `n = T.int32()`."""
    return NewVar(_kind(dtype), is_size_var)


def target(config: Any, host: Any = None) -> Any:
    """A compilation target, as the value of an attribute."""
    from mlcnb.target import Target

    return Target(config, host)


def min_value(dtype: Any) -> PrimExpr:
    """The smallest finite number of a dtype."""
    return p.min_value(_kind(dtype))


def max_value(dtype: Any) -> PrimExpr:
    """The largest finite number of a dtype."""
    return p.max_value(_kind(dtype))


def infinity(dtype: Any) -> PrimExpr:
    """Plus infinity of a float dtype."""
    return p.infinity(_kind(dtype))


class _LetWord:
    """`T.Let(body, where={x: value})`: x is known in the body only."""

    def __call__(self, body: PrimExpr, where: dict[e.Var, Any]) -> PrimExpr:
        """`body` with variables standing for values."""
        for var, value in where.items():
            body = e.Let(var, build.as_expr(value), body)
        return body

    def read(self, evaluator: Any, node: ast.Call) -> PrimExpr:
        """Reads the values, then the body with their names."""
        where = [k.value for k in node.keywords if k.arg == "where"] + node.args[1:]
        if len(node.args) < 1 or len(where) != 1 or not isinstance(where[0], ast.Dict):
            raise evaluator.error(node, "T.Let needs a body and where={name: value}")
        bound: dict[e.Var, Any] = {}
        with evaluator.scope.inner():
            for key, value in zip(where[0].keys, where[0].values, strict=True):
                if not isinstance(key, ast.Name):
                    raise evaluator.error(key or node, "where= binds names")
                found = evaluator.expr(value)
                bound[e.Var(key.id, found.dtype)] = found
                evaluator.scope.define(key.id, list(bound)[-1])
            return self(evaluator.expr(node.args[0]), bound)


class _CommReducerWord:
    """`T.comm_reducer(lambda x, y: x + y, [T.float32(0.0)])`"""

    def __call__(self, combiner: Callable, identity: Sequence[Any]) -> CommReducer:
        """The reducer of a Python function."""
        many = len(identity) > 1
        names = [f"{n}{i if many else ''}" for n in "xy" for i in range(len(identity))]
        return self.named(combiner, identity, names)

    def named(
        self, combiner: Callable, identity: Sequence[Any], names: Sequence[str]
    ) -> CommReducer:
        """The reducer of a Python function, its operands by their names: all lhs, then all rhs."""
        starts = tuple(map(build.as_expr, identity))
        kinds = (*starts, *starts)
        operands = [e.Var(n, s.dtype) for n, s in zip(names, kinds, strict=True)]
        lhs, rhs = tuple(operands[: len(starts)]), tuple(operands[len(starts) :])
        made = combiner(*lhs, *rhs)
        result = made if isinstance(made, tuple) else (made,)
        return CommReducer(lhs, rhs, tuple(map(build.as_expr, result)), starts)

    def read(self, evaluator: Any, node: ast.Call) -> CommReducer:
        """Reads the lambda as the program it is."""
        if len(node.args) != 2 or not isinstance(node.args[0], ast.Lambda):
            raise evaluator.error(node, "T.comm_reducer needs a lambda and a list of identities")
        starts = [evaluator.as_expr(v, node) for v in evaluator.value(node.args[1])]
        names = [a.arg for a in node.args[0].args.args]
        if len(names) != 2 * len(starts):
            raise evaluator.error(
                node.args[0], f"{len(starts)} identities need {2 * len(starts)} names"
            )
        body = node.args[0].body

        def combine(*variables: e.Var) -> Any:
            with evaluator.scope.inner():
                for name, var in zip(names, variables, strict=True):
                    evaluator.scope.define(name, var)
                return evaluator.value(body)

        with evaluator.blame(node):
            return self.named(combine, starts, names)


_NODES = {
    "Add": e.Add, "Sub": e.Sub, "Mul": e.Mul, "Div": e.Div, "Mod": e.Mod, "FloorDiv": e.FloorDiv,
    "FloorMod": e.FloorMod, "Min": e.Min, "Max": e.Max, "EQ": e.EQ, "NE": e.NE, "LT": e.LT,
    "LE": e.LE, "GT": e.GT, "GE": e.GE, "min": e.Min, "max": e.Max, "truncdiv": e.Div,
    "truncmod": e.Mod, "floordiv": e.FloorDiv, "floormod": e.FloorMod, "div": e.Div,
    "indexdiv": e.FloorDiv, "indexmod": e.FloorMod,
}  # fmt: skip

#: words that are called as their functions are
_BY_NAME = (
    if_then_else, cast, ramp, broadcast, masked_load, masked_store, ceildiv, call_intrin,
    static_assert, var, address_of, type_annotation, llvm_lookup_intrinsic_id, ret, iter_var,
    meta_var, target, min_value, max_value, infinity,
)  # fmt: skip
EXPRS: dict[str, Any] = {
    **{name: build.binary(kind) for name, kind in _NODES.items()},
    **{name: build.OPERATORS[kind] for name, kind in BITS.items()},
    "And": _fold(e.And, True),
    "Or": _fold(e.Or, False),
    "all": _fold(e.And, True),
    "any": _fold(e.Or, False),
    "Not": logical_not,
    "Select": select,
    "Cast": cast_to,
    "Ramp": ramp,
    "Broadcast": broadcast,
    "Shuffle": shuffle,
    "Let": _LetWord(),
    "abs": absolute,
    "Call": call,
    **{name: _typed(name) for name in sorted(TYPED - {"type_annotation"})},
    **{word.__name__: word for word in _BY_NAME},
    "Range": range_,
    "IterVar": iter_var,
    "comm_reducer": _CommReducerWord(),
    "index_map": IndexMapWord(),
    "StringImm": StringImm,
}
