"""Real models with open sizes: each is compiled once, and equals ONNX Runtime at several sizes.

OCR (detector, recogniser, orientation), voice activity in six forms of one net, notes of audio, and
types of files. Their packages are not installed: see `tests.models.packages`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError
from mlcnb.observe.peers import onnxruntime_session
from tests.models import packages

Feed = list[np.ndarray]
RATE = {16000: np.array(16000), 8000: np.array(8000)}


class Case(NamedTuple):
    """Where a model is, and values of its inputs for each of some sizes."""

    file: str
    feeds: Callable[[Any], Iterator[Feed]]


def images(*shapes: tuple[int, ...]) -> Callable[[Any], Iterator[Feed]]:
    """One input of uniform numbers for each shape."""
    return lambda rng: ([rng.random(shape, dtype=np.float32)] for shape in shapes)


def voice(*sizes: tuple[int, int], rate: bool = False, swapped: bool = False) -> Any:
    """Frames of audio and a state, for each (batch, rate); maybe the rate itself, maybe before."""

    def feeds(rng: Any) -> Iterator[Feed]:
        for batch, hertz in sizes:
            length = 576 if hertz == 16000 else 288
            audio, state = rng.random((batch, length)), rng.random((2, batch, 128))
            last = [RATE[hertz]] if rate else []
            found = [audio.astype(np.float32), *last, state.astype(np.float32)]
            yield found if swapped or not rate else [found[0], found[2], found[1]]

    return feeds


def sequence(rng: Any) -> Iterator[Feed]:
    for frames in (1, 5, 2):
        made = [rng.random(s) for s in ((frames, 576), (1, 1, 128), (1, 1, 128))]
        yield [x.astype(np.float32) for x in made]


def bytes_of_files(rng: Any) -> Iterator[Feed]:
    for batch in (1, 3):
        yield [rng.integers(0, 257, (batch, 2048)).astype(np.int32)]


OCR, VAD = "rapidocr_onnxruntime/models", "silero_vad/data"
HIGH, BOTH = ((1, 16000), (3, 16000)), ((1, 16000), (3, 16000), (1, 8000))
CASES = {
    "ocr detector": Case(
        f"{OCR}/ch_PP-OCRv4_det_infer.onnx",
        images((1, 3, 32, 32), (1, 3, 96, 160), (2, 3, 64, 96)),
    ),
    "ocr recogniser": Case(
        f"{OCR}/ch_PP-OCRv4_rec_infer.onnx",
        images((1, 3, 48, 64), (1, 3, 48, 320), (2, 3, 48, 100)),
    ),
    "ocr orientation": Case(
        f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        images((1, 3, 48, 192), (6, 3, 48, 192), (2, 3, 48, 96)),
    ),
    "notes": Case(
        "basic_pitch/saved_models/icassp_2022/nmp.onnx", images((1, 43844, 1), (2, 43844, 1))
    ),
    "file types": Case("magika/models/standard_v3_3/model.onnx", bytes_of_files),
    "voice": Case(f"{VAD}/silero_vad.onnx", voice(*BOTH, rate=True)),
    "voice, opset 15": Case(f"{VAD}/silero_vad_16k_op15.onnx", voice(*HIGH, rate=True)),
    "voice, no rate": Case(f"{VAD}/silero_vad_half.onnx", voice(*HIGH)),
    "voice, no If": Case(
        f"{VAD}/silero_vad_op18_ifless.onnx", voice(*BOTH, rate=True, swapped=True)
    ),
    "voice, closed": Case(f"{VAD}/silero_vad_openvino_16k.onnx", voice((1, 16000))),
    "voice, sequence": Case(f"{VAD}/silero_vad_16k_sequence.onnx", sequence),
}
#: those that take a minute
LONG = ("ocr detector", "ocr recogniser", "ocr orientation", "notes")
each_model = pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=n, marks=pytest.mark.slow if n in LONG else ()) for n, c in CASES.items()],
)


def same(found: Any, wanted: list[np.ndarray]) -> None:
    """All outputs whole: shapes, dtypes, numbers."""
    made = found if isinstance(found, tuple | list) else [found]
    for a, b in zip(made, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5)


@each_model
def test_one_module_equals_onnxruntime_at_every_size(case: Case) -> None:
    model = packages.need(case.file)
    session = onnxruntime_session(model, 2)
    names = [i.name for i in session.get_inputs()]
    ex = mlc.compile(mlc.from_onnx(model), target="llvm")
    for number, feed in enumerate(case.feeds(np.random.default_rng(0))):
        wanted = session.run(None, dict(zip(names, feed, strict=True)))
        for threads in (1, 2) if number == 0 else (2,):
            mlc.set_num_threads(threads)
            same(ex(*feed), wanted)


@each_model
def test_fixed_sizes_equal_onnxruntime(case: Case) -> None:
    model = packages.need(case.file)
    session = onnxruntime_session(model, 2)
    names = [i.name for i in session.get_inputs()]
    *_, feed = case.feeds(np.random.default_rng(1))
    shapes = {n: x.shape for n, x in zip(names, feed, strict=True)}
    ex = mlc.compile(mlc.from_onnx(model, shape=shapes), target="llvm")
    same(ex(*feed), session.run(None, dict(zip(names, feed, strict=True))))


def test_a_frame_of_another_length_is_refused() -> None:
    """The model's last If makes a tensor of another rank of it, that what follows does not take."""
    ex = mlc.compile(mlc.from_onnx(packages.need(f"{VAD}/silero_vad_half.onnx")))
    with pytest.raises(ExecutionError, match="condition is .*, but has to be 1"):
        ex(np.zeros((1, 1600), np.float32), np.zeros((2, 1, 128), np.float32))
