"""The rewrite simplifier: rules as text, applied bottom up, for the normal form of TVM's tests.

pattern.py    a rule: `x * y + x -> (y + 1) * x`, matched and built
sums.py, divisions.py, extrema.py, logic.py    the rules, a table for each operator
vectors.py    ramps divided by numbers, which no pattern says
rewriter.py   the walk
"""
