/* record_emu_vectors.c - run the cases of emu_vectors.h on a GPU of sm_90, compare, write the file.
 *
 *   record_emu_vectors FILE      exit status 0: everything was recorded (also where the model differs)
 *
 * Not part of any test: it needs an H100 or H200.  One line for each case and kind that the model misses. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/emu_vectors.h"

enum { EXPERIMENTS = VECTORS_KIND_COUNT * VECTORS_EACH };

/* ---- the driver: what little is needed ----------------------------------------------------------------- */
static struct {
    unsigned int (*cuInit)(unsigned int);
    unsigned int (*cuDeviceGet)(int *, int);
    unsigned int (*cuDevicePrimaryCtxRetain)(void **, int);
    unsigned int (*cuCtxSetCurrent)(void *);
    unsigned int (*cuModuleLoadDataEx)(void **, const void *, unsigned int, int *, void **);
    unsigned int (*cuModuleGetFunction)(void **, void *, const char *);
    unsigned int (*cuModuleUnload)(void *);
    unsigned int (*cuMemAlloc)(unsigned long long *, size_t);
    unsigned int (*cuMemcpyHtoD)(unsigned long long, const void *, size_t);
    unsigned int (*cuMemcpyDtoH)(void *, unsigned long long, size_t);
    unsigned int (*cuLaunchKernel)(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                   unsigned int, unsigned int, void *, void **, void **);
    unsigned int (*cuCtxSynchronize)(void);
} gpu;
static unsigned long long device_in, device_out;

static void check(unsigned int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: error %u\n", what, result);
    exit(1);
}

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int   device;
#define FIND(name, symbol) \
    (*(void **)&gpu.name = library != NULL ? dlsym(library, symbol) : NULL, gpu.name != NULL)
    if (!(FIND(cuInit, "cuInit") && FIND(cuDeviceGet, "cuDeviceGet") &&
          FIND(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain") &&
          FIND(cuCtxSetCurrent, "cuCtxSetCurrent") && FIND(cuModuleLoadDataEx, "cuModuleLoadDataEx") &&
          FIND(cuModuleGetFunction, "cuModuleGetFunction") && FIND(cuModuleUnload, "cuModuleUnload") &&
          FIND(cuMemAlloc, "cuMemAlloc_v2") && FIND(cuMemcpyHtoD, "cuMemcpyHtoD_v2") &&
          FIND(cuMemcpyDtoH, "cuMemcpyDtoH_v2") && FIND(cuLaunchKernel, "cuLaunchKernel") &&
          FIND(cuCtxSynchronize, "cuCtxSynchronize")))
        check(1, "libcuda.so.1");
#undef FIND
    check(gpu.cuInit(0), "cuInit");
    check(gpu.cuDeviceGet(&device, 0), "cuDeviceGet");
    check(gpu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(gpu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(gpu.cuMemAlloc(&device_in, (size_t)EXPERIMENTS * VECTORS_STRIDE), "cuMemAlloc");
    check(gpu.cuMemAlloc(&device_out, (size_t)EXPERIMENTS * VECTORS_STRIDE), "cuMemAlloc");
}

/* ---- a case -------------------------------------------------------------------------------------------- */
static unsigned char *image;

static bool run_gpu(const struct vectors_case *c)
{
    static char  log[4096];
    int          options[] = {5, 6}; /* the error log, its size */
    void        *values[] = {log, (void *)sizeof log}, *module, *kernel;
    void        *arguments[] = {&device_in, &device_out};
    unsigned int threads = vectors_threads(c);
    log[0] = '\0';
    unsigned int result = gpu.cuModuleLoadDataEx(&module, vectors_kernel(c), 2, options, values);
    if (result != 0) {
        printf("%s: cannot be loaded: error %u: %s\n", c->name, result, log);
        return false;
    }
    check(gpu.cuModuleGetFunction(&kernel, module, "k"), "cuModuleGetFunction");
    check(gpu.cuMemcpyHtoD(device_in, image, (size_t)EXPERIMENTS * VECTORS_STRIDE), "cuMemcpyHtoD");
    check(gpu.cuLaunchKernel(kernel, EXPERIMENTS, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL),
          "cuLaunchKernel");
    check(gpu.cuCtxSynchronize(), c->name);
    check(gpu.cuMemcpyDtoH(image, device_out, (size_t)EXPERIMENTS * VECTORS_STRIDE), "cuMemcpyDtoH");
    check(gpu.cuModuleUnload(module), "cuModuleUnload");
    return true;
}

static void explain(const struct vectors_case *c, int experiment, const struct vectors_input *in,
                    const uint32_t *d)
{
    size_t words = vectors_d_words(c), i = 0;
    while (i < words && in->c[i] == d[i])
        i++;
    printf("    experiment %d, m %zu n %zu: %08x, the model says %08x\n", experiment, i / (size_t)c->p.n,
           i % (size_t)c->p.n, d[i], in->c[i]);
}

/* Compare with the model, write the first experiment in full and the hash of each. */
static void write_kind(const struct vectors_case *c, int number, enum vectors_kind kind, FILE *full,
                       uint32_t *hash)
{
    static struct vectors_input in;
    static uint32_t             d[VECTORS_WORDS];
    size_t                      words = vectors_d_words(c);
    int                         missed = 0;
    for (int e = 0; e < VECTORS_EACH; e++) {
        const unsigned char *from = image + (size_t)((int)kind * VECTORS_EACH + e) * VECTORS_STRIDE;
        vectors_make(c, number, kind, e, &in);
        vectors_multiply(c, &in);
        vectors_gather(c, from, d);
        hash[e] = vectors_hash(d, words);
        if (e == 0)
            fwrite(d, sizeof *d, words < VECTORS_FULL ? words : VECTORS_FULL, full);
        if (memcmp(in.c, d, words * sizeof *d) != 0 && missed++ == 0)
            explain(c, e, &in, d);
    }
    if (missed != 0)
        printf("%s, %s: %d of %d differ\n", c->name, vectors_kind_name(kind), missed, VECTORS_EACH);
}

static void record(const struct vectors_case *c, int number, FILE *file)
{
    static struct vectors_input in;
    static uint32_t             hash[VECTORS_KIND_COUNT][VECTORS_EACH];
    for (int i = 0; i < EXPERIMENTS; i++) {
        vectors_make(c, number, (enum vectors_kind)(i / VECTORS_EACH), i % VECTORS_EACH, &in);
        vectors_scatter(c, &in, image + (size_t)i * VECTORS_STRIDE);
    }
    if (!run_gpu(c))
        return;
    fprintf(file, "%s\n", c->name);
    for (int kind = 0; kind < VECTORS_KIND_COUNT; kind++)
        write_kind(c, number, (enum vectors_kind)kind, file, hash[kind]);
    fwrite(hash, sizeof hash, 1, file);
}

int main(int argc, char **argv)
{
    struct vectors_case c;
    FILE               *file = argc == 2 ? fopen(argv[1], "wb") : NULL;
    int                 i = 0;
    image = (unsigned char *)calloc(EXPERIMENTS, VECTORS_STRIDE);
    if (file == NULL || image == NULL) {
        fprintf(stderr, "usage: record_emu_vectors FILE\n");
        return 1;
    }
    open_driver();
    fputs(VECTORS_HEADER, file);
    for (; vectors_case_at(i, &c); i++)
        record(&c, i, file);
    printf("%d cases\n", i);
    return fclose(file) == 0 ? 0 : 1;
}
