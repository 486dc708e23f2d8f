"""PyTorch's own database of operators: its samples, one by one, through `mlc.from_torch`.

    python -m tests.frontend.opinfo                     run all in float32, print what is not right
    python -m tests.frontend.opinfo --only conv         operators with this in their names
    python -m tests.frontend.opinfo --dtype float16     in another dtype
    python -m tests.frontend.opinfo --samples 30        so many samples of each, drawn evenly
    python -m tests.frontend.opinfo --edges             NaN, infinities, zeros among the elements
    python -m tests.frontend.opinfo --open              the first dimensions open, at two more sizes

The tensors of a sample are inputs of a module, everything else is fixed in it. A case is right, or
raises a typed error (an `MLCError`); a wrong answer or any other exception is a bug. Each operator
runs in a process of its own, with a limit on its time. The database needs the package expecttest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.relax.frontend.shared.errors import SpellingError
from mlcnb.relax.frontend.torch.arrays import array_of

#: operators whose elements are whatever lay in memory
UNSET = "empty empty_like new_empty empty_strided new_empty_strided empty_permuted".split()
#: operators that may give the places of equal elements in any order: those are not compared
UNORDERED = "argsort sort topk kthvalue median mode".split()
#: what roundings are worth, relative and beside 0
PRECISION = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-7}
#: what `--edges` puts into floats
EDGES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 30.0, -30.0, 1e-5, 200.0, -200.0)
#: what a case can be
KINDS = ("right", "refused", "skipped", "wrong", "untyped", "slow", "lost")
BUGS = ("wrong", "untyped", "lost")


class Outcome(NamedTuple):
    """What came of one sample."""

    op: str
    sample: int
    kind: str
    why: str = ""
    seconds: float = 0.0


class Applied(torch.nn.Module):
    """An operator whose tensors are inputs, and whose other arguments are fixed."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.op, self.unordered = op.op, op.name in UNORDERED
        given = (sample.input, tuple(sample.args), dict(sample.kwargs))
        leaves, self.tree = pytree.tree_flatten(given)
        self.fixed = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.inputs = [leaves[i].detach() for i in self.places]

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        leaves = list(self.fixed)
        for place, x in zip(self.places, tensors, strict=True):
            leaves[place] = x
        first, args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        found = pytree.tree_leaves(self.op(first, *args, **kwargs))
        return tuple(x for x in found if isinstance(x, torch.Tensor))


class WrongError(Exception):
    """Two answers that are not the same."""


def name_of(op: Any) -> str:
    """An operator's name, with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def operators() -> list[Any]:
    """All operators, sorted by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted(op_db, key=name_of)


def wanted(op: Any, only: str, kind: str) -> bool:
    """Whether an operator is run: `only` is a part of its name, or all of it with a $ behind."""
    name = name_of(op)
    named = name == only[:-1] if only.endswith("$") else only in name
    return named and op.name not in UNSET and op.supports_dtype(getattr(torch, kind), "cpu")


def samples(op: Any, kind: str, count: int) -> list[tuple[int, Any]]:
    """So many (number, sample) of an operator, drawn evenly."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    drawn = op.sample_inputs("cpu", getattr(torch, kind), requires_grad=False)
    found = list(enumerate(itertools.islice(drawn, 400)))
    if len(found) <= count:
        return found
    return [found[i * len(found) // count] for i in range(count)]


def run(op: Any, sample: Any, way: str = "") -> str:
    """Run a sample and compare; "" where it is right, else why it was left out.

    way: "open" or "edges", as on the command line.

    Raises:
        WrongError: another answer than PyTorch's.
    """
    model = Applied(op, sample).eval()
    if way == "edges":
        model.inputs = [edged(x, i) for i, x in enumerate(model.inputs)]
    want = answers(model, model.inputs)
    if isinstance(want, str):
        return want
    if not want[0]:
        return "no tensor is returned"
    return opened(model) if way == "open" else closed(model, want)


def edged(x: Any, place: int) -> Any:
    """A tensor of floats with edges in it, others as they are."""
    if not x.is_floating_point() or x.layout != torch.strided:
        return x
    found = x.contiguous().clone()
    line = found.view(-1)
    spots = range(place % 3, len(line), 3)
    for i, spot in enumerate(spots):
        line[spot] = EDGES[(i + 5 * place) % len(EDGES)]
    return found


def answers(model: Any, inputs: Any) -> Any:
    """PyTorch's answers, and the inputs as they are after it; a string that says why there is
    nothing to compare with.
    """
    if any(x.layout != torch.strided for x in inputs):
        return "sparse"
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        given = [x.clone() for x in inputs]
        try:
            made = model(*given)
        except Exception as error:  # noqa: BLE001 (whatever PyTorch says: nothing to compare with)
            return f"PyTorch: {told(error)}"
        if any(x.layout != torch.strided for x in made):
            return "sparse"
        found.append(([x.clone() for x in made], given))
    if any(not torch.equal(bits(a), bits(b)) for a, b in zip(*(x for x, _ in found), strict=True)):
        return "random"
    return found[0]


def bits(x: Any) -> Any:
    """A tensor that compares as equal also where it is NaN."""
    return torch.view_as_real(x.resolve_conj()).nan_to_num() if x.is_complex() else x.nan_to_num()


def closed(model: Any, want: Any) -> str:
    """Compare at the sizes that were given."""
    mod = imported(model, None)
    if isinstance(mod, str):
        return mod
    arrays = [array_of(x, "input") for x in model.inputs]
    compare_or_better(model, model.inputs, mlc.compile(mod, "llvm")(*arrays), all_of(mod, want))
    return ""


def opened(model: Any) -> str:
    """Compare at two more sizes of the first dimensions, which are open."""
    sizes = {x.shape[0] for x in model.inputs if x.ndim and x.shape[0] > 1}
    if not sizes:
        return "no first dimension to open"
    auto = torch.export.Dim.AUTO
    dynamic = [{0: auto} if x.ndim and x.shape[0] > 1 else None for x in model.inputs]
    mod = imported(model, {"tensors": tuple(dynamic)})
    if isinstance(mod, str):
        return mod
    made, ran = mlc.compile(mod, "llvm"), False
    for more in (1, 4):
        inputs = [longer(x, more) for x in model.inputs]
        want = answers(model, inputs)
        if isinstance(want, str):
            continue
        arrays = [array_of(x, "input") for x in inputs]
        try:
            found = made(*arrays)
        except mlc.core.errors.RuntimeInputError:
            continue  # PyTorch fixed this size as it traced
        compare_or_better(model, inputs, found, all_of(mod, want))
        ran = True
    return "" if ran else "no other size fits"


def all_of(mod: Any, want: tuple[list[Any], list[Any]]) -> list[Any]:
    """The answers, and the inputs that the module says it changes, named tensors_0, tensors_1, …"""
    answered, inputs = want
    changed = mod["main"].attrs.get("mutated", ())
    return [*answered, *(inputs[int(name.rpartition("_")[2])] for name in changed)]


def longer(x: Any, more: int) -> Any:
    """A tensor whose first dimension goes on from its front."""
    if not x.ndim or x.shape[0] < 2:
        return x
    return x[torch.arange(x.shape[0] + more) % x.shape[0]]


def imported(model: Any, dynamic: Any) -> Any:
    """The module; a string that says why where it is PyTorch's export that refuses."""
    try:
        return mlc.from_torch(model, tuple(model.inputs), dynamic_shapes=dynamic)
    except MLCError:
        raise
    except Exception:
        try:
            torch.export.export(model, tuple(model.inputs), dynamic_shapes=dynamic)
        except Exception as error:  # noqa: BLE001 (it is PyTorch's)
            return f"torch.export: {told(error)}"
        raise


def compare_or_better(model: Any, inputs: Any, found: Any, want: Any) -> None:
    """As `compare`; in half precision also where what float64 makes of the inputs is met."""
    want = [None if x.dtype == torch.int64 and model.unordered else x for x in want]
    try:
        compare(found, want)
    except WrongError:
        halves = (torch.float16, torch.bfloat16)
        if model.unordered or not any(x.dtype in halves for x in inputs):
            raise
        exact = model(*(x.double() if x.dtype in halves else x.clone() for x in inputs))
        compare(found, [x.to(y.dtype) for x, y in zip(exact, want, strict=False)])


def compare(found: Any, want: Any) -> None:
    """Equal in number, shape, dtype and value; None in `want` is not compared."""
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(want):
        raise WrongError(f"{len(found)} answers in place of {len(want)}")
    for place, (a, b) in enumerate(zip(found, want, strict=True)):
        if b is None:
            continue
        _compare_one(np.asarray(a), array_of(b, "answer"), f"answer {place}: ")


def _compare_one(a: Any, b: Any, where: str) -> None:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise WrongError(f"{where}{a.dtype}{a.shape} in place of {b.dtype}{b.shape}")
    near = PRECISION.get(a.dtype.name)
    if near is None:
        is_same = np.array_equal(a, b)
    else:
        x, y = a.astype(np.float64), b.astype(np.float64)
        few = a.dtype.itemsize == 2  # what halves are summed of was rounded to halves, too
        most = max(1.0, np.max(np.abs(y), where=np.isfinite(y), initial=0.0)) if few else 1.0
        is_same = np.allclose(x, y, near, near * most, equal_nan=True)
    if not is_same:
        raise WrongError(f"{where}{_few(a)} in place of {_few(b)}")


def _few(x: Any) -> str:
    text = np.array2string(x.ravel()[:8], separator=",", max_line_width=200)
    return f"{text}{x.shape}"


def told(error: BaseException) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def outcome(op: Any, number: int, sample: Any, way: str = "") -> Outcome:
    """What comes of one sample."""
    start = time.perf_counter()
    try:
        why = run(op, sample, way)
        kind = "skipped" if why else "right"
    except WrongError as error:
        kind, why = "wrong", str(error)
    except SpellingError as error:
        kind, why = "untyped", told(error)
    except MLCError as error:
        kind, why = "refused", told(error)
    except Exception as error:  # noqa: BLE001 (anything untyped is a bug, to be shown with the rest)
        kind, why = "untyped", told(error)
    return Outcome(name_of(op), number, kind, why, round(time.perf_counter() - start, 2))


def _work(ops: list[Any], kind: str, count: int, way: str, send: Any) -> None:
    """Send (operator, sample), then what came of it, for all samples of operators."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with torch.no_grad(), np.errstate(all="ignore"):
        for op in ops:
            for number, sample in samples(op, kind, count):
                send.send((name_of(op), number))
                send.send(tuple(outcome(op, number, sample, way)))
    send.close()


def outcomes(ops: list[Any], kind: str, count: int, way: str, limit: float) -> Iterator[Outcome]:
    """What comes of the samples of operators, which run in a process of their own; a crash, or a
    sample beyond the limit, ends that, and another one goes on with the next operator.
    """
    fork, rest = multiprocessing.get_context("fork"), list(ops)
    while rest:
        receive, send = fork.Pipe(duplex=False)
        worker = fork.Process(target=_work, args=(rest, kind, count, way, send), daemon=True)
        worker.start()
        send.close()
        at: tuple[str, int] = (name_of(rest[0]), -1)
        try:
            while receive.poll(limit):
                message = receive.recv()
                if len(message) == 2:
                    at = message
                else:
                    yield Outcome(*message)
            yield Outcome(*at, "slow", f"more than {limit:.0f} s", limit)
        except EOFError:
            worker.join()
            if not worker.exitcode:
                return
            yield Outcome(*at, "lost", f"the process ended with {worker.exitcode}")
        finally:
            worker.kill()
            worker.join()
        rest = rest[[name_of(op) for op in rest].index(at[0]) + 1 :]


def main() -> int:
    """Run the database, print what is not right and counts; 1 if there are bugs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=10, help="of each operator")
    parser.add_argument("--open", action="store_const", dest="way", const="open", default="")
    parser.add_argument("--edges", action="store_const", dest="way", const="edges")
    parser.add_argument("--limit", type=float, default=60, help="seconds a sample may take")
    parser.add_argument("--part", default="0/1", help="i/n: each n-th operator, from the i-th")
    parser.add_argument("--json", help="write all outcomes to this file, a line each")
    args = parser.parse_args()
    start, counts = time.perf_counter(), Counter()
    first, step = map(int, args.part.split("/"))
    file = open(args.json, "w") if args.json else None
    ops = [op for op in operators() if wanted(op, args.only, args.dtype)][first::step]
    for each in outcomes(ops, args.dtype, args.samples, args.way, args.limit):
        counts[each.kind] += 1
        if each.kind not in ("right", "skipped"):
            print(each.op, each.sample, each.kind, each.why, flush=True)
        if file:
            print(json.dumps(each), file=file, flush=True)
    told_counts = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    print(f"{told_counts}, of {counts.total()} in {time.perf_counter() - start:.0f} s")
    return int(any(counts[kind] for kind in BUGS))


if __name__ == "__main__":
    sys.exit(main())
