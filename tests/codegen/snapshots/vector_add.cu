// grid (4, 1, 1), block (16, 1, 1)
extern "C" __global__ void __launch_bounds__(16)
main_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int i_0 = blockIdx.x;
  const int i_1 = threadIdx.x;
  if (i_0 * 16 + i_1 < 50) {
    C[i_0 * 16 + i_1] = A[i_0 * 16 + i_1] + B[i_0 * 16 + i_1];
  }
}
