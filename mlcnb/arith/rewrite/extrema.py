"""Rules for min and max; each is said once for min, and holds for max with the two exchanged."""

from mlcnb.arith.rewrite.pattern import exchanged

VECTORS = """
^ min(bcast(x, n), bcast(y, n)) -> bcast(min(x, y), n)
^ min(min(x, bcast(y, n)), bcast(z, n)) -> min(x, bcast(min(y, z), n))
"""

#: what max has and min has not, with the two exchanged, is which side a rounding falls to
ROUNDED = """
min(tdiv(x + c1, c2) * c2, x) | min(x, tdiv(x + c1, c2) * c2) | min((x + c1) // c2 * c2, x)
    | min(x, (x + c1) // c2 * c2) -> x if c2 > 0 and c1 + 1 == c2
min(tdiv(x + c1, c2) * c2, max(x, c2)) | min(max(x, c2), tdiv(x + c1, c2) * c2)
    | min((x + c1) // c2 * c2, max(x, c2)) | min(max(x, c2), (x + c1) // c2 * c2)
    -> max(x, c2) if c2 > 0 and c1 + 1 == c2 and nonneg(x - 1)
min(x, x // c2 * c2) | min(x // c2 * c2, x) -> (x // c2) * c2 if c2 > 0
max(tdiv(x + c1, c2) * c2, x) | max(x, tdiv(x + c1, c2) * c2) -> tdiv(x + c1, c2) * c2
    if c2 > 0 and c1 + 1 == c2
max((x + c1) // c2 * c2, x) | max(x, (x + c1) // c2 * c2) -> (x + c1) // c2 * c2
    if c2 > 0 and c1 + 1 == c2
max(x // c2 * c2, x) | max(x, x // c2 * c2) -> x if c2 > 0
"""

MINIMA = """
min(x, x) -> x
min(max(x, y), min(x, y)) | min(max(x, y), min(y, x)) | min(min(x, y), max(x, y))
    | min(min(x, y), max(y, x)) | min(min(x, y), x) | min(min(x, y), y) | min(x, min(x, y))
    | min(y, min(x, y)) -> min(x, y)
min(max(x, y), x) | min(max(y, x), x) | min(x, max(x, y)) | min(x, max(y, x)) -> x
min(min(min(x, y), z), y) -> min(min(x, y), z)
min(min(min(min(x, y), z), s), y) -> min(min(min(x, y), z), s)
min(min(min(min(min(x, y), z), s), t), y) -> min(min(min(min(x, y), z), s), t)
min(max(x, y), max(x, z)) | min(max(x, y), max(z, x)) | min(max(y, x), max(x, z))
    | min(max(y, x), max(z, x)) -> max(min(y, z), x)
min(min(x, y), min(x, z)) | min(min(x, y), min(z, x)) | min(min(y, x), min(x, z))
    | min(min(y, x), min(z, x)) -> min(min(y, z), x)
min(y + x, z + x) | min(y + x, x + z) | min(x + y, x + z) | min(x + y, z + x) -> min(y, z) + x
min(y - x, z - x) -> min(y, z) - x
min(x - y, x - z) -> x - max(y, z)
min(min(x, c1), c2) -> min(x, min(c1, c2))
min(tdiv(x, c1), tdiv(y, c1)) -> tdiv(min(x, y), c1) if c1 > 0
min(tdiv(x, c1), tdiv(y, c1)) -> tdiv(max(x, y), c1) if c1 < 0
min(x // c1, y // c1) -> min(x, y) // c1 if c1 > 0
min(x // c1, y // c1) -> max(x, y) // c1 if c1 < 0
min(x * c1, y * c1) -> min(x, y) * c1 if c1 > 0
min(x * c1, y * c1) -> max(x, y) * c1 if c1 < 0
min(x * c1, c2) -> min(x, tdiv(c2, c1)) * c1 if c1 > 0 and c2 % c1 == 0
min(x * c1, c2) -> max(x, tdiv(c2, c1)) * c1 if c1 < 0 and c2 % c1 == 0
min(min(x, c1), y) => min(min(x, y), c1)
min(c1 - x, c2) => c1 - max(x, c1 - c2) if c2 != 0
"""

MAXIMA = exchanged(MINIMA)
