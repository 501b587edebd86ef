/* cookbook.c - the hooks of tools/examples/hooks on the emulated GPU against the same in C: prefill and decoding, on the kernels
 * of sm_90 and of sm_80.  Those in PTX and, where there is NVRTC, those in CUDA C++, each on one of them; of masks the lists of blocks, too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "host/attention/inspect.h"
#include "loader/inspect.h"
#include "tools/device.h"
#include "tools/problem/random.h"
#include "tools/problem/verify.h"

enum { BATCH = 2, KEYS = 150, HEADS = 4, HEADS_KV = 2, DIM = 64, MOST_ROWS = KEYS, TREE = 8, DOCUMENT = 41 };

/* ---- what hooks read ------------------------------------------------------------------------------------ */
static const float   weight_bias = -3;
static float         slopes[HEADS], biases[HEADS * 257], bias[HEADS * MOST_ROWS * KEYS];
static int32_t       firsts[KEYS], ends[KEYS], prefixes[BATCH] = {40, 90}, tree_at[BATCH], bias_shape[3];
static unsigned char tree[BATCH][TREE] = {{1, 3, 5, 11, 19, 37, 69, 139}, {1, 3, 7, 15, 31, 63, 127, 255}};

static void fill(int32_t rows)
{
    ptxpack_attention_alibi_slopes(HEADS, slopes);
    for (int i = 0; i < HEADS * 257; i++)
        biases[i] = (float)(i % 23) / 8 - 1;
    for (int i = 0; i < HEADS * MOST_ROWS * KEYS; i++)
        bias[i] = (float)(i % 37) / 16 - 1;
    for (int i = 0; i < KEYS; i++)
        firsts[i] = i / DOCUMENT * DOCUMENT, ends[i] = firsts[i] + DOCUMENT;
    for (int b = 0; b < BATCH; b++)
        tree_at[b] = KEYS - TREE;
    bias_shape[0] = rows;
    bias_shape[1] = KEYS;
    bias_shape[2] = KEYS - rows;
}

/* ---- the same in C ---------------------------------------------------------------------------------------- */
static double alibi(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b;
    return s - (double)slopes[h] * (q - kv);
}
static double relative_bias(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    int distance = q - kv;
    (void)context, (void)b;
    distance = distance < -128 ? -128 : distance > 128 ? 128 : distance;
    return s + (double)biases[h * 257 + distance + 128];
}
static double softcap(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h, (void)q, (void)kv;
    return 30 * tanh(s / 30);
}
static double log_sigmoid(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h, (void)q, (void)kv;
    return -log1p(exp(-s - (double)weight_bias));
}
static double additive_bias(void *context, double s, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b;
    return s + (double)bias[(h * bias_shape[0] + q - bias_shape[2]) * KEYS + kv];
}
static int same_document(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return q / DOCUMENT == kv / DOCUMENT;
}
static int prefix_lm(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)h;
    return kv < prefixes[b] || kv <= q;
}
static int global_tokens(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return kv < 4 || abs(q - kv) <= 32;
}
static int dilated(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return kv <= q && q - kv < 64 && (q - kv) % 4 == 0;
}
static int in_tree(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)h;
    return kv < tree_at[b] || (tree[b][q - tree_at[b]] >> (kv - tree_at[b]) & 1) != 0;
}

#define ARRAY(a)     \
    {                \
        a, sizeof(a) \
    }
static const struct recipe {
    const char             *file;
    ptxpack_attention_hooks hooks;
    uint32_t                options;
    struct {
        const void *data;
        size_t      bytes;
    } aux[2];
} recipes[] = {
    {"alibi", {.score = alibi}, 0, {ARRAY(slopes)}},
    {"relative_bias", {.score = relative_bias}, 0, {ARRAY(biases)}},
    {"softcap", {.score = softcap}, 0, {{NULL, 0}}},
    {"bias", {.score = additive_bias}, 0, {ARRAY(bias), ARRAY(bias_shape)}},
    {"sigmoid", {.score = log_sigmoid}, PTXPACK_UNNORMALIZED, {{&weight_bias, sizeof weight_bias}}},
    {"documents", {.mask = same_document}, 0, {ARRAY(firsts), ARRAY(ends)}},
    {"prefix_lm", {.mask = prefix_lm}, 0, {ARRAY(prefixes)}},
    {"global_tokens", {.mask = global_tokens}, 0, {{NULL, 0}}},
    {"dilated", {.mask = dilated}, 0, {{NULL, 0}}},
    {"tree", {.mask = in_tree}, 0, {ARRAY(tree_at), ARRAY(tree)}},
};

/* ---- running ---------------------------------------------------------------------------------------------- */
typedef struct memory {
    uint16_t q[BATCH * MOST_ROWS * HEADS * DIM], k[BATCH * KEYS * HEADS_KV * DIM],
        v[BATCH * KEYS * HEADS_KV * DIM], o[BATCH * MOST_ROWS * HEADS * DIM];
    float lse[BATCH * HEADS * MOST_ROWS];
} memory;

static bool launch(device *d, const ptxpack_attention_desc *desc, const struct recipe *r, memory *m)
{
    ptxpack_attention_plan   *plan = NULL;
    ptxpack_attention_buffers b = {.size = sizeof b};
    uint64_t                 *inputs[] = {&b.q, &b.k, &b.v};
    const void               *data[] = {m->q, m->k, m->v};
    const size_t              bytes[] = {sizeof m->q, sizeof m->k, sizeof m->v};
    bool                      ok = device_status(d, ptxpack_attention_plan_create(d->handle, desc, &plan));
    for (int i = 0; i < 3 && ok; i++)
        ok = device_alloc(d, inputs[i], bytes[i]) && device_upload(d, *inputs[i], data[i], bytes[i]);
    for (int i = 0; i < 2 && ok; i++)
        ok = r->aux[i].bytes == 0 || (device_alloc(d, &b.aux[i], r->aux[i].bytes) &&
                                      device_upload(d, b.aux[i], r->aux[i].data, r->aux[i].bytes));
    ok = ok && device_alloc(d, &b.o, sizeof m->o) && device_alloc(d, &b.lse, sizeof m->lse) &&
         device_alloc_zeros(d, &b.workspace, ptxpack_attention_workspace(plan)) &&
         device_status(d, ptxpack_attention_launch(plan, &b, d->stream)) && device_sync(d) &&
         device_download(d, m->o, b.o, (size_t)BATCH * (size_t)desc->seqlen_q * HEADS * DIM * 2) &&
         device_download(d, m->lse, b.lse, (size_t)BATCH * HEADS * (size_t)desc->seqlen_q * 4);
    const uint64_t all[] = {b.q, b.k, b.v, b.o, b.lse, b.workspace, b.aux[0], b.aux[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_free(d, all[i]);
    ptxpack_attention_plan_free(plan);
    return ok;
}

static bool right(device *d, const ptxpack_attention_desc *desc, const struct recipe *r, const memory *m)
{
    const ptxpack_attention_lengths lengths = {.hooks = &r->hooks};
    verify_result                   result;
    if (verify_attention_lengths(desc, m->q, m->k, m->v, NULL, &lengths, m->o, m->lse, 0, 1, &result) !=
        PTXPACK_OK)
        return snprintf(d->line, sizeof d->line, "%s", ptxpack_detail(NULL)), false;
    if (!result.pass)
        snprintf(d->line, sizeof d->line, "o is off by %.3g, allowed %.3g; lse by %.3g, allowed %.3g",
                 result.out_error, result.bound, result.lse_error, result.lse_bound);
    return result.pass;
}

/* Lists of blocks of 64 keys for blocks of 64 rows, which a mask_mod leaves: those that the GPU makes and those in C. */
enum { BLOCK = 64, BLOCKS = (KEYS + BLOCK - 1) / BLOCK, LISTS = BATCH * HEADS * BLOCKS };
typedef struct block_lists {
    int32_t count[LISTS], full_count[LISTS], list[LISTS * BLOCKS], full_list[LISTS * BLOCKS];
} block_lists;

static bool lists_are_right(device *d, const ptxpack_attention_desc *attention, const struct recipe *r)
{
    ptxpack_attention_desc         desc = *attention;
    ptxpack_attention_blocks_plan *plan = NULL;
    block_lists                    made, want;
    uint64_t                       at = 0, aux[2] = {0, 0};
    desc.block_rows = desc.block_keys = BLOCK;
    desc.block_width = BLOCKS;
    desc.block_head = (desc.seqlen_q + BLOCK - 1) / BLOCK;
    desc.block_batch = desc.block_head * HEADS;
    memset(&want, 0xff, sizeof want);
    made = want;
    bool ok = device_status(d, ptxpack_attention_blocks_plan_create(d->handle, &desc, &plan)) &&
              device_alloc(d, &at, sizeof made) && device_upload(d, at, &made, sizeof made);
    for (int i = 0; i < 2 && ok; i++)
        ok = r->aux[i].bytes == 0 || (device_alloc(d, &aux[i], r->aux[i].bytes) &&
                                      device_upload(d, aux[i], r->aux[i].data, r->aux[i].bytes));
    const ptxpack_attention_blocks_buffers b = {.size = sizeof b,
                                                .block_count = at,
                                                .full_count = at + offsetof(block_lists, full_count),
                                                .block_list = at + offsetof(block_lists, list),
                                                .full_list = at + offsetof(block_lists, full_list),
                                                .aux = {aux[0], aux[1]}};
    ok = ok && device_status(d, ptxpack_attention_blocks(plan, &b, d->stream)) && device_sync(d) &&
         device_download(d, &made, at, sizeof made) &&
         device_status(d, ptxpack_attention_blocks_reference(&desc, &r->hooks, want.count, want.full_count,
                                                             want.list, want.full_list));
    if (ok && memcmp(&made, &want, sizeof made) != 0)
        ok = (snprintf(d->line, sizeof d->line, "its lists of blocks are others"), false);
    device_free(d, at);
    device_free(d, aux[0]);
    device_free(d, aux[1]);
    ptxpack_attention_blocks_plan_free(plan);
    return ok;
}

static bool cook(device *d, const struct recipe *r, const char *ending, int32_t rows, memory *m)
{
    char   path[128];
    size_t size;
    snprintf(path, sizeof path, "tools/examples/hooks/%s.%s", r->file, ending);
    char *text = ptxpack_read_file(path, 1 << 16, &size);
    if (text == NULL)
        return snprintf(d->line, sizeof d->line, "%s cannot be read", path), false;
    const ptxpack_attention_desc desc = {.size = sizeof desc,
                                         .dtype = PTXPACK_BF16,
                                         .batch = BATCH,
                                         .seqlen_q = rows,
                                         .seqlen_kv = KEYS,
                                         .heads_q = HEADS,
                                         .heads_kv = HEADS_KV,
                                         .head_dim = DIM,
                                         .options = r->options,
                                         .score_mod = r->hooks.score != NULL ? text : NULL,
                                         .mask_mod = r->hooks.mask != NULL ? text : NULL};
    fill(rows);
    bool ok = launch(d, &desc, r, m) && right(d, &desc, r, m) &&
              (desc.mask_mod == NULL || lists_are_right(d, &desc, r));
    free(text);
    return ok;
}

int main(void)
{
    static const char *const   archs[] = {"sm_90a", "sm_80"};
    static const int32_t       row_counts[] = {TREE, KEYS};
    static memory              m;
    random_state               random = random_start(7);
    int                        tried = 0, failed = 0;
    struct ptxpack_nvrtc_place place;
    char                       why[512];
    const bool                 nvrtc = ptxpack_nvrtc_find(&place, why, sizeof why);
    if (!nvrtc)
        printf("SKIP: hooks in CUDA C++: %s\n", why);
    random_normal(&random, PTXPACK_BF16, m.q, sizeof m.q / 2);
    random_normal(&random, PTXPACK_BF16, m.k, sizeof m.k / 2);
    random_normal(&random, PTXPACK_BF16, m.v, sizeof m.v / 2);
    setenv("PTXPACK_EMU_SM", "90", 1);
    for (int t = 0; t < 2; t++) {
        device d = {.handle = NULL};
        setenv("PTXPACK_ARCH", archs[t], 1); /* the emulated GPU is what it was at first */
        if (device_open_as(&d, "emu", NULL) != PTXPACK_OK)
            return fprintf(stderr, "cookbook: %s\n", d.line), 1;
        for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
            for (int n = 0; n < (strcmp(recipes[i].file, "tree") == 0 ? 1 : 2);
                 n++) { /* all rows of that are the tree's */
                const bool  cuda = nvrtc && (i + (size_t)t + (size_t)n) % 2 == 0;
                const char *ending = cuda ? "cu" : "ptx";
                const bool  ok = cook(&d, &recipes[i], ending, row_counts[n], &m);
                tried++;
                failed += !ok;
                if (!ok)
                    fprintf(stderr, "%s.%s, %s, %d rows: %s\n", recipes[i].file, ending, archs[t],
                            (int)row_counts[n], d.line);
            }
        device_close(&d);
    }
    printf("%d of %d right\n", tried - failed, tried);
    return failed != 0;
}
