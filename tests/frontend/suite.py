"""ONNX's own backend suite: its cases, one by one, through `mlcnb.onnx_backend`.

    python -m tests.frontend.suite            run all, print what does not pass
    python -m tests.frontend.suite --write    and write that as the list of what is not supported
    python -m tests.frontend.suite --open     with open sizes: an `n3` for each 3 of an input
    python -m tests.frontend.suite --target cuda-sim [--open]     on the simulated GPU
    python -m tests.frontend.suite --target "llvm -mcpu=x86-64"   on an older CPU, run by this one
    python -m tests.frontend.suite --code sm_80 [--open]    as machine code of a GPU, made offline
    python -m tests.frontend.suite --code neoverse-n1       or of a CPU
    python -m tests.frontend.suite --text [--open]          as text, after each stage: it reads back
    python -m tests.frontend.suite --holds on_threads [--open]    held to a promise of `sweeps.py`
    python -m tests.frontend.suite --random 0 500 …         models of `random_models.py` instead

A case passes, or raises a typed error (an `MLCError`); a wrong answer or any other exception is a
bug and is never written to the list.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from mlcnb import driver
from mlcnb.codegen.kernel import scheduled_by
from mlcnb.core.errors import MLCError
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.onnx_backend import MlcnbBackend
from mlcnb.relax.expr import Constant
from mlcnb.relax.frontend.onnx.entry import from_onnx
from mlcnb.relax.frontend.shared.errors import UnknownValueError
from mlcnb.relax.transform.pipeline import get_pipeline
from mlcnb.script import parse, script_with_constants
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform import lower

#: case -> name of the typed error, one a line, sorted
LIST = Path(__file__).with_name("onnx_unsupported.txt")
#: cases whose values are drawn at random: only shapes and dtypes can be compared
RANDOM = ("test_bernoulli",)
#: dtypes of inputs whose sizes are opened; what is counted in integers often has to be known
FLOATS = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.BFLOAT16,
)
#: kinds of cases; the `real` ones are the light models, nine well-known topologies
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")


class Case(NamedTuple):
    """One case: its name, and the suite's own record of it."""

    name: str
    record: Any


@cache
def cases() -> tuple[Case, ...]:
    """All cases, sorted by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite casts beyond ranges as it makes its data
        found = [Case(c.name, c) for kind in KINDS for c in load_model_tests(kind=kind)]
    return tuple(sorted(found, key=lambda c: c.name))


def expected() -> dict[str, str]:
    """The checked-in list: case -> name of the error."""
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def data_sets(case: Case) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """(model, inputs, outputs) of each data set of a case."""
    record = case.record
    if record.kind == "real":
        yield _light(record)
        return
    model = record.model if record.model is not None else onnx.load(_file(record, "model.onnx"))
    if record.data_sets is not None:
        for inputs, outputs in record.data_sets:
            yield model, [_plain(i) for i in inputs], [_plain(o) for o in outputs]
        return
    for folder in sorted(Path(record.model_dir).glob("test_data_set_*")):
        pair = [_stored(folder, kind, model) for kind in ("input", "output")]
        yield model, *pair


def _light(record: Any) -> tuple[Any, list[Any], list[Any]]:
    """A light model, the suite's input arange(n) / n, and the output that is stored beside it."""
    path = Path(onnx.__file__).parents[1] / record.url
    model = onnx.load(path)
    stored = {t.name for t in model.graph.initializer}
    (first,) = (i for i in model.graph.input if i.name not in stored)
    shape = [max(d.dim_value, 1) for d in first.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    output = onnx.load_tensor(str(path.with_name(f"{path.stem}_output_0.pb")))
    given = (np.arange(size, dtype=np.float32) / size).reshape(shape)
    return model, [given], [numpy_helper.to_array(output)]


def _file(record: Any, name: str) -> str:
    return str(Path(record.model_dir) / name)


def _stored(folder: Path, kind: str, model: Any) -> list[Any]:
    values = model.graph.input if kind == "input" else model.graph.output
    found = []
    for number in range(len(list(folder.glob(f"{kind}_*.pb")))):
        data = (folder / f"{kind}_{number}.pb").read_bytes()
        found.append(_read(data, values[number].type))
    return found


def _read(data: bytes, kind: Any) -> Any:
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _plain(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def opened(model: Any) -> Any:
    """The model with a variable for each size of its floating-point inputs of two dimensions or
    more, one for all that are equal, but for sizes of 1; None where there is none.
    """
    made = onnx.ModelProto.FromString(model.SerializeToString())
    stored = {t.name for t in made.graph.initializer}
    kinds = [i.type.tensor_type for i in made.graph.input if i.name not in stored]
    shapes = [kind.shape.dim for kind in kinds if kind.elem_type in FLOATS]
    sizes = [dim for dims in shapes if len(dims) > 1 for dim in dims if dim.dim_value > 1]
    for dim in sizes:
        dim.dim_param = f"n{dim.dim_value}"
    for output in made.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return made if sizes else None


def results(model: Any, inputs: list[Any], target: str, is_open: bool) -> Any:
    """What comes out of a model; of one with open sizes None where it has none to open. Vectors and
    numbers among its inputs are constants then, as real models have axes, scales and biases.
    """
    if not is_open:
        return MlcnbBackend.prepare(model, target=target).run(inputs)
    made = compiled(model, inputs, is_open, target)
    return None if made is None else made.run()


class Made(NamedTuple):
    """A case that is compiled, and what it is called with: all inputs but those that are constants
    now.
    """

    executable: Any
    args: tuple[np.ndarray, ...]
    is_one: bool

    def run(self) -> tuple[Any, ...]:
        """Its outputs."""
        return self.of(self.executable(*self.args))

    def of(self, result: Any) -> tuple[Any, ...]:
        """A result as a tuple of outputs."""
        return (result,) if self.is_one else result


def compiled(
    model: Any, inputs: list[Any], is_open: bool, target: str = "llvm", **options: Any
) -> Made | None:
    """A case as an executable; None where it is none of tensors, or has no size to open."""
    mod = imported(model, inputs, is_open)
    if mod is None:
        return None
    whole = len(mod["main"].params) == len(inputs)
    args = tuple(x for x in inputs if whole or x.ndim > 1)
    return Made(driver.compile(mod, target, **options), args, len(model.graph.output) == 1)


def imported(model: Any, inputs: list[Any], is_open: bool) -> IRModule | None:
    """The module of a case; None where sequences go into it, or it has no size to open. Vectors and
    numbers are constants where sizes are open, or have to be known.
    """
    made = opened(model) if is_open else model
    if made is None or not all(isinstance(x, np.ndarray) for x in inputs):
        return None
    if not is_open:
        with suppress(UnknownValueError):
            return from_onnx(made)
    stored = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in stored]
    pairs = zip(names, inputs, strict=False)
    return from_onnx(made, freeze={name: x for name, x in pairs if x.ndim < 2})


def to_machine_code(case: Case, arch: str, is_open: bool = False) -> None:
    """Make machine code for a GPU of each kernel of a case; raises what went wrong, or an
    AssertionError where registers are spilled.
    """
    for model, inputs, _ in data_sets(case):
        mod = imported(model, inputs, is_open)
        kernels = {} if mod is None else driver.compile(mod, f"cuda -arch={arch}").kernels
        for kernel in kernels.values():
            for name, facts in getattr(kernel, "resources", {}).items():
                assert not facts.spill_stores, f"{name} spills {facts.spill_stores} bytes"


def reads_back(case: Case, is_open: bool = False) -> None:
    """Print a case and parse it: as it is imported, after the passes, and each function scheduled
    and lowered; raises what went wrong.

    In 0.27's words memory lasts to the end of the lines around it: what is made of them reads back.
    """
    target = Target("llvm")
    for model, inputs, _ in data_sets(case):
        mod = imported(model, inputs, is_open)
        if mod is None:
            continue
        with target:
            lowered = get_pipeline("default")(mod)
        made: list[Any] = [mod, lowered]
        for func in lowered.of_kind(PrimFunc).values():
            scheduled = scheduled_by(schedule_cpu(func, target), func)
            made += [scheduled, lower(scheduled)]
        for each in made:
            assert_structural_equal(_parsed(each, "0.21"), each)
            new = _parsed(each, "0.27")
            assert_structural_equal(_parsed(new, "0.27"), new)


def _parsed(what: Any, dialect: str) -> Any:
    """A module or a function, printed and parsed."""
    text, arrays = script_with_constants(what, dialect=dialect)
    constants = [Constant(a) for a in arrays]
    words = ("relax.expr.Constant", "ir.GenericConst")
    return parse(text, metadata=dict.fromkeys(words, constants), dialect=dialect)


def run(case: Case, target: str = "llvm", is_open: bool = False) -> None:
    """Run a case and compare; raises what went wrong.

    Tolerances are the suite's: rtol 1e-3, atol 1e-7, or what the case says; for 16-bit floats those
    of their precision.
    """
    for model, inputs, outputs in data_sets(case):
        found = results(model, inputs, target, is_open)
        if found is None:
            continue
        assert len(found) == len(outputs), f"{len(found)} outputs, expected {len(outputs)}"
        for ours, theirs in zip(found, outputs, strict=True):
            if case.name.startswith(RANDOM):
                assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            else:
                noise = NOISE.get(case.name.removesuffix("_opset19"), 0.0)
                compare(ours, theirs, case.record.rtol, max(case.record.atol, noise))


#: cases whose expected numbers are off by so much themselves, where the truth is 0
NOISE = {"test_dft_inverse": 1e-6}
#: what one rounding is worth, relative: operators of several steps may round more than once
PRECISION = {"float16": 2e-3, "bfloat16": 2e-2}


def compare(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    """Equal in shape, dtype and value."""
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b, rtol, atol)
        return
    if theirs is None:
        assert ours is None
        return
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype, f"dtype {ours.dtype}, expected {theirs.dtype}"
    assert ours.shape == theirs.shape, f"shape {ours.shape}, expected {theirs.shape}"
    if theirs.dtype.kind in "biuOSU":
        np.testing.assert_array_equal(ours, theirs)
        return
    near = PRECISION.get(theirs.dtype.name, 0.0)
    wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        ours.astype(wide), theirs.astype(wide), rtol=max(rtol, near), atol=max(atol, near)
    )


def outcome(case: Case, *how: Any, by: Callable[..., None] = run, **more: Any) -> str:
    """ "pass", the name of the typed error, or "BUG …": of `by(case, *how, **more)`."""
    try:
        with np.errstate(all="ignore"):
            by(case, *how, **more)
    except MLCError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 (anything untyped is a bug, to be shown with the rest)
        return f"BUG {type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return "pass"


def drawn(first: int, last: int) -> Iterator[Case]:
    """Models drawn at random."""
    from tests.frontend import random_models  # which are compared as cases are

    return random_models.cases(first, last)


def main() -> int:
    """Run all cases, print those that do not pass and a count; 1 if there are bugs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--open", action="store_true", help="with open sizes")
    parser.add_argument("--target", default="llvm", help="llvm, cuda-sim, interp")
    parser.add_argument("--code", metavar="ARCH", help="to machine code: sm_90a, neoverse-n1")
    parser.add_argument("--text", action="store_true", help="text that reads back")
    parser.add_argument("--holds", help="on_threads, saved, in_memory, at_sizes")
    parser.add_argument("--start", type=int, default=0, help="without the first so many")
    parser.add_argument(
        "--random", nargs=2, type=int, metavar="SEED", help="models drawn at random"
    )
    args = parser.parse_args()
    others = args.open, args.code, args.text, args.holds, args.random, args.target != "llvm"
    if args.write and any(others):
        parser.error("the list is of fixed sizes on llvm")
    ask = partial(outcome, by=run, target=args.target)
    if args.text:
        ask = partial(outcome, by=reads_back)
    elif args.code and args.code.startswith("sm_"):
        ask = partial(outcome, by=to_machine_code, arch=args.code)
    elif args.code or args.holds:
        from tests.frontend import sweeps  # which are made of what stands here

        of_cpu = partial(sweeps.for_a_cpu, cpu=args.code)
        ask = partial(outcome, by=getattr(sweeps, args.holds) if args.holds else of_cpu)
    start, found = time.perf_counter(), {}
    for case in drawn(*args.random) if args.random else cases()[args.start :]:
        if args.only in case.name:
            found[case.name] = ask(case, is_open=args.open)
            if found[case.name] != "pass":
                print(case.name, found[case.name], flush=True)
    passed = sum(o == "pass" for o in found.values())
    bugs = sum(o.startswith("BUG") for o in found.values())
    refused = len(found) - passed - bugs
    print(
        f"{passed} pass, {refused} refused with a typed error, {bugs} bugs, of {len(found)} "
        f"in {time.perf_counter() - start:.0f} s"
    )
    if args.write:
        head = "# cases of ONNX's backend suite that are refused, with the error of each\n"
        rows = [f"{n} {o}\n" for n, o in sorted(found.items()) if o.isidentifier() and o != "pass"]
        LIST.write_text(head + "".join(rows))
    return int(bugs > 0)


if __name__ == "__main__":
    sys.exit(main())
