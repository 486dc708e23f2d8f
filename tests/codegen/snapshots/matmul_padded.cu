// N numbers that are loaded and stored at once
template <typename T, int N>
struct alignas(sizeof(T) * N) vec {
  T lane[N];
  __device__ T& operator[](int i) { return lane[i]; }
  __device__ const T& operator[](int i) const { return lane[i]; }
};

// grid (2, 2, 1), block (4, 4, 1)
extern "C" __global__ void __launch_bounds__(16)
main_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int j_0 = blockIdx.x;
  const int i_0 = blockIdx.y;
  const int j_2 = threadIdx.x;
  const int i_2 = threadIdx.y;
  float C_local[4];
  for (int i_3_init = 0; i_3_init < 2; ++i_3_init) {
    for (int j_3_init = 0; j_3_init < 2; ++j_3_init) {
      C_local[i_3_init * 2 + j_3_init] = 0.0f;
    }
  }
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    __shared__ __align__(16) float A_shared[71];
    __shared__ __align__(16) float B_shared[71];
    __syncthreads();
    for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
      {
        const vec<float, 2> A_lanes = *(const vec<float, 2>*)(A + i_0 * 128 + ax0_ax1_fused_0 * 64 + i_2 * 16 + k_0 * 8 + j_2 * 2);
        #pragma unroll
        for (int lane = 0; lane < 2; ++lane) {
          A_shared[ax0_ax1_fused_0 * 36 + i_2 * 9 + j_2 * 2 + lane] = A_lanes[lane];
        }
      }
    }
    for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
      {
        const vec<float, 2> B_lanes = *(const vec<float, 2>*)(B + k_0 * 128 + ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2);
        #pragma unroll
        for (int lane_1 = 0; lane_1 < 2; ++lane_1) {
          B_shared[ax0_ax1_fused_0_1 * 36 + i_2 * 9 + j_2 * 2 + lane_1] = B_lanes[lane_1];
        }
      }
    }
    __syncthreads();
    for (int k_1 = 0; k_1 < 8; ++k_1) {
      for (int i_3 = 0; i_3 < 2; ++i_3) {
        for (int j_3 = 0; j_3 < 2; ++j_3) {
          C_local[i_3 * 2 + j_3] += A_shared[i_2 * 18 + i_3 * 9 + k_1] * B_shared[k_1 * 9 + j_2 * 2 + j_3];
        }
      }
    }
  }
  for (int ax0 = 0; ax0 < 2; ++ax0) {
    for (int ax1 = 0; ax1 < 2; ++ax1) {
      C[i_0 * 128 + i_2 * 32 + ax0 * 16 + j_0 * 8 + j_2 * 2 + ax1] = C_local[ax0 * 2 + ax1];
    }
  }
}
