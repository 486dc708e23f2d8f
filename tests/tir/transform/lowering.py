"""What the tests of lowering share: a pass run alone, and numbers that must not change."""

from __future__ import annotations

import random
from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import numpy as np

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core import display
from mlcnb.core.errors import ScheduleError
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.transform import Pass
from mlcnb.tir import PrimFunc
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform.lower import STEPS, lower
from tests.tir.schedule import random_steps


def inputs(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Random arguments, open sizes 5, 6, …; the last one, the output, starts as NaN or -1."""
    rng = np.random.default_rng(seed)
    args, sizes = [], {}
    for buffer in func.buffers:
        shape = [
            x if (x := as_int(d)) is not None else sizes.setdefault(d, 5 + len(sizes))
            for d in buffer.shape
        ]
        kind = buffer.dtype.numpy
        if buffer.dtype.is_float:
            args.append(rng.standard_normal(shape).astype(kind))
        else:
            args.append(rng.integers(0, 8, shape).astype(kind))
    args[-1][...] = np.nan if args[-1].dtype.kind == "f" else -1
    return args


def interpreted(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """What the reference interpreter makes of random arguments."""
    args = inputs(func, seed)
    run_prim_func(func, args)
    return args


def same_bits(before: PrimFunc, after: PrimFunc) -> None:
    """Both compute exactly the same."""
    for x, y in zip(interpreted(before), interpreted(after), strict=True):
        np.testing.assert_array_equal(y, x)


def statements(func: PrimFunc) -> str:
    """The statements of a function as text, without its head."""
    lines = display.text(func).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("def ")) + 1
    skipped = ("T.func_attr(", '# with T.block("root")')
    return dedent("\n".join(x for x in lines[start:] if not x.strip().startswith(skipped)))


def run_pass(pass_: Pass, func: PrimFunc) -> PrimFunc:
    """One function after one pass; the very same where the pass changes nothing."""
    mod = mlc.IRModule({"main": func})
    after = pass_(mod)
    assert (after is mod) == (after["main"] is func)
    return after["main"]


def check(pass_: Pass, func: PrimFunc, expected: str) -> PrimFunc:
    """The pass makes of the function what is expected, and it computes the same."""
    after = run_pass(pass_, func)
    assert statements(after) == dedent(expected).strip()
    same_bits(func, after)
    return after


def before_pass(func: PrimFunc, name: str) -> PrimFunc:
    """The function as the standard lowering hands it to a pass."""
    for step, transform in STEPS:
        if step == name:
            return func
        func = transform(func)
    raise KeyError(name)


def random_schedule(name: str, seed: int, steps: int = 8) -> PrimFunc:
    """One of the programs of `random_steps` under random steps, the same ones for a seed."""
    rng = random.Random(f"{name} {seed}")

    def choose(items: Sequence[Any]) -> Any:
        if not items:
            raise ScheduleError("there is nothing to choose from")
        return rng.choice(list(items))

    names = sorted(set(random_steps.STEPS) - {"bind"})
    sch = Schedule(random_steps.PROGRAMS[name]())
    for _ in range(steps):
        try:
            random_steps.STEPS[rng.choice(names)](sch, choose)
        except ScheduleError:
            continue
    return random_steps.scheduled(sch)


def check_lowering(given: PrimFunc, func: PrimFunc) -> None:
    """A schedule `func` of `given`: interpreted after every pass, and compiled, it is the same.

    Passes keep every bit; the compiler contracts multiplications and additions, and a schedule may
    reorder a reduction: within 1e-5.
    """
    expected, found = interpreted(given), interpreted(func)
    assert not any(np.isnan(x).any() for x in expected)
    close(expected, found, "the schedule")
    last = func
    for name, lowered, _ in lower(func, steps=True):
        if lowered is not last:
            for x, y in zip(found, interpreted(lowered), strict=True):
                np.testing.assert_array_equal(y, x, err_msg=f"after {name}")
        last = lowered
    compiled = inputs(func)
    mlc.compile(func, target="llvm")(*compiled)
    close(expected, compiled, "compiled with LLVM")


def close(expected: Sequence[np.ndarray], found: Sequence[np.ndarray], what: str) -> None:
    """Equal within 1e-5."""
    for x, y in zip(expected, found, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-5, err_msg=what)
