"""Saved executables: the same results, the same bytes; damaged and forged files are refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError, ModelError
from tests.runtime.programs import TEXTS, chain, compiled, module, random

ROOT = Path(__file__).parents[2]
X, Y = random(2, 3), random(3, seed=1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """relu_add with y bound, saved."""
    ex = mlc.compile(module("relu_add"), params={"y": Y})
    return ex.export_library(tmp_path_factory.mktemp("saved") / "model.tar")


@pytest.mark.parametrize("name", TEXTS)
def test_same_program_same_bytes(name, tmp_path):
    """Saved twice, compiled anew, and loaded and saved again."""
    first = compiled(name).export_library(tmp_path / "1.tar")
    again = mlc.compile(module(name)).export_library(str(tmp_path / "2.tar"))
    loaded = mlc.load_module(first).export_library(tmp_path / "3.tar")
    assert first.read_bytes() == again.read_bytes() == loaded.read_bytes()


def test_results_after_loading(saved, tmp_path):
    ex = mlc.load_module(saved)
    np.testing.assert_array_equal(ex(X), np.maximum(X + Y, 0))
    symbolic = mlc.load_module(compiled("chain").export_library(tmp_path / "chain.tar"))
    for n in (1, 5, 16):
        x = random(n, 64)
        np.testing.assert_array_equal(symbolic(x), compiled("chain")(x))
        np.testing.assert_allclose(symbolic(x), chain(x), rtol=1e-4, atol=1e-5)
    branch = mlc.load_module(str(compiled("branch").export_library(tmp_path / "branch.tar")))
    for condition in (True, False):
        np.testing.assert_array_equal(branch(condition, Y), compiled("branch")(condition, Y))


def test_loaded_in_another_process_without_a_cache(saved, tmp_path):
    code = (
        "import sys, numpy as np, mlcnb as mlc; "
        "ex = mlc.load_module(sys.argv[1]); np.save(sys.argv[2], ex(np.load(sys.argv[3])))"
    )
    np.save(tmp_path / "x.npy", X)
    paths = [str(saved), str(tmp_path / "y.npy"), str(tmp_path / "x.npy")]
    env = {**os.environ, "MLCNB_CACHE": "0"}
    subprocess.run([sys.executable, "-c", code, *paths], check=True, env=env, cwd=ROOT)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.maximum(X + Y, 0))


def test_for_another_cpu(tmp_path):
    older = mlc.compile(module("relu_add"), target="llvm -mcpu=x86-64-v2")
    ex = mlc.load_module(older.export_library(tmp_path / "v2.tar"))
    assert str(ex.target) == "llvm -mcpu=x86-64-v2"
    arm = mlc.compile(module("relu_add"), target="llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
    ex = mlc.load_module(arm.export_library(tmp_path / "arm.tar"))
    with pytest.raises(MLCError) as caught:
        ex(X, Y)
    assert str(caught.value) == (
        "kernel fused_add_relu is for llvm -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu, "
        "not for this machine\nhint: read its assembly, or compile for the host"
    )


def test_the_interpreter_has_nothing_to_save(tmp_path):
    with pytest.raises(MLCError) as caught:
        compiled("relu_add", "interp").export_library(tmp_path / "x.tar")
    assert str(caught.value) == (
        'an executable for interp cannot be saved\nhint: target="llvm" or "cuda"'
    )
    assert not (tmp_path / "x.tar").exists()


# damaged -----------------------------------------------------------------------------------------


def test_truncated_anywhere(saved, tmp_path):
    """What is cut off is noticed, but for the blocks of zeros that end a tar file."""
    whole = saved.read_bytes()
    with tarfile.open(saved) as tar:
        last = tar.getmembers()[-1]
    end = last.offset_data + last.size
    for length in [*range(0, end, 211), end - 1]:
        (tmp_path / "cut.tar").write_bytes(whole[:length])
        with pytest.raises(ModelError):
            mlc.load_module(tmp_path / "cut.tar")


def test_a_changed_byte_anywhere(saved, tmp_path):
    """A byte that matters is noticed: what loads gives the right result."""
    whole, refused = saved.read_bytes(), 0
    for place in range(0, len(whole), 173):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        (tmp_path / "damaged.tar").write_bytes(damaged)
        try:
            ex = mlc.load_module(tmp_path / "damaged.tar")
        except ModelError:
            refused += 1
        else:
            np.testing.assert_array_equal(ex(X), np.maximum(X + Y, 0))
    assert refused > 10


def test_what_is_no_archive(tmp_path):
    for name, data in (("empty", b""), ("noise", bytes(range(256)) * 20)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelError, match=f"{name} cannot be read as a saved executable: "):
            mlc.load_module(tmp_path / name)
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ModelError, match=r"cannot be read as a saved executable: \[Errno"):
            mlc.load_module(path)


# forged ------------------------------------------------------------------------------------------


def forge(saved: Path, path: Path, change) -> Path:
    """The archive with its files changed by `change(files)`, and digests that agree."""
    with tarfile.open(saved) as tar:
        files = {info.name: tar.extractfile(info).read() for info in tar}
    files["manifest.json"] = json.loads(files["manifest.json"])
    change(files)
    manifest = files.get("manifest.json")
    if isinstance(manifest, dict):
        digests = {
            name: hashlib.blake2b(data, digest_size=16).hexdigest()
            for name, data in files.items()
            if name != "manifest.json"
        }
        files["manifest.json"] = json.dumps({**manifest, "files": digests}).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


KERNEL = "kernels/kernel.fused_add_relu.ll"


def manifest(**entries):
    return lambda files: files["manifest.json"].update(entries)


def kernel(**entries):
    return lambda files: files["manifest.json"]["kernels"]["fused_add_relu"].update(entries)


def constant(**entries):
    return lambda files: files["manifest.json"]["constants"][0].update(entries)


def replaced(name, data):
    return lambda files: files.update({name: data})


def without(name):
    return lambda files: files.pop(name)


FORGED = [
    (without("manifest.json"), "'manifest.json' is missing"),
    (without("module.py"), "'module.py' is missing"),
    (without("constants.safetensors"), "'constants.safetensors' is missing"),
    (without(KERNEL), f"'{KERNEL}' is missing"),
    (replaced("manifest.json", b"[]"), "manifest is no table"),
    (replaced("manifest.json", b"{}"), "manifest: 'format' is no int"),
    (manifest(format=99), "it has format 99, this version reads 2"),
    (manifest(target="interp"), "made for interp"),
    (manifest(target="cuda"), "kernel fused_add_relu: 'name' is no str"),
    (manifest(target=None), "manifest: 'target' is no str"),
    (manifest(kernels=None), "manifest: 'kernels' is no dict"),
    (manifest(kernels={}), "kernels of other functions: ['fused_add_relu']"),
    (kernel(workspace=-5), "kernel fused_add_relu: workspace of -5 bytes"),
    (kernel(workspace=1 << 60), "kernel fused_add_relu: workspace of 1152921504606846976 bytes"),
    (kernel(messages=None), "kernel fused_add_relu: 'messages' is no list"),
    (kernel(sizes=3), "kernel fused_add_relu: 'sizes' is no list"),
    (kernel(symbol="../../x"), "'kernels/../../x.ll' is missing"),
    (constant(shape=[4]), "cannot reshape array of size 3 into shape (4,)"),
    (constant(shape=[-1]), "constant 0 of shape [-1]"),
    (constant(dtype="object"), "no dtype 'object'"),
    (replaced(KERNEL, b""), f"{KERNEL} does not define kernel.fused_add_relu"),
    (
        replaced(KERNEL, b"nonsense"),
        "LLVM refuses line 1, column 1 of the module: expected top-level entity\n"
        "    nonsense\n    ^",
    ),
    (
        replaced("module.py", b"import os\nos.abort()\n"),
        "a text holds one module or one function",
    ),
]


@pytest.mark.parametrize(("change", "message"), FORGED, ids=range(len(FORGED)))
def test_forged(change, message, saved, tmp_path):
    path = forge(saved, tmp_path / "forged.tar", change)
    with pytest.raises(ModelError) as caught:
        mlc.load_module(path)
    assert str(caught.value) == f"{path} is no saved executable, or is damaged: {message}"


def test_forging_nothing_loads(saved, tmp_path):
    ex = mlc.load_module(forge(saved, tmp_path / "same.tar", lambda files: None))
    np.testing.assert_array_equal(ex(X), np.maximum(X + Y, 0))


def test_kernels_reach_no_function_of_the_system(saved, tmp_path):
    """Code may call what the runtime and the C mathematics library offer, and nothing else."""

    def call_system(files):
        text = files[KERNEL].decode() + "\ndeclare i32 @system(ptr)\n"
        assert "ret i32 0" in text
        called = text.replace("ret i32 0", "%s = call i32 @system(ptr null)\n  ret i32 %s")
        files[KERNEL] = called.encode()

    path = forge(saved, tmp_path / "forged.tar", call_system)
    with pytest.raises(ModelError, match="system"):
        mlc.load_module(path)


def test_a_member_that_claims_to_be_huge(tmp_path):
    info = tarfile.TarInfo("manifest.json")
    info.size = 1 << 40
    (tmp_path / "huge.tar").write_bytes(info.tobuf() + bytes(1024))
    with pytest.raises(ModelError, match="'manifest.json' is larger than the file"):
        mlc.load_module(tmp_path / "huge.tar")


def test_nothing_is_written_outside(saved, tmp_path):
    """Links and odd names in an archive stay in the archive."""
    path = tmp_path / "odd.tar"
    with tarfile.open(saved) as tar, tarfile.open(path, "w") as odd:
        for info in tar:
            odd.addfile(info, tar.extractfile(info))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "target")
        odd.addfile(link)
        odd.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    before = set(tmp_path.iterdir())
    with pytest.raises(ModelError, match=r"files missing or too many: \['../outside'\]"):
        mlc.load_module(path)
    assert set(tmp_path.iterdir()) == before
