/* example.c - arguments, memory, timing, comparing and reporting for the examples. */
#include "example.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void example_try(const example *e, ptxpack_status status)
{
    const char *detail = ptxpack_detail(e->pack);
    if (status == PTXPACK_OK)
        return;
    fprintf(stderr, "%s%s%s%s\n", status == PTXPACK_E_NO_NVRTC ? "SKIP: " : "", ptxpack_status_string(status),
            *detail != '\0' ? ": " : "", detail);
    exit(status == PTXPACK_E_NO_NVRTC ? 77 : 1);
}

static void try_cuda(const example *e, ptxpack_cu_result result, const char *what)
{
    char text[256];
    if (result == PTXPACK_CU_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what,
            ptxpack_driver_error(ptxpack_driver_table(e->pack), result, text, sizeof text));
    exit(1);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

uint32_t example_number(int argc, char **argv, int i, uint32_t fallback, uint32_t most)
{
    char *end;
    if (i >= argc)
        return fallback;
    unsigned long long value = strtoull(argv[i], &end, 10);
    if (*argv[i] < '0' || *argv[i] > '9' || *end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "%s: '%s' is no number from 1 to %u\n", argv[0], argv[i], most);
        exit(2);
    }
    return (uint32_t)value;
}

ptxpack_language example_language(int argc, char **argv, const char *usage)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s %s\n", argv[0], usage);
        exit(2);
    }
    const char *dot = strrchr(argv[1], '.');
    return dot != NULL && strcmp(dot, ".cu") == 0 ? PTXPACK_LANGUAGE_CUDA : PTXPACK_LANGUAGE_PTX;
}

uint16_t *example_random(size_t count, uint64_t seed, float amplitude)
{
    uint16_t *values = (uint16_t *)allocate(count * sizeof *values), steps[2048];
    uint64_t  state = seed;
    for (int i = 0; i < 2048; i++)
        steps[i] = ptxpack_from_float(PTXPACK_F16, amplitude * (float)(i - 1024) / 1024);
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[i] = steps[state >> 53];
    }
    return values;
}

uint64_t example_upload(example *e, const void *data, size_t bytes)
{
    const struct ptxpack_driver *cuda = ptxpack_driver_table(e->pack);
    ptxpack_deviceptr            to = 0;
    if (e->buffer_count == EXAMPLE_BUFFERS)
        abort();
    try_cuda(e, cuda->cuCtxSetCurrent(ptxpack_context(e->pack)), "cuCtxSetCurrent");
    try_cuda(e, cuda->cuMemAlloc(&to, bytes), "cuMemAlloc");
    e->buffers[e->buffer_count++] = to;
    if (data != NULL)
        try_cuda(e, cuda->cuMemcpyHtoD(to, data, bytes), "cuMemcpyHtoD");
    else
        try_cuda(e, cuda->cuMemsetD8(to, 0xff, bytes), "cuMemsetD8");
    return to;
}

void *example_download(const example *e, ptxpack_deviceptr from, size_t bytes)
{
    const struct ptxpack_driver *cuda = ptxpack_driver_table(e->pack);
    void                        *data = allocate(bytes);
    try_cuda(e, cuda->cuCtxSynchronize(), "the kernel");
    try_cuda(e, cuda->cuMemcpyDtoH(data, from, bytes), "cuMemcpyDtoH");
    return data;
}

void example_start(example *e)
{
    const struct ptxpack_driver *cuda = ptxpack_driver_table(e->pack);
    if (e->from == NULL) {
        try_cuda(e, cuda->cuEventCreate(&e->from, 0), "cuEventCreate");
        try_cuda(e, cuda->cuEventCreate(&e->to, 0), "cuEventCreate");
    }
    try_cuda(e, cuda->cuEventRecord(e->from, NULL), "cuEventRecord");
}

double example_stop(example *e)
{
    const struct ptxpack_driver *cuda = ptxpack_driver_table(e->pack);
    float                        ms = 0;
    try_cuda(e, cuda->cuEventRecord(e->to, NULL), "cuEventRecord");
    try_cuda(e, cuda->cuEventSynchronize(e->to), "the kernel");
    try_cuda(e, cuda->cuEventElapsedTime(&ms, e->from, e->to), "cuEventElapsedTime");
    return ms;
}

void example_compare(example *e, uint64_t index, double got, double want, double allowed)
{
    double error = fabs(got - want);
    e->compared++;
    if (error <= allowed) {
        e->closest = fmax(e->closest, allowed > 0 ? error / allowed : 0);
        return;
    }
    if (e->wrong++ == 0) {
        e->first_wrong = index;
        e->got = got;
        e->want = want;
    }
}

double example_dot(const uint16_t *a, const uint16_t *b, uint32_t count, double *magnitude)
{
    double sum = *magnitude = 0;
    for (uint32_t i = 0; i < count; i++) { /* a product of two halves is exact in f32 */
        float product = ptxpack_to_float(PTXPACK_F16, a[i]) * ptxpack_to_float(PTXPACK_F16, b[i]);
        sum += (double)product;
        *magnitude += (double)fabsf(product);
    }
    return sum;
}

/* Computes one row of softmax(scale q K^T) V: the query sees `keys` rows of K and V.  bound[i] is how much o[i]
 * may change if the weights and o are rounded to half precision. */
static void attention_row(const uint16_t *q, const uint16_t *k, const uint16_t *v, uint32_t keys,
                          uint32_t dim, double scale, double *o, double *bound)
{
    double *weights = (double *)allocate(keys * sizeof *weights), most = -INFINITY, sum = 0, magnitude;
    for (uint32_t j = 0; j < keys; j++) {
        weights[j] = scale * example_dot(q, k + (size_t)j * dim, dim, &magnitude);
        most = fmax(most, weights[j]);
    }
    for (uint32_t j = 0; j < keys; j++)
        sum += weights[j] = exp(weights[j] - most);
    for (uint32_t i = 0; i < dim; i++)
        o[i] = bound[i] = 0;
    for (uint32_t j = 0; j < keys; j++)
        for (uint32_t i = 0; i < dim; i++) {
            double term = weights[j] / sum * (double)ptxpack_to_float(PTXPACK_F16, v[(size_t)j * dim + i]);
            o[i] += term;
            bound[i] += 0x1p-10 * fabs(term); /* half an ulp for the weight and for o */
        }
    for (uint32_t i = 0; i < dim; i++)
        bound[i] += 0x1p-24 * keys / sum; /* weights below the smallest half */
    free(weights);
}

double example_compare_attention(example *e, const uint16_t *o, const uint16_t *q, const uint16_t *k,
                                 const uint16_t *v, uint32_t heads, uint32_t seqlen_q, uint32_t seqlen_kv,
                                 uint32_t dim, int causal)
{
    double   pairs = 0, *want = (double *)allocate(2 * dim * sizeof *want), *bound = want + dim;
    uint64_t rows = (uint64_t)heads * seqlen_q, work = rows * seqlen_kv * dim, step = 1 + work / 100000000;
    for (uint64_t row = 0; row < rows; row++) {
        uint32_t        place = (uint32_t)(row % seqlen_q);
        uint32_t        keys = causal && place + 1 < seqlen_kv ? place + 1 : seqlen_kv;
        const uint16_t *k_head = k + row / seqlen_q * seqlen_kv * dim, *v_head = v + (k_head - k);
        pairs += keys;
        if (row % step != 0 && row != rows - 1)
            continue;
        attention_row(q + row * dim, k_head, v_head, keys, dim, 1 / sqrt(dim), want, bound);
        for (uint64_t i = 0, at = row * dim; i < dim; i++)
            example_compare(e, at + i, (double)ptxpack_to_float(PTXPACK_F16, o[at + i]), want[i], bound[i]);
    }
    free(want);
    return pairs;
}

int example_report(example *e, double ms, double work, const char *unit, const char *format, ...)
{
    int     wrong = e->compared == 0 || e->wrong > 0;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    if (wrong)
        printf(": WRONG: %llu of %llu elements, the first is %llu: %g instead of %g\n",
               (unsigned long long)e->wrong, (unsigned long long)e->compared,
               (unsigned long long)e->first_wrong, e->got, e->want);
    else
        printf(": right (largest error %.2f of what is allowed), %.4g ms, %.4g %s\n", e->closest, ms,
               work / ms * 1e3, unit);
    e->compared = e->wrong = 0;
    e->closest = 0;
    return wrong;
}

void example_close(example *e)
{
    const struct ptxpack_driver *cuda = ptxpack_driver_table(e->pack);
    while (e->buffer_count > 0)
        cuda->cuMemFree(e->buffers[--e->buffer_count]);
    if (e->from != NULL) {
        cuda->cuEventDestroy(e->from);
        cuda->cuEventDestroy(e->to);
    }
    ptxpack_close(e->pack);
}
