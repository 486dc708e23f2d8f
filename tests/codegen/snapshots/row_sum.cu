// grid (6, 1, 1), block (8, 1, 1)
extern "C" __global__ void __launch_bounds__(8)
main_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const int i = blockIdx.x;
  const int k_1 = threadIdx.x;
  float cross_thread_B[1];
  float in_thread_B[1];
  in_thread_B[0] = 0.0f;
  for (int k_0 = 0; k_0 < 5; ++k_0) {
    in_thread_B[0] += A[i * 40 + k_0 * 8 + k_1];
  }
  float red_buf0[1];
  red_buf0[0] = in_thread_B[0];
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 4, 8);
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 2, 8);
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 1, 8);
  cross_thread_B[0] = __shfl_sync(0xffffffffu, red_buf0[0], 0, 8);
  if (k_1 == 0) {
    B[i] = cross_thread_B[0];
  }
}
