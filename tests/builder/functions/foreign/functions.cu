// nvcc -ptx -rdc=true -arch=compute_80 functions.cu (CUDA 13.0)
#include <cstdio>
__device__ float table[4] = {1, 2, 3, 4};
__device__ int calls;
__device__ __noinline__ static float picked(float x, int i) { return x * table[i & 3]; }
extern "C" __device__ float shifted(float x, int n) { return picked(x, n) + 1.0f; }
extern "C" __device__ float tripled(float x) { return picked(x, 2); }
extern "C" __device__ short of_small(signed char c, unsigned char d, short h, bool b) { return b ? c * h : d; }
extern "C" __device__ bool is_odd(int n) { return n & 1; }
extern "C" __device__ double summed(const float *row, long long n) {
    double total = 0;
    for (long long i = 0; i < n; i++) total += row[i];
    return total;
}
extern "C" __device__ void swapped(float *row, int i, int j) {
    float first = row[i];
    row[i] = row[j];
    row[j] = first;
}
extern "C" __device__ float root(float x) { return sqrtf(x); }
extern "C" __device__ int counted() { return atomicAdd(&calls, 1); }
extern "C" __device__ int neighbour(int n) { return __shfl_xor_sync(~0u, n, 1); }
extern "C" __device__ int clocked() { return clock(); }
extern "C" __device__ int barred(int n) { __syncthreads(); return n; }
extern "C" __device__ int printed(int n) { return printf("%d", n); }
extern "C" __device__ int held(int n) { __shared__ int box[32]; box[n] = n; return box[n ^ 1]; }
extern "C" __device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __device__ int applied(int (*f)(int), int n) { return f(n); }
extern "C" __global__ void kernel(float *x) { x[threadIdx.x] = shifted(x[threadIdx.x], 1); }
