/* make.c - lists of blocks that the device makes of masks and mask_mod, against those of the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/blocks/inspect.h"
#include "image.h"

/* ---- hooks ------------------------------------------------------------------------------------------------ */
/* Of each 97 keys the one 32, or all others: alternately, for 128 rows each.  So a block may have one pair a row, or lack one. */
static const char single_mask[] = ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
                                  "        .reg .b32 %my_x, %my_y;\n"
                                  "        .reg .pred %my_p;\n"
                                  "        rem.u32 %my_x, \\kv, 97;\n"
                                  "        setp.eq.s32 %my_p, %my_x, 32;\n"
                                  "        and.b32 %my_y, \\q, 128;\n"
                                  "        setp.eq.xor.s32 \\keep, %my_y, 0, %my_p;\n"
                                  ".endm\n";
static int        mask_of_single(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return (kv % 97 == 32) != ((q & 128) == 0);
}

/* What a causal mask leaves out, and nothing else. */
static const char later_mask[] = ".macro MASK_MOD keep, r, b, h, q, kv, c, cf\n"
                                 "        setp.gt.s32 \\keep, \\kv, \\q;\n"
                                 ".endm\n";
static int        mask_of_later(void *context, int32_t b, int32_t h, int32_t q, int32_t kv)
{
    (void)context, (void)b, (void)h;
    return kv > q;
}

enum { SINGLE = CHECK_HOOKS, LATER };
static const struct own_hook {
    const char             *mask_mod;
    ptxpack_attention_hooks functions;
} own_hooks[] = {{single_mask, {.mask = mask_of_single}}, {later_mask, {.mask = mask_of_later}}};

static const char *text_of(int hook)
{
    return hook < 0             ? NULL
           : hook < CHECK_HOOKS ? check_hooks[hook].mask_mod
                                : own_hooks[hook - CHECK_HOOKS].mask_mod;
}

static const ptxpack_attention_hooks *functions_of(int hook)
{
    return hook < 0             ? NULL
           : hook < CHECK_HOOKS ? &check_hooks[hook].functions
                                : &own_hooks[hook - CHECK_HOOKS].functions;
}

/* ---- cases ------------------------------------------------------------------------------------------------ */
static const struct make_case {
    const char  *name;
    int32_t      batch, rows, keys, heads; /* of the sequences */
    int32_t      block_rows, block_keys;
    bool         own_batch, own_head; /* lists of their own */
    ptxpack_mask mask;
    int32_t      left, right, chunk;
    int          hook; /* of check_hooks, and behind them of own_hooks; -1: none */
    bool         quick;
} cases[] = {
    {"window", 1, 300, 1500, 1, 64, 64, false, false, PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 500, 3, 0, -1, true},
    {"mixed of all heads", 2, 130, 200, 3, 64, 48, true, true, PTXPACK_MASK_NONE, 0, 0, 0, 1, true},
    {"documents causal", 2, 260, 700, 2, 128, 128, false, true, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 3,
     true},
    {"documents", 2, 190, 190, 2, 16, 16, true, false, PTXPACK_MASK_NONE, 0, 0, 0, 3, true},
    {"chunks", 1, 250, 620, 1, 64, 32, false, false, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 100, -1, false},
    {"more queries than keys", 1, 200, 90, 1, 32, 40, false, false, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0,
     3, false},
    {"mixed rows", 2, 23, 40, 3, 1, 8, true, true, PTXPACK_MASK_NONE, 0, 0, 0, 1, true},
    {"one key of a block", 1, 200, 329, 1, 128, 128, false, false, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0,
     -1, true},
    {"window in documents", 1, 100, 300, 1, 1, 32, false, false, PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 5, 0, 0, 3,
     true},
    {"single keys", 1, 256, 256, 2, 128, 128, false, true, PTXPACK_MASK_NONE, 0, 0, 0, SINGLE, true},
    {"single last keys", 1, 256, 256, 1, 128, 33, false, false, PTXPACK_MASK_NONE, 0, 0, 0, SINGLE, true},
    {"later keys causal", 1, 200, 200, 1, 64, 64, false, false, PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0,
     LATER, true},
    {"top-left", 1, 100, 300, 2, 128, 64, false, true, PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, -1, false},
};
enum { CASES = sizeof cases / sizeof cases[0], LISTS = 4, SLOPES = LISTS, DOCUMENTS, REGIONS };

static ptxpack_attention_desc desc_of(const struct make_case *m)
{
    const int32_t row_blocks = (m->rows - 1) / m->block_rows + 1;
    return (ptxpack_attention_desc){
        .size = sizeof(ptxpack_attention_desc),
        .dtype = PTXPACK_F16,
        .batch = m->batch,
        .seqlen_q = m->rows,
        .seqlen_kv = m->keys,
        .heads_q = m->heads,
        .heads_kv = m->heads,
        .head_dim = 64,
        .mask = m->mask,
        .window_left = m->left,
        .window_right = m->right,
        .chunk = m->chunk,
        .mask_mod = text_of(m->hook),
        .block_rows = m->block_rows,
        .block_keys = m->block_keys,
        .block_width = (m->keys - 1) / m->block_keys + 3,
        .block_batch = m->own_batch ? (int64_t)m->heads * row_blocks + 1 : 0,
        .block_head = m->own_head ? row_blocks : 0,
    };
}

typedef struct make_run {
    ptxpack_attention_desc         desc;
    attention_geometry             geometry;
    ptxpack_attention_blocks_plan *plan;
    check_region                   region[REGIONS];
    int32_t                       *want[LISTS]; /* as the arrays of a launch; -1: not written */
    char                           line[PLAN_LINE];
} make_run;

static bool make(make_run *r, const struct make_case *m)
{
    r->desc = desc_of(m);
    if (blocks_resolve(&r->desc, &r->geometry, r->line) != PTXPACK_OK)
        return false;
    snprintf(r->line, sizeof r->line, "no memory");
    for (int i = 0; i < LISTS; i++) {
        const size_t bytes = r->geometry.array_bytes[ARRAY_BLOCK_COUNT + i];
        r->want[i] = (int32_t *)malloc(bytes);
        if (r->want[i] == NULL || !check_region_make(&r->region[i], bytes, false))
            return false;
        memset(r->want[i], REGION_POISON, bytes);
    }
    if (!check_region_make(&r->region[SLOPES], CHECK_SLOPES * sizeof(float), true) ||
        !check_region_make(&r->region[DOCUMENTS], CHECK_DOCUMENTS * sizeof(int32_t), true))
        return false;
    check_fill_aux((float *)check_region_fill(&r->region[SLOPES]),
                   (int32_t *)check_region_fill(&r->region[DOCUMENTS]));
    return ptxpack_attention_blocks_reference(&r->desc, functions_of(m->hook), r->want[0], r->want[1],
                                              r->want[2], r->want[3]) == PTXPACK_OK;
}

static void free_run(check *c, make_run *r)
{
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &r->region[i]);
    for (int i = 0; i < LISTS; i++)
        free(r->want[i]);
    ptxpack_attention_blocks_plan_free(r->plan);
}

static bool launch(check *c, make_run *r)
{
    bool ok = true;
    for (int i = 0; i < REGIONS && ok; i++)
        ok = check_region_upload(c, &r->region[i]);
    const ptxpack_attention_blocks_buffers b = {
        .size = sizeof b,
        .block_count = check_region_at(&r->region[0]),
        .full_count = check_region_at(&r->region[1]),
        .block_list = check_region_at(&r->region[2]),
        .full_list = check_region_at(&r->region[3]),
        .aux = {check_region_at(&r->region[SLOPES]),
                check_region_at(&r->region[DOCUMENTS]) + sizeof(int32_t) * CHECK_POSITIONS},
    };
    ok = ok && device_status(&c->gpu, ptxpack_attention_blocks(r->plan, &b, c->gpu.stream));
    for (int i = 0; i < LISTS && ok; i++)
        ok = check_region_download(c, &r->region[i]);
    return ok;
}

/* Returns NULL, or what is wrong: every entry is as wanted, and all the rest is as it was. */
static const char *judge(make_run *r)
{
    for (int i = 0; i < LISTS; i++) {
        const check_region *region = &r->region[i];
        const int32_t      *got = (const int32_t *)(const void *)(region->after + CHECK_GUARD);
        bool               *may_change = (bool *)malloc(region->bytes);
        int64_t             place;
        for (size_t e = 0; e < region->bytes / sizeof *got; e++)
            if (got[e] != r->want[i][e]) {
                snprintf(r->line, sizeof r->line, "%s[%zu] is %d, not %d",
                         attention_array_names[ARRAY_BLOCK_COUNT + i], e, (int)got[e], (int)r->want[i][e]);
                free(may_change);
                return r->line;
            }
        if (may_change != NULL)
            memset(may_change, 1, region->bytes);
        const bool changed = may_change == NULL || check_region_changed(region, may_change, &place);
        free(may_change);
        if (changed)
            return "a byte outside the arrays was written";
    }
    return NULL;
}

static void run_case(check *c, const struct make_case *m, const ptxpack_variant *row, const char *name)
{
    make_run r = {.plan = NULL};
    if (!make(&r, m))
        check_broken(c, name, r.line);
    else if (ptxpack_attention_blocks_plan_row(c->gpu.handle, &r.desc, row, &r.plan) != PTXPACK_OK)
        check_broken(c, name, ptxpack_detail(c->gpu.handle));
    else if (!launch(c, &r))
        check_broken(c, name, c->gpu.line);
    else
        check_record(c, name, judge(&r));
    free_run(c, &r);
}

void check_blocks(check *c)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    char                   name[160];
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < CASES && !atomic_load(&c->broken); k++) {
            snprintf(name, sizeof name, "made blocks %s %s", cases[k].name, rows[i].id);
            if (check_row_runs(c, &rows[i], "attention_blocks", PTXPACK_F16) &&
                check_case_runs(c, name, cases[k].quick))
                run_case(c, &cases[k], &rows[i], name);
        }
}
