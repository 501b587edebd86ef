/* run.h - programs on the emulated driver: memory, launches, random numbers, and the checks of results. */
#ifndef EMU_PROGRAMS_RUN_H
#define EMU_PROGRAMS_RUN_H
#include "tests/emu/driver/api_fixture.h"
#include <math.h>
#include <time.h>

enum { MOST_BUFFERS = 32, MOST_OPTIONS = 12 };

struct program {
    struct emu_api *cu;
    struct CUmod_st *module;
    int  sm;
    char name[128];                /* for messages: "reduce.cu, compute_90" */
    const char *log;               /* the emulator's log, which must stay empty */
    uint64_t buffers[MOST_BUFFERS];
    unsigned int buffer_count;
    double loaded, ran;            /* seconds */
};

/* ---- random numbers ---------------------------------------------------------------------------------- */
static uint64_t random_state;

static inline uint64_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1dull;
}

static inline unsigned int random_below(unsigned int n) { return (unsigned int)(random_word() >> 32) % n; }

static inline double random_between(double low, double high)
{
    return low + (high - low) * ((double)(random_word() >> 11) / 9007199254740992.0);
}

/* ---- memory of the machine --------------------------------------------------------------------------- */
static inline uint64_t buffer(struct program *p, size_t bytes)
{
    api_address address = 0;
    assert_true(p->buffer_count < MOST_BUFFERS);
    assert_int_equal(p->cu->cuMemAlloc_v2(&address, bytes), 0);
    p->buffers[p->buffer_count++] = address;
    return address;
}

static inline uint64_t put(struct program *p, const void *bytes, size_t count)
{
    uint64_t address = buffer(p, count);
    assert_int_equal(p->cu->cuMemcpyHtoD_v2(address, bytes, count), 0);
    return address;
}

static inline uint64_t zeros(struct program *p, size_t count)
{
    uint64_t address = buffer(p, count);
    assert_int_equal(p->cu->cuMemsetD8_v2(address, 0, count), 0);
    return address;
}

static inline void get(struct program *p, void *bytes, uint64_t address, size_t count)
{
    assert_int_equal(p->cu->cuMemcpyDtoH_v2(bytes, address, count), 0);
}

static inline void *host(size_t count, size_t size)
{
    void *bytes = calloc(count, size);
    assert_non_null(bytes);
    return bytes;
}

/* ---- launches ---------------------------------------------------------------------------------------- */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void show_log(const struct program *p)
{
    char line[1200];
    FILE *file = fopen(p->log, "r");
    for (int i = 0; file && i < 10 && fgets(line, sizeof line, file); i++)
        print_error("%s: %s", p->name, line);
    if (file)
        fclose(file);
}

struct arguments { void *at[8]; };
#define ARGS(...) ((struct arguments){{__VA_ARGS__}})
struct shape { unsigned int x, y, z; };
#define SHAPE(...) SHAPE_OF(__VA_ARGS__, 1, 1, 1)
#define SHAPE_OF(x, y, z, ...) ((struct shape){x, y, z})

static inline unsigned int try_launch(struct program *p, const char *kernel, struct shape grid,
                                      struct shape block, unsigned int shared, struct arguments arguments)
{
    struct CUfunc_st *function = NULL;
    unsigned int result = p->cu->cuModuleGetFunction(&function, p->module, kernel);
    if (result)
        fail_msg("%s: no kernel '%s' (%u)", p->name, kernel, result);
    result = p->cu->cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, NULL,
                                   arguments.at, NULL);
    return result ? result : p->cu->cuCtxSynchronize();
}

static inline void launch(struct program *p, const char *kernel, struct shape grid, struct shape block,
                          unsigned int shared, struct arguments arguments)
{
    double started = now();
    unsigned int result = try_launch(p, kernel, grid, block, shared, arguments);
    p->ran += now() - started;
    if (result) {
        show_log(p);
        fail_msg("%s: %s: the launch answers %u", p->name, kernel, result);
    }
}

/* ---- results ----------------------------------------------------------------------------------------- */
static inline void same_words(const struct program *p, const char *what, const void *got, const void *wanted,
                              size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp((const char *)got + i * size, (const char *)wanted + i * size, size) != 0) {
            unsigned long long a = 0, b = 0;
            memcpy(&a, (const char *)got + i * size, size > 8 ? 8 : size);
            memcpy(&b, (const char *)wanted + i * size, size > 8 ? 8 : size);
            show_log(p);
            fail_msg("%s: %s[%zu] is %lld (%#llx), not %lld (%#llx)", p->name, what, i, (long long)a, a,
                     (long long)b, b);
        }
}

static inline void near_double(const struct program *p, const char *what, size_t i, double got, double wanted,
                               double relative, double absolute)
{
    if (got == wanted || (isnan(got) && isnan(wanted)) ||
        fabs(got - wanted) <= absolute + relative * fabs(wanted))
        return;
    show_log(p);
    fail_msg("%s: %s[%zu] is %.17g, not %.17g", p->name, what, i, got, wanted);
}

static inline void near_floats(const struct program *p, const char *what, const float *got,
                               const float *wanted,  size_t count, double relative, double absolute)
{
    for (size_t i = 0; i < count; i++)
        near_double(p, what, i, (double)got[i], (double)wanted[i], relative, absolute);
}

/* Converts floats to f16 and bf16, to nearest even, for finite numbers of moderate size; and back. */
static inline uint16_t bf16_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float of_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static inline float of_f16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double x = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(h & 0x8000 ? -x : x);
}

static inline uint16_t f16_of(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(x), quantum;
    int e;
    if (isnan(x))
        return 0x7fff;
    if (a >= 65520)
        return (uint16_t)(sign | 0x7c00);
    frexp(a, &e);
    quantum = ldexp(1, e < -13 ? -24 : e - 11);
    a = nearbyint(a / quantum) * quantum;
    if (a < ldexp(1, -14))
        return (uint16_t)(sign | (unsigned int)ldexp(a, 24));
    frexp(a, &e);
    return (uint16_t)(sign | (unsigned int)(e + 14) << 10 | ((unsigned int)ldexp(a, 11 - e) & 1023));
}
#endif
