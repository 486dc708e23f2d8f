"""Names that mean harm, as a model file may have them for anything that it names.

One that is taken for code calls `alert(1)`, which a browser shows as a dialog, or sets
`window.pwned`; one that is taken for the key of a JavaScript object reaches its prototype.
"""

from __future__ import annotations

NAMES = {
    "html": "<img src=x onerror=alert(1)>\"'&<b onclick=alert(2)>",
    "script": "<script>window.pwned=1</script><svg/onload=window.pwned=2>",
    "attributes": "\" autofocus onfocus=alert(1) style='background:url(javascript:alert(1))' x='",
    "end": "</pre></details></table></div><script>alert(1)</script>",
    "svg": "</title></style></svg><svg onload=alert(1)><a href='javascript:alert(1)'>",
    "dot": '"];} digraph { a [URL="javascript:alert(1)", label=<<b>x</b>>] } \\N \\G \\E \\l',
    "right to left": "\u202eevil\u202c \u05d0\u05d1\u05d2 \u0627\u0644\u0639\u0631 \u200f!",
    "control": "a\x00\x1b[31mred\x07\r\u2028\u2029\ufeff\n\tb\ud800",
    "cdata": "]]><![CDATA[ --> <!-- <?php ?> &lt; &#60;",
    "markdown": "[x](javascript:alert(1)) `${alert(1)}` {0} %s {name!r}",
    "long": "<x>&'" * 2000,
    "prototype": "__proto__",
    "empty": "",
}
