"""The CUDA backend: PrimFuncs bound to threads as CUDA C++, compiled by NVRTC, run by CuPy."""
