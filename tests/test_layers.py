"""The house's layers hold: `lint-imports` checks the list, this what the list cannot say."""

from __future__ import annotations

from tests.house import modules_imported, sources

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
