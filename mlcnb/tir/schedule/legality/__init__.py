"""Whether a step may be made: by a rule that is always right, or by isl.

promises        what a block must promise so that it may be moved
regions         what part of a buffer a block touches: boxes over loops
dependence      which iterations, and which blocks, must stay in order
interleave      two nests run in turn
matching        is this piece of program what an instruction computes?
pointers        who else holds a buffer
flags           TVM's words for what is true of a block
polyhedral      the exact side: programs as sets of integer points
proof           the program before and after a step, run on numbers
counterexample  two iterations in the wrong order, on the smallest shapes (`smallest`)
judge           what was proved of each step, and how
"""
