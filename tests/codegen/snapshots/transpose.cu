// grid (4, 4, 1), block (4, 4, 1)
extern "C" __global__ void __launch_bounds__(16)
main_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const int j_0 = blockIdx.x;
  const int i_0 = blockIdx.y;
  const int ax1 = threadIdx.x;
  const int ax0 = threadIdx.y;
  __shared__ __align__(16) float A_shared[16];
  A_shared[ax0 * 4 + ax1] = A[j_0 * 64 + ax0 * 16 + i_0 * 4 + ax1];
  __syncthreads();
  B[i_0 * 64 + ax0 * 16 + j_0 * 4 + ax1] = A_shared[ax1 * 4 + ax0];
}
