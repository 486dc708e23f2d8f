"""Benchmarks: mlcnb beside its peers, in turns in one run; medians, ratios, the machine named.

python -m tests.benchmarks models                 the ten models beside ONNX Runtime
python -m tests.benchmarks memory                 their peak memory
python -m tests.benchmarks threads                what a fork and join of the pool costs
python -m tests.benchmarks calls                  what a call from Python costs
python -m tests.benchmarks schedule               1,000 schedule steps on a convolution
python -m tests.benchmarks models resnet50 --threads 1 --json out.json
"""
