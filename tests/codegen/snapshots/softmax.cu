// NaN where one of them is
template <typename T>
__device__ T maximum(T a, T b) { return a != a ? a : (b > a || b != b) ? b : a; }

// grid (4, 1, 1), block (8, 1, 1)
extern "C" __global__ void __launch_bounds__(8)
main_kernel(const float* __restrict__ A, float* __restrict__ D) {
  const int i = blockIdx.x;
  const int ax0_1 = threadIdx.x;
  __shared__ __align__(16) float M[1];
  __shared__ __align__(16) float E[16];
  __shared__ __align__(16) float S[1];
  float cross_thread_M[1];
  float in_thread_M[1];
  in_thread_M[0] = __int_as_float(0xff800000);
  for (int ax0_0 = 0; ax0_0 < 2; ++ax0_0) {
    in_thread_M[0] = maximum<float>(in_thread_M[0], A[i * 16 + ax0_0 * 8 + ax0_1]);
  }
  float red_buf0[1];
  red_buf0[0] = in_thread_M[0];
  red_buf0[0] = maximum<float>(red_buf0[0], __shfl_down_sync(0xffffffffu, red_buf0[0], 4, 8));
  red_buf0[0] = maximum<float>(red_buf0[0], __shfl_down_sync(0xffffffffu, red_buf0[0], 2, 8));
  red_buf0[0] = maximum<float>(red_buf0[0], __shfl_down_sync(0xffffffffu, red_buf0[0], 1, 8));
  cross_thread_M[0] = __shfl_sync(0xffffffffu, red_buf0[0], 0, 8);
  if (ax0_1 == 0) {
    M[0] = cross_thread_M[0];
  }
  __syncthreads();
  for (int ax0_0_1 = 0; ax0_0_1 < 2; ++ax0_0_1) {
    E[ax0_0_1 * 8 + ax0_1] = expf(A[i * 16 + ax0_0_1 * 8 + ax0_1] - M[0]);
  }
  float cross_thread_S[1];
  float in_thread_S[1];
  in_thread_S[0] = 0.0f;
  for (int ax0_0_2 = 0; ax0_0_2 < 2; ++ax0_0_2) {
    in_thread_S[0] += E[ax0_0_2 * 8 + ax0_1];
  }
  float red_buf0_1[1];
  red_buf0_1[0] = in_thread_S[0];
  red_buf0_1[0] += __shfl_down_sync(0xffffffffu, red_buf0_1[0], 4, 8);
  red_buf0_1[0] += __shfl_down_sync(0xffffffffu, red_buf0_1[0], 2, 8);
  red_buf0_1[0] += __shfl_down_sync(0xffffffffu, red_buf0_1[0], 1, 8);
  cross_thread_S[0] = __shfl_sync(0xffffffffu, red_buf0_1[0], 0, 8);
  if (ax0_1 == 0) {
    S[0] = cross_thread_S[0];
  }
  __syncthreads();
  for (int j_0 = 0; j_0 < 2; ++j_0) {
    D[i * 16 + j_0 * 8 + ax0_1] = E[j_0 * 8 + ax0_1] / S[0];
  }
}
