// Enough of CUDA C++ to run the kernels of the tests on a CPU: one std::thread for each thread of a
// block, blocks one after the other. Shared memory is static, so that all threads of a block see it.
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __restrict__
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))

struct dim3 { int x, y, z; };
thread_local dim3 threadIdx, blockIdx;

using uint = unsigned int;
#define VECTOR(T, N) struct alignas(sizeof(T) * N) T##N { T lane[N]; };
VECTOR(float, 2) VECTOR(float, 4) VECTOR(int, 2) VECTOR(int, 4)

inline float __int_as_float(unsigned x) { float y; std::memcpy(&y, &x, 4); return y; }

template <typename T>
T atomicAdd(T* place, T value) { return std::atomic_ref<T>(*place).fetch_add(value); }

struct Block {
  explicit Block(int n) : size(n), all(n) {
    for (int first = 0; first < n; first += 32)
      warps.push_back(std::make_unique<std::barrier<>>(n - first < 32 ? n - first : 32));
    slots.resize(n);
  }
  int size;
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<uint64_t> slots;
};
inline Block* block_;
thread_local int number_;

inline void __syncthreads() { block_->all.arrive_and_wait(); }
inline void __syncwarp() { block_->warps[number_ / 32]->arrive_and_wait(); }

template <typename T>
T exchange_(T value, int lane) {
  std::memcpy(&block_->slots[number_], &value, sizeof(T));
  __syncwarp();
  T found;
  std::memcpy(&found, &block_->slots[number_ / 32 * 32 + lane], sizeof(T));
  __syncwarp();
  return found;
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane, int width) {
  return exchange_(value, number_ % 32 / width * width + lane % width);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, int by, int width) {
  int mine = number_ % 32;
  return exchange_(value, mine % width + by < width ? mine + by : mine);
}

// Asynchronous copies, as late as they may be: at the wait for their group.
using Copies = std::vector<std::function<void()>>;
thread_local std::deque<Copies> groups_;
thread_local Copies open_;
template <int bytes>
void cp_async_or_zeros(void* shared, const void* global, bool holds) {
  open_.push_back([=] {
    if (holds) std::memcpy(shared, global, bytes); else std::memset(shared, 0, bytes);
  });
}
template <int bytes>
void cp_async(void* shared, const void* global) { cp_async_or_zeros<bytes>(shared, global, true); }
inline void cp_async_commit() {
  groups_.push_back(open_);
  open_.clear();
}
template <int n>
void cp_async_wait() {
  for (; groups_.size() > n; groups_.pop_front())
    for (auto& copy : groups_.front()) copy();
}

template <typename F>
void launch_(dim3 grid, dim3 block, F kernel) {
  for (int z = 0; z < grid.z; ++z)
    for (int y = 0; y < grid.y; ++y)
      for (int x = 0; x < grid.x; ++x) {
        int count = block.x * block.y * block.z;
        Block state(count);
        block_ = &state;
        std::vector<std::thread> threads;
        for (int n = 0; n < count; ++n)
          threads.emplace_back([=, &kernel] {
            number_ = n;
            blockIdx = {x, y, z};
            threadIdx = {n % block.x, n / block.x % block.y, n / block.x / block.y};
            kernel();
          });
        for (auto& t : threads) t.join();
      }
}
