"""Clicks before a kernel is heard of, answers that come late or never: no choice is lost."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.script import from_source
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets import base
from tests.browser.kit import Kit
from tests.codegen.test_linked import GRAPHS
from tests.tir.schedule.programs import matmul

expect = pytest.importorskip("playwright.sync_api").expect


def asked(shown, kind):
    """The questions of a kind, in the order in which they were sent."""
    return [x for x in shown.evaluate("model.sent") if x["ask"] == kind]


def reply(shown, made, question):
    """What Python answers, with what has changed for it before."""
    before = base.pack(made.snapshot())
    answer = made.answer(question["ask"], question["fields"])
    if (packed := base.pack(made.snapshot())) != before:
        shown.evaluate("packed => model.set('packed', packed)", packed)
    message = {"reply": question["id"], "answer": answer}
    shown.evaluate("message => model.fire('msg:custom', message)", message)


def greet(shown, made):
    """A kernel is heard of."""
    reply(shown, made, asked(shown, "hello")[0])


def place(root, name):
    return root.locator(".x-loop", has_text=name)


def test_the_last_of_two_snapshots_stays(opened):
    """The first is long, and takes its time to unpack."""
    made = Kit()
    shown = opened(made)
    packed = base.pack(Kit("long " * 100_000).snapshot()), base.pack(Kit("short").snapshot())
    assert [text[0] for text in packed] == ["z", "{"]
    shown.evaluate("both => both.forEach((one) => model.set('packed', one))", packed)
    expect(shown.locator("h3")).to_have_text("short")
    shown.evaluate("new Promise(done => setTimeout(done, 300))")
    expect(shown.locator("h3")).to_have_text("short")


def test_what_is_asked_when_the_kernel_ends_is_refused_at_once(opened):
    made = Kit()
    shown = opened(made)
    greet(shown, made)
    double = shown.get_by_role("button", name="double")
    double.click()
    assert len(asked(shown, "double")) == 1
    shown.evaluate("model.fire('comm:close')")
    expect(shown.locator(".kit-said")).to_have_text("the kernel has ended: run the cell again")
    double.click()
    expect(shown.locator(".kit-said")).to_contain_text("no kernel is running")


def test_a_place_chosen_while_a_step_is_answered_stays_chosen(opened):
    made = mlc.explore(Schedule(matmul(64, 64, 64)))
    shown = opened(made)
    greet(shown, made)
    place(shown, "j in 64").click()
    reply(shown, made, asked(shown, "legal")[0])
    offer = shown.locator(".x-offer").first
    offer.click()
    expect(offer).to_be_disabled()  # the next step is one of the next program
    step = asked(shown, "apply")[0]
    answer = made.answer("apply", step["fields"])
    shown.evaluate("packed => model.set('packed', packed)", base.pack(made.snapshot()))
    expect(shown.locator(".mlc-at")).to_have_text("step 1 of 1")
    place(shown, "k in 64").click()
    message = {"reply": step["id"], "answer": answer}
    shown.evaluate("message => model.fire('msg:custom', message)", message)
    reply(shown, made, asked(shown, "legal")[1])
    expect(place(shown, "k in 64")).to_have_attribute("aria-selected", "true")
    expect(shown.get_by_text("refused here")).to_be_visible()


def test_a_place_that_is_not_answered_can_be_chosen_again(opened):
    made = mlc.explore(Schedule(matmul(64, 64, 64)))
    shown = opened(made)
    greet(shown, made)
    place(shown, "j in 64").click()
    expect(shown.get_by_text("asking …")).to_be_visible()
    lost = {"reply": asked(shown, "legal")[0]["id"], "answer": {"error": "lost", "hint": ""}}
    shown.evaluate("message => model.fire('msg:custom', message)", lost)
    expect(shown.get_by_role("region", name="refused step")).to_contain_text("lost")
    expect(shown.get_by_text("asking …")).to_have_count(0)
    place(shown, "j in 64").click()
    reply(shown, made, asked(shown, "legal")[1])
    expect(shown.get_by_text("refused here")).to_be_visible()


@pytest.fixture(scope="module")
def kernels():
    """Linked source of a convolution's kernels, and the name of one that is not open."""
    made = mlc.explore(mlc.compile(from_source(GRAPHS["convolution"])).kernels)
    return made, next(name for name in made.kernels if name != made.first)


def test_a_kernel_chosen_before_python_is_heard_of_opens_when_it_is(opened, kernels):
    made, other = kernels
    for shown in (opened(made), opened(made, selection=other)):
        shown.get_by_text("open another").click()
        if shown.evaluate("model.get('selection')") is None:
            shown.get_by_role("button", name=other, exact=True).click()
        assert asked(shown, "open") == []
        greet(shown, made)
        reply(shown, made, asked(shown, "open")[0])
        expect(shown.get_by_role("status")).to_have_text(f"{other} is open")
        assert shown.evaluate("model.get('selection')") == other


def test_an_answer_to_an_older_choice_comes_too_late(opened, kernels):
    made, other = kernels
    shown = opened(made)
    greet(shown, made)
    shown.get_by_text("open another").click()
    shown.get_by_role("button", name=other, exact=True).click()
    shown.get_by_role("button", name=made.first, exact=True).click()
    expect(shown.get_by_role("status")).to_have_text(f"{made.first} is open")
    reply(shown, made, asked(shown, "open")[0])
    shown.get_by_label("machine", exact=True).select_option(index=1)
    levels = [shown.get_by_role("button", name=f"optimisation level {n}") for n in range(3)]
    levels[1].click()
    levels[2].click()
    # that of the machine is asked for too, where it does not travel with the page
    *other, first, last = asked(shown, "code")
    assert len(other) <= 1 and [x["fields"]["level"] for x in (first, last)] == [1, 2]
    for late in (last, first):
        reply(shown, made, late)
        expect(levels[2]).to_have_attribute("aria-pressed", "true")
        expect(levels[1]).to_have_attribute("aria-pressed", "false")
