"""DataflowBlockRewrite: each edit of a block, whole functions after it."""

from __future__ import annotations

from typing import Any

import pytest

from mlcnb import relax
from mlcnb.core.errors import ArgumentError
from mlcnb.ir import IRModule, assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed, name_to_binding
from mlcnb.script import ir as I
from mlcnb.script import relax as R


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.tanh(x)
            dead = R.add(a, b)
            deader = R.sin(dead)
            c = R.add(a, x)
            R.output(c)
        return c


def edited() -> tuple[Any, Any, relax.DataflowBlockRewrite]:
    func = Chain["main"]
    of = {name: found[0].var for name, found in name_to_binding(func).items()}
    return func, of, relax.DataflowBlockRewrite(func.body.blocks[0], func)


def test_a_binding_is_added() -> None:
    func, of, rewrite = edited()
    rewrite.add(R.add(R.exp(of["a"]), of["c"]), "more", is_dfvar=True)
    rewrite.add(of["a"])
    names = [b.var.name_hint for b in rewrite.mutated_dfb().bindings]
    assert names[:5] == ["a", "b", "dead", "deader", "c"] and names[6] == "more"
    kinds = [type(b.var).__name__ for b in rewrite.mutated_dfb().bindings[5:]]
    assert kinds == ["DataflowVar", "DataflowVar", "Var"]
    assert rewrite.mutated_root_fn().body.blocks[0] is rewrite.mutated_dfb()
    assert len(func.body.blocks[0].bindings) == 5
    after = rewrite.mutate_irmodule(Chain)
    assert after["main"] is rewrite.mutated_root_fn() and Chain["main"] is func
    assert_well_formed(after)


def test_uses_are_replaced_and_what_is_unused_goes() -> None:
    _, of, rewrite = edited()
    rewrite.replace_all_uses(of["a"], of["b"])
    with pytest.raises(ArgumentError, match="dead is used"):
        rewrite.remove_unused(of["dead"])
    rewrite.remove_unused(of["deader"])
    rewrite.remove_unused(of["dead"])
    rewrite.remove_unused(of["a"])

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            b = R.tanh(x)
            c = R.add(b, x)
            R.output(c)
        return c

    assert_structural_equal(rewrite.mutated_root_fn(), main)


def test_all_that_is_unused_goes_at_once() -> None:
    _, _, rewrite = edited()
    rewrite.remove_all_unused()

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            c = R.add(a, x)
            R.output(c)
        return c

    assert_structural_equal(rewrite.mutated_root_fn(), main)


def test_a_block_without_bindings_goes() -> None:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        return x

    rewrite = relax.DataflowBlockRewrite(main.body.blocks[0], main)
    rewrite.remove_all_unused()
    assert not rewrite.mutated_root_fn().body.blocks and not rewrite.mutated_dfb().bindings
    rewrite.add(R.exp(main.params[0]), "again")
    assert_structural_equal(rewrite.mutated_root_fn(), main)


def test_what_cannot_be_is_refused() -> None:
    func, of, rewrite = edited()
    other = relax.Var("other", R.Tensor((4,), "float32"))
    with pytest.raises(ArgumentError, match="the block does not bind other"):
        rewrite.remove_unused(other)
    rewrite.remove_unused(other, allow_undef=True)
    assert rewrite.mutated_root_fn() is func
    with pytest.raises(ArgumentError, match="c is seen outside of the block, a is not"):
        rewrite.replace_all_uses(of["c"], of["a"])
    with pytest.raises(ArgumentError, match="no dataflow block of the function"):
        relax.DataflowBlockRewrite(relax.DataflowBlock(()), func)
    with pytest.raises(ArgumentError, match="does not hold the function"):
        rewrite.mutate_irmodule(IRModule())


def test_the_shape_of_a_tensor() -> None:
    x = relax.Var("x", R.Tensor((4, 5), "float32"))
    assert [int(d) for d in relax.get_shape_of(x).values] == [4, 5]
    with pytest.raises(ArgumentError, match="its shape is not known"):
        relax.get_shape_of(relax.Var("x", R.Tensor("float32", ndim=2)))
