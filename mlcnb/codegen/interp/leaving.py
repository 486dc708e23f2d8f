"""Loops that `break` and `continue` leave: two exceptions, that the loop catches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlcnb.ir import expr as e

Run = Callable[[list], Any]
Steps = Callable[[list], Iterator[None]]


class Broken(Exception):
    """The innermost loop ends."""


class Continued(Exception):
    """The next round of the innermost loop."""


def raiser(x: e.Call) -> Run:
    """What `T.break_loop()` or `T.continue_loop()` does."""
    kind = Broken if x.op == "tir.break_loop" else Continued

    def leave(f: list) -> None:
        raise kind

    return leave


def rounds(steps: Steps, run: Run) -> Run:
    """Runs the body at each step, until it breaks."""

    def plain(f: list) -> None:
        for _ in steps(f):
            try:
                run(f)
            except Continued:
                continue
            except Broken:
                break

    return plain


def waiting_rounds(steps: Steps, run: Run) -> Run:
    """As `rounds`, for a body that waits at barriers."""

    def waiting(f: list) -> Iterator[None]:
        for _ in steps(f):
            try:
                yield from run(f)
            except Continued:
                continue
            except Broken:
                break

    return waiting
