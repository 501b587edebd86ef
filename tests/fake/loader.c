/* loader.c - stands in for the loader and a GPU in tests of the rooms above them: "device" memory is host
 * memory, and a launch computes on the CPU what the kernel would compute, from the same arguments and symbols.
 *
 * options->arch "sm_80" makes it such a device (with the shared memory of an H200).
 * MOCK_BREAK in the environment makes the "kernels" wrong in one way, to check that tests notice. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"
#include "loader/context.h"
#include "tools/device.h"
#include "host/gemm/inspect.h"
#include "host/ptxpack.h"
#include "host/vector/inspect.h"
#include "host/scalars.h"

struct ptxpack {
    ptxpack_device_info   info;
    struct ptxpack_driver driver;
};

struct ptxpack_kernel {
    ptxpack_kernel_info    info;
    bool                   bf16, chunk, limited_left, limited_right, softcap, sinks, alibi;
    bool                   a_column, b_column, has_c, has_bias;
    int64_t                activation;
    struct ptxpack_kernel *next;
};

static _Thread_local char detail[512];
static char               way[32]; /* MOCK_BREAK when the handle was opened: it is asked for at each element */
static struct ptxpack_kernel *kernels; /* all that were loaded; they are freed with the handle */

/* ---- the loader's calls ------------------------------------------------------------------------- */
ptxpack_status ptxpack_fail(const ptxpack *handle, ptxpack_status status, const char *format, ...)
{
    va_list arguments;
    (void)handle;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    return status;
}

const char *ptxpack_detail(const ptxpack *handle)
{
    (void)handle;
    return detail;
}

const ptxpack_device_info *ptxpack_device(const ptxpack *handle) { return &handle->info; }

const struct ptxpack_driver *ptxpack_driver_table(const ptxpack *handle) { return &handle->driver; }

struct CUctx_st *ptxpack_context(const ptxpack *handle)
{
    struct CUctx_st *current = NULL;
    handle->driver.cuCtxGetCurrent(&current);
    return current;
}

ptxpack_status ptxpack_check_process(const ptxpack *handle)
{
    (void)handle;
    return PTXPACK_OK;
}
ptxpack_status ptxpack_enter(const ptxpack *handle, bool *pushed)
{
    (void)handle;
    *pushed = false;
    return PTXPACK_OK;
}
void        ptxpack_leave(const ptxpack *handle, bool pushed) { (void)handle, (void)pushed; }
const char *ptxpack_driver_path(const struct ptxpack_driver *driver) { return driver->path; }
const char *ptxpack_driver_error(const struct ptxpack_driver *driver, ptxpack_cu_result result, char *buf,
                                 size_t cap)
{
    (void)driver;
    snprintf(buf, cap, "error %u", result);
    return buf;
}

static int64_t value_of(const ptxpack_symbol *symbols, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].value;
    return -1;
}

ptxpack_status ptxpack_kernel_load_source(ptxpack *handle, const ptxpack_kernel_source *source,
                                          ptxpack_kernel **out)
{
    const ptxpack_symbol  *symbols = source->symbols;
    const size_t           count = source->symbol_count;
    struct ptxpack_kernel *kernel = (struct ptxpack_kernel *)calloc(1, sizeof *kernel);
    *out = kernel;
    if (kernel == NULL)
        return ptxpack_fail(handle, PTXPACK_E_MEMORY, "no memory");
    kernel->info.variant = source->variant;
    kernel->bf16 = value_of(symbols, count, "BF16") == 1;
    kernel->limited_left = value_of(symbols, count, "LIMITED_LEFT") == 1;
    kernel->limited_right = value_of(symbols, count, "LIMITED_RIGHT") == 1;
    kernel->chunk = value_of(symbols, count, "CHUNK") == 1;
    kernel->softcap = value_of(symbols, count, "SOFTCAP") == 1;
    kernel->sinks = value_of(symbols, count, "SINKS") == 1;
    kernel->alibi = value_of(symbols, count, "ALIBI") == 1;
    kernel->a_column = value_of(symbols, count, "A_COLUMN") == 1;
    kernel->b_column = value_of(symbols, count, "B_COLUMN") == 1;
    kernel->has_c = value_of(symbols, count, "HAS_C") == 1;
    kernel->has_bias = value_of(symbols, count, "HAS_BIAS") == 1;
    kernel->activation = value_of(symbols, count, "ACTIVATION");
    kernel->next = kernels;
    kernels = kernel;
    return PTXPACK_OK;
}

ptxpack_status ptxpack_kernel_expand(ptxpack *handle, const ptxpack_variant *variant,
                                     const ptxpack_symbol *symbols, size_t count, ptxpack_expansion **out)
{
    (void)variant, (void)symbols, (void)count;
    *out = NULL;
    return ptxpack_fail(handle, PTXPACK_E_EXPAND, "the mock does not expand");
}

void ptxpack_expansion_free(ptxpack_expansion *e) { (void)e; }

const ptxpack_kernel_info *ptxpack_kernel_describe(const ptxpack_kernel *kernel) { return &kernel->info; }

void *ptxpack_kernel_function(const ptxpack_kernel *kernel) { return (void *)(uintptr_t)kernel; }

/* ---- the kernels -------------------------------------------------------------------------------- */
static bool broken(const char *how) { return way[0] != '\0' && strcmp(way, how) == 0; }

static uint16_t *at(uint64_t address, int64_t bytes)
{
    return (uint16_t *)(uintptr_t)(address + (broken("far") ? (uint32_t)bytes : (uint64_t)bytes));
}

/* The value of every element of a type, for speed: a type has few elements. */
static const float *values_of(ptxpack_dtype type)
{
    static float tables[2][65536];
    float       *table = tables[type == PTXPACK_BF16];
    if (table[1] == 0)
        for (uint32_t bits = 0; bits < 65536; bits++)
            table[bits] = ptxpack_to_float(type, (uint16_t)bits);
    return table;
}

/* The keys [*first, *end) that a row sees, as the build and the arguments say. */
static void find_keys(const attention_mma_arguments *a, const struct ptxpack_kernel *kernel, int32_t row,
                      int32_t *first, int32_t *end)
{
    int32_t left = row + a->left_offset;
    left -= (kernel->chunk && left > 0 ? left % a->chunk : 0) + (broken("window") ? 1 : 0);
    int32_t right = row + a->right_offset + (broken("mask") ? 2 : 1);
    *first = kernel->limited_left && left > 0 ? left : 0;
    *end = kernel->limited_right && right < a->seqlen_kv ? right : a->seqlen_kv;
    if (*first >= *end)
        *first = *end = 0;
}

/* The virtual logit of a head in base 2; -inf: none. */
static float sink_of(const attention_mma_arguments *a, const struct ptxpack_kernel *kernel, int32_t head)
{
    return kernel->sinks && !broken("sinks") ? ((const float *)(uintptr_t)a->sinks)[head] * 1.44269504f
                                             : -INFINITY;
}

/* Computes one row, in f32, with P rounded to the element type. */
static void attend(const attention_mma_arguments *a, const struct ptxpack_kernel *kernel, int64_t batch,
                   int32_t head, int32_t row, float *scores)
{
    ptxpack_dtype   type = kernel->bf16 ? PTXPACK_BF16 : PTXPACK_F16;
    int64_t         kv_head = broken("head") ? 0 : head / a->heads_per_kv;
    const uint16_t *q = at(a->q, batch * a->q_batch + row * a->q_row + head * a->q_head);
    uint16_t       *o = at(a->o, batch * a->o_batch + row * a->o_row + head * a->o_head);
    int32_t         first, end;
    float           most = -INFINITY, sum = 0, out[256] = {0}, sink = sink_of(a, kernel, head);
    const float    *values = values_of(type);
    find_keys(a, kernel, row, &first, &end);
    for (int32_t j = first; j < end; j++) {
        const uint16_t *k = at(a->k, batch * a->k_batch + j * a->k_row + kv_head * a->k_head);
        float           dot = 0;
        for (int32_t c = 0; c < a->head_dim; c++)
            dot += values[q[c]] * values[k[c]];
        if (kernel->softcap && !broken("softcap"))
            dot = tanhf(dot * a->softcap_in);
        if (kernel->alibi && !broken("alibi"))
            dot -= ((const float *)(uintptr_t)a->slopes)[head] * a->alibi_in *
                   fabsf((float)(row + a->seqlen_kv - a->seqlen_q - j));
        scores[j] = dot * a->scale_log2;
        most = fmaxf(most, scores[j]);
    }
    /* p is up to 2^90: the result is right as long as O does not overflow */
    most -= broken("overflow") ? 90 : 0;
    for (int32_t j = first; j < end; j++) {
        const uint16_t *v = at(a->v, batch * a->v_batch + j * a->v_row + kv_head * a->v_head);
        float           p = exp2f(scores[j] - most);
        sum += broken("sum") && j == 5 ? 0 : p;
        p = ptxpack_to_float(type, ptxpack_from_float(type, p));
        for (int32_t c = 0; c < a->head_dim; c++)
            out[c] += p * values[v[c]];
    }
    sum += end > 0 ? exp2f(sink - most) : 0;
    int32_t written = a->head_dim + (broken("guard") && row + 1 == a->seqlen_q ? 1 : 0);
    for (int32_t c = 0; c < written && !(broken("unwritten") && row == 17); c++)
        o[c] = ptxpack_from_float(type, end > 0 ? out[c % 256] / sum : broken("blind") ? 1 : 0);
    if (a->lse != 0)
        ((float *)(uintptr_t)a->lse)[(batch * a->heads_q + head) * a->seqlen_q + row] =
            (end == 0 || isinf(sum) ? sink : most + log2f(sum)) * (broken("lse") ? 1 : 0.693147181f);
}

/* Returns false when the grid does not match the arguments. */
static bool run_attention(const attention_mma_arguments *a, const struct ptxpack_kernel *kernel,
                          const uint32_t grid[3])
{
    static int launches;
    int64_t    block_m = ptxpack_variant_parameter(kernel->info.variant, "BLOCK_M", 0);
    float     *scores = (float *)malloc((size_t)a->seqlen_kv * sizeof *scores);
    bool ok = scores != NULL && grid[0] == (uint64_t)a->heads_total * (uint64_t)a->tiles_q && grid[1] == 1 &&
              grid[2] == 1 && a->tiles_q == (a->seqlen_q + block_m - 1) / block_m && a->section_heads >= 1;
    launches++;
    for (int32_t head = 0; head < a->heads_total && ok; head++)
        for (int32_t row = 0; row < a->seqlen_q; row++)
            attend(a, kernel, head / a->heads_q, head % a->heads_q, row, scores);
    if (broken("repeat"))
        *at(a->o, 0) ^= (uint16_t)(launches & 1);
    free(scores);
    return ok;
}

static float activated(int64_t activation, float x)
{
    return activation == 1   ? (x < 0 ? 0 : x)
           : activation == 2 ? x / 2 * (1 + tanhf(0.797884561f * (x + 0.044715f * x * x * x)))
           : activation == 3 ? x / (1 + expf(-x))
                             : x;
}

/* Computes one element of D, in f32; far: offsets are cut to 32 bits. */
static float multiply(const gemm_mma_arguments *g, const struct ptxpack_kernel *kernel, int64_t batch,
                      int64_t row, int64_t column, bool far)
{
    const float *values = values_of(kernel->bf16 ? PTXPACK_BF16 : PTXPACK_F16);
    int64_t      cut = far ? (int64_t)UINT32_MAX : -1;
    int64_t      a_batch = broken("gemm batch") ? 0 : batch * g->a_batch, b_batch = batch * g->b_batch;
    int64_t      k = g->k - (broken("gemm k") ? 1 : 0);
    float        sum = 0;
    for (int64_t i = 0; i < k; i++) {
        int64_t a = a_batch + (kernel->a_column ? i * g->a_line + 2 * row : row * g->a_line + 2 * i);
        int64_t b = b_batch + (kernel->b_column ? column * g->b_line + 2 * i : i * g->b_line + 2 * column);
        sum += values[*(const uint16_t *)(uintptr_t)(g->a + (uint64_t)(a & cut))] *
               values[*(const uint16_t *)(uintptr_t)(g->b + (uint64_t)(b & cut))];
    }
    sum *= g->alpha;
    if (kernel->has_c)
        sum += (broken("gemm beta") ? 1 : g->beta) *
               values[at(g->c, batch * g->c_batch + row * g->c_line)[column]];
    if (kernel->has_bias)
        sum += values[at(g->bias, 0)[column]];
    return activated(broken("gemm activation") ? 0 : kernel->activation, sum);
}

/* Returns false when the grid does not match the arguments. */
static bool run_gemm(const gemm_mma_arguments *g, const struct ptxpack_kernel *kernel, const uint32_t grid[3])
{
    static int    launches;
    bool          far = broken("far");
    ptxpack_dtype type = kernel->bf16 ? PTXPACK_BF16 : PTXPACK_F16;
    int64_t       m = ptxpack_variant_parameter(kernel->info.variant, "BLOCK_M", 1);
    int64_t       n = ptxpack_variant_parameter(kernel->info.variant, "BLOCK_N", 1);
    int64_t       tiles_m = (g->m + m - 1) / m, tiles_n = (g->n + n - 1) / n;
    if (g->tiles_m != tiles_m || g->matrix_tiles != tiles_m * tiles_n || g->group_m < 1 ||
        g->group_tiles != g->group_m * tiles_n || grid[0] % (uint32_t)g->matrix_tiles != 0 || grid[1] != 1 ||
        grid[2] != 1)
        return false;
    for (int64_t batch = 0; batch < grid[0] / (uint32_t)g->matrix_tiles; batch++)
        for (int32_t row = 0; row < g->m - (broken("gemm unwritten") ? 1 : 0); row++) {
            uint16_t *d = at(g->d, batch * g->d_batch + (int64_t)row * g->d_line);
            for (int32_t column = 0; column < g->n; column++)
                d[column] = ptxpack_from_float(type, multiply(g, kernel, batch, row, column, far));
            if (broken("gemm guard"))
                d[g->n] = 0;
        }
    if (broken("gemm repeat"))
        *at(g->d, 0) ^= (uint16_t)(++launches & 1);
    return true;
}

static void run_vector_add(const vector_arguments *a, const struct ptxpack_kernel *kernel)
{
    ptxpack_dtype type = kernel->bf16 ? PTXPACK_BF16 : PTXPACK_F16;
    float         x2 = ptxpack_to_float(type, (uint16_t)a->a2), y2 = ptxpack_to_float(type, (uint16_t)a->b2);
    float         c2 = ptxpack_to_float(type, (uint16_t)a->c2);
    for (uint64_t i = 0; i < a->n; i++) {
        double x = ptxpack_to_float(type, at(a->x, 0)[i]), y = ptxpack_to_float(type, at(a->y, 0)[i]);
        double u = ptxpack_to_float(type, reference_round(type, (double)y2 * y + c2));
        if (!broken("tail") || i + 1 < a->n || a->n % 8 == 0)
            at(a->z, 0)[i] = reference_round(type, (double)x2 * x + u);
    }
}

ptxpack_status ptxpack_kernel_enqueue(const ptxpack_kernel *kernel, const uint32_t grid[3],
                                      const void *arguments, struct CUstream_st *stream, bool overlap)
{
    (void)stream, (void)overlap;
    if (strcmp(kernel->info.variant->op, "vector_add") == 0)
        run_vector_add((const vector_arguments *)arguments, kernel);
    else if (strcmp(kernel->info.variant->op, "gemm") == 0
                 ? !run_gemm((const gemm_mma_arguments *)arguments, kernel, grid)
                 : !run_attention((const attention_mma_arguments *)arguments, kernel, grid))
        return ptxpack_fail(NULL, PTXPACK_E_LAUNCH, "the grid does not fit the arguments");
    return PTXPACK_OK;
}

ptxpack_status ptxpack_kernel_launch(const ptxpack_kernel *kernel, const uint32_t grid[3],
                                     const void *arguments, struct CUstream_st *stream)
{
    return ptxpack_kernel_enqueue(kernel, grid, arguments, stream, false);
}

/* ---- the driver table and the handle ------------------------------------------------------------ */
static ptxpack_cu_result get_context(struct CUctx_st **context)
{
    *context = (struct CUctx_st *)(uintptr_t)1;
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result set_context(struct CUctx_st *context)
{
    (void)context;
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result make_stream(struct CUstream_st **stream, unsigned int flags)
{
    (void)flags;
    *stream = (struct CUstream_st *)(uintptr_t)1;
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result use_stream(struct CUstream_st *stream)
{
    (void)stream;
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result make_event(struct CUevent_st **event, unsigned int flags)
{
    (void)flags;
    *event = (struct CUevent_st *)calloc(1, sizeof(double));
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result record_event(struct CUevent_st *event, struct CUstream_st *stream)
{
    double now = now_ms();
    (void)stream;
    memcpy(event, &now, sizeof now);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result wait_event(struct CUevent_st *event)
{
    (void)event;
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result free_event(struct CUevent_st *event)
{
    free(event);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result event_time(float *ms, struct CUevent_st *from, struct CUevent_st *to)
{
    double a, b;
    memcpy(&a, from, sizeof a);
    memcpy(&b, to, sizeof b);
    *ms = (float)(b - a);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result memory_info(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = (size_t)(broken("memory") ? 8 : 80) << 30;
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result allocate(ptxpack_deviceptr *address, size_t bytes)
{
    *address = (uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *address != 0 ? PTXPACK_CU_SUCCESS : PTXPACK_CU_OUT_OF_MEMORY;
}
static ptxpack_cu_result release(ptxpack_deviceptr address)
{
    free((void *)(uintptr_t)address);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result to_device(ptxpack_deviceptr to, const void *from, size_t bytes,
                                   struct CUstream_st *stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result from_device(void *to, ptxpack_deviceptr from, size_t bytes, struct CUstream_st *stream)
{
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result set_bytes(ptxpack_deviceptr to, unsigned char value, size_t count,
                                   struct CUstream_st *stream)
{
    (void)stream;
    memset((void *)(uintptr_t)to, value, count);
    return PTXPACK_CU_SUCCESS;
}
static ptxpack_cu_result set_halves(ptxpack_deviceptr to, unsigned short value, size_t count,
                                    struct CUstream_st *stream)
{
    (void)stream;
    for (size_t i = 0; i < count; i++)
        ((uint16_t *)(uintptr_t)to)[i] = value;
    return PTXPACK_CU_SUCCESS;
}

ptxpack_status ptxpack_open(const ptxpack_options *options, ptxpack **out)
{
    int         arch = options != NULL && options->arch != NULL ? atoi(options->arch + strlen("sm_")) : 90;
    const char *wanted = getenv("MOCK_BREAK");
    snprintf(way, sizeof way, "%s", wanted != NULL ? wanted : "");
    *out = (ptxpack *)calloc(1, sizeof **out);
    if (*out == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory");
    (*out)->info = (ptxpack_device_info){
        .name = "mock",
        .target = "sm_90",
        .driver_version = 13000,
        .sm_count = 132,
        .caps = {.arch = arch, .isa = 90, .shared_per_block = 232448, .shared_per_sm = 233472},
    };
    (*out)->driver = (struct ptxpack_driver){
        .cuCtxGetCurrent = get_context,
        .cuCtxSetCurrent = set_context,
        .cuStreamCreate = make_stream,
        .cuStreamDestroy = use_stream,
        .cuStreamSynchronize = use_stream,
        .cuEventCreate = make_event,
        .cuEventRecord = record_event,
        .cuEventSynchronize = wait_event,
        .cuEventDestroy = free_event,
        .cuEventElapsedTime = event_time,
        .cuMemGetInfo = memory_info,
        .cuMemAlloc = allocate,
        .cuMemFree = release,
        .cuMemcpyHtoDAsync = to_device,
        .cuMemcpyDtoHAsync = from_device,
        .cuMemsetD8Async = set_bytes,
        .cuMemsetD16Async = set_halves,
    };
    return PTXPACK_OK;
}

void ptxpack_close(ptxpack *handle)
{
    while (handle != NULL && kernels != NULL) {
        struct ptxpack_kernel *next = kernels->next;
        free(kernels);
        kernels = next;
    }
    free(handle);
}

int ptxpack_cuda_of_isa(int isa, int *branch) /* the registry's refusals need it */
{
    (void)isa;
    if (branch != NULL)
        *branch = 0;
    return 0;
}

/* Hooks in CUDA C++ are not compiled here. */
bool ptxpack_log_cuda_errors(const char *log, char *buf, size_t cap)
{
    (void)log, (void)buf, (void)cap;
    return false;
}
