"""AdjustMatmulOrder: products of three matrices in the order that needs fewer multiplications.

ab = R.matmul(a, b)                    xa = R.matmul(x, a)
gv = R.matmul(x, ab)         ->        gv = R.matmul(xa, b)

What can be computed before the model runs (both factors are weights) is left as one product.
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith.analyzer import Analyzer
from mlcnb.ir.prim_ops import const as prim_const
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import symbolic_vars
from mlcnb.relax.expr import Call
from mlcnb.relax.operator import attrs_of
from mlcnb.relax.transform.written_out import CallPass, Reader, order_of


class AdjustMatmulOrder(CallPass, says="products in another order", quiet=True, prunes=True):
    """Multiply three matrices in the order that is provably cheaper; keep it where none is.

    The shapes may be symbolic, the orders are compared for all sizes. A product whose `out_dtype`
    is not the dtype of its operands stays, for the other order would round elsewhere; so do shapes
    that are not known. No product is refused.
    """


class _Orderer(Reader, of=AdjustMatmulOrder):
    @AdjustMatmulOrder.rewrites(Matmul)
    def associate(self, call: Any, _attrs: Any) -> Any:
        """(a b) c or a (b c), whichever has fewer multiplications for every size; also where a
        transposition stands between.
        """
        left, right = call.args
        for a, b, c, on_left in self.chains(left, right):
            pair = (a, b) if on_left else (b, c)
            if all(map(self.is_known, pair)) or not _associates(call, a, b, c):
                continue
            first, second = _costs(a, b, c)
            analyzer = _analyzer(first, second)
            if analyzer.can_prove(second < first if on_left else first < second):
                left_first = op.matmul(op.matmul(a, b), c)
                return op.matmul(a, op.matmul(b, c)) if on_left else left_first
        return None

    def chains(self, left: Any, right: Any) -> Any:
        """(a, b, c, whether a b is computed first), for a product on either side."""
        for pair in self.factors_of_side(left):
            yield (*pair, right, True)
        for pair in self.factors_of_side(right):
            yield (left, *pair, False)

    def factors_of_side(self, x: Any) -> list[tuple[Any, Any]]:
        """The two matrices whose product `x` is; of a transposed product they are transposed."""
        inner = self.product(x)
        if inner is not None:
            return [tuple(inner.args)]  # type: ignore[list-item]
        moved = self.call_of(x, PermuteDims)
        inner = None if moved is None else self.product(moved.args[0])
        if inner is None or any(a.struct_info.ndim != 2 for a in inner.args):
            return []
        if order_of(moved) != (1, 0):
            return []
        a, b = inner.args
        return [(_transposed(b), _transposed(a))]

    def product(self, x: Any) -> Any:
        call = self.call_of(x, Matmul)
        return call if call is not None and _keeps_dtype(call) else None


def _keeps_dtype(call: Any) -> bool:
    """Whether the product has its operands' dtype, known or not: nothing else is rounded to."""
    out = attrs_of(call).out_dtype  # type: ignore[attr-defined]
    return out is None or all(a.struct_info.dtype == out for a in call.args)


def _transposed(x: Any) -> Call:
    made = op.permute_dims(x)
    info = attrs_of(made).infer(x.struct_info)
    return Call(made.op, made.args, made.attrs, (), info)


def _associates(call: Call, a: Any, b: Any, c: Any) -> bool:
    """Whether both orders mean the same: shapes known; a vector only beside plain matrices."""
    infos = [x.struct_info for x in (a, b, c)]
    if any(i.dims is None for i in infos) or not _keeps_dtype(call) or infos[1].ndim < 2:
        return False
    vectors = infos[0].ndim == 1 or infos[2].ndim == 1
    return not vectors or all(i.ndim <= 2 for i in infos)


def _costs(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Multiplications of (a b) c and of a (b c), for one sample of a batch."""
    one = prim_const(1, "int64")
    dims = [x.struct_info.dims for x in (a, b, c)]
    m = dims[0][-2] if len(dims[0]) > 1 else one
    n, p = dims[1][-2:]
    q = dims[2][-1] if len(dims[2]) > 1 else one
    return m * n * p + m * p * q, n * p * q + m * n * q


def _analyzer(*costs: Any) -> Analyzer:
    """Sizes are not negative."""
    analyzer = Analyzer()
    analyzer.mark_nonnegative(*{v for cost in costs for v in symbolic_vars(cost)})
    return analyzer
