"""Mutator: what hooks return takes its place, and everything else stays the same object."""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.relax import op
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call, Tuple, TupleGetItem, Var, const
from mlcnb.relax.mutator import Mutator, Renamer
from mlcnb.relax.transform import CanonicalizeBindings, SimplifyOps
from mlcnb.script import relax as R
from mlcnb.script import tir as T


@R.function
def main(x: R.Tensor(("n", 2), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
    ("n", 2), "float32"
):
    n = T.int64()
    with R.dataflow():
        lv = R.exp(x)
        lv1 = R.nn.relu(lv)
        gv = R.add(lv1, lv)
        R.output(gv)
    if c:
        y = R.exp(gv)
        z = R.add(y, gv)
    else:
        z = R.nn.relu(gv)
    return z


class Replace(Mutator):
    """Puts `make(call)` in place of every call of one operator."""

    def __init__(self, name: str, make: Any) -> None:
        super().__init__()
        self.name, self.make = name, make

    def visit_call(self, call: Call, var: Var) -> Any:
        return self.make(self, call) if call.op.name == self.name else None


def names(func) -> list[str]:
    return [b.var.name_hint for b in bindings_of(func)]


def test_nothing_changes_nothing() -> None:
    assert Mutator().rewrite(main) is main
    assert Replace("relax.tanh", lambda m, c: c.args[0]).rewrite(main) is main


def test_a_leaf_takes_the_place_of_a_variable() -> None:
    made = Replace("relax.nn.relu", lambda m, c: c.args[0]).rewrite(main)

    @R.function
    def expected(x: R.Tensor(("n", 2), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
        ("n", 2), "float32"
    ):
        n = T.int64()
        with R.dataflow():
            lv = R.exp(x)
            gv = R.add(lv, lv)
            R.output(gv)
        if c:
            y = R.exp(gv)
            z = R.add(y, gv)
        else:
            z = gv
        return z

    assert_well_formed(made)
    assert "lv1" not in names(made)
    assert_structural_equal(made.body.blocks[0], expected.body.blocks[0], map_free_vars=True)
    first = made.body.blocks[0].bindings
    assert first[0] is main.body.blocks[0].bindings[0]
    assert first[1].value.args == (first[0].var, first[0].var)


def test_nested_calls_are_bound_before_with_the_span_of_what_they_replace() -> None:
    marked = replace(main.body.blocks[0].bindings[1].value, span=Span("onnx", "relu_7"))
    binding = replace(main.body.blocks[0].bindings[1], value=marked)
    block = main.body.blocks[0]
    blocks = (replace(block, bindings=(block.bindings[0], binding, block.bindings[2])),)
    body = replace(main.body, blocks=blocks + main.body.blocks[1:])
    func = replace(main, body=body)

    def maximum(m: Mutator, call: Call) -> Any:
        return op.maximum(op.add(call.args[0], const(0.0)), const(0.0))

    made = Replace("relax.nn.relu", maximum).rewrite(func)
    assert_well_formed(made)
    bindings = made.body.blocks[0].bindings
    assert [b.value.op.name for b in bindings] == [
        "relax.exp",
        "relax.add",
        "relax.maximum",
        "relax.add",
    ]
    assert bindings[1].value.span.name == bindings[2].value.span.name == "relu_7"
    assert bindings[2].var is binding.var and bindings[1].var.name_hint not in names(main)


def test_struct_info_flows_on_where_it_changes() -> None:
    class Half(Mutator):
        def visit_call(self, call: Call, var: Var) -> Any:
            first = call.op.name == "relax.exp" and call.args[0] is self.func.params[0]
            return op.exp(op.astype(call.args[0], "float16")) if first else None

    made = Half().rewrite(main)
    assert_well_formed(made)
    types = {b.var.name_hint: b.var.struct_info.dtype for b in bindings_of(made)}
    assert set(types.values()) == {"float16"}
    assert made.ret_struct_info.dtype == "float16"
    assert made.ret_struct_info.dims[0] is main.ret_struct_info.dims[0]


def test_an_output_keeps_its_name_for_a_local_value() -> None:
    made = Replace("relax.add", lambda m, c: c.args[0]).rewrite(main)
    assert_well_formed(made)
    gv = made.body.blocks[0].bindings[-1]
    assert gv.var.name_hint == "gv" and gv.value.name_hint == "lv1"


def test_hooks_see_values_and_uses() -> None:
    seen: list[tuple[str, int]] = []

    class Look(Mutator):
        def visit_call(self, call: Call, var: Var) -> Any:
            first = self.value_of(call.args[0])
            seen.append((getattr(getattr(first, "op", None), "name", "-"), self.use_count(var)))

    assert Look().rewrite(main) is main
    assert seen[:3] == [("-", 2), ("relax.exp", 1), ("relax.nn.relu", 3)]


def test_emitted_bindings_and_items_of_tuples() -> None:
    def pair(m: Mutator, call: Call) -> Any:
        both = m.emit(Tuple((call.args[0], op.exp(call.args[0]))), "both")
        return op.add(TupleGetItem(both, 0), TupleGetItem(both, 1))

    made = Replace("relax.nn.relu", pair).rewrite(main)
    assert_well_formed(made)
    assert {"both", "both1"} <= set(names(made))


def test_a_closed_dataflow_block_is_not_looked_into() -> None:
    @R.function
    def two_blocks(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            pair = (lv, lv)
            both = R.add(lv, x)
            R.output(pair, both)
        with R.dataflow():
            a = pair[0]
            b = R.multiply(a, both)
            R.output(b)
        return b

    seen: dict[str, str] = {}

    class Look(Mutator):
        def visit_item(self, item: TupleGetItem, var: Var) -> Any:
            whole = self.value_of(item.tuple_value)
            return whole.fields[item.index] if isinstance(whole, Tuple) else None

        def visit_call(self, call: Call, var: Var) -> Any:
            seen[var.name_hint] = type(self.value_of(call.args[-1])).__name__

    assert Look().rewrite(two_blocks) is two_blocks
    assert seen == {"lv": "Var", "both": "Var", "b": "Var"}
    for each in (SimplifyOps(), CanonicalizeBindings()):
        made = each(IRModule({"two_blocks": two_blocks}))
        assert_well_formed(made)
        assert_structural_equal(made["two_blocks"], two_blocks)


def test_renaming() -> None:
    lv = main.body.blocks[0].bindings[0].var
    new = type(lv)("renamed", lv.struct_info)
    made = Renamer({lv: new}).rewrite(main)
    assert_well_formed(made)
    assert "lv" not in names(made)
    assert_structural_equal(made, main)
