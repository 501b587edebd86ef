// main.cpp - a kernel in a C++ program: objects that free what they own, exceptions instead of codes, and a CUDA graph
// that is captured once and replayed, here one that adds a vector to a sum.
//
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build && build/accumulate
//
// Without a GPU: PTXPACK_DEVICE=emu; ctest sets it.
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <ptxpack/ptxpack.h>

namespace {

class Error : public std::runtime_error {
public:
    Error(ptxpack_status status, const std::string &detail) : std::runtime_error(detail), status(status) {}
    const ptxpack_status status;
};

void check(ptxpack_status status, const ptxpack *pack)
{
    if (status != PTXPACK_OK)
        throw Error(status, ptxpack_detail(pack));
}

struct Free {
    void operator()(ptxpack *pack) const { ptxpack_close(pack); }
    void operator()(ptxpack_vector_plan *plan) const { ptxpack_vector_plan_free(plan); }
};
template <class T> using Owned = std::unique_ptr<T, Free>;

// A handle, its context made current, and a stream.  If a context of the program's own is current, it is used.
class Gpu {
public:
    Gpu()
    {
        ptxpack *opened;
        ::check(ptxpack_open(nullptr, &opened), nullptr);
        pack.reset(opened);
        cuda = ptxpack_driver_table(opened);
        check(cuda->cuCtxSetCurrent(ptxpack_context(opened)));
        check(cuda->cuStreamCreate(&stream, PTXPACK_CU_STREAM_NON_BLOCKING));
    }
    Gpu(const Gpu &) = delete;
    Gpu &operator=(const Gpu &) = delete;
    ~Gpu() { cuda->cuStreamDestroy(stream); }

    void check(ptxpack_cu_result result) const
    {
        char text[256];
        if (result != PTXPACK_CU_SUCCESS)
            throw Error(ptxpack_driver_status(result), ptxpack_driver_error(cuda, result, text, sizeof text));
    }
    void wait() const { check(cuda->cuStreamSynchronize(stream)); }

    Owned<ptxpack>        pack;
    const ptxpack_driver *cuda = nullptr;
    CUstream_st          *stream = nullptr;
};

// A vector of values in half precision, on the device.
class Vector {
public:
    Vector(const Gpu &gpu, const std::vector<float> &values) : gpu(gpu), count(values.size())
    {
        std::vector<uint16_t> halves(count);
        for (size_t i = 0; i < count; i++)
            halves[i] = ptxpack_from_float(PTXPACK_F16, values[i]);
        gpu.check(gpu.cuda->cuMemAlloc(&address, count * sizeof halves[0]));
        gpu.check(gpu.cuda->cuMemcpyHtoD(address, halves.data(), count * sizeof halves[0]));
    }
    Vector(const Vector &) = delete;
    Vector &operator=(const Vector &) = delete;
    ~Vector() { gpu.cuda->cuMemFree(address); }

    std::vector<float> values() const
    {
        std::vector<uint16_t> halves(count);
        std::vector<float>    floats;
        gpu.check(gpu.cuda->cuMemcpyDtoH(halves.data(), address, count * sizeof halves[0]));
        for (uint16_t half : halves)
            floats.push_back(ptxpack_to_float(PTXPACK_F16, half));
        return floats;
    }

    const Gpu        &gpu;
    const size_t      count;
    ptxpack_deviceptr address = 0;
};

// Captures what a function enqueues on the stream, and replays it.
class Graph {
public:
    template <class Enqueue> Graph(const Gpu &gpu, Enqueue enqueue) : gpu(gpu)
    {
        const unsigned thread_local_mode = 1; // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        CUgraph_st    *graph;
        gpu.check(gpu.cuda->cuStreamBeginCapture(gpu.stream, thread_local_mode));
        enqueue();
        gpu.check(gpu.cuda->cuStreamEndCapture(gpu.stream, &graph));
        ptxpack_cu_result result = gpu.cuda->cuGraphInstantiateWithFlags(&program, graph, 0);
        gpu.cuda->cuGraphDestroy(graph);
        gpu.check(result);
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;
    ~Graph() { gpu.cuda->cuGraphExecDestroy(program); }
    void launch() const { gpu.check(gpu.cuda->cuGraphLaunch(program, gpu.stream)); }

private:
    const Gpu      &gpu;
    CUgraphExec_st *program = nullptr;
};

Owned<ptxpack_vector_plan> make_plan(const Gpu &gpu)
{
    ptxpack_vector_plan *plan;
    check(ptxpack_vector_plan_create(gpu.pack.get(), PTXPACK_F16, &plan), gpu.pack.get());
    return Owned<ptxpack_vector_plan>(plan);
}

bool run()
{
    const int          replays = 5;
    Gpu                gpu;
    auto               plan = make_plan(gpu); // compiled, or fetched from the cache, and loaded
    std::vector<float> numbers;
    for (int i = 0; i < 1000; i++)
        numbers.push_back(static_cast<float>(i % 64));
    Vector x(gpu, numbers), sum(gpu, std::vector<float>(numbers.size()));
    Graph  add(gpu, [&] { // sum = 1 x + 1 sum + 0
        check(ptxpack_vector_add(plan.get(), sum.address, x.address, sum.address, 1, 1, 0, x.count,
                                 gpu.stream),
              gpu.pack.get());
    });
    for (int i = 0; i < replays; i++)
        add.launch();
    gpu.wait();
    size_t             wrong = 0;
    std::vector<float> sums = sum.values();
    for (size_t i = 0; i < sums.size(); i++)
        wrong += sums[i] != replays * numbers[i];
    std::printf("%s on %s: %zu sums, %zu wrong\n",
                ptxpack_kernel_describe(ptxpack_vector_kernel(plan.get()))->variant->id,
                ptxpack_device(gpu.pack.get())->name, sums.size(), wrong);
    return wrong == 0;
}

} // namespace

int main()
{
    try {
        return run() ? 0 : 1;
    } catch (const Error &error) {
        std::fprintf(stderr, "%s: %s\n", ptxpack_status_name(error.status), error.what());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 1;
}
