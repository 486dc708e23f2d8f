"""The guard hears what must not happen: else every test that it watches says nothing."""

from __future__ import annotations

import pytest

from tests.browser.guard import Guard


@pytest.mark.parametrize(
    ("html", "heard"),
    [
        ("<img src=x onerror=alert(1)>", "dialog: 1"),
        ("<script>window.pwned = 2</script>", "a name ran: 2"),
        ("<script>nowhere()</script>", "uncaught: nowhere is not defined"),
        ("<script>console.error('oh')</script>", "error: oh"),
        ("<img src=http://elsewhere.invalid/x>", "request: http://elsewhere.invalid/x"),
        ("<script>open('about:blank')</script>", "window opened: about:blank"),
        ("<p>a name</p>", ""),
    ],
)
def test_hears(browser, tmp_path, html, heard):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{html}")
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        guard = Guard(page)
        page.goto(path.as_uri())
        page.wait_for_timeout(100)
        if not heard:
            return guard.check()
        with pytest.raises(AssertionError) as found:
            guard.check()
        assert heard in str(found.value)
