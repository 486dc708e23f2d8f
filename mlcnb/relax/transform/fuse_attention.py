"""FuseAttention: attention written out becomes one operator, which keeps its scores in the cache.

s = R.matmul(q, k)              q (b, n, i, h), k (b, n, h, j)
s1 = R.add(R.divide(s, R.const(5.66)), mask)                        ->      R.nn.attention(…)
w = R.nn.softmax(s1, axis=-1)
o = R.matmul(w, v)              v (b, n, j, d)

nn.attention has heads behind positions, as they lie before models turn them: the permutations
around it cancel those of the model (SimplifyOps), and each head is read where it was computed.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.transform import FunctionPass
from mlcnb.relax.expr import Call, Function, Op, Var
from mlcnb.relax.operator import attrs_of, declaration, make_call
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings
from mlcnb.relax.transform.written_out import Reader, dims_of, order_of, same_shape

#: from (b, n, i, h) to (b, i, n, h), and back
HEADS = (0, 2, 1, 3)
#: from (b, n, h, j) to (b, j, n, h)
KEYS = (0, 3, 1, 2)


class FuseAttention(FunctionPass):
    """Put nn.attention where two products with a softmax between them stand."""

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Function:
        """The function with its attentions named."""
        reader = _Reader(mod.functions)
        made = reader.rewrite(func)
        ctx.note(f"{reader.found} attentions")
        return func if made is func else remove_unused_bindings(made, mod.functions)


class _Reader(Reader):
    def visit_call(self, call: Call, var: Var) -> Any:
        """The second product."""
        if not isinstance(call.op, Op) or call.op.name != "relax.matmul":
            return None
        weights, value = call.args
        scores = self.softmaxed(weights)
        if scores is None or not _same_batches(weights, value):
            return None
        scores, bias = self.biased(scores)
        scores, scale = self.scaled(scores)
        product = self.once(scores, "matmul")
        if product is None or not _same_batches(*product.args):
            return None
        self.found += 1
        query, key = product.args
        parts = [self.turned(query, HEADS), self.turned(key, KEYS), self.turned(value, HEADS)]
        made = make_call(declaration("relax.nn.attention"), *parts, bias, scale=scale)
        return _permuted(self.emit(made), HEADS)

    def once(self, x: Any, name: str) -> Any:
        """The call of that operator whose result nobody else uses."""
        call = self.call_of(x, name)
        return call if call is not None and self.use_count(x) == 1 else None

    def softmaxed(self, x: Any) -> Any:
        """What `x` is the softmax of, along the last of four dimensions."""
        call = self.once(x, "nn.softmax")
        if call is None or len(dims_of(x) or ()) != 4:
            return None
        return call.args[0] if attrs_of(call).axis in (-1, 3) else None  # type: ignore[attr-defined]

    def biased(self, x: Any) -> tuple[Any, Any]:
        """The scores, and what is added to them: None, or what broadcasts to their shape."""
        call = self.once(x, "add")
        if call is None:
            return x, None
        for scores, bias in (call.args, call.args[::-1]):
            found = self.scaled(scores)[0]
            if same_shape(scores, x) and dims_of(bias) and self.call_of(found, "matmul"):
                return scores, bias
        return x, None

    def scaled(self, x: Any) -> tuple[Any, float]:
        """The scores, and the number that they are multiplied by."""
        for name in ("multiply", "divide"):
            found = self.with_scalar(x, name) if self.once(x, name) else None
            if found is not None and found[1]:
                return found[0], found[1] if name == "multiply" else 1 / found[1]
        return x, 1.0

    def turned(self, x: Any, order: tuple[int, ...]) -> Any:
        """`x` permuted; where it is a permutation itself, one is made of the two."""
        call = self.call_of(x, "permute_dims")
        if call is None:
            return self.emit(_permuted(x, order))
        first = order_of(call)
        both = tuple(first[i] for i in order)
        return call.args[0] if both == (0, 1, 2, 3) else self.emit(_permuted(call.args[0], both))


def _same_batches(a: Any, b: Any) -> bool:
    """True for two float32 tensors of four known dimensions with the same first two."""
    one, two = dims_of(a), dims_of(b)
    return one is not None and two is not None and len(one) == 4 == len(two) and one[:2] == two[:2]


def _permuted(x: Any, order: tuple[int, ...]) -> Call:
    return make_call(declaration("relax.permute_dims"), x, axes=order)
