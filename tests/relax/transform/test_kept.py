"""Modules after their passes on disk: found again where all is the same, and only there."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm import sources
from mlcnb.core import later
from mlcnb.core.node import walk
from mlcnb.ir.instrument import PassTimingInstrument
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_context import PassContext
from mlcnb.ir.structural import structural_text
from mlcnb.ir.transform import Sequential
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.transform import kept, pipeline
from mlcnb.target import Target
from mlcnb.tir.analysis import meaning
from mlcnb.tir.analysis.made import is_declared, is_made
from mlcnb.tir.function import PrimFunc


def model(weight: Any = 2.0, last: Any = op.nn.relu) -> IRModule:
    bb = BlockBuilder()
    x = relax.Var("x", tensor_info((1, 3, 8, 8), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            w = weight
            if not isinstance(w, relax.Constant):
                w = const(np.full((4, 3, 3, 3), weight, "float32"), "float32")
            y = bb.emit(op.nn.conv2d(x, w, padding=1))
            out = bb.emit_output(last(y))
        bb.emit_func_output(out)
    return bb.get()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: Any) -> Iterator[disk.Store]:
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    found = disk.user_store()
    assert found is not None
    yield found


def lower(mod: IRModule, name: str = "default", target: Any = "llvm", **options: Any) -> Any:
    with kept.Lowering(mod, name, options, Target(target), keep=True) as lowering:
        made = lowering.module()
    return made, lowering.was_kept


def test_the_second_time_it_is_read_and_is_the_same(store: disk.Store) -> None:
    first, was_kept = lower(model())
    assert not was_kept
    second, was_kept = lower(model())
    assert was_kept
    assert second.script() == first.script()
    for key, func in first.functions.items():
        if isinstance(func, PrimFunc):
            other = second[key.name_hint]
            assert (is_made(func), is_declared(func)) == (is_made(other), is_declared(other))
    names = [
        [n.span.name for n in walk(mod["main"]) if getattr(n, "span", None)]
        for mod in (first, second)
    ]
    assert names[0] == names[1]


def test_what_functions_mean_is_kept_with_them(store: disk.Store, monkeypatch: Any) -> None:
    lower(model())
    mod, was_kept = lower(model())
    assert was_kept
    loops = [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
    with monkeypatch.context() as patch:
        patch.setattr(meaning, "structural_text", None)  # nothing is written down again
        kept_texts = [meaning.meaning_of(func) for func in loops]
    assert loops
    assert kept_texts == [structural_text(f.without_attr("global_symbol")) for f in loops]


def test_answers_are_the_same_bytes(store: disk.Store, monkeypatch: Any) -> None:
    monkeypatch.setattr("mlcnb.driver._outline", lambda mod, target: mod.script())
    x = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype("float32")
    first = mlc.compile(model())(x)
    monkeypatch.setattr(pipeline, "get_pipeline", None)  # no pass runs any more
    assert mlc.compile(model())(x).tobytes() == first.tobytes()


@pytest.mark.parametrize(
    "other",
    [
        {"mod": model(3.0)},
        {"mod": model(last=op.tanh)},
        {"name": "zero"},
        {"convolution": "direct"},
        {"target": "llvm -mcpu=x86-64-v3"},
    ],
    ids=["weight", "operator", "pipeline", "option", "target"],
)
def test_what_differs_is_lowered_anew(store: disk.Store, other: dict[str, Any]) -> None:
    lower(model())
    made, was_kept = lower(**{"mod": model(), **other})
    assert not was_kept
    with Target(other.get("target", "llvm")):
        options = {k: v for k, v in other.items() if k == "convolution"}
        wanted = pipeline.get_pipeline(other.get("name", "default"), **options)(
            other.get("mod", model())
        )
    assert made.script() == wanted.script()


def test_a_context_that_says_something_is_heard(store: disk.Store) -> None:
    lower(model())
    watch = PassTimingInstrument()
    for context in (PassContext(instruments=[watch]), PassContext(disabled_pass=["FuseOps"])):
        with context:
            assert not lower(model())[1]
    assert "FuseOps" in watch.render()
    with PassContext():
        assert lower(model())[1]


@pytest.mark.usefixtures("own_pipelines")
def test_what_is_not_mlcnb_s_own_is_never_kept(store: disk.Store) -> None:
    relax.register_pipeline("default", lambda target=None: [], override=True)
    for _ in range(2):
        assert not lower(model())[1]


def test_nor_is_an_operator_that_was_declared_elsewhere(store: disk.Store) -> None:
    @operator("relax.kept_twice")
    class Twice(OpDecl):
        x: Tensor

        def infer(self, x: Any) -> Any:
            return x

        def numpy(self, x: Any) -> Any:
            return x + x

    mod = model(last=lambda y: make_call(Twice, y))
    for _ in range(2):
        assert not lower(mod)[1]


def test_a_damaged_file_is_lowered_anew(store: disk.Store) -> None:
    first, _ = lower(model())
    later.finish()
    (path,) = (p for p in store.folder.glob("*.blob") if b"module\n" in p.read_bytes()[:4096])
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    second, was_kept = lower(model())
    assert not was_kept and second.script() == first.script()


PROBE = """
import sys
from mlcnb.target import Target
from mlcnb.relax.transform.kept import Lowering
from tests.relax.transform.test_kept import model
with Lowering(model(), "default", {}, Target("llvm"), keep=True) as lowering:
    before = set(sys.modules)
    lowering.module()
print(*(m for m in set(sys.modules) - before if m.startswith("mlcnb.")))
"""


def test_what_passes_depend_on_is_in_the_key(store: disk.Store) -> None:
    """What passes load when they run; what they load before is beside it."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    known = {part.removesuffix(".py") for part in (*sources.PARTS, *sources.GRAPHS)}
    assert loaded <= known
    imported = {
        node.module.split(".")[1]
        for part in ("relax/transform", "relax/analysis", "op")
        for path in (Path(mlc.__file__).parent / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mlcnb.")
    }
    assert imported <= known


def test_an_edit_of_a_pass_is_seen(store: disk.Store, monkeypatch: Any) -> None:
    lower(model())
    monkeypatch.setattr(sources, "digest", lambda *_, **__: "others")
    assert not lower(model())[1]


def test_what_is_large_is_not_kept(store: disk.Store, monkeypatch: Any) -> None:
    monkeypatch.setattr(kept, "LARGEST", 100)
    for _ in range(2):
        assert not lower(model())[1]


def test_without_a_store_all_goes_as_ever(monkeypatch: Any) -> None:
    monkeypatch.setenv("MLCNB_CACHE", "0")
    for _ in range(2):
        made, was_kept = lower(model())
        assert not was_kept and isinstance(made, IRModule)
    assert isinstance(pipeline.get_pipeline("default"), Sequential)


AGAIN = """
import sys
import numpy as np
import mlcnb as mlc
from mlcnb import relax
bb = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((1, 16), "float32"))
with bb.function("main", [x]):
    y = x
    for n in range(30):
        y = bb.emit(relax.op.add(relax.op.exp(y), relax.const(np.float32(n))))
    bb.emit_func_output(y)
mlc.compile(bb.get(), "llvm")(np.ones((1, 16), np.float32))
print(*sys.modules)
"""


def test_a_second_start_loads_no_pass_no_lowering_and_no_emitter(store: disk.Store) -> None:
    makers = {
        "mlcnb.relax.transform.pipeline",
        "mlcnb.relax.transform.fuse_ops",
        "mlcnb.dlight.cpu",
        "mlcnb.tir.transform.lower",
        "mlcnb.codegen.llvm.emit.kernel",
        "mlcnb.script.printer",
    }
    slow = {"tqdm", "importlib.metadata"}
    words = [sys.executable, "-c", AGAIN]
    cold, second = (
        set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
        for _ in range(2)
    )
    assert makers - {"mlcnb.script.printer"} <= cold
    assert not (makers | slow) & second


def test_weights_that_change_before_they_are_written_are_not_kept(store: disk.Store) -> None:
    weight = np.full((4, 3, 3, 3), 2, "float32")
    _, was_kept = lower(model(relax.Constant(weight)))
    assert not was_kept
    weight *= 2  # as an optimiser does, whose parameters these are
    later.finish()
    assert lower(model())[1] is False
    later.finish()
    assert lower(model())[1] is True
    assert not list(store.folder.glob("*.part"))
