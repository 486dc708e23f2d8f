"""show(), excerpts of errors, text_of."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.core.node import walk
from mlcnb.ir import ObjectPath
from mlcnb.ir.expr import Var
from mlcnb.script import document, parse, show, text_of
from mlcnb.script.excerpt import excerpt
from mlcnb.tir import PrimFunc
from mlcnb.tir.buffer import BufferLoad, decl_buffer
from mlcnb.tir.stmt import Block, Evaluate, For, IterVar, LetStmt, SeqStmt

FUNC = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        for j in T.parallel(4):
            A[i] = B[i]
            A[j] = B[j]
""")


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    FUNC.show()
    assert capsys.readouterr().out == FUNC.script() + "\n"


def test_a_terminal_gets_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(FUNC, dialect="0.27")
    out = capsys.readouterr().out
    assert "\x1b[94m@T.prim_func\x1b[0m" in out
    assert "\x1b[35mfor \x1b[0m" in out


def test_a_notebook_gets_html(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr("mlcnb.core.display.in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", lambda bundle, raw: shown.append((bundle, raw)))
    show(FUNC, line_numbers=True)
    page = document(FUNC)
    assert shown == [({"text/plain": page.text, "text/html": page.html(line_numbers=True)}, True)]


def test_the_text_of_a_node_has_no_header() -> None:
    assert text_of(FUNC).split("\n")[0] == "@T.prim_func"
    assert repr(FUNC) == text_of(FUNC)


def test_an_excerpt_shows_the_node_with_two_lines_around() -> None:
    load = [n for n in walk(FUNC) if isinstance(n, BufferLoad)][1]
    assert excerpt((FUNC, load)).split("\n") == [
        "  4 |         for j in T.parallel(4):",
        "  5 |             A[i] = B[i]",
        "> 6 |             A[j] = B[j]",
        "    |                    ^^^^",
    ]


def test_an_error_shows_its_node() -> None:
    loop = next(n for n in walk(FUNC) if isinstance(n, For) and n.kind.value == "parallel")
    error = ScheduleError("it carries a dependence", where=loop, root=FUNC, hint="another loop")
    assert str(error).split("\n") == [
        "it carries a dependence",
        '  2 | def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):',
        "  3 |     for i in range(16):",
        "> 4 |         for j in T.parallel(4):",
        "    |         ^^^^^^^^^^^^^^^^^^^^^^^",
        "  5 |             A[i] = B[i]",
        "  6 |             A[j] = B[j]",
        "hint: another loop",
    ]


def test_a_node_that_is_not_printed_has_no_excerpt() -> None:
    assert excerpt((FUNC, For)) == ""


def test_a_long_node_is_shown_by_its_first_line() -> None:
    long = parse("@T.prim_func\ndef main(n: T.int32):\n" + "    T.evaluate(n)\n" * 20)
    assert excerpt((long, long)).split("\n") == [
        "> 1 | @T.prim_func",
        "    | ^^^^^^^^^^^^",
        "  2 | def main(n: T.int32):",
        "  3 |     T.evaluate(n)",
    ]


def test_nodes_can_be_underlined_and_annotated_in_the_text() -> None:
    store = FUNC.body.body.body.seq[1]
    text = FUNC.script(
        header=False, obj_to_underline=[store.value], obj_to_annotate={store: "the second"}
    )
    assert text.split("\n")[-2:] == [
        "            A[j] = B[j]  # the second",
        "                   ^^^^",
    ]


def test_lines_can_be_numbered() -> None:
    assert FUNC.script(print_line_numbers=True).split("\n")[:4] == [
        "1  # from tvm.script import tir as T",
        "2",
        "3  @T.prim_func",
        '4  def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):',
    ]


def test_a_part_says_what_it_uses():
    A = decl_buffer((16, 4), "float16", "A")
    i, data = Var("i"), Var("v", "handle", ("int8", "shared"))
    load = BufferLoad(A, [i, 2])
    assert load.script() == "A[i, 2]"
    assert load.script(verbose_expr=True) == (
        'A = T.Buffer((16, 4), "float16")\ni = T.int32()\nA[i, 2]'
    )
    assert A.script(verbose_expr=True) == 'A = T.Buffer((16, 4), "float16")\nA'
    assert Evaluate(data).script(verbose_expr=True) == (
        'v = T.handle("int8", "shared")\nT.evaluate(v)'
    )
    let = LetStmt(i, 2, Evaluate(i))
    assert let.script() == "i: T.int32 = 2\nT.evaluate(i)"
    assert let.script(verbose_expr=True) == "with T.LetStmt(2) as i:\n    T.evaluate(i)"
    block = Block([IterVar((0, 8), "vi", 0)], [], [], "b", Evaluate(0))
    assert block.script(verbose_expr=True) == (
        'with T.block("b", no_realize=True):\n    vi = T.axis.spatial(8)\n'
        "    T.reads()\n    T.writes()\n    T.evaluate(0)"
    )


def test_what_a_path_leads_to_is_underlined():
    path = ObjectPath.root().attr("body").array_index(1)
    func = PrimFunc([], SeqStmt([Evaluate(n) for n in range(4)]), None, {}, {"global_symbol": "f"})
    options = {"header": False, "path_to_underline": [ObjectPath.root().attr("end")]}
    assert path.of(SimpleNamespace(body=[1, 2])) == 2 and repr(path) == "<root>.body[1]"
    seq = ObjectPath.root().attr("body").attr("seq").array_index(1)
    assert func.script(header=False, path_to_underline=[seq], num_context_lines=1) == (
        "(... 2 lines skipped ...)\n    T.evaluate(0)\n    T.evaluate(1)\n    ^^^^^^^^^^^^^\n"
        "    T.evaluate(2)\n(... 1 lines skipped ...)"
    )
    with pytest.raises(MLCError, match="there is no 'end'"):
        func.script(**options)
