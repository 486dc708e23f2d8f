"""The symbols of kernels, from names that a function may have in a program."""

from __future__ import annotations

import hashlib
import re

#: before the name of a kernel: one called "exp" or "memcpy" must not stand for the C library's
PREFIX = "kernel."
#: characters of a name that LLVM's text or a file's name cannot hold, and how long a symbol may be
_NO_SYMBOL, _LONGEST = re.compile(r"[^\w.]|[^\x00-\x7f]"), 150


def symbol_of(name: str) -> str:
    """The symbol of a kernel: what LLVM and a file's name cannot hold is spelled in hexadecimal.

    One name, one symbol: `a$b` becomes `kernel.a$24b`.
    """
    spelled = _NO_SYMBOL.sub(lambda m: "".join(f"${b:02x}" for b in _bytes(m[0])), name)
    if len(spelled) > _LONGEST:
        spelled = f"{spelled[:40]}$${hashlib.sha256(_bytes(name)).hexdigest()}"
    return PREFIX + spelled


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
