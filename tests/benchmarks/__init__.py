"""Benchmarks: mlcnb beside its peers, interleaved in one run, medians and ratios, the machine named.

python -m tests.benchmarks models                 the ten models beside ONNX Runtime
python -m tests.benchmarks models resnet50 --threads 1 --json out.json
"""
