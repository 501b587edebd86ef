/* agree.c - whether all ranks of a group make the same plan, and have made it. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* What ranks must have in common, as numbers. */
/* clang-format off */
#define FIELDS(X)                                                                                    \
    X(dtype)                                                                                         \
    X(batch)                                                                                         \
    X(seqlen_q) X(seqlen_kv) X(heads_q) X(heads_kv) X(head_dim) X(head_dim_v) X(mask) X(window_left) \
        X(window_right) X(options) X(scale) X(softcap) X(chunk)
static const char *const names[] = {
#define NAME(field) #field,
    FIELDS(NAME)
#undef NAME
        "shards", "way", "a digest of starts",
};
/* clang-format on */
enum { NAMES = sizeof names / sizeof names[0] };

typedef struct agreement {
    int32_t status, way;
    double  field[NAMES];
} agreement;
_Static_assert(sizeof(agreement) <= GROUP_RECORD - GROUP_MARK, "GROUP_RECORD has room for what ranks agree on");

static agreement agreement_of(const parallel_whole *w, ptxpack_status status)
{
    const ptxpack_attention_desc *d = &w->desc;
    const double                  fields[] = {
/* clang-format off */
#define VALUE(field) (double)d->field,
        FIELDS(VALUE)
#undef VALUE
        (double)w->problem.shards, (double)w->asked, (double)w->starts_digest,
        /* clang-format on */
    };
    agreement out = {(int32_t)status, (int32_t)w->problem.way, {0}};
    _Static_assert(sizeof fields == sizeof out.field, "a name for each field");
    memcpy(out.field, fields, sizeof fields);
    return out;
}

/* The same line on all ranks but the one that failed, which has its own. */
static ptxpack_status compare(const ptxpack_parallel_group *g, const char *all)
{
    agreement first, other;
    memcpy(&first, all, sizeof first);
    for (int32_t rank = 0; rank < g->ranks; rank++) {
        memcpy(&other, all + (size_t)rank * GROUP_RECORD, sizeof other);
        if (other.status != PTXPACK_OK)
            return ptxpack_fail(g->member[0].handle, PTXPACK_E_PEER, "rank %d cannot make its plan: %s",
                                (int)rank, ptxpack_status_string((ptxpack_status)other.status));
    }
    for (int32_t rank = 1; rank < g->ranks; rank++) {
        memcpy(&other, all + (size_t)rank * GROUP_RECORD, sizeof other);
        for (int i = 0; i < NAMES; i++)
            if (other.field[i] != first.field[i])
                return ptxpack_fail(g->member[0].handle, PTXPACK_E_PEER, "rank %d has %s %g, and rank 0 has %g",
                                    (int)rank, names[i], other.field[i], first.field[i]);
    }
    return PTXPACK_OK;
}

ptxpack_status parallel_agree(ptxpack_parallel_group *g, parallel_whole *w, ptxpack_status status)
{
    char            record[GROUP_RECORD] = {0};
    const agreement own = agreement_of(w, status);
    if (g->nccl == NULL || g->broken[0] != '\0')
        return status != PTXPACK_OK ? status : group_usable(g);
    memcpy(record, &own, sizeof own);
    char *all = (char *)malloc((size_t)g->ranks * GROUP_RECORD);
    if (all == NULL)
        return ptxpack_fail(g->member[0].handle, PTXPACK_E_MEMORY, "out of memory for the records of %d ranks",
                            (int)g->ranks);
    if (status !=
        PTXPACK_OK) /* the line stays the cause of this rank's own failure, if the others can be told */
        (void)group_exchange(g, record, all);
    else if ((status = group_exchange(g, record, all)) == PTXPACK_OK &&
             (status = compare(g, all)) == PTXPACK_OK) {
        agreement first;
        memcpy(&first, all, sizeof first);
        w->problem.way = (ptxpack_parallel_way)first.way;
    }
    free(all);
    return status;
}
