"""Branches that are assumed where a model cannot be imported without: which, and what to try next.

    If(h == 1) then Squeeze(x) else Identity(x)     of what follows only one fits what it makes

Of two branches whose tensors differ in rank both are kept at first. Where the import stops behind
them, it is begun again with the last of them decided: the one, then the other. What is assumed of
sizes is asked as the model runs.
"""

from __future__ import annotations

#: an import is begun at most so often
MOST = 64


class Choices:
    """What was decided at the Ifs of an import whose branches differ in rank, in order.

    None keeps both branches, True takes the first one, False the second.
    """

    def __init__(self) -> None:
        self.taken: list[bool | None] = []
        self.met = 0
        self.begun = 1

    def next(self) -> bool | None:
        """What is decided for the If that the walk meets now."""
        if self.met == len(self.taken):
            self.taken.append(None)
        self.met += 1
        return self.taken[self.met - 1]

    def another(self) -> bool:
        """Decide otherwise at the last If that was met; False where all was tried."""
        del self.taken[self.met :]
        while self.taken and self.taken[-1] is False:
            self.taken.pop()
        if not self.taken or self.begun == MOST:
            return False
        self.taken[-1] = self.taken[-1] is None
        self.met = 0
        self.begun += 1
        return True
