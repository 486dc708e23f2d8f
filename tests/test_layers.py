"""The house's layers hold: `lint-imports` checks the list, this what the list cannot say."""

from __future__ import annotations

from tests.house import modules_imported, sources
from tests.import_layers import goes_down, place_of, read_layers

FRONTENDS = "mlcnb.relax.frontend."
#: what front ends have in common; it knows none of them
SHARED = ("shared", "detach")


def test_front_ends_do_not_import_each_other() -> None:
    """What two of them need stands in `frontend.shared`, which needs none of them."""
    wrong = []
    for source in sources():
        here = frontend(source.name)
        for name in modules_imported(source) if here else ():
            there = frontend(name)
            if there and there not in (here, *SHARED):
                wrong.append(f"{source.path} imports {name}")
    assert not wrong, "\n".join(wrong)


def frontend(module: str) -> str:
    """`onnx` of `mlcnb.relax.frontend.onnx.load`; nothing of a module elsewhere."""
    return module.removeprefix(FRONTENDS).partition(".")[0] if module.startswith(FRONTENDS) else ""


def test_layers_take_the_longest_name():
    places = read_layers(["a", "a.x.top", "a.y | a.z", "a.x"])
    assert place_of("a.x.top.m", places).depth == 1
    assert place_of("a.x.m", places).depth == 3
    assert place_of("a", places).depth == 0
    assert place_of("a.new", places) is None
    up, down = place_of("a.x.top", places), place_of("a.x", places)
    assert goes_down(up, down) and goes_down(up, up) and not goes_down(down, up)
    assert not goes_down(place_of("a.y", places), place_of("a.z", places))
    assert goes_down(*(place_of(name, read_layers(["a.y & a.z"])) for name in ("a.y", "a.z")))
