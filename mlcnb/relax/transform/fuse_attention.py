"""FuseAttention: attention written out becomes one operator, which keeps its scores in the cache.

s = R.matmul(q, k)              q (b, n, i, h), k (b, n, h, j)
s1 = R.add(R.divide(s, R.const(5.66)), mask)                        ->      R.nn.attention(…)
w = R.nn.softmax(s1, axis=-1)
o = R.matmul(w, v)              v (b, n, j, d)

nn.attention has heads behind positions, as they lie before models turn them: the permutations
around it cancel those of the model, and each head is read where it was computed. Where the model
has none, every head is a sample with one head: reshapes, which cost nothing.
"""

from __future__ import annotations

from typing import Any

from mlcnb.op.binary import Add, Divide, Multiply
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.op.nn.softmax import Softmax
from mlcnb.relax import op
from mlcnb.relax.expr import Call
from mlcnb.relax.operator import OpDecl, attrs_of
from mlcnb.relax.transform.written_out import CallPass, Reader, dims_of, order_of, same_shape

#: from (b, n, i, h) to (b, i, n, h), and back
HEADS = (0, 2, 1, 3)
#: from (b, n, h, j) to (b, j, n, h)
KEYS = (0, 3, 1, 2)


class FuseAttention(CallPass, says="attentions", prunes=True):
    """Put nn.attention where two products with a softmax between them stand.

    Queries, keys and values of four dimensions (b, n, i, h), shapes known and maybe symbolic; masks
    are added. What departs from the formula stays, nothing is refused.
    """


class _Reader(Reader, of=FuseAttention):
    @FuseAttention.rewrites(Matmul)
    def attention(self, call: Any, _attrs: Any) -> Any:
        """The second product."""
        weights, value = call.args
        scores = self.softmaxed(weights)
        if scores is None or not _same_batches(weights, value):
            return None
        scores, bias = self.biased(scores)
        scores, scale = self.scaled(scores)
        product = self.once(scores, Matmul)
        if product is None or not _same_batches(*product.args):
            return None
        query, key = product.args
        if self.call_of(query, PermuteDims) is None and self.is_alone(bias):
            return self.of_single_heads(query, key, value, bias, scale)
        parts = [self.turned(query, HEADS), self.turned(key, KEYS), self.turned(value, HEADS)]
        made = op.nn.attention(*parts, bias, scale=scale)
        return op.permute_dims(self.emit(made), axes=HEADS)

    def is_alone(self, bias: Any) -> bool:
        """True if a bias, where there is one, is the same for all samples and heads."""
        return bias is None or all(d == 1 for d in (dims_of(bias) or [])[:-2])

    def of_single_heads(self, query: Any, key: Any, value: Any, bias: Any, scale: float) -> Call:
        """Attention over (b * n, i, 1, h)."""
        turned = self.turned(key, (0, 1, 3, 2))
        parts = []
        for x in (query, turned, value):
            b, n, length, dim = dims_of(x)  # type: ignore[misc]
            parts.append(self.emit(op.reshape(x, [b * n, length, 1, dim])))
        made = self.emit(op.nn.attention(*parts, bias, scale=scale))
        return op.reshape(made, dims_of(self.var))

    def once(self, x: Any, operator: type[OpDecl]) -> Any:
        """The call of that operator whose result nobody else uses."""
        call = self.call_of(x, operator)
        return call if call is not None and self.use_count(x) == 1 else None

    def softmaxed(self, x: Any) -> Any:
        """What `x` is the softmax of, along the last of four dimensions."""
        call = self.once(x, Softmax)
        if call is None or len(dims_of(x) or ()) != 4:
            return None
        return call.args[0] if attrs_of(call).axis in (-1, 3) else None  # type: ignore[attr-defined]

    def biased(self, x: Any) -> tuple[Any, Any]:
        """The scores, and what is added to them: None, or what broadcasts to their shape."""
        call = self.once(x, Add)
        if call is None:
            return x, None
        for scores, bias in (call.args, call.args[::-1]):
            found = self.scaled(scores)[0]
            known = dims_of(x) and dims_of(bias) and same_shape(scores, x)
            if known and self.call_of(found, Matmul):
                return scores, bias
        return x, None

    def scaled(self, x: Any) -> tuple[Any, float]:
        """The scores, and the number that they are multiplied by."""
        for operator in (Multiply, Divide):
            found = self.with_scalar(x, operator) if self.once(x, operator) else None
            if found is not None and found[1]:
                return found[0], found[1] if operator is Multiply else 1 / found[1]
        return x, 1.0

    def turned(self, x: Any, order: tuple[int, ...]) -> Any:
        """`x` permuted; where it is a permutation itself, one is made of the two."""
        call = self.call_of(x, PermuteDims)
        first = (0, 1, 2, 3) if call is None else order_of(call)
        source = x if call is None else call.args[0]
        both = tuple(first[i] for i in order)
        return source if both == (0, 1, 2, 3) else self.emit(op.permute_dims(source, axes=both))


def _same_batches(a: Any, b: Any) -> bool:
    """True for two float32 tensors of four known dimensions with the same first two."""
    one, two = dims_of(a), dims_of(b)
    return one is not None and two is not None and len(one) == 4 == len(two) and one[:2] == two[:2]
