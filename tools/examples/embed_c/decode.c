/* decode.c - a decoding loop: one plan, lengths that grow, keys and values in pages that sequences get when they need them.  Each
 * launch writes the new key and value of every sequence to its place, with rotary embedding, rotates q, and attends. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <ptxpack/ptxpack.h>

enum { BATCH = 3, HEADS = 8, HEADS_KV = 2, DIM = 64, PAGE = 16, PAGES = 24, WIDTH = 6 /* pages of a sequence */, STEPS = 40 };
enum { ROW = HEADS_KV * DIM, CACHE = PAGES * PAGE * ROW, Q = BATCH * HEADS * DIM, ANGLES = WIDTH * PAGE * DIM / 2 };
static const ptxpack_attention_append_desc rotated = {
    .size = sizeof rotated, .heads_q = HEADS, .rotary_dim = DIM, .positions = WIDTH * PAGE}; /* all else is as in `problem` */
static const ptxpack_attention_desc problem = {
    .size = sizeof problem, .dtype = PTXPACK_F16, .batch = BATCH, .seqlen_q = 1, .seqlen_kv = WIDTH * PAGE, .heads_q = HEADS,
    .heads_kv = HEADS_KV, .head_dim = DIM, .kv_rows = PTXPACK_ROWS_PAGED, .rows_kv = PAGES, .page_rows = PAGE, .table_width = WIDTH,
    .options = PTXPACK_LENGTHS_KV, .append = &rotated};
/* What the device has, where each member is at the same offset; here to compare. */
static struct memory {
    uint16_t q[Q], o[Q], k_new[BATCH * ROW], v_new[BATCH * ROW], cos[ANGLES], sin[ANGLES];
    uint16_t k[CACHE], v[CACHE]; /* [PAGES][PAGE][HEADS_KV][DIM] */
    int32_t  lengths[BATCH], table[BATCH][WIDTH];
} host;
static const struct ptxpack_driver *cuda;
static ptxpack_deviceptr            memory;
static ptxpack_deviceptr on_device(const void *member) { return memory + (size_t)((const char *)member - (const char *)&host); }
static bool put(const void *from, size_t bytes) { return cuda->cuMemcpyHtoD(on_device(from), from, bytes) == PTXPACK_CU_SUCCESS; }

static bool put_random(uint16_t *values, size_t count) /* your model's numbers */
{
    for (size_t i = 0; i < count; i++)
        ptxpack_set_element(PTXPACK_F16, values, i, 2 * (float)rand() / (float)RAND_MAX - 1);
    return put(values, count * sizeof *values);
}

static bool put_angles(void)
{
    for (size_t i = 0; i < ANGLES; i++) {
        double angle = (double)(i / (DIM / 2)) * pow(10000, -(double)(i % (DIM / 2)) / (DIM / 2));
        ptxpack_set_element(PTXPACK_F16, host.cos, i, (float)cos(angle));
        ptxpack_set_element(PTXPACK_F16, host.sin, i, (float)sin(angle));
    }
    return put(host.cos, sizeof host.cos) && put(host.sin, sizeof host.sin);
}

/* A place for one more token of sequence i, in a page of its own if the last one is full. */
static bool lengthen(int i)
{
    static int free_page = PAGES;
    int32_t    at = host.lengths[i]++, *page = &host.table[i][at / PAGE];
    *page = at % PAGE == 0 ? --free_page : *page;
    return put(page, sizeof *page) && put(&host.lengths[i], sizeof host.lengths[i]);
}

/* The largest difference so far from the same computation on the CPU, in doubles. */
static double error_of(void)
{
    static double                   want[Q], worst;
    ptxpack_attention_append_inputs new_rows = {.k_new = host.k_new, .v_new = host.v_new, .cos = host.cos, .sin = host.sin};
    ptxpack_attention_lengths       lengths = {.lengths_kv = host.lengths, .page_table = host.table[0]};
    if (ptxpack_attention_reference_append(&problem, &new_rows, host.q, host.k, host.v, &lengths, want, NULL) != PTXPACK_OK)
        return INFINITY;
    for (size_t i = 0; i < Q; i++)
        worst = fmax(worst, fabs(want[i] - ptxpack_element(PTXPACK_F16, host.o, i)));
    return worst;
}

int main(void)
{
    ptxpack                *pack;
    ptxpack_attention_plan *plan;
    ptxpack_status          status = ptxpack_open(NULL, &pack);
    if (status != PTXPACK_OK || (status = ptxpack_attention_plan_create(pack, &problem, &plan)) != PTXPACK_OK)
        return fprintf(stderr, "%s: %s\n", ptxpack_status_name(status), ptxpack_detail(pack)), 1;
    cuda = ptxpack_driver_table(pack);
    size_t start = (sizeof host + 15) / 16 * 16, bytes = start + ptxpack_attention_workspace(plan);
    bool   ok = !cuda->cuCtxSetCurrent(ptxpack_context(pack)) && !cuda->cuMemAlloc(&memory, bytes) && !cuda->cuMemsetD8(memory, 0, bytes);
    ptxpack_attention_append_buffers new_rows = {.size = sizeof new_rows, .k_new = on_device(host.k_new), .v_new = on_device(host.v_new),
                                                 .cos = on_device(host.cos), .sin = on_device(host.sin)};
    ptxpack_attention_buffers at = {.size = sizeof at, .q = on_device(host.q), .k = on_device(host.k), .v = on_device(host.v),
                                    .o = on_device(host.o), .lengths_kv = on_device(host.lengths),
                                    .page_table = on_device(host.table), .workspace = memory + start, .append = &new_rows};
    double error = 0;
    ok = ok && put_angles();
    for (int step = 0; step < STEPS && ok; step++) { /* nothing is planned, compiled or allocated here */
        for (int i = 0; i < BATCH && ok; i++)
            ok = step < 15 * i || lengthen(i); /* the sequences begin one after another; a length may be 0 */
        ok = ok && put_random(host.q, Q) && put_random(host.k_new, BATCH * ROW) && put_random(host.v_new, BATCH * ROW) &&
             ptxpack_attention_launch(plan, &at, NULL) == PTXPACK_OK &&
             !cuda->cuMemcpyDtoH(host.o, at.o, sizeof host.o) && (error = error_of()) < 2e-3;
    }
    if (!ok)
        fprintf(stderr, "a result is wrong, or a call of the driver failed, or: %s\n", ptxpack_detail(pack));
    printf("%s: %d steps, largest error %.1e\n", ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant->id, STEPS, error);
    cuda->cuMemFree(memory);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(pack);
    return ok ? 0 : 1;
}
