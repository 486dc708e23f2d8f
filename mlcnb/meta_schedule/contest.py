"""Contestants in a process of their own: `python -m mlcnb.meta_schedule.contest` (see `child`).

    question    {"do": "build", "mod": program, "target"}
    answer      {"seconds": of the compilation}

    question    {"do": "race", "mods": [the one to be compared with, …], "target", "threads",
                 "args": arrays or None, "seed", "seconds", "least",
                 "timed": numbers of those that are timed, by default all}
    answer      {"times": [[seconds of each call] of each], "wrong": [None or what differs]}

Programs are JSON (`mlcnb.ir.save_json`), already scheduled. All that may go wrong with a program
goes wrong here: who asks ends this process, and loses one candidate. Objects that one process has
built are in the cache on disk for the next.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mlcnb.codegen.llvm.worker import answer_all
from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.driver import compile
from mlcnb.ir.json import load_json
from mlcnb.ir.prim_ops import as_int
from mlcnb.runtime.threads import get_num_threads, set_num_threads
from mlcnb.runtime.turns import clock_for, interleaved
from mlcnb.tir.analysis.variables import unknown_parameter
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore

#: executables that are kept: the one that all others are compared with, and some more
KEPT = 8
#: largest difference between results, as a part of the largest element: roundings differ by order
TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "float16": 3e-2, "bfloat16": 1e-1}

_known: dict[str, tuple[list[Any], list[Any]]] = {}


def build(asked: dict[str, Any]) -> dict[str, Any]:
    """Compile a program, so that its object is on disk."""
    start = time.perf_counter()
    _executable(asked["mod"], asked["target"])
    return {"seconds": time.perf_counter() - start}


def race(asked: dict[str, Any]) -> dict[str, Any]:
    """Time contestants in turns on the same arguments; those whose results differ are not timed."""
    made = [_executable(text, asked["target"]) for text in asked["mods"]]
    set_num_threads(asked["threads"])
    clock = clock_for(get_num_threads(), True)[1]
    args, expected = _compared_with(made[0], asked)
    wrong: list[str | None] = [None]
    first: dict[str, float] = {}
    for number, ex in enumerate(made[1:], 1):
        own = [np.array(a) for a in args]
        start = clock()
        ex(*own)
        first[str(number)] = clock() - start
        wrong.append(_difference(own, expected))
    timed, own = asked.get("timed", range(len(made))), [np.array(a) for a in args]
    right = {str(n): partial(made[n], *own) for n in timed if wrong[n] is None}
    known = {n: taken for n, taken in first.items() if n in right}
    times = interleaved(right, asked["seconds"], asked.get("least", 3), clock, known)
    return {"times": [times.get(str(n), []) for n in range(len(made))], "wrong": wrong}


def _compared_with(ex: Any, asked: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Arguments, and what they are after a call of the first contestant: kept for the next race."""
    given = asked.get("args")
    key = json.dumps([asked["mods"][0], asked["target"], asked.get("seed", 0), given])
    if key not in _known:
        func = ex.mod[ex.entry]
        args = _given(given) if given else arguments(func, asked.get("seed", 0))
        expected = [np.array(a) for a in args]
        ex(*expected)
        _known.clear()
        _known[key] = args, expected
    return _known[key]


def arguments(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Random arguments of a function: normal numbers; integers that are indices lie in bounds.

    Raises:
        MLCError: a size is not known.
    """
    unknown = unknown_parameter(func)
    if unknown is not None:
        raise MLCError(
            f"{unknown} has no known size: what should it be timed with?",
            hint="tune(func, args=[…]) with arrays (and numbers) for all parameters",
        )
    rng = np.random.default_rng(seed)
    bounds = _bounds(func)
    found = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [as_int(d) or 0 for d in buffer.shape]
        kind = buffer.dtype.numpy
        if buffer.dtype.is_float:
            found.append(rng.standard_normal(shape).astype(kind))
        else:
            most = 2 if buffer.dtype.is_bool else min(bounds.get(buffer.data.name, 100), 100_000)
            found.append(rng.integers(0, max(1, most), shape).astype(kind))
    return found


def _bounds(func: PrimFunc) -> dict[str, int]:
    """Name of a buffer of integers -> below what its elements are, where they are indices."""
    found: dict[str, int] = {}
    for access in walk(func.body):
        if not isinstance(access, BufferLoad | BufferStore):
            continue
        for index, size in zip(access.indices, access.buffer.shape, strict=True):
            most = as_int(size)
            for inner in walk(index):
                if isinstance(inner, BufferLoad) and most is not None:
                    name = inner.buffer.data.name
                    found[name] = min(found.get(name, most), most)
    return found


@lru_cache(KEPT)
def _executable(text: str, target: str) -> Any:
    """The compiled program; bounds were looked at before it was scheduled."""
    return compile(load_json(text), target, schedule=None, bounds="trust")


def _given(described: list[dict[str, Any]]) -> list[Any]:
    """Arrays as `described` writes them."""
    made: list[Any] = []
    for one in described:
        if "number" in one:
            made.append(one["number"])
        else:
            data = base64.b64decode(one["bytes"])
            made.append(np.frombuffer(data, one["dtype"]).reshape(one["shape"]).copy())
    return made


def _difference(own: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """In words how far results are from what is expected; None where that is rounding."""
    for mine, theirs in zip(own, expected, strict=True):
        if not isinstance(mine, np.ndarray):
            continue
        limit = TOLERANCE.get(str(mine.dtype))
        a, b = mine.astype("float64"), theirs.astype("float64")
        if limit is None:
            if not np.array_equal(mine, theirs):
                return f"{int((mine != theirs).sum())} elements differ"
            continue
        with np.errstate(invalid="ignore"):
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b))) or 1.0
        worst = float(np.max(apart, initial=0.0)) / scale
        if not worst <= limit:
            return f"results differ by {worst:.1e} of the largest element"
    return None


_JOBS = {"build": build, "race": race}


def answer(question: bytes) -> bytes:
    """What came of a job, or what was wrong with it."""
    asked = json.loads(question)
    try:
        said = _JOBS[asked["do"]](asked)
    except MLCError as error:
        said = {"error": f"{type(error).__name__}: {error.message}"}
    except (MemoryError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    return json.dumps(said).encode()


def main() -> None:
    """Answer until there are no more questions."""
    answer_all(answer)


if __name__ == "__main__":
    main()
