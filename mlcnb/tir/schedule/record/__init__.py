"""What a schedule holds: the program as a tree, names for its places, snapshots, the trace.

tree        one function: who stands in whom, and how to change a place of it
handles     names for blocks and loops that stay valid while the program changes
state       snapshots, and what one primitive sees and gives
history     which snapshot is the current one
instruction, trace                  the steps as data, as Python, as JSON
step        from a function of nodes to a method of handles
rerun       a cell that is run again replaces its steps
"""
