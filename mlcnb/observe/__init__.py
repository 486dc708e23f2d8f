"""What a program does, looked at: one function and one type of result for each question.

access      what caches make of each of its accesses (`Run`)
counts      the same, counted and not kept (`AccessCounts`)
warps       what each warp of a GPU asks of memory (`WarpRun`)
replay      a schedule's programs, one after the other, timed (`Replay`)
benchmark   calls timed in turns (`Benchmark`)
ceilings    how fast this machine can be (`Roofline`)
peers       other libraries on the same model (`Comparison`)
choice      each group of operators by whoever is the fastest (`Choices`)
diagnosis   what this machine has, and what is missing (`Diagnosis`)
image       photos in, class names out (`Classes`)
magics      what a line or a cell of a notebook asks for
"""
