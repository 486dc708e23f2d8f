"""GPU kernels on the CPU: threads as loops, which LLVM compiles."""
