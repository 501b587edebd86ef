/* append_image.c - random rows, lengths and page tables of appends, among NaNs. */
#include "append_image.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_WRITTEN INFINITY

enum { NO_PAGE = 0x7ffffff0 /* of a page table, where no new row is */ };

/* ---- memory ------------------------------------------------------------------------------------------- */
static void set_rows(ptxpack_attention_append_desc *d, const append_case *a)
{
    if (a->packed) {
        d->new_rows = PTXPACK_ROWS_PACKED;
        d->rows_new = a->batch * (a->seqlen_new + 2) + 11;
    }
    if (a->page_rows != 0) {
        int32_t pages = (a->seqlen_kv + a->page_rows - 1) / a->page_rows;
        d->kv_rows = PTXPACK_ROWS_PAGED;
        d->page_rows = a->page_rows;
        d->table_width = pages + 1;
        d->rows_kv = a->batch * pages + 3;
    } else if ((a->options & PTXPACK_ROW_MAP) != 0) {
        d->rows_kv = a->batch + 3;
    }
}

static void set_strides(ptxpack_attention_append_desc *d, const append_case *a)
{
    int64_t rows = a->page_rows != 0 ? a->page_rows : a->seqlen_kv;
    int64_t gap = a->kv_dtype == PTXPACK_Q8_0 ? PTXPACK_Q8_0_ELEMENTS : 16, parts = a->one_tensor ? 2 : 1;
    d->k = a->heads_first ? (ptxpack_strides){parts * d->heads_kv * rows * (d->head_dim + gap),
                                              d->head_dim + gap, rows * (d->head_dim + gap)}
                          : (ptxpack_strides){parts * rows * d->heads_kv * d->head_dim,
                                              d->heads_kv * d->head_dim, d->head_dim};
    d->v = d->k;
    if (a->q_place == Q_IN_QKV) {
        int64_t row = (int64_t)(d->heads_q + 2 * d->heads_kv) * d->head_dim;
        d->k_new = d->v_new = d->q = d->q_out = (ptxpack_strides){row * a->seqlen_new, row, d->head_dim};
    }
}

static ptxpack_dtype type_of(const append_image *image, int tensor)
{
    return tensor == APPEND_K || tensor == APPEND_V ? append_kv_type(&image->desc) : image->desc.dtype;
}

/* The elements that cannot be written alone, and how many a tensor has. */
static size_t unit_of(const append_image *image, int tensor)
{
    return type_of(image, tensor) == PTXPACK_Q8_0 ? PTXPACK_Q8_0_ELEMENTS : 1;
}

static size_t count_of(const append_image *image, int tensor)
{
    const size_t unit = unit_of(image, tensor);
    return (size_t)image->geometry.tensor[tensor].bytes / ptxpack_dtype_span(type_of(image, tensor), unit) *
           unit;
}

/* Which region a tensor lies in, and where. */
static void place_tensors(append_image *image, const append_case *a)
{
    const ptxpack_attention_append_desc *d = &image->desc;
    for (int t = 0; t < APPEND_TENSORS; t++)
        image->lies_in[t] = t;
    if (a->q_place != Q_APART)
        image->lies_in[APPEND_Q_OUT] = APPEND_Q;
    if (a->q_place == Q_IN_QKV) {
        image->lies_in[APPEND_K_NEW] = image->lies_in[APPEND_V_NEW] = APPEND_Q;
        image->offset[APPEND_K_NEW] = 2 * (size_t)d->heads_q * (size_t)d->head_dim;
        image->offset[APPEND_V_NEW] = 2 * (size_t)(d->heads_q + d->heads_kv) * (size_t)d->head_dim;
    }
    if (a->one_tensor) {
        image->lies_in[APPEND_V] = APPEND_K;
        image->offset[APPEND_V] = (size_t)image->geometry.tensor[APPEND_K].stride[MEMORY_BATCH] / 2;
    }
}

bool append_image_make(append_image *image, const append_case *a, ptxpack_dtype dtype)
{
    *image = (append_image){.line = "no memory",
                            .desc = {.size = sizeof image->desc,
                                     .dtype = dtype,
                                     .batch = a->batch,
                                     .seqlen_new = a->seqlen_new,
                                     .seqlen_kv = a->seqlen_kv,
                                     .heads_kv = a->heads_kv,
                                     .heads_q = a->heads_q,
                                     .head_dim = a->dim,
                                     .rotary_dim = a->rotary,
                                     .positions = a->rotary != 0 ? a->seqlen_kv - 2 : 0,
                                     .options = a->options,
                                     .kv_dtype = a->kv_dtype}};
    set_rows(&image->desc, a);
    set_strides(&image->desc, a);
    if (append_resolve(&image->desc, &image->geometry, image->line) != PTXPACK_OK)
        return false;
    const append_geometry *g = &image->geometry;
    size_t                 bytes[REGIONS] = {0};
    bool                   ok = true;
    place_tensors(image, a);
    for (int t = 0; t < APPEND_TENSORS; t++) {
        size_t end = image->offset[t] + (size_t)g->tensor[t].bytes;
        if (g->tensor[t].bytes != 0 && bytes[image->lies_in[t]] < end)
            bytes[image->lies_in[t]] = end;
    }
    bytes[REGION_K_DESCALE] = bytes[REGION_V_DESCALE] = (size_t)g->descale_bytes;
    bytes[REGION_COS] = bytes[REGION_SIN] = (size_t)g->table_bytes;
    for (int i = 0; i < APPEND_ARRAYS; i++)
        bytes[REGION_ARRAYS + i] = (size_t)g->array_bytes[i];
    for (int i = 0; i < REGIONS && ok; i++) {
        bool written = (i >= APPEND_K && i < APPEND_TENSORS) || (i == APPEND_Q && a->q_place != Q_APART);
        ok = check_region_make(&image->region[i], bytes[i], !written);
    }
    for (int t = APPEND_K; t < APPEND_TENSORS && ok; t++) {
        image->want[t] = (double *)calloc(count_of(image, t) + 1, sizeof(double));
        ok = image->want[t] != NULL;
    }
    return ok;
}

void append_image_free(check *c, append_image *image)
{
    for (int i = 0; i < REGIONS; i++)
        check_region_free(c, &image->region[i]);
    for (int t = 0; t < APPEND_TENSORS; t++)
        free(image->want[t]);
}

uint64_t append_image_at(const append_image *image, int tensor)
{
    uint64_t at = check_region_at(&image->region[image->lies_in[tensor]]);
    return at != 0 ? at + image->offset[tensor] : 0;
}

uint64_t append_image_array(const append_image *image, int array)
{
    return check_region_at(&image->region[REGION_ARRAYS + array]);
}

static int32_t *array_of(append_image *image, int array)
{
    return (int32_t *)check_region_fill(&image->region[REGION_ARRAYS + array]);
}

static uint8_t *tensor_of(append_image *image, int tensor)
{
    uint8_t *at = (uint8_t *)check_region_fill(&image->region[image->lies_in[tensor]]);
    return at != NULL ? at + image->offset[tensor] : NULL;
}

/* ---- lengths and tables ------------------------------------------------------------------------------- */
static int32_t below(random_state *random, int32_t limit)
{
    return (int32_t)random_below(random, (uint64_t)limit);
}

/* 0 to count - 1 in random order. */
static void shuffle(random_state *random, int32_t *order, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t j = below(random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* Every sixth sequence: nothing new, an empty cache, a full one, rows beyond its end, rows before row 0. */
static void draw_lengths(append_image *image, random_state *random)
{
    const ptxpack_attention_append_desc *d = &image->desc;
    int32_t *kv = array_of(image, APPEND_LENGTHS_KV), *given = array_of(image, APPEND_LENGTHS_NEW);
    int32_t *starts = array_of(image, APPEND_STARTS_NEW), *pad = array_of(image, APPEND_LEFT_PAD);
    int32_t  turn = below(random, 6);
    if (starts != NULL)
        starts[0] = 3;
    for (int32_t i = 0; i < d->batch; i++) {
        int32_t kind = (i + turn) % 6, count = d->seqlen_new;
        if (given != NULL || starts != NULL)
            count = kind == 0 ? 0 : kind == 1 ? d->seqlen_new : below(random, d->seqlen_new + 1);
        kv[i] = kind == 1   ? count
                : kind == 2 ? d->seqlen_kv
                : kind == 3 ? d->seqlen_kv + (count + 1) / 2
                : kind == 4 ? count / 2
                            : count + below(random, d->seqlen_kv - d->seqlen_new + 1);
        if (given != NULL)
            given[i] = count;
        if (starts != NULL)
            starts[i + 1] = starts[i] + (given != NULL ? d->seqlen_new + 2 : count);
        if (pad != NULL)
            pad[i] = kind == 5 ? INT32_MIN : below(random, 9) - 3;
    }
}

/* Every page and every sequence of the cache is written by one sequence only; some rows have no place. */
static bool draw_places(append_image *image, random_state *random)
{
    const ptxpack_attention_append_desc *d = &image->desc;
    int32_t       *map = array_of(image, APPEND_ROW_MAP), *table = array_of(image, APPEND_PAGE_TABLE);
    const int32_t *kv = array_of(image, APPEND_LENGTHS_KV);
    int32_t        most = d->rows_kv != 0 ? d->rows_kv : 1, taken = 0;
    int32_t       *order = (int32_t *)malloc((size_t)most * sizeof *order);
    if (order == NULL)
        return false;
    shuffle(random, order, most);
    for (int32_t i = 0; i < d->batch && map != NULL; i++)
        map[i] = i == 1 ? -1 : i == 2 ? d->rows_kv : order[i];
    for (int32_t i = 0; i < d->batch && table != NULL; i++)
        for (int32_t page = 0; page < d->table_width; page++) {
            int32_t *entry = &table[i * d->table_width + page];
            bool     used = page * d->page_rows < kv[i] && page * d->page_rows < d->seqlen_kv &&
                        (page + 1) * d->page_rows > kv[i] - d->seqlen_new;
            *entry = !used ? NO_PAGE : below(random, 8) == 0 ? -1 : order[taken++];
        }
    free(order);
    return true;
}

/* ---- rows --------------------------------------------------------------------------------------------- */
/* Of every four heads that become blocks one begins with a block of zeros, one with an infinity, one with a NaN. */
static void spoil(const append_image *image, int tensor, int64_t i, void *head)
{
    const ptxpack_dtype type = image->desc.dtype;
    if (tensor == APPEND_Q || !append_has_blocks(&image->desc) || i % 4 == 0)
        return;
    if (i % 4 == 1)
        memset(head, 0, ptxpack_dtype_span(type, PTXPACK_Q8_0_ELEMENTS));
    else
        ptxpack_set_element(type, head, 3, i % 4 == 2 ? INFINITY : NAN);
}

/* Random elements in rows [row, row + count) of the new rows. */
static void draw_rows(append_image *image, int tensor, int32_t heads, random_state *random, int64_t batch,
                      int64_t row, int64_t count)
{
    const int64_t *stride = image->geometry.tensor[tensor].stride;
    for (int64_t i = 0; i < count * heads; i++) {
        uint8_t *head = tensor_of(image, tensor) + batch * stride[MEMORY_BATCH] +
                        (row + i / heads) * stride[MEMORY_ROW] + i % heads * stride[MEMORY_HEAD];
        random_normal(random, image->desc.dtype, head, (size_t)image->desc.head_dim);
        spoil(image, tensor, i, head);
    }
}

static float *descale_of(append_image *image, int region)
{
    return (float *)check_region_fill(&image->region[region]);
}

/* Descales by which some numbers are beyond the largest code. */
static void draw_descales(append_image *image, random_state *random)
{
    const size_t count = (size_t)image->geometry.descale_bytes / sizeof(float);
    for (int region = REGION_K_DESCALE; region <= REGION_V_DESCALE && count != 0; region++) {
        float *scales = descale_of(image, region);
        random_scales(random, scales, count);
        for (size_t i = 0; i < count; i++)
            scales[i] /= image->desc.kv_dtype == PTXPACK_INT8 ? 64 : i % 2 == 0 ? 256 : 1;
    }
}

static bool compute(append_image *image)
{
    const ptxpack_attention_append_inputs in = {.k_new = tensor_of(image, APPEND_K_NEW),
                                                .v_new = tensor_of(image, APPEND_V_NEW),
                                                .q = tensor_of(image, APPEND_Q),
                                                .cos = check_region_fill(&image->region[REGION_COS]),
                                                .sin = check_region_fill(&image->region[REGION_SIN]),
                                                .lengths_kv = array_of(image, APPEND_LENGTHS_KV),
                                                .lengths_new = array_of(image, APPEND_LENGTHS_NEW),
                                                .starts_new = array_of(image, APPEND_STARTS_NEW),
                                                .row_map = array_of(image, APPEND_ROW_MAP),
                                                .left_pad = array_of(image, APPEND_LEFT_PAD),
                                                .page_table = array_of(image, APPEND_PAGE_TABLE),
                                                .k_descale = descale_of(image, REGION_K_DESCALE),
                                                .v_descale = descale_of(image, REGION_V_DESCALE)};
    for (int t = APPEND_K; t < APPEND_TENSORS; t++)
        for (size_t i = 0; i < count_of(image, t); i++)
            image->want[t][i] = NOT_WRITTEN;
    if (ptxpack_attention_append_reference(&image->desc, &in, image->want[APPEND_K], image->want[APPEND_V],
                                           image->want[APPEND_Q_OUT]) == PTXPACK_OK)
        return true;
    snprintf(image->line, sizeof image->line, "%s", ptxpack_detail(NULL));
    return false;
}

bool append_image_draw(append_image *image, random_state *random)
{
    const ptxpack_attention_append_desc *d = &image->desc;
    const size_t                         angles = (size_t)image->geometry.table_bytes / 2;
    for (int i = 0; i < REGIONS; i++)
        if (image->region[i].bytes != 0)
            memset(check_region_fill(&image->region[i]), REGION_POISON, image->region[i].bytes);
    draw_lengths(image, random);
    draw_descales(image, random);
    if (!draw_places(image, random))
        return false;
    const int32_t *starts = array_of(image, APPEND_STARTS_NEW), *given = array_of(image, APPEND_LENGTHS_NEW);
    for (int32_t i = 0; i < d->batch; i++) {
        int64_t first = starts != NULL ? starts[i] : 0, batch = starts != NULL ? 0 : i;
        int64_t count = given != NULL ? given[i] : starts != NULL ? starts[i + 1] - starts[i] : d->seqlen_new;
        draw_rows(image, APPEND_K_NEW, d->heads_kv, random, batch, first, count);
        draw_rows(image, APPEND_V_NEW, d->heads_kv, random, batch, first, count);
        draw_rows(image, APPEND_Q, d->heads_q, random, batch, first, count);
    }
    if (angles != 0) {
        random_normal(random, d->dtype, check_region_fill(&image->region[REGION_COS]), angles);
        random_normal(random, d->dtype, check_region_fill(&image->region[REGION_SIN]), angles);
    }
    if (!compute(image))
        return false;
    int32_t *beyond = array_of(image, APPEND_LENGTHS_NEW);
    for (int32_t i = 0; i < d->batch && beyond != NULL; i++) /* taken as the most that there may be, or as 0 */
        beyond[i] = beyond[i] == d->seqlen_new ? 1000 + i : beyond[i] == 0 ? -i : beyond[i];
    return true;
}

/* ---- judgement ---------------------------------------------------------------------------------------- */
/* Products of 16-bit numbers are exact in f32, their sum is rounded to f32, and that to the type: nothing else is right.  Of
 * blocks the reference has what they mean: one of their numbers is 127 or -127, so that other bytes mean other elements. */
static bool judge_tensor(append_image *image, int tensor, bool *may_change)
{
    const check_region *r = &image->region[image->lies_in[tensor]];
    const uint8_t      *got = r->after + CHECK_GUARD + image->offset[tensor];
    const ptxpack_dtype type = type_of(image, tensor);
    const size_t        unit = unit_of(image, tensor), size = ptxpack_dtype_span(type, unit);
    for (size_t i = 0; i < count_of(image, tensor); i++) {
        double want = image->want[tensor][i];
        if (want == NOT_WRITTEN)
            continue;
        double rounded = unit == 1 ? ptxpack_to_float(type, ptxpack_from_float(type, (float)want)) : want;
        memset(may_change + image->offset[tensor] + size * (i / unit), true, size);
        const double is = ptxpack_element(type, got, i);
        if (is != rounded && !(isnan(is) && isnan(rounded))) {
            snprintf(image->line, sizeof image->line, "element %zu of %s is %g, not %g", i,
                     append_tensor_names[tensor], is, want);
            return false;
        }
    }
    return true;
}

const char *append_image_judge(append_image *image)
{
    const char *what = NULL;
    for (int i = 0; i < REGIONS && what == NULL; i++) {
        const check_region *r = &image->region[i];
        bool               *may_change = (bool *)calloc(r->bytes + 1, sizeof(bool));
        int64_t             place;
        for (int t = APPEND_K; t < APPEND_TENSORS && may_change != NULL && what == NULL; t++)
            if (image->lies_in[t] == i && !judge_tensor(image, t, may_change))
                what = image->line;
        if (may_change == NULL ||
            (what == NULL && !r->read_only && check_region_changed(r, may_change, &place))) {
            snprintf(image->line, sizeof image->line,
                     may_change == NULL ? "no memory" : "byte %lld of %s, where no new row is, was written",
                     (long long)(may_change == NULL ? 0 : place),
                     i < APPEND_TENSORS ? append_tensor_names[i] : "?");
            what = image->line;
        }
        free(may_change);
    }
    return what;
}
