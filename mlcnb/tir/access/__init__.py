"""What a loop program touches, read by one walk; and what is asked of it.

read        the walk: each read and write, with the loops, conditions and values around it
scope       what a reading is made of: accesses, and what stands around them
relation    an access as an integer relation, exact where indices and conditions are linear
depend      dependences: which accesses touch one element, one of them writing it
inside      is every access within its buffer?
order       an access as first and last indices over loop variables, with its conditions
threads     may two threads of a block touch one element?
"""
