// GELU and softmax in CUDA C++ as the article has them: float32, contiguous, forward only.
#include <cuda_runtime.h>

__global__ void gelu_kernel(const float *x, float *y, long count) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < count) y[i] = 0.5f * x[i] * erfcf(-x[i] * 0.70710678f);
}

// One block a row; the warps' results meet in shared memory.
template <bool MAXIMUM>
__device__ float over_block(float value) {
  __shared__ float found[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int off = 16; off; off /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, off);
    value = MAXIMUM ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (lane == 0) found[warp] = value;
  __syncthreads();
  value = found[0];
  for (int i = 1; i < warps; i++) value = MAXIMUM ? fmaxf(value, found[i]) : value + found[i];
  return value;
}

__global__ void softmax_kernel(const float *x, float *y, int columns) {
  const float *in = x + blockIdx.x * (long)columns;
  float *out = y + blockIdx.x * (long)columns;
  float most = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, in[i]);
  most = over_block<true>(most);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(in[i] - most);
  sum = over_block<false>(sum);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(in[i] - most) / sum;
}

extern "C" int gelu(const float *x, float *y, long rows, long columns, cudaStream_t stream) {
  long count = rows * columns;
  gelu_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x, y, count);
  return cudaGetLastError();
}

extern "C" int softmax(const float *x, float *y, long rows, long columns, cudaStream_t stream) {
  softmax_kernel<<<rows, 256, 0, stream>>>(x, y, columns);
  return cudaGetLastError();
}
