"""The tests' own JupyterLab: what it does, it does as a reader would."""

from __future__ import annotations

import pytest

expect = pytest.importorskip("playwright.sync_api").expect


def test_runs_saves_and_comes_back(lab):
    nb = lab.open(["import mlcnb as mlc", "mlc.te.placeholder((2, 3), name='X')", "1 + 1"])
    nb.run()
    expect(nb.output(2)).to_have_text("2")
    saved = nb.save()
    assert saved.cells[2].outputs[0].data["text/plain"] == "2"
    again = nb.reopen()
    expect(again.output(2)).to_have_text("2")
    again.execute("assert 'mlc' not in globals()")


def test_a_notebook_may_have_no_kernel(lab):
    nb = lab.open(["1 + 1"], live=False)
    assert nb.call("([path]) => panels[path].sessionContext.session") is None


def test_magics_in_a_notebook(lab):
    cell = (
        "%%tvmscript double\n@T.prim_func\n"
        "def main(A: T.Buffer((n,), 'float32'), B: T.Buffer((n,), 'float32')):\n"
        "    for i in T.serial(n):\n        B[i] = A[i] * T.float32(2)"
    )
    nb = lab.open(["%load_ext mlcnb", "n = 8", cell, "double.attrs['global_symbol']"], trusted=True)
    nb.run()
    expect(nb.output(2)).to_contain_text("PrimFunc main")
    expect(nb.output(3)).to_have_text("'main'")


def test_a_bar_of_progress_leaves_nothing_in_a_notebook_that_is_opened_again(lab):
    """A widget would say 'model not found' there."""
    bar = "from time import sleep; from mlcnb.core.progress import progress_bar"
    work = (
        "with progress_bar('working', 4) as bar:\n    for _ in range(4): sleep(0.4); bar.update(1)"
    )
    nb = lab.open([f"{bar}\n{work}\n'done'"])
    nb.run()
    expect(nb.output(0).last).to_have_text("'done'")
    assert [o.get("data") for o in nb.save().cells[0].outputs] == [
        {"text/plain": ""},
        {"text/plain": "'done'"},
    ]
    again = nb.reopen()
    expect(again.output(0).last).to_have_text("'done'")
    assert "not found" not in again.root.inner_text()
    again.execute("pass")  # its kernel is there
