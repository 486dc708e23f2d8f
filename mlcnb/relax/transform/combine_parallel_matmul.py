"""CombineParallelMatmul: products with one left operand become one product, cut apart after it.

a = R.matmul(x, w1)                  w = R.concat((w1, w2), axis=1)
b = R.matmul(x, w2)        ->        ab = R.split(R.matmul(x, w), [64], axis=1)
                                     a = ab[0];  b = ab[1]

Where every product gets a bias of one dimension, the biases are joined too; where then every sum
goes through the same activation, so is that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcnb.core.node import replace
from mlcnb.core.text import plural
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.binary import Add
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dim, same_dims
from mlcnb.relax.analysis.variables import bound_vars, uses, value_uses
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.operator import called
from mlcnb.relax.transform.outline import ordered

#: f(left operand, right operands, biases, what each variable is bound to) -> combine these?
Check = Callable[[rx.Var, Sequence[rx.Var], Sequence[rx.Var], dict[rx.Var, Any]], bool]


class CombineParallelMatmul(FunctionPass):
    """Multiply once where several products share their left operand.

    Products that agree in dtype and in the rank and batch dimensions of their right operands; at
    most one of a symbolic number of columns. Others stay apart, nothing is refused.

    check: asked before each combination, as TVM's; None combines all.
    """

    check: Check | None = None

    def transform_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> rx.Function:
        """Every dataflow block of the function's body."""
        names = Names(v.name_hint for v in bound_vars(func))
        emitter = Emitter(mod.functions, names, dataflow=True)
        combiner = _Combiner(func, emitter, self.check)
        blocks = tuple(combiner.block(b) for b in func.body.blocks)
        if not combiner.found:
            return func
        ctx.note(f"{plural(combiner.found, 'product')} became part of others")
        return replace(func, body=rx.SeqExpr(blocks, func.body.body))


@dataclass
class _Branch:
    """A product and what follows it: `bindings` are the product, its bias, its activation."""

    bindings: list[rx.VarBinding]
    right: Any
    bias: Any = None
    activation: rx.Call | None = None
    count: int = field(default=1)

    @property
    def columns(self) -> Any:
        """The last dimension of the right operand."""
        return self.right.struct_info.dims[-1]


class _Combiner:
    def __init__(self, func: rx.Function, emitter: Emitter, check: Check | None) -> None:
        self.emitter, self.check = emitter, check
        self.users: dict[Any, int] = {}
        for used in uses(func):
            self.users[used] = self.users.get(used, 0) + 1
        self.found = 0

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """A dataflow block with its products combined; any other as it is."""
        if not block_is_dataflow(block):
            return block
        bindings = list(block.bindings)
        for group in _groups(bindings):
            bindings = self.combined(bindings, group)
        return with_bindings(block, tuple(bindings))

    def combined(self, bindings: list[rx.Binding], group: list[rx.VarBinding]) -> list[rx.Binding]:
        """The bindings with one group as one product; as they are where that cannot be."""
        branches = _apart([self.branch(bindings, b) for b in group])
        if len(branches) < 2 or not _independent(bindings, branches):
            return bindings
        biases = [b.bias for b in branches]
        values = {b.var: b.value for b in bindings}
        depth = _common_depth(branches)
        left: Any = group[0].value.args[0]
        given = [b for b in biases if b is not None] if depth > 1 else []
        if self.check is not None and not self.check(
            left, [b.right for b in branches], given, values
        ):
            return bindings
        self.found += len(branches)
        made, items = self.product(left, branches, depth)
        return list(ordered(_with(bindings, branches, depth, made, items)))

    def branch(self, bindings: list[rx.Binding], product: rx.VarBinding) -> _Branch:
        """The product with the bias and the activation that alone use it."""
        found = _Branch([product], product.value.args[1])
        follower = self.only_user(bindings, product)
        if follower is not None and _bias_of(follower.value, product, found) is not None:
            found.bias = _bias_of(follower.value, product, found)
            found.bindings.append(follower)
            follower = self.only_user(bindings, follower)
        if follower is not None and called(follower.value).elementwise:
            if len(follower.value.args) == 1:
                found.activation = follower.value
                found.bindings.append(follower)
        return found

    def only_user(self, bindings: list[rx.Binding], of: rx.VarBinding) -> rx.VarBinding | None:
        """The one binding that uses a local variable, or None."""
        if not isinstance(of.var, rx.DataflowVar) or self.users.get(of.var) != 1:
            return None
        for binding in bindings:
            if isinstance(binding, rx.VarBinding) and of.var in value_uses(binding.value):
                return binding
        return None

    def product(
        self, left: Any, branches: list[_Branch], depth: int
    ) -> tuple[list[rx.Binding], list[rx.TupleGetItem]]:
        """Bindings of the joined product, and the part of each branch."""
        first: Any = branches[0].bindings[0].value
        info: Any = first.struct_info
        axis = branches[0].right.struct_info.ndim - 1
        with self.emitter.scope(True) as made:
            weights = self.emitter.emit(op.concat(tuple(b.right for b in branches), axis=axis))
            result = self.emitter.emit(op.matmul(left, weights, out_dtype=str(info.dtype)))
            if depth > 1 and branches[0].bias is not None:
                bias = self.emitter.emit(op.concat(tuple(b.bias for b in branches), axis=0))
                result = self.emitter.emit(op.add(result, bias))
            if depth > 1 and branches[0].activation is not None and depth == _full(branches[0]):
                activation = branches[0].activation
                result = self.emitter.emit(rx.Call(activation.op, (result,), activation.attrs))
            parts = self.emitter.emit(
                op.split(result, indices_or_sections=_cuts(branches), axis=info.ndim - 1)
            )
        return made, [rx.TupleGetItem(parts, i) for i in range(len(branches))]


def _groups(bindings: list[rx.Binding]) -> list[list[rx.VarBinding]]:
    """Products by left operand, dtype and rank of the right one; all its batch dimensions agree."""
    found: dict[Any, list[rx.VarBinding]] = {}
    for binding in bindings:
        value = binding.value
        if isinstance(binding, rx.VarBinding) and _is_product(value):
            left, right = value.args
            key = (left, _kind(right), _kind(value), right.struct_info.ndim)
            found.setdefault(key, []).append(binding)
    return [g for g in found.values() if len(g) > 1 and _same_batches(g)]


def _kind(value: Any) -> str:
    return str(value.struct_info.dtype)


def _is_product(value: Any) -> bool:
    if called(value) is not Matmul or not isinstance(value.args[0], rx.Var):
        return False
    infos = [a.struct_info for a in value.args]
    known = all(i.dims is not None and i.ndim >= 1 for i in infos)
    return known and infos[1].ndim >= 2 and _kind(value) != "None"


def _same_batches(group: list[rx.VarBinding]) -> bool:
    shapes = [b.value.args[1].struct_info.dims[:-1] for b in group]
    return all(same_dims(s, shapes[0]) for s in shapes)


def _apart(branches: list[_Branch]) -> list[_Branch]:
    """Those of known width, then at most one that is not known: a split needs its places."""
    known = [b for b in branches if as_int(b.columns) is not None]
    return [*known, *[b for b in branches if as_int(b.columns) is None][:1]]


def _cuts(branches: list[_Branch]) -> tuple[int, ...]:
    total, found = 0, []
    for branch in branches[:-1]:
        total += int(as_int(branch.columns) or 0)
        found.append(total)
    return tuple(found)


def _bias_of(value: Any, product: rx.VarBinding, branch: _Branch) -> Any:
    """The other operand of `product + bias`, where it has a number for each column."""
    if called(value) is not Add or value.args[0] is not product.var:
        return None
    bias: Any = value.args[1]
    dims = getattr(bias.struct_info, "dims", None)
    fits = dims is not None and len(dims) == 1 and same_dim(dims[0], branch.columns)
    return bias if fits and str(bias.struct_info.dtype) == _kind(product.var) else None


def _full(branch: _Branch) -> int:
    """How many bindings of the branch are known: 1 to 3."""
    return len(branch.bindings)


def _common_depth(branches: list[_Branch]) -> int:
    """How many bindings of every branch become part of the joined product."""
    with_bias = [b.bias is not None for b in branches]
    if any(with_bias) and not all(with_bias):
        return 1
    depth = 2 if all(with_bias) else 1
    first = branches[0].activation
    same = first is not None and all(
        b.activation is not None
        and b.activation.op.name == first.op.name
        and structural_equal(b.activation.attrs, first.attrs)
        for b in branches
    )
    return depth + 1 if same else depth


def _independent(bindings: list[rx.Binding], branches: list[_Branch]) -> bool:
    """No operand of a branch follows from the result of one."""
    tainted = {b.bindings[0].var for b in branches}
    for binding in bindings:
        if any(v in tainted for v in value_uses(binding.value)):
            tainted.add(binding.var)
    return not any(b.right in tainted or b.bias in tainted for b in branches)


def _with(
    bindings: list[rx.Binding],
    branches: list[_Branch],
    depth: int,
    made: list[rx.Binding],
    items: list[rx.TupleGetItem],
) -> list[rx.Binding]:
    """The bindings with the branches' as parts of what was made, put where the first was."""
    gone = {b.var for branch in branches for b in branch.bindings[: depth - 1]}
    pairs = zip(branches, items, strict=True)
    parts = {branch.bindings[depth - 1].var: item for branch, item in pairs}
    starts = {b.bindings[0].var for b in branches}
    found: list[rx.Binding] = []
    for binding in bindings:
        if binding.var in starts and made:
            found.extend(made)
            made = []
        if binding.var in parts:
            found.append(rx.VarBinding(binding.var, parts[binding.var]))
        elif binding.var not in gone:
            found.append(binding)
    return found
