// grid (5, 1, 1), block (12, 1, 1)
extern "C" __global__ void __launch_bounds__(12)
main_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const int i = blockIdx.x;
  const int k_1 = threadIdx.x;
  float cross_thread_B[1];
  float in_thread_B[1];
  in_thread_B[0] = 0.0f;
  for (int k_0 = 0; k_0 < 3; ++k_0) {
    if (k_0 * 12 + k_1 < 32) {
      in_thread_B[0] += A[i * 32 + k_0 * 12 + k_1];
    }
  }
  __shared__ __align__(16) float red_buf0[12];
  red_buf0[k_1] = in_thread_B[0];
  __syncthreads();
  if (k_1 < 6) {
    red_buf0[k_1] += red_buf0[k_1 + 6];
  }
  __syncthreads();
  if (k_1 < 3) {
    red_buf0[k_1] += red_buf0[k_1 + 3];
  }
  __syncthreads();
  if (k_1 < 1) {
    red_buf0[k_1] += red_buf0[k_1 + 2];
  }
  __syncthreads();
  if (k_1 < 1) {
    red_buf0[k_1] += red_buf0[k_1 + 1];
  }
  __syncthreads();
  cross_thread_B[0] = red_buf0[0];
  __syncthreads();
  if (k_1 == 0) {
    B[i] = cross_thread_B[0];
  }
}
