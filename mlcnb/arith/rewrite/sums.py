"""Rules for +, - and *: what cancels, what is factored out, where constants go (to the right)."""

VECTORS = """
ramp(x, s, n) + ramp(y, t, n) -> ramp(x + y, s + t, n)
ramp(x, s, n) + bcast(y, n) -> ramp(x + y, s, n)
bcast(y, n) + ramp(x, s, n) -> ramp(y + x, s, n)
bcast(x, n) + bcast(y, n) -> bcast(x + y, n)
ramp(x, s, n) - ramp(y, t, n) -> ramp(x - y, s - t, n)
ramp(x, s, n) - bcast(y, n) -> ramp(x - y, s, n)
bcast(y, n) - ramp(x, s, n) -> ramp(y - x, 0 - s, n)
bcast(x, n) - bcast(y, n) -> bcast(x - y, n)
bcast(x, n) * bcast(y, n) -> bcast(x * y, n)
ramp(x, s, n) * bcast(y, n) | bcast(y, n) * ramp(x, s, n) -> ramp(x * y, s * y, n)
"""

ADD = """
(x - y) + y -> x
x + (y - x) -> y
(x - y) + (y - z) -> x - z
(x - y) + (z - x) -> z - y
^ min(x, y - z) + z -> min(x + z, y)
^ min(x - z, y) + z -> min(x, y + z)
^ min(x, y + z * c1) + z * c2 | min(y + z * c1, x) + z * c2 -> min(x + z * c2, y) if c1 == -c2
max(x, y) + min(x, y) | min(x, y) + max(x, y) | max(x, y) + min(y, x) | min(x, y) + max(y, x)
    -> x + y
^ min(x, y + c1) + c2 -> min(x + c2, y) if c1 == -c2
^ min(x + c1, y) + c2 -> min(x, y + c2) if c1 == -c2
(x + c1) + c2 -> x + (c1 + c2)
x + x -> x * 2
x * y + x | y * x + x | x + y * x | x + x * y -> (y + 1) * x
x * y + x * z | y * x + x * z | x * y + z * x | y * x + z * x -> (y + z) * x
tdiv(x, c1) * c1 + tmod(x, c1) -> x
(x // y) * y + x % y | y * (x // y) + x % y | x % y + (x // y) * y | x % y + y * (x // y) -> x
(x % c2 + c1) // c2 + x // c2 -> (x + c1) // c2 if c2 > 0
x // 2 + x % 2 => (x + 1) // 2
(x + c1) % 2 + x % 2 | x % 2 + (x + c1) % 2 -> 1 if c1 % 2 == 1
x + (c1 - y) | (c1 - y) + x => (x - y) + c1
(x + c1) + y | x + (c1 + y) | x + (y + c1) => (x + y) + c1
^ x + max(y, z) => max(y, z) + x
/ tmod(y, c1) + x * c1 => x * c1 + tmod(y, c1)
"""

SUBTRACT = """
(x + y) - y | (y + x) - y -> x
x - (y + x) | x - (x + y) -> 0 - y
^ min(x, y) - y | x - max(y, x) -> min(x - y, 0)
^ x - max(x, y) | min(y, x) - y -> min(0, x - y)
x - x -> 0
x * y - x | y * x - x -> (y - 1) * x
x - y * x | x - x * y -> (1 - y) * x
x * y - x * z | y * x - x * z | x * y - z * x | y * x - z * x -> (y - z) * x
(x + c1) - c2 -> x + (c1 - c2)
(c1 - x) - (c2 - y) -> (y - x) + (c1 - c2)
(x + y) - (x + z) | (x + y) - (z + x) | (y + x) - (z + x) | (y + x) - (x + z) -> y - z
^ min(x + y, z) - x | min(y + x, z) - x -> min(y, z - x)
^ min(z, x + y) - x | min(z, y + x) - x -> min(z - x, y)
^ x - min(x + y, z) | x - min(y + x, z) -> max(0 - y, x - z)
^ x - min(z, x + y) | x - min(z, y + x) -> max(x - z, 0 - y)
min(x, y) - min(y, x) | max(x, y) - max(y, x) -> 0
min(x, y) - min(s, t) | min(x, y) - min(t, s) | max(x, y) - max(s, t) | max(x, y) - max(t, s)
    -> x - s if equal(x - s, y - t)
/ x - tdiv(x, c1) * c1 -> tmod(x, c1) if c1 != 0
/ tdiv(x, c1) * c1 - x -> 0 - tmod(x, c1) if c1 != 0
/ x - tdiv(x + y, c1) * c1 -> tmod(x + y, c1) - y if c1 != 0
/ tdiv(x + y, c1) * c1 - x -> y - tmod(x + y, c1) if c1 != 0
/ x - tdiv(x - y, c1) * c1 -> tmod(x - y, c1) + y if c1 != 0
/ tdiv(x - y, c1) * c1 - x -> 0 - tmod(x - y, c1) - y if c1 != 0
/ x * c2 - tdiv(x, c1) * c3 -> tmod(x, c1) * c2 if c1 != 0 and c3 == c1 * c2
/ tdiv(x, c1) * c3 - x * c2 -> 0 - tmod(x, c1) * c2 if c1 != 0 and c3 == c1 * c2
/ x * c2 - tdiv(x + y, c1) * c3 -> (tmod(x + y, c1) - y) * c2 if c1 != 0 and c3 == c1 * c2
/ tdiv(x + y, c1) * c3 - x * c2 -> (y - tmod(x + y, c1)) * c2 if c1 != 0 and c3 == c1 * c2
/ x * c2 - tdiv(x - y, c1) * c3 -> (tmod(x - y, c1) + y) * c2 if c1 != 0 and c3 == c1 * c2
/ tdiv(x - y, c1) * c3 - x * c2 -> (0 - tmod(x - y, c1) - y) * c2 if c1 != 0 and c3 == c1 * c2
tdiv(x + c1, c3) - tdiv(x + c2, c3) -> tdiv(tmod(x + c2 % c3, c3) + (c1 - c2), c3)
    if c3 > 0 and c1 >= c2 and nonneg(x + c2)
tdiv(x + c1, c3) - tdiv(x, c3) -> tdiv(tmod(x, c3) + c1, c3) if c1 >= 0 and c3 > 0 and nonneg(x)
(x + c1) // 2 - (x + c2) // 2 => (x % 2) * (c1 % 2 - c2 % 2) + (c1 // 2 - c2 // 2)
x // 2 - (x + c2) // 2 => (x % 2) * (0 - c2 % 2) - c2 // 2
(x + c1) // 2 - x // 2 => (x % 2) * (c1 % 2) + c1 // 2
(x + 1) // 2 - x % 2 => x // 2
(x + c1) // c3 - (x + c2) // c3 -> ((x + c2 % c3) % c3 + (c1 - c2)) // c3 if c3 > 0
(x + c1) // c3 - x // c3 -> (x % c3 + c1) // c3 if c3 > 0
x - c1 -> x + (0 - c1)
(x + c1) - y => (x - y) + c1
x - (y + c1) => (x - y) + (0 - c1)
x - (y - z) => (x + z) - y
x - y * c1 => x + y * (0 - c1)
"""

MULTIPLY = """
(x + c1) * c2 -> x * c2 + c1 * c2
(x * c1) * c2 -> x * (c1 * c2)
min(x, y) * max(x, y) | max(x, y) * min(x, y) -> x * y
((x - x % c2) // c1) * c1 -> x - x % c2 if c1 == -c2
x * (c1 * y) => (x * y) * c1
c1 * x => x * c1
(x - y) * c1 => (y - x) * (0 - c1) if c1 < 0
"""

#: for integers that wrap around too
CANCEL = """
x - x -> 0
(x + y) - y -> x
(x + y) - x -> y
x - (y + x) | x - (x + y) -> 0 - y
"""

CHOICE = """
select(x, s, t) + select(x, u, v) -> select(x, s + u, t + v)
select(x, s, t) - select(x, u, v) -> select(x, s - u, t - v)
select(x, y, z) - z -> select(x, y - z, 0)
select(x, y, z) - y -> select(x, 0, z - y)
^ min(select(x, y, z), select(x, s, t)) -> select(x, min(y, s), min(z, t))
select(x, y, y) -> y
"""
