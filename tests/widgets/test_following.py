"""A page follows what later cells do to its schedule: in a real IPython shell."""

from __future__ import annotations

import atexit
import gc
import weakref

import pytest
from IPython.core.interactiveshell import InteractiveShell

from mlcnb.core import cells
from mlcnb.widgets import following
from mlcnb.widgets.base import unpack

SETUP = """
import mlcnb as mlc
from mlcnb.testing.gallery.programs import matmul
sch = mlc.tir.Schedule(matmul(8, 8, 8))
page = mlc.explore(sch)
panel = page.panel
"""


@pytest.fixture
def shell(monkeypatch):
    made = InteractiveShell()
    monkeypatch.setattr(cells, "shell", lambda: made)
    monkeypatch.setattr(following, "_pages", [])
    yield made
    made.history_manager.end_session()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


def run(shell, cell: str) -> None:
    assert shell.run_cell(cell).success


def steps(shell) -> int:
    """How many steps the page shows, as it was last sent."""
    return len(unpack(shell.user_ns["panel"].packed)["branches"][0]["steps"])


def sent(shell) -> list[str]:
    """Notes every text that is sent to the page from here on."""
    found: list[str] = []
    shell.user_ns["panel"].observe(lambda change: found.append(change["new"]), names=["packed"])
    return found


def test_a_step_in_a_later_cell_shows(shell):
    run(shell, SETUP)
    before = steps(shell)
    changes = sent(shell)
    run(shell, "x = 1")
    assert changes == []
    run(shell, "sch.unroll(sch.get_loops('C')[0])")
    assert steps(shell) == before + 1 and len(changes) == 1
    run(shell, "sch.undo()")
    assert len(changes) == 2
    run(shell, "sch.get_block('C'); sch.position")
    assert len(changes) == 2  # nothing that the page shows has changed
    run(shell, "sch.vectorize(sch.get_loops('C')[1])")  # in place of what was undone
    assert len(changes) == 3 and steps(shell) == before + 1


def test_a_cell_that_fails_still_shows_what_it_did(shell):
    run(shell, SETUP)
    before = steps(shell)
    assert not shell.run_cell("sch.unroll(sch.get_loops('C')[0]); 1 / 0").success
    assert steps(shell) == before + 1


def test_a_page_that_fails_is_no_matter_of_the_cell(shell, capsys):
    run(shell, SETUP)
    run(shell, "def broken(): raise RuntimeError('no')\npage.snapshot = broken")
    capsys.readouterr()
    run(shell, "sch.unroll(sch.get_loops('C')[0])")
    out = capsys.readouterr()
    assert "no" not in (out.out + out.err) and "Error" not in (out.out + out.err)


def test_the_hook_is_there_once_and_holds_no_page(shell):
    run(shell, SETUP)
    run(shell, "others = [mlc.explore(sch).panel for _ in range(3)]")
    hooks = shell.events.callbacks["post_run_cell"]
    assert hooks.count(following.after_cell) == 1 and len(following._pages) == 4
    alive = weakref.ref(shell.user_ns["page"])
    run(shell, "for p in [panel, *others]: p.close()\ndel page, panel, others, p")
    shell.displayhook.flush()
    gc.collect()
    assert alive() is None and following._pages == []
    run(shell, "sch.unroll(sch.get_loops('C')[0])")


def test_a_page_that_is_closed_is_left_alone(shell):
    run(shell, SETUP)
    text = shell.user_ns["panel"].packed
    run(shell, "panel.close()")
    run(shell, "sch.unroll(sch.get_loops('C')[0])")
    assert shell.user_ns["panel"].packed == text


def test_the_newest_pages_come_first_and_the_others_later(shell, monkeypatch):
    run(shell, SETUP)
    run(shell, "newer = mlc.explore(sch).panel")
    texts = {name: shell.user_ns[name].packed for name in ("panel", "newer")}
    monkeypatch.setattr(following, "BUDGET", -1.0)
    run(shell, "sch.unroll(sch.get_loops('C')[0])")
    assert shell.user_ns["newer"].packed != texts["newer"]
    assert shell.user_ns["panel"].packed == texts["panel"]
    monkeypatch.setattr(following, "BUDGET", 10.0)
    run(shell, "x = 1")
    assert shell.user_ns["panel"].packed != texts["panel"]


def test_without_ipython_nothing_is_kept(monkeypatch):
    import mlcnb as mlc
    from mlcnb.testing.gallery.programs import matmul

    monkeypatch.setattr(cells, "shell", lambda: None)
    monkeypatch.setattr(following, "_pages", [])
    page = mlc.explore(mlc.tir.Schedule(matmul(8, 8, 8)))
    assert page.panel is not None and following._pages == []
