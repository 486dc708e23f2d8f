// grid (3, 2, 1), block (4, 4, 1)
extern "C" __global__ void __launch_bounds__(16)
main_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int j_0 = blockIdx.x;
  const int i_0 = blockIdx.y;
  const int j_1 = threadIdx.x;
  const int i_1 = threadIdx.y;
  for (int k = 0; k < 10; ++k) {
    if (k == 0) {
      C[i_0 * 48 + i_1 * 12 + j_0 * 4 + j_1] = 0.0f;
    }
    C[i_0 * 48 + i_1 * 12 + j_0 * 4 + j_1] += A[i_0 * 40 + i_1 * 10 + k] * B[k * 12 + j_0 * 4 + j_1];
  }
}
