/* append.c - what a case of lengths.c appends before it attends: new rows among NaNs, and what must become of the cache
 * and of q. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

enum { GAP = 8 /* elements between new rows */, NEW_TENSORS = NEW_Q + 1 };
static const int tensors[NEW_TENSORS] = {APPEND_K_NEW, APPEND_V_NEW, APPEND_Q}; /* of regions */

static bool rotates_q(const lengths_append *kind) { return kind->seqlen_new == 0; }

/* ---- the descriptor ----------------------------------------------------------------------------------- */
static ptxpack_strides strides_of(int64_t rows, int64_t heads, int64_t dim)
{
    const int64_t row = heads * dim + GAP;
    return (ptxpack_strides){rows * row, row, dim};
}

/* What the attention does not say. */
static void describe(const lengths_image *image, const lengths_append *kind, ptxpack_attention_append_desc *a)
{
    const ptxpack_attention_desc *d = &image->desc;
    const int32_t                 rows = rotates_q(kind) ? d->seqlen_q : kind->seqlen_new;
    *a = (ptxpack_attention_append_desc){.size = sizeof *a,
                                         .seqlen_new = kind->seqlen_new,
                                         .heads_q = rotates_q(kind) ? d->heads_q : 0,
                                         .rotary_dim = kind->rotary == ALL_OF_HEAD ? d->head_dim / 16 * 16
                                                                                   : kind->rotary,
                                         .positions = kind->rotary != 0 ? d->seqlen_kv - 2 : 0,
                                         .options = kind->options};
    a->k_new = strides_of(rows, d->heads_kv, d->head_dim);
    a->v_new = strides_of(rows + 1, d->heads_kv, d->head_dim);
    if (rotates_q(kind) && !kind->in_place)
        a->q = strides_of(rows, d->heads_q, d->head_dim);
    if (kind->packed) {
        a->new_rows = PTXPACK_ROWS_PACKED;
        a->rows_new = d->batch * kind->seqlen_new + 3;
    }
}

bool lengths_append_open(lengths_image *image, const lengths_append *kind)
{
    lengths_new           *n = &image->fresh;
    const append_geometry *g = &n->geometry;
    size_t                 bytes[NEW_REGIONS] = {0};
    bool                   ok = true;
    n->kind = kind;
    describe(image, kind, &n->desc);
    image->desc.append = &n->desc;
    if (attached_describe(&image->desc, &n->whole, image->line) != PTXPACK_OK ||
        append_resolve(&n->whole, &n->geometry, image->line) != PTXPACK_OK)
        return false;
    if (kind->stated)
        n->desc = n->whole;
    for (int r = 0; r < NEW_TENSORS; r++)
        bytes[r] = r == NEW_Q && kind->in_place ? 0 : (size_t)g->tensor[tensors[r]].bytes;
    bytes[NEW_COS] = bytes[NEW_SIN] = (size_t)g->table_bytes;
    if (!rotates_q(kind)) {
        bytes[NEW_LENGTHS] = (size_t)g->array_bytes[APPEND_LENGTHS_NEW];
        bytes[NEW_STARTS] = (size_t)g->array_bytes[APPEND_STARTS_NEW];
    }
    if (kind->stated || image->arrays[ARRAY_LEFT_PAD] == NULL)
        bytes[NEW_PAD] = (size_t)g->array_bytes[APPEND_LEFT_PAD];
    for (int r = 0; r < NEW_REGIONS && ok; r++)
        ok = check_region_make(&n->region[r], bytes[r], true);
    for (int t = TENSOR_Q; t <= TENSOR_V && ok; t++) {
        n->want[t] = (uint8_t *)malloc(image->bytes[t]);
        ok = n->want[t] != NULL;
    }
    snprintf(image->line, sizeof image->line, "no memory");
    return ok;
}

void lengths_append_close(check *c, lengths_image *image)
{
    pthread_mutex_lock(&c->gpu_lock);
    for (int r = 0; r < NEW_REGIONS; r++)
        check_region_free(c, &image->fresh.region[r]);
    pthread_mutex_unlock(&c->gpu_lock);
    for (int t = TENSOR_Q; t <= TENSOR_V; t++)
        free(image->fresh.want[t]);
}

/* ---- rows --------------------------------------------------------------------------------------------- */
static int32_t *array_of(lengths_image *image, int region)
{
    return (int32_t *)check_region_fill(&image->fresh.region[region]);
}

static ptxpack_attention_append_inputs inputs_of(lengths_image *image)
{
    lengths_new *n = &image->fresh;
    int32_t     *own = array_of(image, NEW_LENGTHS), *starts = array_of(image, NEW_STARTS);
    int32_t     *pad = array_of(image, NEW_PAD);
    return (ptxpack_attention_append_inputs){.k_new = check_region_fill(&n->region[NEW_K]),
                                             .v_new = check_region_fill(&n->region[NEW_V]),
                                             .q = check_region_fill(&n->region[NEW_Q]),
                                             .cos = check_region_fill(&n->region[NEW_COS]),
                                             .sin = check_region_fill(&n->region[NEW_SIN]),
                                             .lengths_kv = image->arrays[ARRAY_LENGTHS_KV],
                                             .lengths_new = own != NULL ? own : image->arrays[ARRAY_LENGTHS_Q],
                                             .starts_new = starts != NULL ? starts
                                                                          : image->arrays[ARRAY_STARTS_Q],
                                             .row_map = image->arrays[ARRAY_ROW_MAP],
                                             .left_pad = pad != NULL ? pad : image->arrays[ARRAY_LEFT_PAD],
                                             .page_table = image->arrays[ARRAY_PAGE_TABLE],
                                             .k_descale = image->descale[TENSOR_K],
                                             .v_descale = image->descale[TENSOR_V]};
}

static int32_t below(random_state *random, int32_t limit)
{
    return (int32_t)random_below(random, (uint64_t)limit);
}

/* Numbers of new rows: often none or the most.  Positions from before the tables to beyond them. */
static void draw_arrays(lengths_image *image, random_state *random)
{
    const ptxpack_attention_append_desc *d = &image->fresh.whole;
    int32_t *given = array_of(image, NEW_LENGTHS), *starts = array_of(image, NEW_STARTS);
    int32_t *pad = array_of(image, NEW_PAD), at = 2;
    for (int32_t i = 0; i < d->batch; i++) {
        int32_t count = random_below(random, 3) == 0 ? 0 : below(random, d->seqlen_new + 1);
        if (given != NULL)
            given[i] = count;
        if (starts != NULL)
            starts[i] = at;
        at += given != NULL ? d->seqlen_new : count;
        if (pad != NULL)
            pad[i] = below(random, 12) - 4;
    }
    if (starts != NULL)
        starts[d->batch] = at;
}

/* Random elements in the new rows of sequence i, which are not in the cache yet. */
static void draw_rows(lengths_image *image, random_state *random, int32_t i, int64_t first, int64_t count)
{
    const lengths_new                   *n = &image->fresh;
    const ptxpack_attention_append_desc *d = &n->whole;
    const bool                           packed = d->new_rows == PTXPACK_ROWS_PACKED;
    attention_sequence                   s = lengths_image_sequence(image, i);
    for (int r = 0; r < NEW_TENSORS; r++) {
        const memory_tensor *t = &n->geometry.tensor[tensors[r]];
        const int64_t        heads = r == NEW_Q ? d->heads_q : d->heads_kv;
        uint8_t             *at = (uint8_t *)check_region_fill(&image->fresh.region[r]);
        for (int64_t k = 0; k < count * heads && at != NULL; k++)
            random_normal(random, d->dtype,
                          at + (packed ? 0 : i * t->stride[MEMORY_BATCH]) +
                              (first + k / heads) * t->stride[MEMORY_ROW] + k % heads * t->stride[MEMORY_HEAD],
                          (size_t)d->head_dim);
    }
    for (int t = TENSOR_K; t <= TENSOR_V; t++)
        for (int64_t row = s.keys - count > s.first ? s.keys - count : s.first; row < s.keys; row++)
            for (int32_t head = 0; head < d->heads_kv; head++)
                memset(image->host[t] + CHECK_GUARD +
                           attention_kv_span(&image->desc,
                                             (int64_t)lengths_image_element(image, t, i, row, head)),
                       REGION_POISON, (size_t)attention_kv_span(&image->desc, d->head_dim));
}

bool lengths_append_fill(lengths_image *image, random_state *random)
{
    lengths_new                         *n = &image->fresh;
    const ptxpack_attention_append_desc *d = &n->whole;
    ptxpack_attention_lengths            lengths = lengths_image_arrays(image);
    for (int r = 0; r < NEW_REGIONS; r++)
        if (n->region[r].bytes != 0)
            memset(check_region_fill(&n->region[r]), REGION_POISON, n->region[r].bytes);
    draw_arrays(image, random);
    ptxpack_attention_append_inputs in = inputs_of(image);
    for (int32_t i = 0; i < d->batch; i++) {
        int64_t first, count;
        if (append_read(d, &n->geometry, &in, i, &first, &count, image->line) != PTXPACK_OK)
            return false;
        draw_rows(image, random, i, first, count);
    }
    for (int r = NEW_COS; r <= NEW_SIN; r++)
        if (n->region[r].bytes != 0)
            random_normal(random, d->dtype, check_region_fill(&n->region[r]), n->region[r].bytes / 2);
    if (n->region[NEW_Q].bytes != 0)
        memset(image->host[TENSOR_Q], REGION_POISON, image->bytes[TENSOR_Q]);
    for (int t = TENSOR_Q; t <= TENSOR_V; t++)
        memcpy(n->want[t], image->host[t], image->bytes[t]);
    if (ptxpack_attention_reference_append(&image->desc, &in, n->want[TENSOR_Q] + CHECK_GUARD,
                                           n->want[TENSOR_K] + CHECK_GUARD, n->want[TENSOR_V] + CHECK_GUARD,
                                           &lengths, NULL, NULL) == PTXPACK_OK)
        return true;
    snprintf(image->line, sizeof image->line, "%s", ptxpack_detail(NULL));
    return false;
}

/* ---- a launch ----------------------------------------------------------------------------------------- */
bool lengths_append_upload(check *c, lengths_image *image)
{
    bool ok = true;
    for (int r = 0; r < NEW_REGIONS && ok; r++)
        ok = check_region_upload(c, &image->fresh.region[r]);
    return ok;
}

ptxpack_attention_append_buffers lengths_append_buffers(const lengths_image             *image,
                                                        const ptxpack_attention_buffers *b)
{
    const lengths_new               *n = &image->fresh;
    const bool                       rotated = rotates_q(n->kind);
    ptxpack_attention_append_buffers out = {.size = sizeof out,
                                            .k_new = check_region_at(&n->region[NEW_K]),
                                            .v_new = check_region_at(&n->region[NEW_V]),
                                            .q = check_region_at(&n->region[NEW_Q]),
                                            .cos = check_region_at(&n->region[NEW_COS]),
                                            .sin = check_region_at(&n->region[NEW_SIN]),
                                            .lengths_new = check_region_at(&n->region[NEW_LENGTHS]),
                                            .starts_new = check_region_at(&n->region[NEW_STARTS]),
                                            .left_pad = check_region_at(&n->region[NEW_PAD])};
    if (!n->kind->stated)
        return out;
    out.k = b->k;
    out.v = b->v;
    out.lengths_kv = b->lengths_kv;
    out.row_map = b->row_map;
    out.page_table = b->page_table;
    out.k_descale = b->k_descale;
    out.v_descale = b->v_descale;
    if (rotated) {
        out.q = n->kind->in_place ? b->q : out.q;
        out.q_out = b->q;
        out.lengths_new = b->lengths_q;
        out.starts_new = b->starts_q;
    }
    return out;
}

void lengths_append_compare(const lengths_image *image, int tensor, const void *got, char *what, size_t cap)
{
    const uint8_t *want = image->fresh.want[tensor], *is = (const uint8_t *)got;
    for (size_t i = 0; i < image->bytes[tensor] && what[0] == '\0'; i++)
        if (is[i] != want[i])
            snprintf(what, cap, "byte %lld of %s is 0x%02x, after an append 0x%02x",
                     (long long)i - (long long)CHECK_GUARD, attention_tensor_names[tensor], is[i], want[i]);
}
