"""Rules for comparisons and for and, or, not. Comparisons are written with < and <=."""

VECTORS = """
bcast(x, n) < bcast(y, n) -> bcast(x < y, n)
ramp(x, s, n) < ramp(y, s, n) -> bcast(x < y, n)
bcast(x, n) == bcast(y, n) -> bcast(x == y, n)
not bcast(x, n) -> bcast(not x, n)
bcast(x, n) and bcast(y, n) -> bcast(x and y, n)
bcast(x, n) or bcast(y, n) -> bcast(x or y, n)
"""

EQUAL = """
c1 == x -> x == c1
x - c1 == c2 -> x == c2 + c1
c1 - x == c2 -> x == c1 - c2
x + c1 == c2 -> x == c2 - c1
x * y == 0 => (x == 0) or (y == 0)
"""

LESS = """
(x + y < x + z) | (x + y < z + x) | (y + x < x + z) | (y + x < z + x) -> y < z
y - x < z - x -> y < z
x - y < x - z -> z < y
(x < x + z) | (x < z + x) -> 0 < z
x < x - z -> z < 0
x * c1 < y * c1 -> x < y if c1 > 0
x * c1 < y * c1 -> y < x if c1 < 0
x * c2 < c1 -> x < tdiv(c1 - 1, c2) + 1 if c1 > 0 and c2 > 0
x * c2 < c1 -> x < tdiv(c1, c2) if c1 <= 0 and c2 > 0
x * c2 < c1 -> tdiv(c1 - 1, c2) - 1 < x if c1 > 0 and c2 < 0
x * c2 < c1 -> tdiv(c1, c2) < x if c1 <= 0 and c2 < 0
c1 < x * c2 -> tdiv(c1 + 1, c2) - 1 < x if c1 < 0 and c2 > 0
c1 < x * c2 -> tdiv(c1, c2) < x if c1 >= 0 and c2 > 0
c1 < x * c2 -> x < tdiv(c1 + 1, c2) + 1 if c1 < 0 and c2 < 0
c1 < x * c2 -> x < tdiv(c1, c2) if c1 >= 0 and c2 < 0
tdiv(x, c1) < c2 -> x < c1 * c2 if c1 > 0 and c2 > 0
tdiv(x, c1) < c2 -> x < c1 * (c2 - 1) + 1 if c1 > 0 and c2 <= 0
c1 < tdiv(x, c2) -> (c1 + 1) * c2 - 1 < x if c1 >= 0 and c2 > 0
c1 < tdiv(x, c2) -> c1 * c2 < x if c1 < 0 and c2 > 0
/ tdiv(x, c1) * c1 < x -> 0 < tmod(x, c1) if c1 > 0
/ tdiv(x, c1) * c1 < x + y -> 0 < tmod(x, c1) + y if c1 > 0
/ tdiv(x, c1) * c1 < x - y -> y < tmod(x, c1) if c1 > 0
/ tdiv(x + c2, c1) * c1 < x -> c2 < tmod(x + c2, c1) if c1 > 0
/ tdiv(x + c2, c1) * c1 < x + y -> c2 < tmod(x + c2, c1) + y if c1 > 0
/ tdiv(x + c2, c1) * c1 < x - y -> y < tmod(x + c2, c1) + (0 - c2) if c1 > 0
x // c1 < c2 -> x < c1 * c2 if c1 > 0
c1 < x // c2 -> (c1 + 1) * c2 - 1 < x if c2 > 0
min(x, y) < z => (x < z) or (y < z)
max(x, y) < z => (x < z) and (y < z)
z < min(x, y) => (z < x) and (z < y)
z < max(x, y) => (z < x) or (z < y)
c1 < x + c2 => c1 - c2 < x
c1 - x < c2 => c1 - c2 < x
c1 < c2 - x => x < c2 - c1
x + c1 < c2 => x < c2 - c1
c1 < x - c2 => c1 + c2 < x
x - c2 < c1 => x < c1 + c2
x < c1 - y => x + y < c1
c1 - y < x => c1 < x + y
x < c1 + y => x - y < c1
c1 + y < x => c1 < x - y
"""

NOT = """
not (not x) -> x
not (x <= y) -> y < x
not (x >= y) -> x < y
not (x < y) -> y <= x
not (x > y) -> x <= y
not (x == y) -> x != y
not (x != y) -> x == y
not (x or y) => (not x) and (not y)
not (x and y) => (not x) or (not y)
"""

AND = """
~ (x == y) and (x != y) -> 0
x and (not x) -> 0
~ (x <= y) and (y < x) -> 0
~ (x < c1) and (c2 < x) -> 0 if c2 + 1 >= c1
~ (x < c1) and (c2 <= x) -> 0 if c2 >= c1
~ (x <= c1) and (c2 < x) -> 0 if c2 >= c1
~ (x <= c1) and (c2 <= x) -> 0 if c2 > c1
(x == c1) and (x == c2) -> (x == c1) and (c1 == c2)
~ (x == c1) and (x != c2) -> (x == c1) and (c1 != c2)
~ (x // c2 == c1) and (x % c2 == c3) => x == c1 * c2 + c3 if c2 > 0 and c3 >= 0 and c3 < c2
~ (0 <= x - y * c1) and (x - y * c1 < c1) => y == x // c1 if c1 > 0
(c1 < x - y * c1) and (x - y * c1 <= 0) => y == x // c1 if c1 < 0
~ (0 <= x + y * c2) and (x + y * c2 < c1) => y == x // c1 if c1 > 0 and c2 == -c1
(x < c1) and (x % c2 < c3) => (x < c1 - c2 + c3) and (x % c2 < c3)
    if c2 > 0 and c3 > 0 and c3 < c2 and c1 % c2 == 0
(x < c1) and (x % c2 < c3) => (x < c1 - c1 % c2 + c3) and (x % c2 < c3)
    if c2 > 0 and c3 > 0 and c1 % c2 > c3
(x <= c1) and (x % c2 < c3) => (x < c1 + 1 - c2 + c3) and (x % c2 < c3)
    if c2 > 0 and c3 > 0 and c3 < c2 and (c1 + 1) % c2 == 0
(x <= c1) and (x % c2 < c3) => (x < c1 - c1 % c2 + c3) and (x % c2 < c3)
    if c2 > 0 and c3 > 0 and (c1 + 1) % c2 > c3
~ (x // c2 == c1) and (x % c2 < c3) => (c1 * c2 <= x) and (x < c1 * c2 + c3)
    if c2 > 0 and c3 <= c2
~ (x // c2 == c1) and (x % c2 <= c3) => (c1 * c2 <= x) and (x <= c1 * c2 + c3)
    if c2 > 0 and c3 < c2
~ (x // c2 == c1) and (c3 <= x % c2) => (c1 * c2 + c3 <= x) and (x < (c1 + 1) * c2)
    if c2 > 0 and c3 >= 0
~ (x // c2 == c1) and (c3 < x % c2) => (c1 * c2 + c3 < x) and (x < (c1 + 1) * c2)
    if c2 > 0 and c3 >= 0
x and (y and z) => (x and y) and z
"""

OR = """
~ (x == y) or (x != y) -> 1
x or (not x) -> 1
~ (x <= y) or (y < x) -> 1
(x < y) or (y < x) -> x != y
~ (x < c1) or (c2 < x) -> 1 if c2 < c1
~ (x <= c1) or (c2 < x) -> 1 if c2 <= c1
~ (x < c1) or (c2 <= x) -> 1 if c2 <= c1
~ (x <= c1) or (c2 <= x) -> 1 if c2 <= c1 + 1
(x != c1) or (x != c2) -> (x != c1) or (c1 != c2)
~ (x != c1) or (x == c2) -> (x != c1) or (c1 == c2)
~ (x < y) or (x == y) => x <= y
~ (x < y) or (y == x) => x <= y
x or (y or z) => (x or y) or z
"""
