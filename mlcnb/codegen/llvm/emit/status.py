"""What a kernel's status means: the one way in which a kernel says that it stopped, and why.

0                  all went well
1 … 5              `STATUS`
FIRST_ASSERT + n   the n-th of the kernel's messages: an assertion's, or that of a check of an index

`T.check_index(index, extent, "A[I[i]]: dimension 0")` is the index, unless it is outside of
0 … extent - 1: then the kernel leaves the two numbers in the runtime's `i64 mlcnb_fault[2]` and
returns the number of a message that they go into (`tir.index_check`). The third argument says which
access it is; FlattenBuffer writes it, or an operator. The status goes up through parallel loops and
the walk of a graph to `runtime.kernel_call.failure`, which makes the ExecutionError.
"""

from __future__ import annotations

#: status -> message of the ExecutionError that it becomes
STATUS = {
    1: "the call was cancelled",
    2: "integer division by zero",
    3: "an index read from data is out of bounds",
    4: "out of memory",
    5: "integer power with a negative exponent",
}
#: statuses from here on are the kernel's messages: the number of the message counts from here
FIRST_ASSERT = 100
