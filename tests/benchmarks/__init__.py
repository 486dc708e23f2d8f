"""Benchmarks: mlcnb beside its peers, in turns in one run; medians, ratios, errors; machine named.

python -m tests.benchmarks models                      the models, on one and two threads
python -m tests.benchmarks gemm,conv --threads 1       one suite or more, on one thread
python -m tests.benchmarks all --json build/bench.json everything, written after each row
python -m tests.benchmarks models resnet50 --peers onnxruntime tvm
python -m tests.benchmarks models --avx2               without AVX-512, as far as one can ask
python -m tests.benchmarks memory                      peak memory of the models
python -m tests.benchmarks starts                      from the file to the first answer
python -m tests.benchmarks threads                     what a fork and join of the pool costs
python -m tests.benchmarks assembly --cpus cortex-a72  what they compile to elsewhere, counted
python -m tests.benchmarks narrow                      bfloat16, float16 and int8
python -m tests.benchmarks heads                       few columns, one query, loops, lines
python -m tests.benchmarks odd                         sizes that fill no vector
python -m tests.benchmarks written                     loop functions as one writes them
python -m tests.benchmarks real                        small real models, open sizes, dynamic int8
python -m tests.benchmarks calls                       what a call from Python costs
python -m tests.benchmarks schedule                    1,000 schedule steps on a convolution
python -m tests.benchmarks.pages build/bench.json      plots and tables of the documentation
"""

import os

#: 2^20 ticks, less than a millisecond, that the threads of NumPy's OpenBLAS spin after a call (2^28
#: otherwise: for a tenth of a second they take a core from whoever has the next turn); read when
#: NumPy is loaded
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
