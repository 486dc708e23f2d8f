"""Symbols: those of kernels, and what an object file defines and what it needs from outside.

    >>> needs(object_bytes)
    ('expf', 'mlcnb_parallel_for')

LLVM adds calls of its own (memset, expf), so the truth stands in the object, not in the IR. ELF and
Mach-O with 64 bits are read; the two tables look like this:

    ELF      header -> section headers -> .symtab entries (24 bytes) and its string table
    Mach-O   header -> load command 2  -> nlist entries   (16 bytes) and its string table
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
import sys
from collections.abc import Iterator
from functools import cache

from mlcnb.core.errors import CodegenError

#: before the name of a kernel: one called "exp" or "memcpy" must not stand for the C library's
PREFIX = "kernel."
#: characters of a name that LLVM's text or a file's name cannot hold, and how long a symbol may be
_NO_SYMBOL, _LONGEST = re.compile(r"[^\w.]|[^\x00-\x7f]"), 150
_ELF_SYMTAB = 2
_ELF_FUNCTION = 2
_MACHO_SYMTAB = 2
_MACHO_EXTERNAL = 0x01


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


def defines(obj: bytes) -> tuple[str, ...]:
    """Names of the global functions and data that the object defines, sorted."""
    return tuple(sorted(name for name, defined in _symbols(obj) if defined))


def needs(obj: bytes) -> tuple[str, ...]:
    """Names that the object uses and does not define, sorted."""
    return tuple(sorted(name for name, defined in _symbols(obj) if not defined))


def _symbols(obj: bytes) -> Iterator[tuple[str, bool]]:
    """(name, whether it is defined here) of each global symbol.

    Raises:
        CodegenError: neither ELF nor Mach-O, or a table that points outside the file.
    """
    try:
        if obj[:4] == b"\x7fELF":
            yield from _elf(obj)
        elif obj[:4] == b"\xcf\xfa\xed\xfe":
            yield from _macho(obj)
        else:
            raise CodegenError("not an ELF or Mach-O object of 64 bits")
    except (struct.error, ValueError, IndexError) as error:
        raise CodegenError(f"damaged object file: {error}") from error


def code_sizes(obj: bytes) -> dict[str, int]:
    """Bytes of code of each function, internal ones too; empty for Mach-O, which does not say."""
    if obj[:4] != b"\x7fELF":
        return {}
    return {name: size for name, info, _, size in _elf_entries(obj) if info & 15 == _ELF_FUNCTION}


def _elf(obj: bytes) -> Iterator[tuple[str, bool]]:
    for name, info, where, _ in _elf_entries(obj):
        is_global = info >> 4 != 0
        if is_global and name:
            yield name, where != 0


def _elf_entries(obj: bytes) -> Iterator[tuple[str, int, int, int]]:
    """(name, type and binding, section, size) of each symbol."""
    (start,) = struct.unpack_from("<Q", obj, 0x28)
    size, count = struct.unpack_from("<HH", obj, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", obj, start + i * size) for i in range(count)]
    for section in sections:
        if section[1] != _ELF_SYMTAB:
            continue
        offset, length, names = section[4], section[5], sections[section[6]][4]
        for at in range(offset, offset + length, 24):
            name, info, _, where, _, size_of = struct.unpack_from("<IBBHQQ", obj, at)
            yield _text(obj, names + name), info, where, size_of


def _macho(obj: bytes) -> Iterator[tuple[str, bool]]:
    (count,) = struct.unpack_from("<I", obj, 16)
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", obj, at)
        if command == _MACHO_SYMTAB:
            offset, entries, names, _ = struct.unpack_from("<IIII", obj, at + 8)
            for i in range(entries):
                name, kind, where = struct.unpack_from("<IBB", obj, offset + 16 * i)
                if kind & _MACHO_EXTERNAL:
                    yield _text(obj, names + name).removeprefix("_"), where != 0
        at += size


def _text(obj: bytes, at: int) -> str:
    return obj[at : obj.index(b"\0", at)].decode()


#: what the C library may be asked for: memory, and mathematics in float64 and float32
_MEMORY = ("memcpy", "memmove", "memset", "memcmp", "bcmp", "malloc", "free")
_MATH_WORDS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint nextafter pow
    remainder rint round roundeven sin sinh sqrt tan tanh tgamma trunc
"""
_MATH = _MATH_WORDS.split()
MATH_NAMES = frozenset(_MATH) | frozenset(name + "f" for name in _MATH)
#: what LLVM makes of a sine and a cosine of one number: glibc's names, and macOS's
_JOINED = ("sincos", "sincosf", "__sincos_stret", "__sincosf_stret")
#: what LLVM makes of memory that is filled: macOS's own
_FILLED = ("bzero", "__bzero", "memset_pattern16")
#: what a function with more on its stack than a page asks first, on Windows: Windows' own
_STACK = ("__chkstk",)
LIBC_NAMES = MATH_NAMES.union(_MEMORY, _JOINED, _FILLED, _STACK)


@cache
def libc_address(name: str) -> int:
    """Where this process has the C library's function `name`, or 0 if it lacks it.

    Only names of `LIBC_NAMES` are looked up: code cannot reach the rest of the process by accident.
    """
    if name not in LIBC_NAMES:
        return 0
    for library in _libraries():
        if hasattr(library, name):
            return ctypes.cast(library[name], ctypes.c_void_p).value or 0
    return 0


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    if sys.platform == "win32":
        return tuple(map(ctypes.CDLL, ("ucrtbase", "msvcrt", "ntdll")))
    found = [ctypes.CDLL(None)]
    if sys.platform.startswith("linux"):
        try:
            found.append(ctypes.CDLL("libm.so.6"))
        except OSError:  # musl has the mathematics in libc
            pass
    return tuple(found)
