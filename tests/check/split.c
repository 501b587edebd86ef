/* split.c - split_rows: the bits of a sequence's results are the same in every batch.
 *
 * A cache of SEQUENCES sequences with lengths of their own is attended to by plans of different batches: of all of them,
 * of each alone, and of some through a row map in another order.  With split_rows o and the LSE of a sequence must
 * have the same bits in all of them.  Their accuracy is checked by lengths/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tools/problem/random.h"

enum { SEQUENCES = 5, MOST_KEYS = 1500 };

static const struct split_case {
    ptxpack_dtype dtype;
    int32_t       heads_q, heads_kv, head_dim, queries, split_rows;
} cases[] = {
    {PTXPACK_F16, 4, 2, 64, 1, 256},   {PTXPACK_F16, 8, 1, 128, 2, 256}, {PTXPACK_BF16, 2, 2, 128, 1, 512},
    {PTXPACK_BF16, 4, 1, 256, 3, 256}, {PTXPACK_F16, 3, 3, 40, 1, 1024}, {PTXPACK_BF16, 8, 1, 64, 5, 256},
};
enum { CASES = sizeof cases / sizeof cases[0] };
static const int32_t lengths[SEQUENCES] = {1500, 700, 256, 1, 1031};

enum { Q, K, V, O, LSE, ARRAYS, WORK, BUFFERS };
typedef struct split_run {
    check                   *c;
    const struct split_case *a;
    uint64_t                 at[BUFFERS];
    size_t                   q_bytes, kv_bytes, lse_bytes; /* of a sequence */
    unsigned char           *want, *got;                   /* o, then LSE, of all sequences */
} split_run;

/* ---- memory ------------------------------------------------------------------------------------------- */
static bool upload_random(split_run *t, int buffer, size_t bytes, random_state *random)
{
    void *data = malloc(bytes);
    bool  ok = data != NULL && device_alloc_zeros(&t->c->gpu, &t->at[buffer], bytes);
    if (ok) {
        random_normal(random, t->a->dtype, data, bytes / sizeof(uint16_t));
        ok = device_upload(&t->c->gpu, t->at[buffer], data, bytes);
    }
    free(data);
    return ok;
}

static bool make_buffers(split_run *t)
{
    random_state random = random_start(t->c->seed);
    t->q_bytes = (size_t)(t->a->queries * t->a->heads_q * t->a->head_dim) * sizeof(uint16_t);
    t->kv_bytes = (size_t)MOST_KEYS * (size_t)(t->a->heads_kv * t->a->head_dim) * sizeof(uint16_t);
    t->lse_bytes = (size_t)(t->a->queries * t->a->heads_q) * sizeof(float);
    t->want = (unsigned char *)malloc(SEQUENCES * (t->q_bytes + t->lse_bytes));
    t->got = (unsigned char *)malloc(SEQUENCES * (t->q_bytes + t->lse_bytes));
    return t->want != NULL && t->got != NULL && upload_random(t, Q, SEQUENCES * t->q_bytes, &random) &&
           upload_random(t, K, SEQUENCES * t->kv_bytes, &random) &&
           upload_random(t, V, SEQUENCES * t->kv_bytes, &random) &&
           device_alloc_zeros(&t->c->gpu, &t->at[O], SEQUENCES * t->q_bytes) &&
           device_alloc_zeros(&t->c->gpu, &t->at[LSE], SEQUENCES * t->lse_bytes) &&
           device_alloc_zeros(&t->c->gpu, &t->at[ARRAYS], 2 * SEQUENCES * sizeof(int32_t));
}

static void release(split_run *t)
{
    for (int i = 0; i < WORK; i++)
        device_free(&t->c->gpu, t->at[i]);
    free(t->want);
    free(t->got);
}

/* ---- launches ----------------------------------------------------------------------------------------- */
/* Attends to the sequences `which`, whose queries are one after another from the first of them on; `map`: through a row
 * map, otherwise they are neighbours in the cache. */
static bool attend(split_run *t, const int *which, int count, bool map)
{
    device                      *gpu = &t->c->gpu;
    const ptxpack_attention_desc desc = {.size = sizeof desc,
                                         .dtype = t->a->dtype,
                                         .batch = count,
                                         .seqlen_q = t->a->queries,
                                         .seqlen_kv = MOST_KEYS,
                                         .heads_q = t->a->heads_q,
                                         .heads_kv = t->a->heads_kv,
                                         .head_dim = t->a->head_dim,
                                         .mask = PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT,
                                         .rows_kv = map ? SEQUENCES : 0,
                                         .options = PTXPACK_LENGTHS_KV | (map ? PTXPACK_ROW_MAP : 0),
                                         .split_rows = t->a->split_rows};
    int32_t                      arrays[2][SEQUENCES] = {{0}};
    for (int i = 0; i < count; i++) {
        arrays[0][i] = lengths[which[i]];
        arrays[1][i] = which[i];
    }
    ptxpack_attention_plan *plan = NULL;
    uint64_t                work = 0, first = map ? 0 : (uint64_t)which[0];
    bool                    ok = device_upload(gpu, t->at[ARRAYS], arrays, sizeof arrays) &&
              device_status(gpu, ptxpack_attention_plan_create(gpu->handle, &desc, &plan)) &&
              device_alloc_zeros(gpu, &work, ptxpack_attention_workspace(plan));
    const ptxpack_attention_buffers b = {.size = sizeof b,
                                         .q = t->at[Q] + (uint64_t)which[0] * t->q_bytes,
                                         .k = t->at[K] + first * t->kv_bytes,
                                         .v = t->at[V] + first * t->kv_bytes,
                                         .o = t->at[O] + (uint64_t)which[0] * t->q_bytes,
                                         .lse = t->at[LSE] + (uint64_t)which[0] * t->lse_bytes,
                                         .workspace = work,
                                         .lengths_kv = t->at[ARRAYS],
                                         .row_map = t->at[ARRAYS] + sizeof arrays[0]};
    ok = ok && device_status(gpu, ptxpack_attention_launch(plan, &b, gpu->stream)) && device_sync(gpu);
    ptxpack_attention_plan_free(plan);
    device_free(gpu, work);
    return ok;
}

static bool results(split_run *t, unsigned char *out)
{
    return device_download(&t->c->gpu, out, t->at[O], SEQUENCES * t->q_bytes) &&
           device_download(&t->c->gpu, out + SEQUENCES * t->q_bytes, t->at[LSE], SEQUENCES * t->lse_bytes);
}

static void compare(split_run *t, const char *name, const char *batch)
{
    char what[80] = "";
    for (int i = SEQUENCES - 1; i >= 0; i--) {
        size_t o = (size_t)i * t->q_bytes, lse = SEQUENCES * t->q_bytes + (size_t)i * t->lse_bytes;
        if (memcmp(t->want + o, t->got + o, t->q_bytes) != 0 ||
            memcmp(t->want + lse, t->got + lse, t->lse_bytes) != 0)
            snprintf(what, sizeof what, "sequence %d has other bits %s", i, batch);
    }
    check_record(t->c, name, what[0] != '\0' ? what : NULL);
}

static bool run_all(split_run *t, const char *name)
{
    const int all[SEQUENCES] = {0, 1, 2, 3, 4};
    bool      ok = make_buffers(t) && attend(t, all, SEQUENCES, false) && results(t, t->want);
    for (int i = 0; i < SEQUENCES && ok; i++)
        ok = attend(t, &all[i], 1, false);
    if (!ok || !results(t, t->got))
        return false;
    compare(t, name, "alone");
    if (!attend(t, &all[1], 3, true) || !attend(t, &all[4], 1, true) || !results(t, t->got))
        return false;
    compare(t, name, "in a smaller batch, through a row map");
    return true;
}

void check_split(check *c)
{
    for (size_t i = 0; i < CASES; i++) {
        const struct split_case *a = &cases[i];
        split_run                t = {.c = c, .a = a};
        char                     name[128];
        snprintf(name, sizeof name, "split %s d%d %d/%d x %d by %d", ptxpack_dtype_name(a->dtype),
                 (int)a->head_dim, (int)a->heads_q, (int)a->heads_kv, (int)a->queries, (int)a->split_rows);
        if (atomic_load(&c->broken) || !check_wanted(c, name) || c->row != NULL ||
            (a->dtype == PTXPACK_BF16 && ptxpack_device(c->gpu.handle)->caps.arch < 80))
            continue;
        if (c->list) {
            puts(name);
            continue;
        }
        if (!run_all(&t, name))
            check_broken(c, name, c->gpu.line);
        release(&t);
    }
}
