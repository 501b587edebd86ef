/* program.cu - a program as users write them for several GPUs, with the CUDA runtime and NCCL: each device has a number, all get
 * the sum.  It is C; its name keeps it out of the tests that are built for every machine. */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA(call)                                                           \
    do {                                                                     \
        cudaError_t error_ = (call);                                         \
        if (error_ != cudaSuccess) {                                         \
            printf("line %d: %s\n", __LINE__, cudaGetErrorString(error_));   \
            exit(1);                                                         \
        }                                                                    \
    } while (0)
#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            printf("line %d: %s: %s\n", __LINE__, ncclGetErrorString(result_), ncclGetLastError(NULL)); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { MOST = 16, COUNT = 1000 };

int main(void)
{
    static float numbers[COUNT];
    ncclComm_t   comms[MOST];
    cudaStream_t streams[MOST];
    float       *at[MOST];
    int          devices = 0, version = 0;
    CUDA(cudaGetDeviceCount(&devices));
    NCCL(ncclGetVersion(&version));
    NCCL(ncclCommInitAll(comms, devices, NULL));
    for (int d = 0; d < devices; d++) {
        for (int i = 0; i < COUNT; i++)
            numbers[i] = (float)(d + i);
        CUDA(cudaSetDevice(d));
        CUDA(cudaStreamCreate(&streams[d]));
        CUDA(cudaMalloc((void **)&at[d], sizeof numbers));
        CUDA(cudaMemcpy(at[d], numbers, sizeof numbers, cudaMemcpyHostToDevice));
    }
    NCCL(ncclGroupStart());
    for (int d = 0; d < devices; d++)
        NCCL(ncclAllReduce(at[d], at[d], COUNT, ncclFloat, ncclSum, comms[d], streams[d]));
    NCCL(ncclGroupEnd());
    for (int d = 0; d < devices; d++) {
        CUDA(cudaSetDevice(d));
        CUDA(cudaStreamSynchronize(streams[d]));
        CUDA(cudaMemcpy(numbers, at[d], sizeof numbers, cudaMemcpyDeviceToHost));
        printf("device %d of %d, NCCL %d: %g %g\n", d, devices, version / 100, (double)numbers[0],
               (double)numbers[COUNT - 1]);
        NCCL(ncclCommDestroy(comms[d]));
    }
    return 0;
}
