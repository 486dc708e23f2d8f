"""einsum: a sum of products, written as letters for the dimensions.

"bij,bjk->bik"     out[b, i, k] = sum over j of a[b, i, j] * b[b, j, k]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mlcnb import te
from mlcnb.core.errors import TypeInferError
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.ir.rules import rule
from mlcnb.op._accumulate import accumulator, rounded, wide
from mlcnb.op._dims import (
    broadcast_index,
    product,
    refuse,
    tell,
    tensor,
    tidy,
    together,
    want_same_dtype,
)
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Expr, Tuple
from mlcnb.relax.operator import OpDecl, Tensors, make_call, operator

#: an open size, when the order of products is chosen
UNKNOWN = 64
#: rows, columns and terms of a sum from which on a sum of products is one of matrices
MATRIX = 8
#: what stands for the dimensions of an ellipsis, from the right
REST = "0123456789"


class Plan(NamedTuple):
    """The letters of each operand and of the result; digits are the dimensions of an ellipsis."""

    operands: tuple[str, ...]
    result: str

    @property
    def summed(self) -> str:
        """Letters that the result does not have, in order of first use."""
        return "".join(dict.fromkeys(c for t in self.operands for c in t if c not in self.result))


@operator("relax.einsum")
class Einsum(OpDecl):
    """The sum over all letters that are not in the result of the product of the operands.

    "..." stands for dimensions that broadcast. Without "->", the result has the letters that occur
    once, in alphabetical order. Float16 and bfloat16 are summed in float32.
    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.einsum.html
    """

    operands: Tensors
    subscripts: str

    def plan(self, ranks: Sequence[int]) -> Plan:
        """The subscripts, read for operands of these ranks."""
        text = self.subscripts.replace(" ", "")
        left, arrow, right = text.partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks):
            refuse(self, f"{self.subscripts!r} names {len(terms)} operands, not {len(ranks)}")
        spelled = tuple(self.spelled(t, r) for t, r in zip(terms, ranks, strict=True))
        rest = max((sum(c in REST for c in t) for t in spelled), default=0)
        digits = REST[:rest][::-1]
        if arrow:
            result = right.replace("...", digits)
        else:
            letters = "".join(spelled)
            once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in REST)
            result = digits + "".join(once)
        known = set("".join(spelled))
        bad = [c for c in result if c not in known or not (c.isalpha() or c in REST)]
        if bad or len(set(result)) != len(result):
            refuse(self, f"the result of {self.subscripts!r} does not follow from the operands")
        return Plan(spelled, result)

    def spelled(self, term: str, rank: int) -> str:
        """A term with its ellipsis written out."""
        letters = term.replace("...", "")
        rest = rank - len(letters)
        fits = rest == 0 or ("..." in term and 0 <= rest <= len(REST))
        if not fits or not letters.isalpha() and letters:
            refuse(self, f"{term!r} in {self.subscripts!r} does not fit {rank} dimensions")
        return term.replace("...", REST[:rest][::-1])

    def sizes(self, plan: Plan, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """How large the dimension of each letter is."""
        found: dict[str, Any] = {}
        for term, shape in zip(plan.operands, shapes, strict=True):
            for letter, extent in zip(term, shape, strict=True):
                have = found.get(letter, 1)
                found[letter] = together(have, extent)
                if found[letter] is None:
                    refuse(self, f"{letter!r} in {self.subscripts!r} has several sizes")
        return found

    def infer(self, operands: Any) -> Any:
        """The dimensions of the result's letters."""
        want_same_dtype(self, **{f"operands[{i}]": o for i, o in enumerate(operands)})
        kind = next((o.dtype for o in operands if o.dtype), None)
        if any(o.ndim == -1 for o in operands):
            return tensor(None, kind)
        plan = self.plan([o.ndim for o in operands])
        if any(o.dims is None for o in operands):
            return tensor(None, kind, len(plan.result))
        try:
            sizes = self.sizes(plan, [o.dims for o in operands])
        except TypeInferError:  # it says which letter, and is a ValueError too
            raise
        except ValueError:
            refuse(self, f"{self.subscripts!r} does not fit {', '.join(map(tell, operands))}")
        return tensor([sizes[c] for c in plan.result], kind)

    def numpy(self, operands: Any) -> Any:
        """numpy.einsum"""
        kind = operands[0].dtype
        found = np.einsum(self.subscripts, *(wide(o) for o in operands))
        return np.asarray(found).astype(kind, copy=False)

    def compute(self, operands: Any) -> Any:
        """One reduction over the letters that the result lacks."""
        plan = self.plan([len(o.shape) for o in operands])
        sizes = self.sizes(plan, [o.shape for o in operands])
        kind = accumulator(operands[0].dtype)
        axes = {c: te.reduce_axis((0, sizes[c]), name=_axis_name(c)) for c in plan.summed}

        def element(*index: Any) -> Any:
            at = {**dict(zip(plan.result, index, strict=True)), **axes}
            value = None
            for o, term in zip(operands, plan.operands, strict=True):
                place = broadcast_index([at[c] for c in term], o.shape, [sizes[c] for c in term])
                part = cast(kind, o(*place))
                value = part if value is None else value * part
            return te.sum(value, axis=list(axes.values())) if axes else value

        shape = [sizes[c] for c in plan.result]
        names = [_axis_name(c) for c in plan.result]
        found = te.compute(shape, element, name="einsum", varargs_names=names)
        return rounded(found, dtype(operands[0].dtype), "einsum_cast")

    @rule("SimplifyOps", "einsum")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """Of three operands or more, two at a time, in the order that multiplies least; of two
        whose result ends with a letter of both, products of matrices.
        """
        given = value_of(call.args[0])
        operands = list(given.fields) if isinstance(given, Tuple) else []
        infos: list[Any] = [x.struct_info for x in operands]
        if len(operands) < 2 or any(getattr(i, "dims", None) is None for i in infos):
            return None
        if str(infos[0].dtype) not in ("float32", "float64") or "..." in self.subscripts:
            return None  # of half precision each product would be rounded
        terms, result = self.plan([len(i.dims) for i in infos])
        if len(operands) == 2:
            return _product_of_matrices(operands, terms, result)
        shapes = [[as_int(d) or UNKNOWN for d in i.dims] for i in infos]
        left = list(zip(operands, terms, strict=True))
        for pair in _order(terms, result, shapes):
            parts = [left.pop(place) for place in sorted(pair, reverse=True)][::-1]
            rest = result + "".join(term for _, term in left)
            kept = "".join(dict.fromkeys(c for _, term in parts for c in term if c in rest))
            kept = kept if left else result
            names = ",".join(term for _, term in parts)
            made = make_call(Einsum, [x for x, _ in parts], subscripts=f"{names}->{kept}")
            left.append((made, kept))
        return left[0][0] if len(left) == 1 else None

    def flops(self, operands: Any) -> Any:
        """One multiplication for each operand but one, and one addition, for each combination."""
        if any(o.dims is None for o in operands):
            return None
        plan = self.plan([o.ndim for o in operands])
        sizes = self.sizes(plan, [o.dims for o in operands])
        return tidy(product(sizes.values()) * len(operands))


def _order(
    terms: Sequence[str], result: str, shapes: Sequence[Sequence[int]]
) -> list[tuple[int, ...]]:
    """Which operands come together at each step, by `numpy.einsum_path`; what a step makes is put
    behind the others. Nothing where one step is best.
    """
    arrays = [np.broadcast_to(np.zeros(()), shape) for shape in shapes]
    try:
        path, _ = np.einsum_path(f"{','.join(terms)}->{result}", *arrays, optimize="greedy")
    except ValueError:  # a dimension of 1 beside a larger one
        return []
    return [tuple(step) for step in path[1:]]


def _product_of_matrices(operands: Sequence[Any], terms: Sequence[str], result: str) -> Expr | None:
    """The permutations, product and permutation that are "blhn,bshn->blsh"; None where loops over
    what both have, the result and one of them, or both alone, are short, or where one of the others
    comes last in the result: the loops are a product of matrices as they are then.
    """
    sizes: dict[str, Any] = {}
    for x, term in zip(operands, terms, strict=True):
        for letter, extent in zip(term, map(as_int, x.struct_info.dims), strict=True):
            if extent is None or sizes.setdefault(letter, extent) != extent:
                return None
    a, b = terms
    letters = "".join(sizes)
    if len(set(a)) < len(a) or len(set(b)) < len(b) or result[-1:] not in (set(a) & set(b)):
        return None
    both = [c for c in letters if c in a and c in b and c in result]
    rows, columns = ([c for c in letters if c in x and c not in y] for x, y in ((a, b), (b, a)))
    summed = [c for c in letters if c not in result]
    counts = [math.prod(sizes[c] for c in part) for part in (both, rows, columns, summed)]
    if min(counts[1:]) < MATRIX or not set(summed) <= set(a) & set(b):
        return None

    def turned(x: Any, term: str, order: Sequence[str], shape: Sequence[int]) -> Any:
        return op.reshape(op.permute_dims(x, axes=[term.index(c) for c in order]), shape)

    many, m, n, k = counts
    left = turned(operands[0], a, [*both, *rows, *summed], (many, m, k))
    right = turned(operands[1], b, [*both, *summed, *columns], (many, k, n))
    order = [*both, *rows, *columns]
    found = op.reshape(op.matmul(left, right), [sizes[c] for c in order])
    return op.permute_dims(found, axes=[order.index(c) for c in result])


def _axis_name(letter: str) -> str:
    return f"d{letter}" if letter in REST else letter


@onnx("Einsum", since=12)
def onnx_einsum(n: OnnxNode, *inputs: Expr) -> Expr:
    """einsum"""
    return make_call(Einsum, list(inputs), subscripts=n.require("equation"))
