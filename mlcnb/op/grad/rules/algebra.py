"""Gradients of products that are told by letters or groups, and of equations."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op.grad.rules.registry import dims_of, fitted, known, name_of, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Tuple, TupleGetItem, Var
from mlcnb.relax.operator import attrs_of


@rule("outer")
def _outer(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, y = call.args
    return [op.matmul(grad, y), op.matmul(x, grad)]


@rule("grouped_matmul")
def _grouped_matmul(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The rows times the matrices turned; of each matrix, its rows turned times what comes back.

    Rows of other groups are 0 there, so the second product takes as many times longer as there
    are groups.
    """
    x, weights, groups = call.args
    of_x = op.grouped_matmul(grad, op.permute_dims(weights, axes=[0, 2, 1]), groups)
    count = known(dims_of(weights, call)[0], call)
    kind = str(groups.struct_info.dtype)
    numbers = op.reshape(op.arange(0, count, 1, dtype=kind), (count, 1))
    own = builder.emit(op.equal(op.expand_dims(groups, axis=[0]), numbers))
    own = op.expand_dims(op.astype(own, str(x.struct_info.dtype)), axis=[1])
    rows = builder.emit(own * op.permute_dims(x))
    return [of_x, op.matmul(rows, grad), None]


@rule("einsum")
def _einsum(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Of each operand what comes back times all others, summed over what it does not have; along
    what it has alone, all elements get the same.
    """
    infos = call.args[0].struct_info.fields
    operands = [builder.emit(TupleGetItem(call.args[0], i)) for i in range(len(infos))]
    dims = [dims_of(x, call) for x in operands]
    attrs: Any = attrs_of(call)
    plan = attrs.plan([len(d) for d in dims])
    sizes = attrs.sizes(plan, dims)
    # digits are the dimensions of an ellipsis: letters that are free stand for them
    spare = [c for c in map(chr, range(0x41, 0x7B)) if c.isalpha() and c not in attrs.subscripts]
    letters = dict(zip("0123456789", spare, strict=False))
    *terms, result = ("".join(letters.get(c, c) for c in t) for t in (*plan.operands, plan.result))
    sizes = {letters.get(c, c): size for c, size in sizes.items()}
    shares = []
    for number, (term, x) in enumerate(zip(terms, operands, strict=True)):
        if len(set(term)) != len(term):
            raise UnsupportedOpError(
                f"{name_of(call)}: {term!r}, which takes a diagonal, has no gradient",
                where=call,
                hint="take the diagonal with gather_nd first",
            )
        others = [i for i in range(len(terms)) if i != number]
        there = set(result).union(*(terms[i] for i in others))
        kept = "".join(c for c in term if c in there)
        given = ",".join([result, *(terms[i] for i in others)])
        made = builder.emit(op.einsum((grad, *(operands[i] for i in others)), f"{given}->{kept}"))
        whole = [sizes[c] for c in term]
        if kept != term:
            shape = [sizes[c] if c in kept else 1 for c in term]
            made = builder.emit(op.broadcast_to(op.reshape(made, shape), whole))
        shares.append(builder.emit(fitted(made, whole, x, call)))
    return [Tuple(tuple(shares))]


def _turned(x: Any) -> Any:
    ndim = x.struct_info.ndim
    return op.permute_dims(x, axes=[*range(ndim - 2), ndim - 1, ndim - 2])


@rule("linalg.solve")
def _solve(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    of_b = builder.emit(op.linalg.solve(_turned(call.args[0]), grad))
    return [-op.matmul(of_b, _turned(var)), of_b]


@rule("linalg.det")
def _det(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The determinant times the inverse, turned; a singular matrix has none."""
    return [_of_inverse(call, grad * var, builder)]


@rule("linalg.slogdet")
def _slogdet(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The inverse, turned; a sign gives nothing."""
    return [_of_inverse(call, builder.emit(TupleGetItem(grad, 1)), builder)]


def _of_inverse(call: Call, each: Any, builder: Any) -> Any:
    """A number for each matrix, times its inverse, turned."""
    x = call.args[0]
    dims = dims_of(x, call)
    ones = op.broadcast_to(op.eye(dims[-1], dtype=str(x.struct_info.dtype)), dims)
    inverse = op.linalg.solve(_turned(x), builder.emit(ones))
    return op.expand_dims(each, axis=[-1, -2]) * inverse
