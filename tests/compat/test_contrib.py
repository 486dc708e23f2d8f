"""Temporary folders, and the compilers of this machine."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

import mlcnb as tvm
from mlcnb.contrib import cc, clang, utils

CODE = 'extern "C" int twice(int x) { return 2 * x; }'


def test_a_folder_that_goes():
    temp = utils.tempdir()
    path = Path(temp.relpath("a.txt"))
    path.write_text("a")
    assert temp.listdir() == ["a.txt"] and path.parent == Path(temp.temp_dir)
    temp.remove()
    assert not path.parent.exists()
    with utils.tempdir() as inside:
        assert Path(inside.temp_dir).exists()
    assert not Path(inside.temp_dir).exists()


@pytest.mark.skipif(cc.get_cc() is None, reason="no C compiler")
def test_a_shared_library():
    temp = utils.tempdir()
    source, library = temp.relpath("a.c"), temp.relpath("a.so")
    Path(source).write_text("int twice(int x) { return 2 * x; }\n")
    cc.create_shared(library, source, ["-x", "none"])
    assert Path(library).exists()
    assert ctypes.CDLL(library)
    Path(source).write_text("int twice(int x) { return 2 * }\n")
    with pytest.raises(tvm.MLCError, match="failed: (.|\n)*error"):
        cc.create_shared(library, source)


def test_llvm_of_c_or_a_clear_refusal():
    if clang.find_clang(required=False):
        assert "@twice" in clang.create_llvm(CODE)
        return
    with pytest.raises(tvm.MLCError) as error:
        clang.create_llvm(CODE)
    assert str(error.value) == (
        "no clang on this machine: it makes LLVM IR of C\n"
        "hint: install clang, or call a function of Python: R.call_dps_packed, T.call_packed"
    )


def test_no_compiler_is_refused(monkeypatch):
    monkeypatch.setattr(cc, "get_cc", lambda: None)
    with pytest.raises(tvm.MLCError) as error:
        tvm.contrib.cc.create_shared("a.so", "a.c")
    assert str(error.value) == "no C compiler on this machine\nhint: install g++ or clang"
