// grid (3, 1, 1), block (64, 1, 1)
extern "C" __global__ void __launch_bounds__(64)
main_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const int i = blockIdx.x;
  const int k_1 = threadIdx.x;
  float cross_thread_B[1];
  float in_thread_B[1];
  in_thread_B[0] = 0.0f;
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    in_thread_B[0] += A[i * 128 + k_0 * 64 + k_1];
  }
  float red_buf0[1];
  __shared__ __align__(16) float red_buf_of_warps0[2];
  red_buf0[0] = in_thread_B[0];
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 16, 32);
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 8, 32);
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 4, 32);
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 2, 32);
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 1, 32);
  if (k_1 % 32 == 0) {
    red_buf_of_warps0[k_1 / 32] = red_buf0[0];
  }
  __syncthreads();
  red_buf0[0] = k_1 % 32 < 2 ? red_buf_of_warps0[k_1 % 32] : 0.0f;
  red_buf0[0] += __shfl_down_sync(0xffffffffu, red_buf0[0], 1, 2);
  cross_thread_B[0] = __shfl_sync(0xffffffffu, red_buf0[0], 0, 32);
  __syncthreads();
  if (k_1 == 0) {
    B[i] = cross_thread_B[0];
  }
}
