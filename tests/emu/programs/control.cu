// control.cu - recursion, switches, local arrays, function pointers, virtual functions, early exits, goto.
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ __noinline__ unsigned int ackermann(unsigned int m, unsigned int n)
{
    if (m == 0)
        return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion(int *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[2 * t] = fibonacci(t % 13);
    out[2 * t + 1] = (int)ackermann(t % 3, t % 5);
}

__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
typedef int operation(int, int);
__device__ operation *table[] = {add, subtract, multiply};

struct shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~shape() {}
};
struct square : shape {
    float side;
    __device__ square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};
struct rectangle : shape {
    float width, height;
    __device__ rectangle(float w, float h) : width(w), height(h) {}
    __device__ float area() const override { return width * height; }
};

__device__ __noinline__ float measure(const shape *s) { return s->area(); }

extern "C" __global__ void pointers(int *out, float *areas)
{
    int t = threadIdx.x;
    out[t] = table[t % 3](t, 7);
    square s((float)t);
    rectangle r((float)t, 3.0f);
    areas[t] = measure(t % 2 ? (const shape *)&s : (const shape *)&r);
}

// A machine of a few opcodes: a switch in a loop, a stack in local memory.
extern "C" __global__ void interpreter(const int *code, int count, int *out)
{
    int stack[16], top = 0, t = blockIdx.x * blockDim.x + threadIdx.x;
    stack[top++] = t;
    for (int pc = 0; pc < count; pc++) {
        switch (code[pc]) {
        case 0: stack[top] = stack[top - 1]; top++; break;
        case 1: top--; stack[top - 1] += stack[top]; break;
        case 2: top--; stack[top - 1] *= stack[top]; break;
        case 3: stack[top - 1] = -stack[top - 1]; break;
        case 4: stack[top++] = code[++pc]; break;
        case 5: if (stack[top - 1] & 1) stack[top - 1] = 3 * stack[top - 1] + 1; else stack[top - 1] /= 2; break;
        case 6: if (stack[top - 1] > 100) goto done; break;
        case 7: stack[top - 1] ^= 0x55; break;
        default: stack[top - 1] = -1; break;
        }
    }
done:
    out[t] = stack[top - 1] + 1000 * top;
}

extern "C" __global__ void collatz(const unsigned int *in, unsigned int *steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned int v = in[i], s = 0;
    while (v != 1) {
        v = v % 2 ? 3 * v + 1 : v / 2;
        if (++s > 1000)
            break;
    }
    steps[i] = s;
}

struct record { int id; double weight; short tags[5]; char name[7]; };

__device__ __noinline__ record make_record(record r, int t)
{
    r.id += t;
    r.weight *= t;
    r.tags[t % 5] = (short)t;
    r.name[t % 7] = (char)('a' + t % 26);
    return r;
}

extern "C" __global__ void records(record base, record *out)
{
    out[threadIdx.x] = make_record(base, threadIdx.x);
}

// A lock that threads of the same warp take in turn: needs independent scheduling.
__device__ int lock;
extern "C" __global__ void critical(volatile int *counter)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence();
            *counter = *counter + 1;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}
