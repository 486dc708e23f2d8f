"""The process that is timed: it loads a model, runs it, and prints its seconds of CPU until then.

python starts_child.py mlcnb|onnxruntime MODEL THREADS
"""

from __future__ import annotations

import os
import sys

from tests.benchmarks.memory_child import ours, peer

if __name__ == "__main__":
    {"mlcnb": ours, "onnxruntime": peer}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))()
    print(sum(os.times()[:4]), flush=True)
