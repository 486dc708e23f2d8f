"""What a kernel's status means."""

from __future__ import annotations

#: status -> message of the ExecutionError that it becomes
STATUS = {
    1: "the call was cancelled",
    2: "integer division by zero",
    3: "an index read from data is out of bounds",
    4: "out of memory",
    5: "integer power with a negative exponent",
}
#: statuses from here on are assertions: the number of the message counts from here
FIRST_ASSERT = 100
