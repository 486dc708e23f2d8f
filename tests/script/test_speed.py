"""Text is quick enough to be looked at after every step: its work grows with the program only.

Work is counted in calls of Python functions, which no other program on the machine can change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

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


def calls_of(work: Callable[[], object]) -> int:
    """How many calls, of Python functions and of built-in ones, some work makes."""
    count = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def calls_a_binding(work: Callable[[Any], object], programs: Callable[[int], Any]) -> float:
    """Calls that each further binding costs; refuses work that grows faster than the program."""
    work(programs(10))  # what is made once per process
    given = [programs(n) for n in (100, 200, 400)]
    small, middle, large = (calls_of(lambda x=x: work(x)) for x in given)
    assert (large - middle) / 2 <= 1.05 * (middle - small)
    return (large - middle) / 200


def test_printing_a_binding() -> None:
    assert calls_a_binding(script, module_of) < 1000


def test_parsing_a_binding() -> None:
    assert calls_a_binding(parse, lambda n: script(module_of(n))) < 1500
