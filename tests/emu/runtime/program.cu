// program.cu - what a small program of CUDA C++ uses: <<<>>>, streams, events, templates, variables of the device and
// managed ones, dynamic shared memory, attributes, occupancy, cooperative launches, graphs, clusters.  It prints what it
// computed; programs.sh builds it.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

#define TRY(call)                                                                    \
    do {                                                                             \
        const cudaError_t error = (call);                                            \
        if (error != cudaSuccess) {                                                  \
            std::printf("%s: %s (%d)\n", #call, cudaGetErrorString(error), error);   \
            return 1;                                                                \
        }                                                                            \
    } while (0)

__constant__ float scale = 1.0f;
__device__ int     threads_seen;
__managed__ int    shared_value = 5;

__global__ void add(const float *a, const float *b, float *c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + scale * b[i];
        atomicAdd(&threads_seen, 1);
    }
}

template <typename T> __global__ void sum(const T *a, T *out, int n)
{
    extern __shared__ unsigned char raw[];
    T *part = reinterpret_cast<T *>(raw);
    T  mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += a[i];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width)
            part[threadIdx.x] += part[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(out, part[0]);
}

__global__ void all_blocks(int *ranks, int *out)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    ranks[grid.thread_rank()] = static_cast<int>(grid.thread_rank());
    grid.sync();
    if (grid.thread_rank() == 0)
        for (unsigned i = 0; i < grid.size(); i++)
            *out += ranks[i];
}

static int vectors()
{
    const int          n = 1000, none = 0;
    const float        two = 2.0f;
    std::vector<float> a(n), b(n, 1.0f), c(n);
    float             *at[4], total = 0, milliseconds = -1;
    int                seen = 0, blocks = 0;
    cudaStream_t       stream;
    cudaEvent_t        begin, end;
    for (int i = 0; i < n; i++)
        a[i] = static_cast<float>(i);
    for (float *&p : at)
        TRY(cudaMalloc(&p, n * sizeof(float)));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaEventCreate(&begin));
    TRY(cudaEventCreate(&end));
    TRY(cudaMemcpyToSymbol(scale, &two, sizeof two));
    TRY(cudaMemcpyToSymbol(threads_seen, &none, sizeof none));
    TRY(cudaMemcpyAsync(at[0], a.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    TRY(cudaMemcpyAsync(at[1], b.data(), n * sizeof(float), cudaMemcpyDefault, stream));
    TRY(cudaMemsetAsync(at[3], 0, sizeof(float), stream));
    TRY(cudaEventRecord(begin, stream));
    add<<<(n + 255) / 256, 256, 0, stream>>>(at[0], at[1], at[2], n);
    TRY(cudaGetLastError());
    TRY(cudaFuncSetAttribute(sum<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum<float>, 128, 512));
    sum<float><<<4, 128, 60000, stream>>>(at[2], at[3], n);
    TRY(cudaGetLastError());
    TRY(cudaEventRecord(end, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaEventElapsedTime(&milliseconds, begin, end));
    TRY(cudaMemcpy(c.data(), at[2], n * sizeof(float), cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(&total, at[3], sizeof total, cudaMemcpyDefault));
    TRY(cudaMemcpyFromSymbol(&seen, threads_seen, sizeof seen));
    for (int i = 0; i < n; i++)
        if (c[i] != a[i] + 2)
            return std::printf("c[%d] is %g\n", i, c[i]), 1;
    for (float *p : at)
        TRY(cudaFree(p));
    TRY(cudaEventDestroy(begin));
    TRY(cudaEventDestroy(end));
    TRY(cudaStreamDestroy(stream));
    std::printf("vectors: sum %g of %d threads\n", total, seen);
    return blocks < 1 || milliseconds < 0;
}

__global__ void add_two() { shared_value += 2; }

static int managed()
{
    shared_value += 1;
    add_two<<<1, 1>>>();
    TRY(cudaDeviceSynchronize());
    std::printf("managed: %d\n", shared_value);
    return 0;
}

static int cooperative()
{
    int  *ranks, *out;
    void *arguments[] = {&ranks, &out};
    TRY(cudaMallocManaged(&ranks, 128 * sizeof *ranks));
    TRY(cudaMallocManaged(&out, sizeof *out));
    *out = 0;
    TRY(cudaLaunchCooperativeKernel(all_blocks, dim3(4), dim3(32), arguments, 0, 0));
    TRY(cudaDeviceSynchronize());
    std::printf("cooperative: sum %d\n", *out);
    return 0;
}

__global__ void cluster_rank(int *out) { out[blockIdx.x] = cooperative_groups::this_cluster().block_rank(); }

__global__ void add_one(int *a, size_t pitch) { a[blockIdx.x * (pitch / sizeof *a) + threadIdx.x]++; }

static void set_seven(void *at) { *static_cast<int *>(at) = 7; }

// A graph of a copy of two rows, a kernel and a call of the host, launched twice; then a launch in clusters of two.
static int graphs()
{
    int             rows[2][3] = {{1, 2, 3}, {4, 5, 6}}, *at, *ranks, seven = 0, least, greatest;
    size_t          pitch;
    cudaStream_t    stream;
    cudaGraph_t     graph;
    cudaGraphExec_t exec;
    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    TRY(cudaMallocPitch(&at, &pitch, sizeof rows[0], 2));
    TRY(cudaMemcpy2D(at, pitch, rows, sizeof rows[0], sizeof rows[0], 2, cudaMemcpyHostToDevice));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add_one<<<2, 3, 0, stream>>>(at, pitch);
    TRY(cudaMemcpy2DAsync(rows, sizeof rows[0], at, pitch, sizeof rows[0], 2, cudaMemcpyDefault, stream));
    TRY(cudaLaunchHostFunc(stream, set_seven, &seven));
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&exec, graph, 0));
    TRY(cudaGraphLaunch(exec, stream));
    TRY(cudaGraphLaunch(exec, stream));
    TRY(cudaStreamSynchronize(stream));
    std::printf("graphs: %d %d %d %d %d %d, %d", rows[0][0], rows[0][1], rows[0][2], rows[1][0], rows[1][1],
                rows[1][2], seven);
    TRY(cudaGraphExecDestroy(exec));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaMallocManaged(&ranks, 4 * sizeof *ranks));
    cudaLaunchConfig_t  config = {};
    cudaLaunchAttribute in_clusters = {};
    in_clusters.id = cudaLaunchAttributeClusterDimension;
    in_clusters.val.clusterDim.x = 2;
    in_clusters.val.clusterDim.y = in_clusters.val.clusterDim.z = 1;
    config.gridDim = dim3(4);
    config.blockDim = dim3(1);
    config.attrs = &in_clusters;
    config.numAttrs = 1;
    TRY(cudaFuncSetCacheConfig(cluster_rank, cudaFuncCachePreferL1));
    TRY(cudaLaunchKernelEx(&config, cluster_rank, ranks));
    TRY(cudaDeviceSynchronize());
    std::printf("; clusters: %d %d %d %d\n", ranks[0], ranks[1], ranks[2], ranks[3]);
    return 0;
}

// Handles for other processes: this one may not open its own.
static int handles()
{
    cudaIpcMemHandle_t   memory;
    cudaIpcEventHandle_t named;
    cudaEvent_t          event, opened;
    void                *at, *again;
    TRY(cudaMalloc(&at, 64));
    TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    TRY(cudaIpcGetMemHandle(&memory, at));
    TRY(cudaIpcGetEventHandle(&named, event));
    std::printf("handles: %d", cudaIpcOpenMemHandle(&again, memory, cudaIpcMemLazyEnablePeerAccess));
    std::printf(" %d", cudaIpcOpenEventHandle(&opened, named));
    std::printf(" %d\n", cudaIpcCloseMemHandle(at));
    cudaGetLastError();
    TRY(cudaEventDestroy(event));
    TRY(cudaFree(at));
    return 0;
}

static int errors()
{
    cudaFuncAttributes attributes;
    float             *none = nullptr;
    TRY(cudaFuncGetAttributes(&attributes, add));
    add<<<1, 2048>>>(none, none, none, 0);
    std::printf("errors: %d", cudaPeekAtLastError());
    std::printf(" %s", cudaGetErrorName(cudaGetLastError()));
    std::printf(" %d", cudaGetLastError());
    std::printf(" %d", cudaMemcpy(none, none, 4, static_cast<cudaMemcpyKind>(9)));
    std::printf(" %d", cudaMemcpyToSymbol(scale, &none, 5));
    std::printf(" %d %d\n", cudaSetDevice(7), attributes.maxThreadsPerBlock);
    return 0;
}

int main()
{
    int            count = 0;
    cudaDeviceProp p;
    TRY(cudaGetDeviceCount(&count));
    TRY(cudaSetDevice(0));
    TRY(cudaGetDeviceProperties(&p, 0));
    std::printf("device: %s of %d, sm_%d%d, warps of %d, blocks of %d, %zu MiB\n", p.name, count, p.major, p.minor,
                p.warpSize, p.maxThreadsPerBlock, p.totalGlobalMem >> 20);
    return vectors() || managed() || cooperative() || graphs() || handles() || errors();
}
