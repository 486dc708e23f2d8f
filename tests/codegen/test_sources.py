"""The digest of the sources that kernels depend on: nothing stale, nothing made twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mlcnb
from mlcnb.codegen.llvm import sources
from mlcnb.codegen.llvm.backend import cpu_of
from mlcnb.codegen.llvm.cache import Store
from mlcnb.ir.json import save_json
from mlcnb.target import Target

ROOT = Path(mlcnb.__file__).parent


@pytest.fixture
def copy(tmp_path):
    """The sources that matter, at another place."""
    root = tmp_path / "mlcnb"
    for part in sources.PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / part)
    return root


def test_the_same_sources_anywhere(copy, tmp_path):
    here = sources.digest(Store(tmp_path / "a"))
    assert sources.digest(Store(tmp_path / "b"), copy) == here
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
    assert sources.digest(Store(tmp_path / "b"), copy) == here


def test_every_change_counts(copy, tmp_path):
    store = Store(tmp_path / "cache")
    seen = [sources.digest(store, copy)]
    lower = copy / "tir" / "transform" / "lower.py"
    text = lower.read_text()
    lower.write_text(text + "# more\n")
    seen.append(sources.digest(store, copy))
    stat = lower.stat()
    lower.write_text(text + "# less\n")
    os.utime(lower, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as large and as old as before
    seen.append(sources.digest(store, copy))
    (copy / "arith" / "another.py").write_text("")
    seen.append(sources.digest(store, copy))
    (copy / "arith" / "another.py").rename(copy / "arith" / "other.py")
    seen.append(sources.digest(store, copy))
    assert len(set(seen)) == 5
    (copy / "arith" / "other.py").unlink()
    lower.write_text(text)
    assert sources.digest(store, copy) == seen[0]


def test_files_are_read_once(copy, tmp_path, monkeypatch):
    store = Store(tmp_path / "cache")
    first = sources.digest(store, copy)
    monkeypatch.setattr(sources, "_content", pytest.fail)
    assert sources.digest(store, copy) == first


PROBE = """
import sys
from mlcnb.codegen.llvm.worker import answer
from mlcnb.codegen.llvm.cache import unpack
for line in sys.stdin:
    assert b"error" not in unpack(answer(line.encode()))[0], line[:300]
print(*(m for m in sys.modules if m.startswith("mlcnb.")))
"""


def test_what_makes_a_kernel_is_in_the_digest():
    """A child that compiles the kernels of a convolution net loads nothing else of mlcnb."""
    from mlcnb.relax.transform.pipeline import get_pipeline
    from mlcnb.tir.function import PrimFunc

    target = Target("llvm")
    with target:
        mod = get_pipeline("default")(_net())
    common = {"target": "llvm", "cpu": str(cpu_of(target)), "level": 1, "made": False}
    rules = "mlcnb.dlight.cpu.schedule_cpu"
    questions = [
        json.dumps({**common, "rules": rules, "name": name.name_hint, "func": save_json(func)})
        for name, func in mod.items()
        if isinstance(func, PrimFunc)
    ]
    assert len(questions) > 4
    env = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run([sys.executable, "-c", PROBE], input="\n".join(questions),
                          capture_output=True, text=True, env=env, check=True)  # fmt: skip
    parts = {name.split(".")[1] for name in done.stdout.split()}
    assert {"tir", "dlight", "codegen"} <= parts
    assert parts <= {part.removesuffix(".py") for part in sources.PARTS}


def _net():
    """Convolutions, a pool, a product and a softmax."""
    import numpy as np

    from mlcnb import relax
    from mlcnb.relax import op

    rng = np.random.default_rng(0)

    def weight(*shape):
        return relax.const(rng.standard_normal(shape).astype(np.float32))

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 16, 16, 16), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(op.nn.relu(op.nn.conv2d(x, weight(32, 16, 3, 3), padding=1)))
        y = builder.emit(op.nn.conv2d(y, weight(32, 32, 1, 1)))
        y = builder.emit(op.nn.max_pool2d(y, (2, 2), (2, 2)))
        y = builder.emit(op.reshape(y, (1, 2048)))
        y = builder.emit(op.nn.softmax(op.matmul(y, weight(2048, 10))))
        builder.emit_func_output(y)
    return builder.get()
