// grid (4, 1, 1), block (64, 1, 1)
extern "C" __global__ void __launch_bounds__(64)
main_kernel(const float* A, float* B) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  atomicAdd((&B[tx % 8]), A[bx * 64 + tx]);
}
