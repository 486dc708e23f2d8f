"""Hostile and damaged models: each is refused with a typed error that says what, in no time."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import mlcnb
from tests.frontend.build import floats, model, node
from tests.frontend.hostile import CASES, external, loaded, refusal, saved, secret, with_external

#: seconds of a core and bytes that a refusal may take
SECONDS = 1.0
BYTES = 300 << 20


@pytest.fixture(scope="module")
def told():
    """Refusals of one process that does nothing else: its seconds and bytes are theirs."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=loaded) as worker:
        yield lambda name, folder: worker.submit(refusal, name, folder).result(timeout=120)


def test_the_corpus_is_large_enough():
    assert len(CASES) >= 25


@pytest.mark.parametrize("name", CASES)
def test_refused(name, tmp_path, told):
    _, error, parts = CASES[name]
    kinds, text, seconds, size = told(name, tmp_path)
    assert error.__name__ in kinds, text
    assert seconds < SECONDS
    assert size < BYTES
    assert [p for p in parts if p not in text] == [], text
    assert "hint: " in text
    assert "secret!!" not in text


def test_names_that_hold_markup_are_imported():
    script = "<img src=x onerror=alert(1)>"
    made = model(f"{script}: float[2]", [node("Relu", "x", "y", name=script)], "y: float[2]")
    made.graph.node[0].input[0] = script
    mod = mlcnb.from_onnx(made)
    assert [p.name_hint for p in mod["main"].params] == ["_img_src_x_onerror_alert_1__"]
    call = mod["main"].body.bindings[0].value
    assert (call.span.source, call.span.name, call.span.kind) == ("onnx", script, "Relu")


def test_external_data_inside_the_folder_are_read(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"skip" + floats(2).tobytes())
    path = saved(tmp_path, with_external(external("sub/w.bin", offset=4, length=8)))
    stored = mlcnb.from_onnx(path)["main"].body.bindings[0].value.args[1]
    assert stored.data.tolist() == [0.0, 1.0]


def test_a_model_file_behind_a_link_reads_no_data_from_elsewhere(tmp_path):
    inside = secret(tmp_path)
    path = saved(inside, with_external(external("secret.bin")))
    link = tmp_path / "link.onnx"
    link.symlink_to(path)
    with pytest.raises(mlcnb.MLCError, match="cannot be read"):
        mlcnb.from_onnx(path)
    assert mlcnb.from_onnx(link)["main"].body.bindings[0].value.args[1].data.nbytes == 8
