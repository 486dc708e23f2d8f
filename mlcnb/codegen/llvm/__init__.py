"""The CPU backend: LLVM IR text, optimised and loaded through llvmlite."""
