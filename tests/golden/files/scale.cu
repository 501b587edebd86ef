template <class T> __global__ void scale(T *y, const T *x, T a, int n)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        y[i] = a * x[i];
}
__global__ void plain(int *y) { y[threadIdx.x] = threadIdx.x; }
