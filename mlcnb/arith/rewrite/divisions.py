"""Rules for the two divisions: towards zero (`tdiv`, `tmod`) and down (`//`, `%`)."""

VECTORS = """
tdiv(bcast(x, n), bcast(y, n)) -> bcast(tdiv(x, y), n)
tmod(bcast(x, n), bcast(y, n)) -> bcast(tmod(x, y), n)
bcast(x, n) // bcast(y, n) -> bcast(x // y, n)
bcast(x, n) % bcast(y, n) -> bcast(x % y, n)
"""

#: towards zero: most rules need a dividend that is not negative
TRUNCATED = """
tdiv(tdiv(x, c1), c2) -> tdiv(x, c1 * c2) if c1 > 0 and c2 > 0
tdiv(tdiv(x, c1) + c2, c3) -> tdiv(x + c1 * c2, c1 * c3)
    if c1 > 0 and c2 >= 0 and c3 > 0 and nonneg(x)
tdiv(x * c1, c2) -> x * tdiv(c1, c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0
tdiv(x * c1, c2) -> tdiv(x, tdiv(c2, c1)) if c1 > 0 and c2 > 0 and c2 % c1 == 0
tdiv(x, x) -> 1
tdiv(x * c1, x) | tdiv(c1 * x, x) -> c1
tdiv(x * c1 + y, c2) -> x * tdiv(c1, c2) + tdiv(y, c2)
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y)
^ tdiv(min(x * c1, y), c2) -> min(x * tdiv(c1, c2), tdiv(y, c2))
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y)
tdiv(y + x * c1, c2) -> tdiv(y, c2) + x * tdiv(c1, c2)
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y)
^ tdiv(min(y, x * c1), c2) -> min(tdiv(y, c2), x * tdiv(c1, c2))
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y)
tdiv(x * c1 + y + z, c2) -> x * tdiv(c1, c2) + tdiv(y + z, c2)
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y + z)
tdiv(x * c1 - y + z, c2) -> x * tdiv(c1, c2) + tdiv(z - y, c2)
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(z - y)
tdiv(x * c1 + y - z, c2) -> x * tdiv(c1, c2) + tdiv(y - z, c2)
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y - z)
tdiv(y + x * c1 + z, c2) -> x * tdiv(c1, c2) + tdiv(y + z, c2)
    if c1 > 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y + z)
tdiv(x + c1, c2) -> tdiv(x, c2) + tdiv(c1, c2)
    if c1 > 0 and c2 > 0 and c1 % c2 == 0 and nonneg(x)
tdiv(x + y, x) | tdiv(y + x, x) -> tdiv(y, x) + 1 if nonneg(x) and nonneg(y)
tdiv((x + y) + z, x) | tdiv((y + x) + z, x) | tdiv(y + (z + x), x) | tdiv(y + (x + z), x)
    -> tdiv(y + z, x) + 1 if nonneg(x) and nonneg(y + z)
tdiv(x * y, y) | tdiv(y * x, y) -> x if nonneg(x) and nonneg(y)
tdiv(x * z + y, z) | tdiv(z * x + y, z) -> x + tdiv(y, z) if nonneg(x) and nonneg(y) and nonneg(z)
tdiv(y + x * z, z) | tdiv(y + z * x, z) -> tdiv(y, z) + x if nonneg(x) and nonneg(y) and nonneg(z)
tmod(x * c1, c2) -> 0 if c2 != 0 and c1 % c2 == 0
tmod(x * c1 + y, c2) -> tmod(y, c2) if c2 > 0 and c1 % c2 == 0 and nonneg(x * c1) and nonneg(y)
tmod(x + c1, c2) -> tmod(x, c2) if c2 > 0 and c1 >= 0 and c1 % c2 == 0 and nonneg(x)
tmod(x + y * c1, c2) -> tmod(x, c2) if c2 > 0 and c1 % c2 == 0 and nonneg(x) and nonneg(y * c1)
tmod(x, c1) => tmod(x, 0 - c1) if c1 < 0
"""

FLOOR = """
x // c1 // c2 -> x // (c1 * c2) if c1 > 0 and c2 > 0
(x // c1 + c2) // c3 -> (x + c1 * c2) // (c1 * c3) if c1 > 0 and c3 > 0
x // x -> 1
(x * c1) // x | (c1 * x) // x -> c1
(x % 2 + 1) // 2 -> x % 2
^ min(x * c1, y) // c2 -> min(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
^ min(y, x * c1) // c2 -> min(y // c2, x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x // (c2 // c1)
    if c1 > 0 and c2 > 0 and c2 % c1 == 0 and equal((y + z) // c1, 0)
(x * c1 - y + z) // c2 | (x * c1 + z - y) // c2 -> x * (c1 // c2) + (z - y) // c2
    if c2 > 0 and c1 % c2 == 0
(y + x * c1 + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x + c1) // c2 -> x // c2 + c1 // c2 if c2 > 0 and c1 % c2 == 0
(x * c1) // (x * c2) -> c1 // c2 if c2 > 0
(x + y) // x | (y + x) // x -> y // x + 1 if nonneg(x)
((x + y) + z) // x | ((y + x) + z) // x | (y + (z + x)) // x | (y + (x + z)) // x
    -> (y + z) // x + 1 if nonneg(x)
(x * y) // y | (y * x) // y -> x if nonneg(y)
(x * z + y) // z | (z * x + y) // z -> x + y // z if nonneg(z)
(y + x * z) // z | (y + z * x) // z -> y // z + x if nonneg(z)
(x * z * c1 + y) // (z * c1) -> x + y // (z * c1) if nonneg(z * c1)
(x - x % c1) // c1 -> x // c1 if c1 != 0
x // y -> 0 if scalable(y) and nonneg(x) and less(x, y)
(x * c1) % c2 -> (x * (c1 % c2)) % c2 if c2 != 0
(x * c1 + y) % c2 -> (x % (c2 // c1)) * c1 + y
    if c1 > 0 and c2 > 0 and c2 % c1 == 0 and equal(y // c1, 0)
(x * c1 + y) % c2 -> (x * (c1 % c2) + y) % c2 if c2 > 0
(x + c1) % c2 -> (x + c1 % c2) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0)
(x + y * c1) % c2 -> (x + y * (c1 % c2)) % c2 if c2 > 0
(x * c1) % (x * c2) -> x * (c1 % c2) if c2 != 0
(x * y) % y | (y * x) % y -> 0
(x + z % y) % y | (z % y + x) % y -> 0 if equal((x + z) % y, 0)
(x - x % z) % y | (x % z - x) % y -> 0 if equal(y - z, 0) or equal(y + z, 0)
(x * z * c1 + y) % (z * c1) -> y % (z * c1) if nonneg(z * c1)
x % y -> x if scalable(y) and nonneg(x) and less(x, y)
"""
