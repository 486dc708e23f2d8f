"""What can be done here? Arguments worth trying, those that are legal, repairs of a refused step.

candidates  arguments worth trying, for each primitive
legal       those of them that may be made
repairs     what can be done in place of a step that was refused
doing       a call on nodes, done as a person would write it
cell_code   the steps as a person would write them in a cell
"""
