"""Texts that no printer of ours lays out, as lines of coloured tokens: LLVM IR, assembly, Python.

code("define void @f() {", LLVM)       a Code part: keywords, types, names, numbers
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlcnb.core.render import Text
from mlcnb.view.parts import MAX_LINES, Code


class Language:
    """How a language is coloured: one pattern whose group names are the kinds of tokens."""

    def __init__(self, name: str, /, **patterns: str) -> None:
        self.name = name
        groups = (f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items())
        self.pattern = re.compile("|".join(groups))

    def tokens(self, line: str) -> list[Text]:
        """One line, cut into tokens."""
        found, at = [], 0
        for match in self.pattern.finditer(line):
            if match.start() > at:
                found.append(Text(line[at : match.start()], ""))
            found.append(Text(match[0], match.lastgroup or ""))
            at = match.end()
        if at < len(line):
            found.append(Text(line[at:], ""))
        return found


LLVM = Language(
    "llvm",
    comment=r";.*$",
    string=r'c?"[^"]*"',
    type=r"\b(?:i\d+|half|bfloat|float|double|ptr|void|label|metadata|x)\b|<\d+ x \w+>",
    function=r'@[\w.$-]+|@"[^"]*"',
    builtin=r"%[\w.$-]+|![\w.]+|#\d+",
    keyword=(
        r"\b(?:define|declare|ret|br|switch|phi|load|store|call|tail|getelementptr|inbounds|select|"
        r"icmp|fcmp|add|sub|mul|sdiv|udiv|srem|urem|shl|lshr|ashr|and|or|xor|fadd|fsub|fmul|fdiv|"
        r"fneg|frem|alloca|bitcast|inttoptr|ptrtoint|trunc|zext|sext|fptrunc|fpext|sitofp|uitofp|"
        r"fptosi|fptoui|shufflevector|insertelement|extractelement|extractvalue|insertvalue|"
        r"unreachable|attributes|target|global|constant|private|internal|nsw|nuw|fast|align|freeze)\b"
    ),
    number=r"\b-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b",
)
ASSEMBLY = Language(
    "gas",
    function=r"^[\w.$\"@]+:",
    keyword=r"^\s+[a-z][\w.]*",
    builtin=r"%\w+|\b[vxwqdszr]\d+(?:\.\w+)?\b",
    number=r"[$#]?-?\b(?:0x[0-9A-Fa-f]+|\d+)\b",
    type=r"\{[^}]*\}",
    comment=r"\s(?:#|//|;).*$",
)
PYTHON = Language(
    "python",
    comment=r"#.*$",
    string=r'"[^"]*"|\'[^\']*\'',
    keyword=r"\b(?:def|return|from|import|for|in|if|else|pass|None|True|False|lambda|with|as)\b",
    function=r"(?<=\.)\w+(?=\()|(?<=def )\w+",
    number=r"\b\d+(?:\.\d+)?\b",
)
CUDA = Language(
    "cuda",
    comment=r"//.*$",
    string=r'"[^"]*"',
    type=(
        r"\b(?:void|bool|char|short|int|long|float|double|half|__nv_bfloat16|unsigned|signed|const|"
        r"vec|(?:float|int|uint|double|char|uchar|short|ushort)[24])\b"
    ),
    builtin=r"\b(?:threadIdx|blockIdx)\.[xyz]\b|\b__\w+\b",
    keyword=(
        r"#\w+(?: unroll)?|"
        r"\b(?:extern|template|typename|struct|if|else|for|while|return|alignas|operator)\b"
    ),
    function=r"\b\w+(?=\(|<[\w ]+>\()",
    number=r"\b(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)[fuUlL]*\b",
)
PLAIN = Language("", comment=r"(?!)")


def code(text: str, language: Language = PLAIN, see: str = "", most: int = MAX_LINES) -> Code:
    """A text as a listing. Only the lines that are shown are cut into tokens."""
    lines = text.splitlines()
    shown: list[Sequence[Text]] = [language.tokens(line) for line in lines[:most]]
    shown += [[Text(line, "")] for line in lines[most:]]
    return Code(shown, (), see, most, language.name)
