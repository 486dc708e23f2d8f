"""einsum: a sum of products, written as letters for the dimensions.

"bij,bjk->bik"     out[b, i, k] = sum over j of a[b, i, j] * b[b, j, k]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mlcnb import te
from mlcnb.core.errors import TypeInferError
from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import cast
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
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensors, make_call, operator

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

    def flops(self, operands: Any) -> Any:
        """One multiplication for each operand but one, and one addition, for each combination."""
        if any(o.dims is None for o in operands):
            return None
        plan = self.plan([o.ndim for o in operands])
        sizes = self.sizes(plan, [o.dims for o in operands])
        return tidy(product(sizes.values()) * len(operands))


def _axis_name(letter: str) -> str:
    return f"d{letter}" if letter in REST else letter


@onnx("Einsum", since=12)
def onnx_einsum(n: OnnxNode, *inputs: Expr) -> Expr:
    """einsum"""
    return make_call(Einsum, list(inputs), subscripts=n.require("equation"))
