"""What must not happen in a page: a name that runs, a dialog, an error, a word to another host."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

#: what an exploit in a hostile name does (see tests/view/names.py): it sets this
PWNED = "window.pwned"
LOCAL = ("data", "blob", "about", "file")


class Guard:
    """Listens to a page from its beginning; `check` says what was heard."""

    def __init__(self, page: Any, host: str = "", known: tuple[str, ...] = ()) -> None:
        self.page = page
        self.host = host
        self.known = re.compile("|".join(known)) if known else None
        self.heard: list[str] = []
        self.listeners = {
            "dialog": self.dialog,
            "console": self.console,
            "pageerror": self.uncaught,
            "request": self.request,
            "popup": self.popup,
        }
        for event, listener in self.listeners.items():
            page.on(event, listener)

    def leave(self) -> None:
        """Listen no more: another test has the page."""
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)

    def hear(self, what: str) -> None:
        """Keep it, unless it is a known word of the page around ours."""
        if self.known is None or not self.known.search(what):
            self.heard.append(what)

    def dialog(self, dialog: Any) -> None:
        """An alert: close it, or the page waits for ever."""
        self.hear(f"dialog: {dialog.message}")
        dialog.dismiss()

    def popup(self, other: Any) -> None:
        """A window that the page opens."""
        self.hear(f"window opened: {other.url}")

    def uncaught(self, error: Any) -> None:
        """An error that nobody caught."""
        self.hear(f"uncaught: {error.message}\n{error.stack[:2000]}")

    def console(self, message: Any) -> None:
        """An error that the page reports."""
        if message.type == "error":
            self.hear(f"error: {message.text} ({message.location.get('url', '')[:120]})")

    def request(self, request: Any) -> None:
        """Something that is fetched."""
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL and parts.netloc != self.host:
            self.hear(f"request: {request.url[:200]}")

    def check(self) -> None:
        """Assert that nothing was heard, and begin anew."""
        heard, self.heard = self.heard, []
        ran = self.page.evaluate(PWNED)
        assert not ran, f"a name ran: {ran}"
        assert not heard, "\n".join(heard)
