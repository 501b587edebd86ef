/* image.c - random lengths, starts, page tables and rows of attention, among NaNs. */
#include "image.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "tests/check/heads.h"

enum { POISON = 0xff /* a NaN in all types */, NO_PAGE = 0x7ffffff0 /* of a page table, where no key is */ };

/* ---- memory ------------------------------------------------------------------------------------------- */
static ptxpack_strides strides_of(int64_t rows, int64_t heads, int64_t dim, bool heads_first, int64_t tensors,
                                  int64_t gap)
{
    if (heads_first)
        return (ptxpack_strides){tensors * heads * rows * (dim + gap), dim + gap, rows * (dim + gap)};
    return (ptxpack_strides){tensors * rows * heads * dim, heads * dim, dim};
}

static void set_rows(ptxpack_attention_desc *d, const lengths_storage *s)
{
    d->q_rows = s->q_rows;
    d->kv_rows = s->kv_rows;
    d->options |= s->options;
    d->page_rows = s->page_rows;
    if (s->q_rows == PTXPACK_ROWS_PACKED)
        d->rows_q = d->batch * d->seqlen_q + 5;
    if (s->kv_rows == PTXPACK_ROWS_PACKED)
        d->rows_kv = d->batch * d->seqlen_kv + 7;
    if ((s->options & PTXPACK_ROW_MAP) != 0)
        d->rows_kv = d->batch + 3;
    if (s->kv_rows == PTXPACK_ROWS_PAGED) {
        int32_t pages = (d->seqlen_kv + d->page_rows - 1) / d->page_rows;
        d->table_width = pages + 1;
        d->rows_kv = d->batch * pages + 3;
    }
}

static void set_strides(ptxpack_attention_desc *d, const lengths_storage *s)
{
    int64_t batches, rows;
    attention_extents(d, TENSOR_K, &batches, &rows);
    const bool    one = s->one_tensor && attention_value_dim(d) == d->head_dim;
    const int64_t gap = 16, kv_gap = attention_has_blocks(d) ? d->head_dim : gap;
    d->k = strides_of(rows, d->heads_kv, d->head_dim, s->heads_first, one ? 2 : 1, kv_gap);
    d->v = strides_of(rows, d->heads_kv, attention_value_dim(d), s->heads_first, one ? 2 : 1, kv_gap);
    if (!one)
        d->v.batch += d->v.row; /* a row more than K has from one sequence, or page, to the next */
    if ((d->options & PTXPACK_VALUES_IN_KEYS) != 0)
        d->v = d->k;
    attention_extents(d, TENSOR_Q, &batches, &rows);
    const bool first = s->heads_first && s->q_rows == PTXPACK_ROWS_DENSE;
    d->q = strides_of(rows, d->heads_q, d->head_dim, first, 1, gap);
    d->o = strides_of(rows, d->heads_q, attention_value_dim(d), first, 1, gap);
}

bool lengths_image_open(lengths_image *image, const ptxpack_attention_desc *desc,
                        const lengths_storage *storage)
{
    *image = (lengths_image){.desc = *desc, .one_tensor = storage->one_tensor, .line = "no memory"};
    set_rows(&image->desc, storage);
    set_strides(&image->desc, storage);
    if (ptxpack_attention_resolve(&image->desc, &image->geometry, image->line) != PTXPACK_OK)
        return false;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        image->bytes[t] = image->geometry.tensor[t].bytes + 2 * CHECK_GUARD;
        image->host[t] = (uint8_t *)malloc(image->bytes[t]);
        if (image->host[t] == NULL)
            return false;
    }
    for (int t = TENSOR_K; t <= TENSOR_V && image->geometry.descale_bytes != 0; t++) {
        image->descale[t] = (float *)malloc(image->geometry.descale_bytes);
        if (image->descale[t] == NULL)
            return false;
    }
    image->lse_bytes = image->geometry.lse_bytes + 2 * CHECK_GUARD;
    image->lse = (float *)malloc(image->lse_bytes);
    for (int id = 0; id < ARRAY_COUNT; id++)
        if (image->geometry.array_bytes[id] != 0) {
            image->arrays[id] = (int32_t *)malloc(image->geometry.array_bytes[id]);
            if (image->arrays[id] == NULL)
                return false;
        }
    return image->lse != NULL;
}

void lengths_image_close(lengths_image *image)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        free(image->host[t]);
    for (int id = 0; id < ARRAY_COUNT; id++)
        free(image->arrays[id]);
    for (int t = TENSOR_Q; t < TENSOR_O; t++)
        free(image->descale[t]);
    free(image->lse);
}

const void *lengths_image_tensor(const lengths_image *image, int tensor)
{
    if (tensor == TENSOR_V && image->geometry.values_in_keys)
        tensor = TENSOR_K;
    return (image->fresh.kind != NULL ? image->fresh.want[tensor] : image->host[tensor]) + CHECK_GUARD;
}

ptxpack_attention_lengths lengths_image_arrays(const lengths_image *i)
{
    return (ptxpack_attention_lengths){i->arrays[ARRAY_STARTS_Q],
                                       i->arrays[ARRAY_STARTS_KV],
                                       i->arrays[ARRAY_LENGTHS_Q],
                                       i->arrays[ARRAY_LENGTHS_KV],
                                       i->arrays[ARRAY_ROW_MAP],
                                       i->arrays[ARRAY_LEFT_PAD],
                                       i->arrays[ARRAY_PAGE_TABLE],
                                       (const float *)i->arrays[ARRAY_SINKS],
                                       (const float *)i->arrays[ARRAY_SLOPES],
                                       i->hook != NULL ? &i->hook->functions : NULL,
                                       i->arrays[ARRAY_BIAS],
                                       (const uint32_t *)i->arrays[ARRAY_BITS],
                                       i->arrays[ARRAY_BLOCK_COUNT],
                                       i->arrays[ARRAY_FULL_COUNT],
                                       i->arrays[ARRAY_BLOCK_LIST],
                                       i->arrays[ARRAY_FULL_LIST]};
}

/* ---- random lengths and pages ------------------------------------------------------------------------- */
/* Often 0, 1, or the longest. */
static int32_t draw_length(random_state *random, int32_t most)
{
    switch (random_below(random, 8)) {
    case 0:
        return 0;
    case 1:
        return most;
    case 2:
        return 1;
    case 3:
        return (int32_t)random_below(random, (uint64_t)(most < 20 ? most : 20) + 1);
    default:
        return (int32_t)random_below(random, (uint64_t)most + 1);
    }
}

/* Starts and lengths; with both, there are gaps between the sequences, whose starts then say less. */
static void draw_rows(lengths_image *image, random_state *random, int starts, int lengths, int32_t most,
                      int32_t in_memory)
{
    int32_t *start = image->arrays[starts], *length = image->arrays[lengths], at = 0;
    for (int32_t i = 0; i < image->desc.batch; i++) {
        int32_t rows = draw_length(random, most);
        if (length != NULL)
            length[i] = rows;
        if (start != NULL)
            start[i] = at;
        at += rows;
        if (length != NULL && start != NULL && at + most * (image->desc.batch - i - 1) + 2 <= in_memory)
            at += (int32_t)random_below(random, 3);
    }
    if (start != NULL)
        start[image->desc.batch] = at;
}

/* A random order of 0 .. count - 1. */
static void shuffle(random_state *random, int32_t *out, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t other = (int32_t)random_below(random, (uint64_t)i + 1);
        out[i] = out[other];
        out[other] = i;
    }
}

/* Only pages with a key are in the table. */
static void draw_pages(lengths_image *image, random_state *random)
{
    const ptxpack_attention_desc *d = &image->desc;
    int32_t                      *table = image->arrays[ARRAY_PAGE_TABLE], *order, next = 0;
    if (table == NULL || (order = (int32_t *)calloc((size_t)d->rows_kv, sizeof *order)) == NULL)
        return;
    shuffle(random, order, d->rows_kv);
    for (int32_t i = 0; i < d->batch; i++) {
        int32_t keys = image->arrays[ARRAY_LENGTHS_KV] != NULL ? image->arrays[ARRAY_LENGTHS_KV][i]
                                                               : d->seqlen_kv;
        int32_t pad = image->arrays[ARRAY_LEFT_PAD] != NULL ? image->arrays[ARRAY_LEFT_PAD][i] : 0;
        for (int32_t page = 0; page < d->table_width; page++) {
            bool used = pad < keys && (page + 1) * d->page_rows > pad && page * d->page_rows < keys;
            table[i * d->table_width + page] = used ? order[next++] : NO_PAGE;
        }
    }
    free(order);
}

static void draw_arrays(lengths_image *image, random_state *random)
{
    const ptxpack_attention_desc *d = &image->desc;
    int32_t                     **arrays = image->arrays;
    draw_rows(image, random, ARRAY_STARTS_Q, ARRAY_LENGTHS_Q, d->seqlen_q, d->rows_q);
    draw_rows(image, random, ARRAY_STARTS_KV, ARRAY_LENGTHS_KV, d->seqlen_kv, d->rows_kv);
    for (int32_t i = 0; i < d->batch && arrays[ARRAY_LEFT_PAD] != NULL; i++)
        arrays[ARRAY_LEFT_PAD][i] = draw_length(random, arrays[ARRAY_LENGTHS_KV][i]);
    draw_pages(image, random);
    if (arrays[ARRAY_SINKS] != NULL)
        check_fill_sinks((float *)arrays[ARRAY_SINKS], d->heads_q, (int32_t)random_below(random, 8));
    if (arrays[ARRAY_SLOPES] != NULL)
        check_fill_slopes((float *)arrays[ARRAY_SLOPES], d->heads_q, (int32_t)random_below(random, 8));
    for (int32_t i = 0; i < d->batch && arrays[ARRAY_BIAS] != NULL; i++) {
        const attention_sequence s = lengths_image_sequence(image, i);
        check_fill_bias(d, arrays[ARRAY_BIAS], image->geometry.array_bytes[ARRAY_BIAS], i, s.queries, s.keys);
    }
    if (arrays[ARRAY_BITS] != NULL)
        check_fill_bits(d, (uint32_t *)arrays[ARRAY_BITS], image->geometry.array_bytes[ARRAY_BITS]);
    if (arrays[ARRAY_ROW_MAP] != NULL) {
        int32_t *order = (int32_t *)calloc((size_t)d->rows_kv, sizeof *order);
        if (order != NULL) {
            shuffle(random, order, d->rows_kv);
            memcpy(arrays[ARRAY_ROW_MAP], order, image->geometry.array_bytes[ARRAY_ROW_MAP]);
        }
        free(order);
    }
    lengths_lists_fill(image, random);
}

/* ---- rows --------------------------------------------------------------------------------------------- */
attention_sequence lengths_image_sequence(const lengths_image *image, int32_t i)
{
    ptxpack_attention_lengths lengths = lengths_image_arrays(image);
    attention_sequence        s = {0, 0, 0, 0, 0, 0};
    char                      line[PLAN_LINE];
    attention_read_sequence(&image->desc, &image->geometry, &lengths, i, &s, line);
    return s;
}

size_t lengths_image_element(const lengths_image *image, int tensor, int32_t i, int64_t row, int64_t head)
{
    const ptxpack_attention_desc *d = &image->desc;
    const attention_tensor       *t = &image->geometry.tensor[tensor];
    attention_sequence            s = lengths_image_sequence(image, i);
    bool                          keys = tensor == TENSOR_K || tensor == TENSOR_V;
    int64_t                       batch = keys ? s.cache : i;
    row += keys ? s.kv_row : s.q_row;
    if (keys && d->kv_rows == PTXPACK_ROWS_PAGED) {
        batch = image->arrays[ARRAY_PAGE_TABLE][i * d->table_width + row / d->page_rows];
        row %= d->page_rows;
    }
    return (size_t)(batch * t->batch + row * t->row + head * t->head);
}

/* Scores rise by 2^46 each 128 keys towards the first one, and V is large: O of a reference at the last keys overflows f32. */
static void make_steep(const ptxpack_attention_desc *d, int tensor, int64_t row, void *elements)
{
    const float q = 8, nats = 0.25f * (float)(d->seqlen_kv - row);
    if (tensor == TENSOR_Q)
        ptxpack_set_element(d->dtype, elements, 0, q);
    if (tensor == TENSOR_K)
        ptxpack_set_element(d->dtype, elements, 0, nats * sqrtf((float)d->head_dim) / q);
    for (size_t c = 0; c < (size_t)attention_value_dim(d) && tensor == TENSOR_V; c++)
        ptxpack_set_element(d->dtype, elements, c, 1e30f * ptxpack_element(d->dtype, elements, c));
}

/* Scores of these blocks of K are eight times as large: larger than those before by more than references bear. */
static void raise_scales(void *elements, size_t columns)
{
    enum { BLOCK = 32 /* elements with one scale, which comes first */ };
    for (size_t c = 0; c < columns; c += BLOCK) {
        uint8_t *scale = (uint8_t *)elements + ptxpack_dtype_span(PTXPACK_Q8_0, c);
        ptxpack_set_element(PTXPACK_F16, scale, 0, 8 * ptxpack_element(PTXPACK_F16, scale, 0));
    }
}

enum { BEYOND_F16 = 40 /* powers of two */ };

/* Descales that make of codes normal numbers, times 1/2 to 2. */
static void draw_descales(lengths_image *image, random_state *random, bool steep)
{
    const size_t count = image->geometry.descale_bytes / sizeof(float);
    for (int t = TENSOR_K; t <= TENSOR_V && image->descale[t] != NULL; t++) {
        random_scales(random, image->descale[t], count);
        for (size_t i = 0; i < count; i++)
            image->descale[t][i] = ldexpf(image->descale[t][i],
                                          (image->desc.kv_dtype == PTXPACK_INT8 ? -5 : 0) -
                                              (steep && t == TENSOR_K ? BEYOND_F16 : 0));
    }
}

static void fill_rows(lengths_image *image, random_state *random, int tensor, int32_t i, bool steep)
{
    const ptxpack_attention_desc *d = &image->desc;
    const ptxpack_dtype           type = attention_tensor_type(d, tensor);
    attention_sequence            s = lengths_image_sequence(image, i);
    bool                          keys = tensor != TENSOR_Q, bytes = attention_has_bytes(d);
    for (int64_t row = keys ? s.first : 0; row < (keys ? s.keys : s.queries); row++)
        for (int64_t head = 0; head < (keys ? d->heads_kv : d->heads_q); head++) {
            void *elements = image->host[tensor] + CHECK_GUARD +
                             ptxpack_dtype_span(type, lengths_image_element(image, tensor, i, row, head));
            random_normal(random, type, elements, (size_t)attention_columns(d, tensor));
            if (type == PTXPACK_Q8_0 && tensor == TENSOR_K && i % 2 != 0 && row > s.keys / 2)
                raise_scales(elements, (size_t)d->head_dim);
            const int beyond = tensor != TENSOR_Q ? 0 : steep && bytes ? BEYOND_F16 : image->beyond_f16;
            for (size_t c = 0; c < (size_t)d->head_dim && beyond != 0; c++)
                ptxpack_set_element(type, elements, c,
                                    ldexpf(ptxpack_element(type, elements, c),
                                           beyond - 1 + (int)((row + head) % 3)));
            if (steep && !bytes)
                make_steep(d, tensor, row, elements);
        }
}

void lengths_image_fill(lengths_image *image, random_state *random, bool steep)
{
    for (int t = 0; t < TENSOR_COUNT; t++)
        memset(image->host[t], POISON, image->bytes[t]);
    memset(image->lse, POISON, image->lse_bytes);
    draw_arrays(image, random);
    draw_descales(image, random, steep);
    for (int32_t i = 0; i < image->desc.batch; i++)
        for (int t = TENSOR_Q; t <= (image->geometry.values_in_keys ? TENSOR_K : TENSOR_V); t++)
            fill_rows(image, random, t, i, steep);
}

/* ---- outputs ------------------------------------------------------------------------------------------ */
static uint8_t *o_row(const lengths_image *image, const attention_row *row)
{
    return image->host[TENSOR_O] + CHECK_GUARD +
           lengths_image_element(image, TENSOR_O, row->batch, row->row, row->head) *
               ptxpack_dtype_bytes(image->desc.dtype);
}

static float *lse_of(const lengths_image *image, const attention_row *row)
{
    const ptxpack_attention_desc *d = &image->desc;
    float                        *lse = image->lse + CHECK_GUARD / sizeof *image->lse;
    if (d->q_rows == PTXPACK_ROWS_PACKED)
        return lse + (int64_t)row->head * d->rows_q + lengths_image_sequence(image, row->batch).q_row +
               row->row;
    return lse + ((int64_t)row->batch * d->heads_q + row->head) * d->seqlen_q + row->row;
}

const void *lengths_image_o_row(const lengths_image *image, const attention_row *row)
{
    return o_row(image, row);
}
const float *lengths_image_lse(const lengths_image *image, const attention_row *row)
{
    return lse_of(image, row);
}

static bool all_poison(const void *memory, size_t bytes, size_t *at)
{
    for (*at = 0; *at < bytes; ++*at)
        if (((const uint8_t *)memory)[*at] != POISON)
            return false;
    return true;
}

bool lengths_image_untouched(lengths_image *image, char *what, size_t cap)
{
    const ptxpack_attention_desc *d = &image->desc;
    size_t                        at;
    for (int32_t i = 0; i < d->batch; i++)
        for (int32_t head = 0; head < d->heads_q; head++)
            for (int32_t row = 0; row < lengths_image_sequence(image, i).queries; row++) {
                attention_row r = {i, head, row};
                memset(o_row(image, &r), POISON,
                       (size_t)attention_value_dim(d) * ptxpack_dtype_bytes(d->dtype));
                memset(lse_of(image, &r), POISON, sizeof(float));
            }
    bool o = all_poison(image->host[TENSOR_O], image->bytes[TENSOR_O], &at);
    if (o && all_poison(image->lse, image->lse_bytes, &at))
        return true;
    snprintf(what, cap, "byte %zd of %s was written; it is not of a row of a sequence",
             (ssize_t)at - CHECK_GUARD, o ? "lse" : "o");
    return false;
}
