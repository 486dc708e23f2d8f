"""Passes on dataflow blocks."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.relax.expr import DataflowBlock, VarBinding
from mlcnb.relax.transform import dataflowblock_pass
from mlcnb.script import relax as R
from tests.relax.harness import as_module, check_pass


@R.function
def before(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        lv = R.exp(x)
        gv = R.nn.relu(x)
        R.output(gv)
    y = R.exp(gv)
    return y


@R.function
def after(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        gv = R.nn.relu(x)
        R.output(gv)
    y = R.exp(gv)
    return y


def test_each_block_by_itself() -> None:
    @dataflowblock_pass(opt_level=1)
    def only_outputs(block, mod, ctx):
        """Keep what is seen outside."""
        kept = tuple(b for b in block.bindings if not b.var.name_hint.startswith("lv"))
        return block if len(kept) == len(block.bindings) else DataflowBlock(kept)

    assert only_outputs.info.opt_level == 1
    check_pass(only_outputs, before, after)


def test_a_class_with_options() -> None:
    @dataflowblock_pass
    class Rename:
        def __init__(self, suffix: str) -> None:
            self.suffix = suffix

        def transform_dataflowblock(self, block, mod, ctx):
            made = [replace(b.var, name_hint=b.var.name_hint + self.suffix) for b in block.bindings]
            assert all(isinstance(b, VarBinding) for b in block.bindings)
            assert len(made) == len(block.bindings)
            return block

    made = Rename("_x")
    assert repr(made) == "Rename('_x')"
    mod = as_module(before)
    assert made(mod) is mod


def test_what_is_no_block_is_refused() -> None:
    @dataflowblock_pass
    def broken(block, mod, ctx):
        return None

    with pytest.raises(PassError, match="broken returned NoneType in place of a DataflowBlock"):
        broken(as_module(before))
