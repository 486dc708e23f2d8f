"""Work that can wait until what somebody asked for is there.

later.do("key", write)      on a thread of its own, in half a second: not in the way of an answer
later.finish("key")         now, if it is not done, and wait for it; without a key: all such work

What has not been done when the process ends is done then.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable

#: seconds until work begins: the first call of a model that was compiled is over by then
PAUSE = 0.5


class _Task(threading.Thread):
    def __init__(self, key: str, work: Callable[[], object]) -> None:
        super().__init__(name="mlcnb-later", daemon=True)
        self._key, self._work = key, work
        self._now = threading.Event()

    def run(self) -> None:
        """Wait, then do it."""
        self._now.wait(PAUSE)
        self.work()

    def work(self) -> None:
        """Do it here."""
        try:
            self._work()
        finally:
            _waiting.pop(self._key, None)

    def finish(self) -> None:
        """Let it begin, and wait until it is done."""
        self._now.set()
        self.join()


#: what is not done yet, by its key
_waiting: dict[str, _Task] = {}


def do(key: str, work: Callable[[], object]) -> None:
    """Do some work later: one at a time of each key; at once where there are no threads."""
    finish(key)
    task = _waiting[key] = _Task(key, work)
    try:
        task.start()
    except RuntimeError:  # a browser has none, and at the end of a process there are no more
        task.work()


@atexit.register
def finish(key: str | None = None) -> None:
    """Do it now, whatever waits (of one key), and come back when it is done."""
    for task in [t for k, t in list(_waiting.items()) if key in (None, k)]:
        task.finish()
