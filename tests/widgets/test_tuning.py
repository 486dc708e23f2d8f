"""The page of a search: what it tells of a search that goes on, and of one that is over."""

from __future__ import annotations

import json
from threading import Event

import pytest

import mlcnb as mlc
from mlcnb.core import above
from mlcnb.meta_schedule import Round
from mlcnb.meta_schedule.found import interval
from mlcnb.script import from_source
from mlcnb.view import search
from mlcnb.widgets import tuning
from tests.view.allowed import check_html
from tests.view.names import NAMES
from tests.view.samples import named_module, searched
from tests.widgets.samples import page

PRODUCT = """
@T.prim_func
def main(A: T.Buffer((64, 96), "float32"), B: T.Buffer((96, 80), "float32"),
         C: T.Buffer((64, 80), "float32")):
    for i, j, k in T.grid(64, 80, 96):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


class Cell:
    """A cell's output: what was shown, one after the other."""

    def __init__(self, monkeypatch):
        self.bundles = []
        monkeypatch.setattr(tuning, "_display", self.show)
        monkeypatch.setattr(tuning.display, "in_notebook", lambda: True)

    def show(self, bundle):
        self.bundles.append(bundle)
        return self

    def update(self, bundle, raw):
        self.bundles.append(bundle)


@pytest.fixture(scope="module")
def live():
    """What a page told while a search went on, what stayed in the cell, what was found."""
    seen = []

    class Page(tuning.TuningPage):
        def _moved(self):
            seen.append(json.loads(json.dumps(self.snapshot())))
            super()._moved()

    with pytest.MonkeyPatch.context() as patch, mlc.options.scoped(display="rich"):
        cell = Cell(patch)
        patch.setattr(tuning, "TuningPage", Page)
        product = from_source(PRODUCT)
        found = mlc.tune(product, trials=6, seconds=60, threads=1, peers={"peer": 1.0})
    return seen, cell.bundles, found


def test_a_page_follows_a_search(live):
    seen, _, found = live
    tasks = [told["tasks"][-1] for told in seen]
    assert tasks[0] == {"name": "main", "calls": 1, "running": True, "trials": []}
    assert [t["running"] for t in tasks] == [True] * (len(tasks) - 1) + [False]
    counts = [len(t["trials"]) for t in tasks]
    assert counts == sorted(counts) and counts[-1] == len(found.trials) == 7
    assert [name for name, _ in tasks[-1]["levels"]] == ["default", "peer", "roofline"]
    assert tasks[1]["why"] is None and tasks[-1]["why"]["measured"] == found.ratio
    assert tasks[-1]["line"].startswith("tune main: ") and "7 tried" in tasks[-1]["line"]


def test_what_stays_in_the_cell_needs_no_kernel(live):
    _, bundles, found = live
    first, last = bundles
    assert tuning.Interactive and "application/vnd.jupyter.widget-view+json" in first
    assert set(last) == {"text/plain", "text/html"}
    assert last["text/plain"].startswith("tune main: ")
    check_html(last["text/html"])
    assert found.levels.keys() == {"peer", "roofline"}


def test_the_button_stops_what_goes_on(monkeypatch):
    pages = []

    class Page(tuning.TuningPage):
        def _moved(self):
            pages.append(self)
            if self.tasks[-1].search.trials:
                assert self.answer("stop", {}) in ({"stopping": 1}, {"stopping": 0})

    Cell(monkeypatch)
    monkeypatch.setattr(tuning, "TuningPage", Page)
    with mlc.options.scoped(display="rich"):
        found = mlc.tune(from_source(PRODUCT), seconds=600, threads=1)
    assert found.stopped and len(found.trials) == 1
    assert pages[-1].answer("stop", {}) == {"stopping": 0}


def test_no_page_where_none_is_shown():
    assert above.ask("page of a search")() is None
    with mlc.options.scoped(display="static"):
        assert tuning.page_of_search() is None


def test_an_event_stops_as_ctrl_c_does():
    stop = Event()
    found = mlc.tune(
        from_source(PRODUCT), seconds=600, threads=1, stop=stop, on_trial=lambda _: stop.set()
    )
    assert found.stopped and len(found.trials) == 1


def test_the_races_are_a_ladder(live):
    found = live[2]
    assert [r.is_last for r in found.rounds] == sorted(r.is_last for r in found.rounds)
    tries = {n for r in found.rounds if not r.is_last for n in r.ratios}
    assert tries == {x.number for x in found.trials if x.ratio is not None and x.number}
    found = searched("x")
    found.rounds = [Round(False, {1: 0.9}), *(Round(True, {1: r}) for r in (0.7, 0.8, 0.9))]
    rungs = search.ladder(found)
    assert [r.runs for r in rungs[:3]] == [
        [(1, 0.9, None)], [(1, 0.7, None)], [(1, 0.75, None)]
    ]  # fmt: skip
    assert rungs[3].runs == [(1, 0.8, interval([0.7, 0.8, 0.9]))]


def test_decisions_are_a_tree(live):
    found = live[2]
    branches = search.tree(found)
    assert sum(b.tried for b in branches) == len(found.trials) + len(found.refused)
    own = next(b for b in branches if b.label == found.default.candidate.decisions["rule"])
    for name, of in search.options(own):
        assert len(of) > 1
        for option in of:
            those = [
                x.ratio for x in found.trials
                if x.ratio is not None and x.candidate.decisions.get(name) == option.label
                and x.candidate.decisions["rule"] == own.label
            ]  # fmt: skip
            assert option.best == min(those, default=None)


def test_what_was_rejected_is_counted_by_reason():
    (branch,) = search.tree(searched("x"))
    assert branch.rejected == {"x": 2} and branch.tried == 5 and branch.best == 0.8
    text = repr(mlc.explore(searched("x")))
    for wanted in ("tune x: 0.80 x the default's time", "decisions:", "rejected", "all together"):
        assert wanted in text


def test_peers_go_with_one_function():
    with pytest.raises(mlc.core.errors.MLCError, match="go with one loop function, not with a"):
        mlc.tune(named_module("x"), peers={"x": 1.0})


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("kind", ["Tuning", "ModelTuning"])
def test_names_stay_text(kind, name):
    shown = page(kind, name)
    assert len(json.dumps(shown.snapshot())) < 80_000
    check_html(shown.to_html())
