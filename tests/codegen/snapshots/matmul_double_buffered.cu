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
  __shared__ __align__(16) float A_shared[128];
  __shared__ __align__(16) float B_shared[128];
  for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
    *(float2*)(A_shared + ax0_ax1_fused_0 * 32 + i_2 * 8 + j_2 * 2) = *(const float2*)(A + i_0 * 256 + ax0_ax1_fused_0 * 128 + i_2 * 32 + j_2 * 2);
  }
  for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
    *(float2*)(B_shared + ax0_ax1_fused_0_1 * 32 + i_2 * 8 + j_2 * 2) = *(const float2*)(B + ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2);
  }
  for (int k_0 = 0; k_0 < 3; ++k_0) {
    __syncthreads();
    for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
      *(float2*)(A_shared + (k_0 + 1) % 2 * 64 + ax0_ax1_fused_0 * 32 + i_2 * 8 + j_2 * 2) = *(const float2*)(A + i_0 * 256 + ax0_ax1_fused_0 * 128 + i_2 * 32 + k_0 * 8 + j_2 * 2 + 8);
    }
    for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
      *(float2*)(B_shared + (k_0 + 1) % 2 * 64 + ax0_ax1_fused_0_1 * 32 + i_2 * 8 + j_2 * 2) = *(const float2*)(B + k_0 * 128 + ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2 + 128);
    }
    for (int k_1 = 0; k_1 < 8; ++k_1) {
      for (int i_3 = 0; i_3 < 2; ++i_3) {
        for (int j_3 = 0; j_3 < 2; ++j_3) {
          C_local[i_3 * 2 + j_3] += A_shared[k_0 % 2 * 64 + i_2 * 16 + i_3 * 8 + k_1] * B_shared[k_0 % 2 * 64 + k_1 * 8 + j_2 * 2 + j_3];
        }
      }
    }
  }
  __syncthreads();
  for (int k_1 = 0; k_1 < 8; ++k_1) {
    for (int i_3 = 0; i_3 < 2; ++i_3) {
      for (int j_3 = 0; j_3 < 2; ++j_3) {
        C_local[i_3 * 2 + j_3] += A_shared[i_2 * 16 + i_3 * 8 + k_1 + 64] * B_shared[k_1 * 8 + j_2 * 2 + j_3 + 64];
      }
    }
  }
  for (int ax0 = 0; ax0 < 2; ++ax0) {
    for (int ax1 = 0; ax1 < 2; ++ax1) {
      C[i_0 * 128 + i_2 * 32 + ax0 * 16 + j_0 * 8 + j_2 * 2 + ax1] = C_local[ax0 * 2 + ax1];
    }
  }
}
