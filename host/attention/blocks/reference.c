/* reference.c - lists of blocks on the CPU. */
#include "host/attention/reference.h"

#include "op.h"

/* The numbers of one list, and where it is. */
typedef struct list_place {
    int32_t batch, head, block; /* of rows */
    int64_t number;
} list_place;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* What the pairs of a block of rows and block `key_block` of keys are: one of ATTENTION_BLOCK_*. */
static int kind_of(const ptxpack_attention_desc *d, const attention_geometry *g,
                   const ptxpack_attention_hooks *hooks, const list_place *p, int32_t key_block)
{
    const attention_lists *l = &g->lists;
    const int64_t          row_end = smaller((int64_t)(p->block + 1) * l->rows, d->seqlen_q);
    const int64_t          key_end = smaller((int64_t)(key_block + 1) * l->keys, d->seqlen_kv);
    bool                   any = false, all = true;
    for (int64_t row = (int64_t)p->block * l->rows; row < row_end && !(any && !all); row++) {
        int64_t first, end;
        blocks_keys(d, g, row, &first, &end);
        end = smaller(end, key_end);
        for (int64_t key = larger(first, (int64_t)key_block * l->keys); key < end; key++) {
            const bool kept = d->mask_mod == NULL ||
                              hooks->mask(hooks->context, p->batch, p->head,
                                          (int32_t)(row + d->seqlen_kv - d->seqlen_q), (int32_t)key) != 0;
            any = any || kept;
            all = all && kept;
        }
    }
    return !any ? ATTENTION_BLOCK_ABSENT : all ? ATTENTION_BLOCK_FULL : ATTENTION_BLOCK_MASKED;
}

ptxpack_status ptxpack_attention_blocks_reference(const ptxpack_attention_desc  *desc,
                                                  const ptxpack_attention_hooks *hooks, int32_t *block_count,
                                                  int32_t *full_count, int32_t *block_list, int32_t *full_list)
{
    char                   line[PLAN_LINE];
    ptxpack_attention_desc d;
    attention_geometry     g;
    if (block_count == NULL || full_count == NULL || block_list == NULL || full_list == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL",
                            block_count == NULL  ? "block_count"
                            : full_count == NULL ? "full_count"
                            : block_list == NULL ? "block_list"
                                                 : "full_list");
    ptxpack_status status = attention_whole_desc(desc, &d, line);
    if (status == PTXPACK_OK)
        status = blocks_resolve(&d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    if (d.mask_mod != NULL && (hooks == NULL || hooks->mask == NULL))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "hooks has no function for mask_mod");
    for (int32_t b = 0; b < (g.lists.batch != 0 ? d.batch : 1); b++)
        for (int32_t h = 0; h < (g.lists.head != 0 ? d.heads_q : 1); h++)
            for (int32_t i = 0; i < g.lists.row_blocks; i++) {
                const list_place p = {b, h, i, (int64_t)b * g.lists.batch + (int64_t)h * g.lists.head + i};
                block_count[p.number] = full_count[p.number] = 0;
                for (int32_t k = 0; k < g.lists.key_blocks; k++) {
                    const int kind = kind_of(&d, &g, hooks, &p, k);
                    if (kind == ATTENTION_BLOCK_MASKED)
                        block_list[p.number * g.lists.width + block_count[p.number]++] = k;
                    if (kind == ATTENTION_BLOCK_FULL)
                        full_list[p.number * g.lists.width + full_count[p.number]++] = k;
                }
            }
    return PTXPACK_OK;
}
