"""The gallery of schedule primitives: for each one a program before and after, and a refusal.

    gallery()            a table of all primitives, by family
    gallery("split")     what split does: the call, both programs side by side, a picture of the
                         order in which elements are written, a call that is refused and why
    gallery("split").schedule       the schedule after the call, to go on with

Each example is a generator that lies in a file of its family here; every one is run, and checked
against the reference interpreter.
"""

from __future__ import annotations

from mlcnb.testing.gallery.example import Example, Gallery, gallery

__all__ = ["Example", "Gallery", "gallery"]
