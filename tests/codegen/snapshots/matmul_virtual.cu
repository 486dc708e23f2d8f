// grid (2, 2, 1), block (4, 4, 1)
extern "C" __global__ void __launch_bounds__(16)
main_kernel(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int j_0 = blockIdx.x;
  const int i_0 = blockIdx.y;
  const int j_2 = threadIdx.x;
  const int i_2 = threadIdx.y;
  float C_local[4];
  C_local[0] = 0.0f;
  C_local[2] = 0.0f;
  C_local[1] = 0.0f;
  C_local[3] = 0.0f;
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    __shared__ __align__(16) float A_shared[64];
    __shared__ __align__(16) float B_shared[64];
    __syncthreads();
    for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
      *(float2*)(A_shared + ax0_ax1_fused_0 * 32 + i_2 * 8 + j_2 * 2) = *(const float2*)(A + i_0 * 128 + ax0_ax1_fused_0 * 64 + i_2 * 16 + k_0 * 8 + j_2 * 2);
    }
    for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
      *(float2*)(B_shared + ax0_ax1_fused_0_1 * 32 + i_2 * 8 + j_2 * 2) = *(const float2*)(B + k_0 * 128 + ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2);
    }
    __syncthreads();
    for (int k_1 = 0; k_1 < 8; ++k_1) {
      C_local[0] += A_shared[i_2 * 8 + k_1] * B_shared[k_1 * 8 + j_2];
      C_local[2] += A_shared[32 + i_2 * 8 + k_1] * B_shared[k_1 * 8 + j_2];
      C_local[1] += A_shared[i_2 * 8 + k_1] * B_shared[k_1 * 8 + 4 + j_2];
      C_local[3] += A_shared[32 + i_2 * 8 + k_1] * B_shared[k_1 * 8 + 4 + j_2];
    }
  }
  C[i_0 * 128 + i_2 * 16 + j_0 * 8 + j_2] = C_local[0];
  C[i_0 * 128 + 64 + i_2 * 16 + j_0 * 8 + j_2] = C_local[2];
  C[i_0 * 128 + i_2 * 16 + j_0 * 8 + 4 + j_2] = C_local[1];
  C[i_0 * 128 + 64 + i_2 * 16 + j_0 * 8 + 4 + j_2] = C_local[3];
}
