"""Texts that are no programs: only typed errors, no hang, and nothing of Python is run."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlcnb.core.errors import MLCError
from mlcnb.ir import assert_structural_equal
from mlcnb.script import parse, script
from tests.tir.constructs import ROWS

FUZZ = settings(
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TEXTS = [row.text for row in ROWS]
TEXTS += [script(parse(row.text, dialect=row.dialect), dialect="0.27") for row in ROWS]
HEAD = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), n: T.int32):\n    '


def tokens(text: str) -> list[str]:
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return [t.string for t in found if t.string.strip()]


WORDS = sorted({t for text in TEXTS for t in tokens(text)})
STRANGE = [
    "__import__('os').system('true')", "().__class__", "A.__class__", "T.__dict__", "T.grid",
    "(lambda: 1)()", "[i for i in range(9)]", "f'{A}'", "f'{A.data.__class__}'",
    "'{0.data}'.format(A)", "A.data.name", "print(1)", "open('x')", "eval('1')", "exec('1')",
    "yield", "await x", "x := 1", "*A", "**A", "9 ** 9 ** 9", "1 << 999999", "'a' * 999999999",
    "[0] * 999999999", "-1", "1e999", "float('nan')", "int('9' * 9999)", "str(A)", "dict(A=1)",
    "list(A)", "tuple(T)", "sum([A, A])", "len(A)", "zip(A, A)", "enumerate(T)", "max()",
    "min([])", "abs('x')", "T.int64(1 << 70)", "None", "True", "...", "b'x'", "1j",
    "T.float32('x')", "T.handle(1, 2, 3)", "A[A]", "A[None]", "A['x']", "A[::0]", "A[0:n]",
    "T.Ramp(0, 1, 0)", "T.Broadcast(A, 4)", "T.axis.spatial(T, T)", "T.Let(1)",
    "T.comm_reducer(1, 2)", "metadata['x'][0]", "cls.main(1)", "R.add(1, 2)", "I.module_attrs(1)",
    "T.match_buffer(A, 1, 2, 3, 4)", "T.Shuffle([], [])", "T.reinterpret('int64', A[0])",
    "A.view(0)", "A.view('int3')", "A.vload()", "A.access_ptr('q')", "T.target('x')",
    "T.func_attr(1)", "é", "\u2028",
]  # fmt: skip


def typed_error_or_program(text: str) -> None:
    """Parsing gives a program that prints, or an error of ours."""
    try:
        made = parse(text)
    except MLCError as error:
        assert str(error)
        return
    script(made)


@FUZZ
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    typed_error_or_program(text)
    typed_error_or_program(HEAD + text)


@FUZZ
@given(st.data())
def test_programs_with_some_tokens_replaced(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    known = sorted(set(tokens(text)))
    for _ in range(data.draw(st.integers(1, 4))):
        old = data.draw(st.sampled_from(known))
        new = data.draw(st.one_of(st.sampled_from(WORDS), st.sampled_from(STRANGE)))
        at = text.find(old, data.draw(st.integers(0, len(text))))
        if at >= 0:
            text = text[:at] + new + text[at + len(old) :]
    typed_error_or_program(text)


@FUZZ
@given(st.data())
def test_programs_with_lines_removed_or_moved(data: st.DataObject) -> None:
    lines = data.draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line = lines.pop(at)
        if data.draw(st.booleans()):
            spaces = " " * data.draw(st.integers(0, 12))
            lines.insert(data.draw(st.integers(0, len(lines))), spaces + line.strip())
        if not lines:
            break
    typed_error_or_program("\n".join(lines))


PLACES = [
    "A[0] = {}", "A[{}] = 0.0", "{}", "x = {}", "x: {} = 1", "for i in {}:\n        pass",
    "while {}:\n        pass", "if {}:\n        pass", "with {}:\n        pass", "assert {}, 'x'",
    "assert n > 0, {}", "return {}", "T.evaluate({})", "with T.block({}):\n        pass",
    "T.func_attr({})",
    "with T.block('b'):\n        v = T.axis.spatial({}, 0)\n        A[v] = 0.0",
    "with T.block('b'):\n        T.reads({})", "with T.block('b'):\n        T.where({})",
    "C = T.alloc_buffer({})", "C = T.alloc_buffer((4,), {})", "C = T.match_buffer({}, (4,))",
    "C = T.decl_buffer((4,), data={})", "v = T.allocate({}, 'int8', 'local')",
    "T.attr({}, 'k', 1)", "with T.LetStmt({}) as x:\n        pass",
    "for i in T.serial({}):\n        pass", "for i in T.grid(4, {}):\n        pass",
    "tx = T.launch_thread({}, 4)", "A[0:4] = {}", "A.vstore([0], {})",
    "@{}\n    def f(x):\n        pass\n    f(1)", "T.call_extern({}, 'f')",
    "T.call_intrin('int32', {})", "A[0] += {}", "x, y = {}", "T.static_assert({})",
    "for i in T.thread_binding(4, thread={}):\n        pass",
    "C = T.alloc_buffer((4,), align={})", "C = T.alloc_buffer((4,), offset_factor={})",
    "C = T.alloc_buffer((4,), axis_separators={})", "C = T.alloc_buffer((4,), strides={})",
    "C = T.alloc_buffer((4,), scope={})", "C = T.decl_buffer((4,), data=A.data, elem_offset={})",
    "T.func_attr({{'global_symbol': {}}})", "with T.Assert(n > 0, {}):\n        pass",
    "T.attr(0, {}, 1)", "T.attr(0, 'k', {})", "x = T.launch_thread('threadIdx.x', {})",
]  # fmt: skip


@pytest.mark.parametrize("what", STRANGE)
def test_strange_things_in_every_place(what: str) -> None:
    for place in PLACES:
        typed_error_or_program(HEAD + place.format(what))


@pytest.mark.parametrize("where", ["decorator", "default", "annotation", "result", "base", "above"])
@pytest.mark.parametrize(
    "attack",
    ["__import__('pathlib').Path(CANARY).touch()", "open(CANARY, 'w')", "exec('open(CANARY)')"],
)
def test_a_text_runs_nothing(where: str, attack: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    attack = attack.replace("CANARY", repr(str(canary)))
    texts = {
        "decorator": f"@{attack}\ndef main(n: T.int32):\n    T.evaluate(n)",
        "default": f"@T.prim_func\ndef main(n: T.int32 = {attack}):\n    T.evaluate(n)",
        "annotation": f"@T.prim_func\ndef main(n: {attack}):\n    T.evaluate(n)",
        "result": f"@T.prim_func\ndef main(n: T.int32) -> {attack}:\n    T.evaluate(n)",
        "base": f"@I.ir_module\nclass M({attack}):\n    x = {attack}",
        "above": f"x = {attack}\n@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(n)",
    }
    with pytest.raises(MLCError):
        parse(texts[where])
    assert not canary.exists()


def test_a_name_that_python_cannot_write_is_kept():
    func = parse("@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(n)")
    assert_structural_equal(
        parse(script(func.with_attr("global_symbol", "tvm.main-1"))),
        func.with_attr("global_symbol", "tvm.main-1"),
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('p = T.allocate([4], "float32", 0)', "a memory scope is a string, not an int"),
        ('p = T.alloc_buffer((4,), "float32", scope=0)', "a memory scope is a string, not an int"),
        ("p = T.decl_buffer((4,), scope=3)", "a memory scope is a string, not an int"),
        ('p = T.handle("float32", None)', "a memory scope is a string, not None"),
        ("T.attr(0, 3, 4)", "the key of an attribute is a string, not an int"),
        (
            "for i in T.thread_binding(4, thread=1): T.evaluate(i)",
            "the axis of a thread is a string, not an int",
        ),
        ("p = T.alloc_buffer((4,), align=n)", "the alignment of a buffer is a whole number"),
        ("p = T.alloc_buffer((4,), offset_factor=n)", "the offset_factor of a buffer is a whole"),
        ("p = T.alloc_buffer((4,), axis_separators='x')", "an axis separator is a whole number"),
        ("T.func_attr({'global_symbol': 3})", "the global_symbol of a function is a string"),
        ("p = T.env_thread(4)", "the tag of a thread is a string, not an int"),
        ("with T.block(3): T.evaluate(0)", "the name of a block is a string, not an int"),
        (
            'p = T.allocate([4], "int8", annotations={4: 3})',
            "attributes are a dict with names as keys",
        ),
        (
            "for i in T.serial(4, annotations={3: 4}): T.evaluate(i)",
            "attributes are a dict with names as keys",
        ),
    ],
)
def test_what_names_something_is_a_string(line, message):
    with pytest.raises(MLCError, match=re.escape(message)):
        parse(f"@T.prim_func\ndef main(n: T.int32):\n    {line}\n    T.evaluate(n)")
