/* reference.c - the append on the CPU, in double precision, alone and before an attention; and where each new row goes, from
 * arrays in host memory. */
#include <stdlib.h>

#include "attached.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

/* ---- sequences ---------------------------------------------------------------------------------------- */
ptxpack_status append_read(const ptxpack_attention_append_desc *d, const append_geometry *g,
                           const ptxpack_attention_append_inputs *in, int32_t i, int64_t *first, int64_t *count,
                           char line[PLAN_LINE])
{
    const int32_t *const arrays[APPEND_ARRAYS] = {in->lengths_kv, in->lengths_new, in->starts_new,
                                                  in->row_map,    in->left_pad,    in->page_table};
    bool                 packed = d->new_rows == PTXPACK_ROWS_PACKED;
    for (int id = 0; id < APPEND_ARRAYS; id++)
        if (g->array_bytes[id] != 0 && arrays[id] == NULL)
            return refuse(line, "%s is NULL", append_array_names[id]);
    int64_t most = packed ? (int64_t)in->starts_new[i + 1] - in->starts_new[i] : d->seqlen_new;
    *first = packed ? in->starts_new[i] : 0;
    *count = (d->options & PTXPACK_LENGTHS_NEW) != 0 ? in->lengths_new[i] : most;
    if (*count < 0 || *count > most || *count > d->seqlen_new)
        return refuse(line, "sequence %d has %lld new rows, not 0 to %lld", (int)i, (long long)*count,
                      (long long)(most < d->seqlen_new ? most : d->seqlen_new));
    if (packed && (*first < 0 || *first + *count > d->rows_new))
        return refuse(line, "sequence %d: rows %lld to %lld of starts_new are not in the %d rows in memory",
                      (int)i, (long long)*first, (long long)(*first + *count), (int)d->rows_new);
    return PTXPACK_OK;
}

static int64_t clamp(int64_t position, int64_t last)
{
    return position < 0 ? 0 : position < last ? position : last;
}

append_place append_place_of(const ptxpack_attention_append_desc *d, const ptxpack_attention_append_inputs *in,
                             int32_t i, int64_t count, int64_t row)
{
    const int64_t start = (int64_t)in->lengths_kv[i] - count, to = start + row;
    const int64_t pad = (d->options & PTXPACK_LEFT_PAD) != 0 ? in->left_pad[i] : 0;
    const int64_t q_row = (d->options & PTXPACK_ROPE_Q_AT_START) != 0 ? 0 : row;
    append_place  p = {.dropped = to < 0 || to >= d->seqlen_kv,
                       .batch = i,
                       .row = to,
                       .position = clamp(to - pad, d->positions - 1),
                       .q_position = clamp(start + q_row - pad, d->positions - 1)};
    if (!p.dropped && d->kv_rows == PTXPACK_ROWS_PAGED) {
        p.batch = in->page_table[(int64_t)i * d->table_width + to / d->page_rows];
        p.row = to % d->page_rows;
    }
    if ((d->options & PTXPACK_ROW_MAP) != 0)
        p.batch = in->row_map[i];
    p.dropped = p.dropped || p.batch < 0 || p.batch >= (d->rows_kv != 0 ? d->rows_kv : d->batch);
    return p;
}

/* ---- rows --------------------------------------------------------------------------------------------- */
/* The index of the first element of a head, of elements of `type`. */
static int64_t index_of(const memory_tensor *t, int64_t batch, int64_t row, int64_t head, ptxpack_dtype type)
{
    const int64_t block = type == PTXPACK_Q8_0 ? PTXPACK_Q8_0_ELEMENTS : 1;
    return (batch * t->stride[MEMORY_BATCH] + row * t->stride[MEMORY_ROW] + head * t->stride[MEMORY_HEAD]) /
           (int64_t)ptxpack_dtype_span(type, (size_t)block) * block;
}

/* Element `e` of a head that begins at `at`, rotated by the position's row of cos and sin. */
static double rotated(const ptxpack_attention_append_desc *d, const ptxpack_attention_append_inputs *in,
                      const void *from, int64_t at, int32_t e, int64_t position)
{
    const int32_t half = d->rotary_dim / 2;
    bool          pairs = (d->options & PTXPACK_ROPE_PAIRS) != 0;
    if (e >= d->rotary_dim)
        return ptxpack_element(d->dtype, from, (size_t)(at + e));
    int32_t j = pairs ? e / 2 : e % half;
    bool    second = pairs ? e % 2 != 0 : e >= half;
    double  x = ptxpack_element(d->dtype, from, (size_t)(at + (pairs ? 2 * j : j)));
    double  y = ptxpack_element(d->dtype, from, (size_t)(at + (pairs ? 2 * j + 1 : j + half)));
    double  c = ptxpack_element(d->dtype, in->cos, (size_t)(position * half + j));
    double  s = ptxpack_element(d->dtype, in->sin, (size_t)(position * half + j));
    return second ? y * c + x * s : x * c - y * s;
}

/* Where rows are written: as doubles, or rounded to elements of the type, or nowhere. */
typedef struct append_target {
    double       *exact;
    void         *elements;
    ptxpack_dtype type;    /* of the elements; 0: as the new rows */
    const float  *descale; /* of this sequence, where they are bytes; NULL: ones */
    int64_t       apart;   /* those of heads */
} append_target;

static void set_element(const ptxpack_attention_append_desc *d, const append_target *to, int64_t at,
                        int32_t head, double value)
{
    const bool          bytes = to->type != 0 && to->type != d->dtype;
    const ptxpack_dtype type = bytes ? to->type : d->dtype;
    float               rounded = (float)value;
    if (bytes) {
        rounded = ptxpack_to_float(d->dtype, ptxpack_from_float(d->dtype, rounded));
        rounded /= to->descale != NULL ? to->descale[head * to->apart] : 1;
    }
    if (to->exact != NULL)
        to->exact[at] = bytes ? (double)ptxpack_to_float(type, ptxpack_from_float(type, rounded)) : value;
    if (to->elements != NULL)
        ptxpack_set_element(type, to->elements, (size_t)at, rounded);
}

/* A head of K or V that becomes blocks. */
static void set_blocks(const ptxpack_attention_append_desc *d, const append_target *to, int64_t at,
                       const double *head)
{
    float   rounded[APPEND_MOST_DIM];
    uint8_t blocks[APPEND_MOST_DIM / PTXPACK_Q8_0_ELEMENTS * PTXPACK_Q8_0_BYTES];
    for (int32_t e = 0; e < d->head_dim; e++)
        rounded[e] = ptxpack_to_float(d->dtype, ptxpack_from_float(d->dtype, (float)head[e]));
    ptxpack_set_elements(PTXPACK_Q8_0, to->elements, (size_t)at, rounded, (size_t)d->head_dim);
    ptxpack_set_elements(PTXPACK_Q8_0, blocks, 0, rounded, (size_t)d->head_dim);
    for (int32_t e = 0; e < d->head_dim && to->exact != NULL; e++)
        to->exact[at + e] = (double)ptxpack_element(PTXPACK_Q8_0, blocks, (size_t)e);
}

/* One row of all heads of K or Q, or with `position` below 0 of V; q may be in place. */
static void copy_row(const ptxpack_attention_append_desc *d, const ptxpack_attention_append_inputs *in,
                     int32_t heads, const void *from, const memory_tensor *ft, int64_t from_batch,
                     int64_t from_row, const append_target *to, const memory_tensor *tt, int64_t to_batch,
                     int64_t to_row, int64_t position)
{
    double head[APPEND_MOST_DIM];
    for (int32_t h = 0; h < heads; h++) {
        const int64_t at = index_of(ft, from_batch, from_row, h, d->dtype);
        const int64_t place = index_of(tt, to_batch, to_row, h, to->type != 0 ? to->type : d->dtype);
        for (int32_t e = 0; e < d->head_dim; e++)
            head[e] = position < 0 ? ptxpack_element(d->dtype, from, (size_t)(at + e))
                                   : rotated(d, in, from, at, e, position);
        if (to->type == PTXPACK_Q8_0)
            set_blocks(d, to, place, head);
        for (int32_t e = 0; e < d->head_dim && to->type != PTXPACK_Q8_0; e++)
            set_element(d, to, place + e, h, head[e]);
    }
}

static ptxpack_status check_inputs(const ptxpack_attention_append_desc   *d,
                                   const ptxpack_attention_append_inputs *in)
{
    if (in == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "inputs is NULL");
    const struct {
        const char *name;
        const void *array;
        bool        wanted;
    } all[] = {{"k_new", in->k_new, true},
               {"v_new", in->v_new, true},
               {"q", in->q, d->heads_q != 0},
               {"cos", in->cos, d->rotary_dim != 0},
               {"sin", in->sin, d->rotary_dim != 0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].wanted && all[i].array == NULL)
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is NULL", all[i].name);
    return PTXPACK_OK;
}

static ptxpack_status append(const ptxpack_attention_append_desc *d, const ptxpack_attention_append_inputs *in,
                             append_target *k, append_target *v, const append_target *q_out)
{
    char                 line[PLAN_LINE];
    append_geometry      g;
    const memory_tensor *t = g.tensor;
    ptxpack_status       status = append_resolve(d, &g, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    status = check_inputs(d, in);
    for (int32_t i = 0; i < d->batch && status == PTXPACK_OK; i++) {
        int64_t first, count;
        bool    packed = d->new_rows == PTXPACK_ROWS_PACKED;
        status = append_read(d, &g, in, i, &first, &count, line);
        if (status != PTXPACK_OK)
            return ptxpack_fail(NULL, status, "%s", line);
        for (int64_t row = 0; row < count; row++) {
            append_place p = append_place_of(d, in, i, count, row);
            k->type = v->type = append_kv_type(d);
            k->descale = in->k_descale != NULL ? in->k_descale + i * append_descale_batch(d) : NULL;
            v->descale = in->v_descale != NULL ? in->v_descale + i * append_descale_batch(d) : NULL;
            k->apart = v->apart = append_descale_head(d);
            int64_t batch = packed ? 0 : i, from = first + row;
            if (!p.dropped) {
                copy_row(d, in, d->heads_kv, in->k_new, &t[APPEND_K_NEW], batch, from, k, &t[APPEND_K], p.batch,
                         p.row, d->rotary_dim != 0 ? p.position : -1);
                copy_row(d, in, d->heads_kv, in->v_new, &t[APPEND_V_NEW], batch, from, v, &t[APPEND_V], p.batch,
                         p.row, -1);
            }
            copy_row(d, in, d->heads_q, in->q, &t[APPEND_Q], batch, from, q_out, &t[APPEND_Q_OUT], batch, from,
                     p.q_position);
        }
    }
    return status;
}

/* ---- the public references ---------------------------------------------------------------------------- */
ptxpack_status ptxpack_attention_append_reference(const ptxpack_attention_append_desc   *desc,
                                                  const ptxpack_attention_append_inputs *inputs, double *k,
                                                  double *v, double *q_out)
{
    append_target                 to[] = {{.exact = k}, {.exact = v}, {.exact = q_out}};
    ptxpack_attention_append_desc whole;
    char                          line[PLAN_LINE];
    ptxpack_status                status = plan_whole(&append_desc_struct, desc, &whole, line);
    return status == PTXPACK_OK ? append(&whole, inputs, &to[0], &to[1], &to[2])
                                : ptxpack_fail(NULL, status, "%s", line);
}

/* The arrays that `in` leaves out are those of the attention. */
static void take_lengths(ptxpack_attention_append_inputs *in, const ptxpack_attention_lengths *l)
{
    const int32_t **const own[] = {&in->lengths_kv, &in->lengths_new, &in->starts_new,
                                   &in->row_map,    &in->left_pad,    &in->page_table};
    const int32_t *const  other[] = {l->lengths_kv, l->lengths_q, l->starts_q,
                                     l->row_map,    l->left_pad,  l->page_table};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (*own[i] == NULL)
            *own[i] = other[i];
}

ptxpack_status ptxpack_attention_reference_append(const ptxpack_attention_desc          *desc,
                                                  const ptxpack_attention_append_inputs *inputs, void *q,
                                                  void *k, void *v, const ptxpack_attention_lengths *lengths,
                                                  double *o, double *lse)
{
    ptxpack_attention_desc          whole;
    ptxpack_attention_append_desc   d;
    ptxpack_attention_append_inputs in;
    char                            line[PLAN_LINE];
    append_target                   to[] = {{.elements = k}, {.elements = v}, {.elements = q}};
    ptxpack_status                  status = attention_whole_desc(desc, &whole, line);
    if (status == PTXPACK_OK && (inputs == NULL || lengths == NULL))
        status = refuse(line, "%s is NULL", inputs == NULL ? "inputs" : "lengths");
    if (status == PTXPACK_OK && (q == NULL || k == NULL || v == NULL))
        status = refuse(line, "%s is NULL", q == NULL ? "q" : k == NULL ? "k" : "v");
    if (status == PTXPACK_OK && whole.append == NULL)
        status = refuse(line, "desc.append is NULL");
    if (status == PTXPACK_OK)
        status = attached_describe(&whole, &d, line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    in = *inputs;
    in.q = in.q != NULL ? in.q : q;
    take_lengths(&in, lengths);
    const ptxpack_descales descales = {NULL, in.k_descale, in.v_descale};
    status = append(&d, &in, &to[0], &to[1], &to[2]);
    return status == PTXPACK_OK && (o != NULL || lse != NULL)
               ? ptxpack_attention_reference_lengths(&whole, q, k, v, &descales, lengths, o, lse)
               : status;
}
