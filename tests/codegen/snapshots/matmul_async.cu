// these bytes go from global to shared memory while the thread goes on
template <int bytes>
__device__ void cp_async(void* shared, const void* global) {
  unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global),
                 "n"(bytes == 16 ? 4 : bytes) : "memory");
}

// what the thread has begun to copy since the last time is a group
__device__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// until all but the last n groups of the thread have arrived
template <int n>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

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
  __shared__ __align__(16) float A_shared[192];
  __shared__ __align__(16) float B_shared[192];
  for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
    cp_async<8>(A_shared + (ax0_ax1_fused_0 * 32 + i_2 * 8 + j_2 * 2), A + (i_0 * 384 + ax0_ax1_fused_0 * 192 + i_2 * 48 + j_2 * 2));
  }
  for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
    cp_async<8>(B_shared + (ax0_ax1_fused_0_1 * 32 + i_2 * 8 + j_2 * 2), B + (ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2));
  }
  cp_async_commit();
  for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
    cp_async<8>(A_shared + (ax0_ax1_fused_0 * 32 + i_2 * 8 + j_2 * 2 + 64), A + (i_0 * 384 + ax0_ax1_fused_0 * 192 + i_2 * 48 + j_2 * 2 + 8));
  }
  for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
    cp_async<8>(B_shared + (ax0_ax1_fused_0_1 * 32 + i_2 * 8 + j_2 * 2 + 64), B + (ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2 + 128));
  }
  cp_async_commit();
  for (int k_0 = 0; k_0 < 4; ++k_0) {
    cp_async_wait<1>();
    __syncthreads();
    for (int ax0_ax1_fused_0 = 0; ax0_ax1_fused_0 < 2; ++ax0_ax1_fused_0) {
      cp_async<8>(A_shared + ((k_0 + 2) % 3 * 64 + ax0_ax1_fused_0 * 32 + i_2 * 8 + j_2 * 2), A + (i_0 * 384 + ax0_ax1_fused_0 * 192 + i_2 * 48 + k_0 * 8 + j_2 * 2 + 16));
    }
    for (int ax0_ax1_fused_0_1 = 0; ax0_ax1_fused_0_1 < 2; ++ax0_ax1_fused_0_1) {
      cp_async<8>(B_shared + ((k_0 + 2) % 3 * 64 + ax0_ax1_fused_0_1 * 32 + i_2 * 8 + j_2 * 2), B + (k_0 * 128 + ax0_ax1_fused_0_1 * 64 + i_2 * 16 + j_0 * 8 + j_2 * 2 + 256));
    }
    cp_async_commit();
    for (int k_1 = 0; k_1 < 8; ++k_1) {
      for (int i_3 = 0; i_3 < 2; ++i_3) {
        for (int j_3 = 0; j_3 < 2; ++j_3) {
          C_local[i_3 * 2 + j_3] += A_shared[k_0 % 3 * 64 + i_2 * 16 + i_3 * 8 + k_1] * B_shared[k_0 % 3 * 64 + k_1 * 8 + j_2 * 2 + j_3];
        }
      }
    }
  }
  for (int k_0_1 = 4; k_0_1 < 6; ++k_0_1) {
    cp_async_wait<1>();
    __syncthreads();
    cp_async_commit();
    for (int k_1 = 0; k_1 < 8; ++k_1) {
      for (int i_3 = 0; i_3 < 2; ++i_3) {
        for (int j_3 = 0; j_3 < 2; ++j_3) {
          C_local[i_3 * 2 + j_3] += A_shared[k_0_1 * 64 + i_2 * 16 + i_3 * 8 + k_1 - 192] * B_shared[k_0_1 * 64 + k_1 * 8 + j_2 * 2 + j_3 - 192];
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
