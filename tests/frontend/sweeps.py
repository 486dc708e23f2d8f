"""What every case of ONNX's backend suite is held to, beside its numbers (`suite.py`).

    on_threads          parallel loops give the same bits on 1, 2, 3, 5 and 7 threads
    saved               what is saved and loaded gives the same bits
    in_memory           memory that nobody has written to is read by nobody; inputs stay as they
                        were, results are nobody else's
    at_sizes            with open sizes: versions for sizes that are met often (`runtime.versions`)
    for_a_cpu           code for any CPU and system, which is not run; it calls no function that
                        neither the system has nor the runtime

Each takes a case, and raises what went wrong.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import mlcnb as mlc
from mlcnb.codegen.llvm import half
from mlcnb.codegen.llvm.symbols import LIBC_NAMES
from mlcnb.core.errors import MLCError
from mlcnb.dlight.cpu import elementwise
from mlcnb.runtime import direct_call, graph_call, kernel_call, open_steps, threads, vm_calls
from tests.frontend.suite import (
    FLOATS,
    RANDOM,
    Case,
    Made,
    compare,
    compiled,
    data_sets,
    opened,
)

THREADS = 2, 3, 5, 7


def on_threads(case: Case, is_open: bool = False) -> None:
    """Every loop that may be is in parallel, however little there is to do."""
    with (
        mock.patch.object(elementwise, "PARALLEL_WORK", 1),
        mock.patch.dict("os.environ", MLCNB_CACHE="0"),
    ):
        _on_threads(case, is_open)


def _on_threads(case: Case, is_open: bool) -> None:
    before = threads.get_num_threads()
    for made, _ in _made(case, is_open):
        try:
            threads.set_num_threads(1)
            alone = made.run()
            for n in THREADS:
                threads.set_num_threads(n)
                same(made.run(), alone, f"{n} threads")
        finally:
            threads.set_num_threads(before)


def saved(case: Case, is_open: bool = False) -> None:
    """Saved to a file and loaded again."""
    for made, _ in _made(case, is_open):
        with tempfile.TemporaryDirectory() as folder:
            path = made.executable.export_library(Path(folder) / "model.tar")
            loaded = made._replace(executable=mlc.load_module(path))
        same(loaded.run(), made.run(), "loaded")


#: functions of the C library that systems lack
ABSENT = {
    "windows": "roundeven roundevenf sincos sincosf __sincos_stret __sincosf_stret bzero __bzero "
    "memset_pattern16",
    "darwin": "roundeven roundevenf sincos sincosf __chkstk",
    "linux": "__sincos_stret __sincosf_stret __chkstk __bzero memset_pattern16",
}


def for_a_cpu(case: Case, cpu: str, is_open: bool = False) -> None:
    """cpu: LLVM's name of it, and what else a target may say: `x86-64-v3 -mtriple=…`."""
    known = LIBC_NAMES | half.NAMES | threads.symbols().keys()
    for made, _ in _made(case, is_open, target=f"llvm -mcpu={cpu}"):
        for kernel in made.executable.kernels.values():
            if kernel.is_made:
                has = known - set(_absent(kernel.compiled.cpu.triple))
                assert has.issuperset(kernel.compiled.needs), kernel.compiled.needs


def _absent(triple: str) -> list[str]:
    return next(names.split() for system, names in ABSENT.items() if system in triple)


#: where the runtime takes memory
_TAKES = (direct_call, graph_call, kernel_call, open_steps, vm_calls)


@contextmanager
def poisoned(byte: int = 0xFF) -> Iterator[None]:
    """Memory that the runtime takes holds this byte everywhere: NaN, or -1."""
    own = graph_call.aligned_empty

    def filled(*args: Any) -> np.ndarray:
        found = own(*args)
        found.reshape(-1).view(np.uint8)[:] = byte
        return found

    with ExitStack() as work:
        for module in _TAKES:
            work.enter_context(mock.patch.object(module, "aligned_empty", filled))
        yield


def in_memory(case: Case, is_open: bool = False) -> None:
    """The first call in memory that is poisoned; two more, while the first results are held."""
    for made, outputs in _made(case, is_open):
        kept = [x.tobytes() for x in made.args]
        with poisoned():
            first = made.run()
        for ours, theirs in zip(first, outputs, strict=True):
            compare(ours, theirs, max(case.record.rtol, 1e-3), max(case.record.atol, 1e-6))
        before = [bits(x) for x in first]
        calls = [first, made.run(), made.run()]
        same(calls[1], first, "second call")
        same(calls[2], first, "third call")
        assert [bits(x) for x in first] == before, "a later call changes the first one's results"
        assert [x.tobytes() for x in made.args] == kept, "a call changes its inputs"
        arrays = [a for call in calls for a in _arrays(call)]
        for n, array in enumerate(arrays):
            for other in (*arrays[:n], *made.args):
                assert not np.shares_memory(array, other), "a result lies in another array"


def _arrays(result: Any) -> Iterator[np.ndarray]:
    if isinstance(result, np.ndarray):
        yield result
    for part in result if isinstance(result, tuple | list) else ():
        yield from _arrays(part)


def _made(case: Case, is_open: bool, **options: Any) -> Iterator[tuple[Made, list[Any]]]:
    """Each data set of a case that is one of tensors, compiled, and the outputs that it has."""
    if case.name.startswith(RANDOM):
        return
    for model, inputs, outputs in data_sets(case):
        made = compiled(model, inputs, is_open, **options)
        if made is not None:
            yield made, outputs


def same(ours: Any, theirs: Any, what: str) -> None:
    """The same bits."""
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert bits(a) == bits(b), f"{what}: output {n} has other bits"


def bits(value: Any) -> Any:
    """All there is to an array, or to several."""
    if isinstance(value, np.ndarray):
        data = value.tolist() if value.dtype.hasobject else value.tobytes()
        return value.dtype, value.shape, data
    return [bits(v) for v in value] if isinstance(value, tuple | list) else value


#: what the open sizes of a case become: their own, twice as much, two more
SIZES = (lambda n: n, lambda n: 2 * n, lambda n: n + 2)
#: turns over all sets of sizes before and after versions are there
TURNS = 4


def at_sizes(case: Case, is_open: bool = True) -> None:
    """Three sets of sizes by turns, until each has a version, and then by two threads at once: the
    same as the general kernels give, and as ONNX Runtime does where it runs the model (of
    `resize_downsample_scales_linear_align_corners` it says 4 where ONNX itself expects 3.14).
    """
    for model, inputs, _ in data_sets(case):
        made = compiled(model, inputs, is_open, specialize=len(SIZES))
        if made is None or case.name.startswith(RANDOM):
            continue
        known = list(_sized(made, model, inputs))
        turns = partial(_turns, case, made, known)
        turns()
        assert made.executable.versions.wait(60)
        for version in made.executable.versions.table:
            assert version.state == "ready", version
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(turns) for _ in range(2)]:
                done.result(60)


def _turns(case: Case, made: Made, known: list[Any]) -> None:
    for _ in range(TURNS):
        for args, found in known:
            compare(list(made._replace(args=args).run()), found, *_near(case))


def _sized(made: Made, model: Any, inputs: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """(arguments, what the general kernels make of them) for each set of sizes that it takes."""
    ex, kinds = made.executable, {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    for size in SIZES:
        given = {
            name: _resized(x, size) if x.ndim > 1 and kinds[name] in FLOATS else x
            for name, x in zip(kinds, inputs, strict=False)
        }
        args = tuple(x for x in given.values() if x.ndim > 1)
        try:
            found = list(made.of(ex.run(ex.entry, args, {})))
        except MLCError:
            continue  # sizes that do not go together in this model
        theirs = by_peer(opened(model), given)
        if theirs is not None:
            compare(found, theirs, 1e-3, 1e-4)
        yield args, found


def _resized(x: np.ndarray, size: Any) -> np.ndarray:
    """An array of other sizes, filled with the same numbers again and again."""
    return np.resize(x, [size(n) if n > 1 else n for n in x.shape])


def by_peer(model: Any, given: dict[str, Any]) -> Any:
    """What ONNX Runtime makes of a model; None where it does not run it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return session.run(None, given)
    except Exception:  # noqa: BLE001 (it has a kind of error for each reason)
        return None


def _near(case: Case) -> tuple[float, float]:
    """How near results are that are added up in another order: relative, absolute."""
    return max(case.record.rtol, 1e-4), max(case.record.atol, 1e-5)
