"""Programs taken apart and put together: what primitives share. Nothing here asks whether it may.

rebuild         statements with other expressions, loops or buffers
nests           loop nests made from boxes
moving          which instances of a block belong under another loop
caching, staging, tile_cache, reindexing      a buffer in front of another
elementwise     blocks that are one store
reductions      the step of a reduction, and how it is written again
layouts, padding      indices that become others, and what is in between
prepare         what a program needs before it can be scheduled
"""
