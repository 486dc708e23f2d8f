"""Text is quick enough to be looked at after every step: 500 bindings in well under a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from mlcnb.core.node import FrozenDict
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.script import parse, script
from mlcnb.script import relax as R


def module_of(count: int) -> IRModule:
    info = R.Tensor((1, 64, 56, 56), "float32")
    var = x = rx.Var("x", info)
    bindings = []
    for _ in range(count):
        call = R.nn.max_pool2d(var, pool_size=(3, 3), padding=(1, 1))
        var = rx.DataflowVar("lv", info)
        bindings.append(rx.VarBinding(var, call))
    last = rx.Var("gv", info)
    bindings.append(rx.VarBinding(last, var))
    body = rx.SeqExpr((rx.DataflowBlock(tuple(bindings)),), last)
    func = rx.Function((x,), body, info, attrs=FrozenDict(global_symbol="main"))
    return IRModule.make({"main": func})


def best_of(times: int, work: Callable[[], object]) -> float:
    """The shortest of several runs: other programs only ever make one longer."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def test_printing_and_parsing_500_bindings() -> None:
    mod = module_of(500)
    text = script(mod)
    assert best_of(5, lambda: script(mod)) < 0.3
    assert best_of(5, lambda: parse(text)) < 1.5
