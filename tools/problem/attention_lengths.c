/* attention_lengths.c - sequences with lengths of their own: descriptor, arrays and rows of such a problem, from
 * options. */
#include "attention_lengths.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

/* Prints one line on stderr; the result is false. */
#define REFUSE(...) (command_fail(subcommand, __VA_ARGS__), false)

enum { POISON = 0xff /* a NaN in all types */, NO_PAGE = 0x7ffffff0 /* in the table, where no key is */ };
enum { SPARE = 3 /* pages, or sequences of a random map, that nothing uses */, PAGE_ROWS = 16 };

static const char *const kinds[] = {"dense", "packed", "paged"}; /* ptxpack_rows */

/* The lists by their options. */
static const struct list_option {
    int         array;
    const char *name;
} list_options[] = {{ARRAY_LENGTHS_KV, "lengths"},
                    {ARRAY_LENGTHS_Q, "lengths-q"},
                    {ARRAY_LEFT_PAD, "left-pad"},
                    {ARRAY_ROW_MAP, "row-map"}};
enum { LISTS = sizeof list_options / sizeof list_options[0] };

/* ---- lists -------------------------------------------------------------------------------------------- */
static bool read_values(const char *text, attention_list *list)
{
    size_t most = strlen(text) / 2 + 1;
    char  *end;
    list->values = (int32_t *)calloc(most, sizeof *list->values);
    for (const char *at = text; list->values != NULL; at = end + 1) {
        if (!isdigit((unsigned char)*at)) /* strtoll would take a blank or a sign */
            return false;
        long long value = strtoll(at, &end, 10);
        if (value > INT32_MAX || (*end != ',' && *end != '\0'))
            return false;
        list->values[list->count++] = (int32_t)value;
        if (*end == '\0')
            return true;
    }
    return false;
}

bool attention_lengths_parse(const char *subcommand, const attention_lengths_words *words, attention_arrays *a)
{
    const char *texts[LISTS] = {words->lengths, words->lengths_q, words->left_pad, words->row_map};
    for (int i = 0; i < LISTS; i++) {
        attention_list *list = &a->list[list_options[i].array];
        if (texts[i] == NULL)
            continue;
        list->given = true;
        list->random = strcmp(texts[i], "random") == 0;
        if (!list->random && !read_values(texts[i], list))
            return REFUSE("--%s: \"%s\" is neither random nor whole numbers up to %d, such as 3,700,0",
                          list_options[i].name, texts[i], INT32_MAX);
    }
    return true;
}

int64_t attention_lengths_batch(const attention_arrays *a)
{
    for (int i = 0; i < LISTS; i++)
        if (a->list[list_options[i].array].count > 0)
            return (int64_t)a->list[list_options[i].array].count;
    return 0;
}

int64_t attention_lengths_longest(const attention_arrays *a, int array)
{
    const attention_list *list = &a->list[array];
    int64_t               most = list->count > 0; /* of empty sequences a plan is for one row */
    for (size_t i = 0; i < list->count; i++)
        most = list->values[i] > most ? list->values[i] : most;
    return most;
}

/* ---- the descriptor ----------------------------------------------------------------------------------- */
static bool check_lists(const char *subcommand, const attention_arrays *a, const ptxpack_attention_desc *d)
{
    for (int i = 0; i < LISTS; i++) {
        const char           *name = list_options[i].name;
        int                   array = list_options[i].array;
        const attention_list *list = &a->list[array];
        int32_t               most = array == ARRAY_LENGTHS_Q ? d->seqlen_q : d->seqlen_kv;
        if (list->count > 0 && list->count != (size_t)d->batch)
            return REFUSE("--%s: %zu numbers for a batch of %d", name, list->count, (int)d->batch);
        for (size_t n = 0; n < list->count && array != ARRAY_ROW_MAP; n++)
            if (list->values[n] > most)
                return REFUSE("--%s: %d of sequence %zu is more than --%s %d", name, (int)list->values[n], n,
                              array == ARRAY_LENGTHS_Q ? "seqlen-q" : "seqlen-kv", (int)most);
    }
    return true;
}

static bool parse_rows(const char *subcommand, const attention_lengths_words *words, ptxpack_attention_desc *d)
{
    const char *q = words->rows_q != NULL ? words->rows_q : "dense", *kv = words->rows_kv;
    bool        page = words->page != OPTION_NOT_GIVEN;
    kv = kv != NULL ? kv : page ? "paged" : "dense";
    d->q_rows = strcmp(q, "packed") == 0 ? PTXPACK_ROWS_PACKED : PTXPACK_ROWS_DENSE;
    d->kv_rows = strcmp(kv, "packed") == 0  ? PTXPACK_ROWS_PACKED
                 : strcmp(kv, "paged") == 0 ? PTXPACK_ROWS_PAGED
                                            : PTXPACK_ROWS_DENSE;
    if (d->q_rows == PTXPACK_ROWS_DENSE && strcmp(q, "dense") != 0)
        return REFUSE("--rows-q: \"%s\" is neither dense nor packed", q);
    if (d->kv_rows == PTXPACK_ROWS_DENSE && strcmp(kv, "dense") != 0)
        return REFUSE("--rows-kv: \"%s\" is not dense, packed or paged", kv);
    if (page && d->kv_rows != PTXPACK_ROWS_PAGED)
        return REFUSE("--page: k and v are not paged, but --rows-kv %s", kv);
    if (page && (words->page < 1 || words->page > INT32_MAX))
        return REFUSE("--page: %lld is not between 1 and %d", (long long)words->page, INT32_MAX);
    d->page_rows = d->kv_rows != PTXPACK_ROWS_PAGED ? 0 : page ? (int32_t)words->page : PAGE_ROWS;
    return true;
}

/* The rows, or the pages of `page` rows, of all sequences. */
static int64_t sum_of(const attention_list *list, int64_t batch, int64_t most, int64_t page)
{
    int64_t sum = 0;
    if (list->count == 0)
        return batch * ((most + page - 1) / page);
    for (size_t i = 0; i < list->count; i++)
        sum += (list->values[i] + page - 1) / page;
    return sum;
}

static int64_t rows_of_kv(const attention_arrays *a, const ptxpack_attention_desc *d)
{
    const attention_list *lengths = &a->list[ARRAY_LENGTHS_KV], *map = &a->list[ARRAY_ROW_MAP];
    if (d->kv_rows == PTXPACK_ROWS_PACKED)
        return sum_of(lengths, d->batch, d->seqlen_kv, 1);
    if (d->kv_rows == PTXPACK_ROWS_PAGED)
        return sum_of(lengths, d->batch, d->seqlen_kv, d->page_rows) + SPARE;
    int64_t sequences = 0;
    for (size_t i = 0; i < map->count; i++)
        sequences = map->values[i] >= sequences ? map->values[i] + (int64_t)1 : sequences;
    return map->random ? d->batch + (int64_t)SPARE : sequences;
}

bool attention_lengths_describe(const char *subcommand, const attention_lengths_words *words,
                                const attention_arrays *a, ptxpack_attention_desc *d)
{
    if (!parse_rows(subcommand, words, d) || !check_lists(subcommand, a, d))
        return false;
    if (words->row_map != NULL && d->kv_rows != PTXPACK_ROWS_DENSE)
        return REFUSE("--row-map: k and v are %s; a map is for dense ones", kinds[d->kv_rows]);
    if (words->left_pad != NULL && d->kv_rows == PTXPACK_ROWS_PACKED)
        return REFUSE("--left-pad: k and v are packed, without padding");
    bool    packed_q = d->q_rows == PTXPACK_ROWS_PACKED, packed_kv = d->kv_rows == PTXPACK_ROWS_PACKED;
    int64_t rows_q = packed_q ? sum_of(&a->list[ARRAY_LENGTHS_Q], d->batch, d->seqlen_q, 1) : 0;
    int64_t rows_kv = rows_of_kv(a, d);
    if (rows_q > INT32_MAX || rows_kv > INT32_MAX)
        return REFUSE("the rows or pages of %s are more than %d", rows_q > INT32_MAX ? "q" : "k and v",
                      INT32_MAX);
    d->rows_q = packed_q && rows_q == 0 ? 1 : (int32_t)rows_q;
    d->rows_kv = packed_kv && rows_kv == 0 ? 1 : (int32_t)rows_kv;
    if (d->kv_rows == PTXPACK_ROWS_PAGED)
        d->table_width = (int32_t)(((int64_t)d->seqlen_kv + d->page_rows - 1) / d->page_rows);
    d->options |= (a->list[ARRAY_LENGTHS_Q].given && !packed_q ? PTXPACK_LENGTHS_Q : 0u) |
                  (a->list[ARRAY_LENGTHS_KV].given && !packed_kv ? PTXPACK_LENGTHS_KV : 0u) |
                  (a->list[ARRAY_LEFT_PAD].given ? PTXPACK_LEFT_PAD : 0u) |
                  (a->list[ARRAY_ROW_MAP].given ? PTXPACK_ROW_MAP : 0u);
    return true;
}

/* ---- the arrays --------------------------------------------------------------------------------------- */
ptxpack_attention_lengths attention_lengths_of(const attention_arrays *a)
{
    return (ptxpack_attention_lengths){a->array[ARRAY_STARTS_Q],
                                       a->array[ARRAY_STARTS_KV],
                                       a->array[ARRAY_LENGTHS_Q],
                                       a->array[ARRAY_LENGTHS_KV],
                                       a->array[ARRAY_ROW_MAP],
                                       a->array[ARRAY_LEFT_PAD],
                                       a->array[ARRAY_PAGE_TABLE],
                                       (const float *)a->array[ARRAY_SINKS],
                                       (const float *)a->array[ARRAY_SLOPES],
                                       NULL,
                                       a->array[ARRAY_BIAS],
                                       (const uint32_t *)a->array[ARRAY_BITS],
                                       a->array[ARRAY_BLOCK_COUNT],
                                       a->array[ARRAY_FULL_COUNT],
                                       a->array[ARRAY_BLOCK_LIST],
                                       a->array[ARRAY_FULL_LIST]};
}

void attention_lengths_free(attention_arrays *a)
{
    for (int id = 0; id < ARRAY_COUNT; id++) {
        free(a->list[id].values);
        free(a->array[id]);
    }
}

/* The number of a list, or a random one up to `most`, or `most`. */
static int32_t number_of(const attention_list *list, int32_t i, int32_t most, random_state *random)
{
    if (!list->given)
        return most;
    return list->random ? (int32_t)random_below(random, (uint64_t)most + 1) : list->values[i];
}

/* Lengths, or the starts of packed rows. */
static void draw_rows(attention_arrays *a, int starts, int lengths, int32_t batch, int32_t most,
                      random_state *random)
{
    int32_t *start = a->array[starts], *length = a->array[lengths];
    for (int32_t i = 0; i < batch && (start != NULL || length != NULL); i++) {
        int32_t rows = number_of(&a->list[lengths], i, most, random);
        if (length != NULL)
            length[i] = rows;
        if (start != NULL)
            start[i + 1] = start[i] + rows;
    }
}

/* A random order of 0 .. count - 1; NULL without memory. */
static int32_t *shuffled(int32_t count, random_state *random)
{
    int32_t *order = (int32_t *)calloc((size_t)count + 1, sizeof *order);
    for (int32_t i = 0; i < count && order != NULL; i++) {
        int32_t other = (int32_t)random_below(random, (uint64_t)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

static bool draw_pages(const ptxpack_attention_desc *d, attention_arrays *a, random_state *random)
{
    int32_t *table = a->array[ARRAY_PAGE_TABLE], *order, next = 0;
    if (table == NULL)
        return true;
    order = shuffled(d->rows_kv, random);
    for (int32_t i = 0; i < d->batch && order != NULL; i++) {
        int64_t keys = a->array[ARRAY_LENGTHS_KV] != NULL ? a->array[ARRAY_LENGTHS_KV][i] : d->seqlen_kv;
        for (int64_t page = 0; page < d->table_width; page++)
            table[(int64_t)i * d->table_width + page] = page * d->page_rows < keys ? order[next++] : NO_PAGE;
    }
    free(order);
    return order != NULL;
}

static bool draw_map(const ptxpack_attention_desc *d, attention_arrays *a, random_state *random)
{
    const attention_list *list = &a->list[ARRAY_ROW_MAP];
    int32_t              *map = a->array[ARRAY_ROW_MAP], *order;
    if (map == NULL)
        return true;
    order = list->random ? shuffled(d->rows_kv, random) : list->values;
    if (order != NULL)
        memcpy(map, order, (size_t)d->batch * sizeof *map);
    if (list->random)
        free(order);
    return order != NULL;
}

bool attention_lengths_draw(const ptxpack_attention_desc *d, const attention_geometry *g, random_state *random,
                            attention_arrays *a)
{
    for (int id = 0; id < ARRAY_COUNT; id++)
        if (g->array_bytes[id] != 0 && (a->array[id] = (int32_t *)calloc(1, g->array_bytes[id])) == NULL)
            return false;
    draw_rows(a, ARRAY_STARTS_Q, ARRAY_LENGTHS_Q, d->batch, d->seqlen_q, random);
    draw_rows(a, ARRAY_STARTS_KV, ARRAY_LENGTHS_KV, d->batch, d->seqlen_kv, random);
    for (int32_t i = 0; i < d->batch && a->array[ARRAY_LEFT_PAD] != NULL; i++) {
        int32_t keys = a->array[ARRAY_LENGTHS_KV] != NULL ? a->array[ARRAY_LENGTHS_KV][i] : d->seqlen_kv;
        a->array[ARRAY_LEFT_PAD][i] = number_of(&a->list[ARRAY_LEFT_PAD], i, keys, random);
    }
    return draw_pages(d, a, random) && draw_map(d, a, random);
}

/* ---- rows --------------------------------------------------------------------------------------------- */
attention_sequence attention_lengths_sequence(const ptxpack_attention_desc *d, const attention_geometry *g,
                                              const ptxpack_attention_lengths *lengths, int32_t i)
{
    attention_sequence s = {0, 0, 0, 0, 0, 0};
    char               line[PLAN_LINE];
    attention_read_sequence(d, g, lengths, i, &s, line);
    return s;
}

void attention_lengths_fill(const ptxpack_attention_desc *d, const attention_geometry *g,
                            const attention_arrays *a, int tensor, random_state *random, void *memory)
{
    const attention_tensor   *t = &g->tensor[tensor];
    ptxpack_attention_lengths lengths = attention_lengths_of(a);
    ptxpack_dtype             type = attention_tensor_type(d, tensor);
    bool                      keys = tensor != TENSOR_Q, paged = keys && d->kv_rows == PTXPACK_ROWS_PAGED;
    memset(memory, POISON, t->bytes);
    for (int32_t i = 0; i < d->batch; i++) {
        attention_sequence s = attention_lengths_sequence(d, g, &lengths, i);
        for (int64_t row = keys ? s.first : 0; row < (keys ? s.keys : s.queries); row++) {
            int64_t batch = keys ? s.cache : i, at = row + (keys ? s.kv_row : s.q_row);
            if (paged) {
                batch = lengths.page_table[(int64_t)i * d->table_width + row / d->page_rows];
                at = row % d->page_rows;
            }
            for (int64_t head = 0; head < (keys ? d->heads_kv : d->heads_q); head++) {
                size_t element = (size_t)(batch * t->batch + at * t->row + head * t->head);
                random_normal(random, type, (uint8_t *)memory + ptxpack_dtype_span(type, element),
                              (size_t)attention_columns(d, tensor));
            }
        }
    }
}

attention_work attention_lengths_work(const ptxpack_attention_desc *d, const attention_geometry *g,
                                      const attention_arrays *a)
{
    ptxpack_attention_lengths lengths = attention_lengths_of(a);
    attention_work            work = {0, 0};
    if (!g->varlen)
        return (attention_work){ptxpack_attention_flops(d), ptxpack_attention_bytes(d)};
    for (int32_t i = 0; i < d->batch; i++) { /* each as a problem of its own, whose first key is key 0 */
        attention_sequence     s = attention_lengths_sequence(d, g, &lengths, i);
        ptxpack_attention_desc one = *d;
        one.batch = 1;
        one.seqlen_q = (int32_t)s.queries;
        one.seqlen_kv = (int32_t)(s.keys - s.first);
        one.q_rows = one.kv_rows = PTXPACK_ROWS_DENSE;
        one.rows_q = one.rows_kv = one.page_rows = one.table_width = 0;
        one.options = d->options & PTXPACK_VALUES_IN_KEYS;
        one.q = one.k = one.v = one.o = (ptxpack_strides){0, 0, 0};
        if (one.seqlen_q > 0 && one.seqlen_kv > 0) {
            work.flops += ptxpack_attention_flops(&one);
            work.bytes += ptxpack_attention_bytes(&one);
        }
    }
    return work;
}

static size_t rows_of(const attention_walk *w, int32_t batch)
{
    return (size_t)w->desc->heads_q * (size_t)attention_reference_queries(w->reference, batch);
}

size_t attention_walk_total(const attention_walk *walk)
{
    size_t total = 0;
    for (int32_t i = 0; i < walk->desc->batch; i++)
        total += rows_of(walk, i);
    return total;
}

attention_row attention_walk_to(attention_walk *w, size_t n)
{
    while (n - w->first >= rows_of(w, w->batch))
        w->first += rows_of(w, w->batch++);
    size_t queries = (size_t)attention_reference_queries(w->reference, w->batch), within = n - w->first;
    return (attention_row){w->batch, (int32_t)(within / queries), (int32_t)(within % queries)};
}

static int64_t first_row(const ptxpack_attention_lengths *lengths, int32_t batch)
{
    return lengths != NULL && lengths->starts_q != NULL ? lengths->starts_q[batch] : 0;
}

size_t attention_row_in_o(const attention_geometry *g, const ptxpack_attention_lengths *lengths,
                          const attention_row *row)
{
    const attention_tensor *t = &g->tensor[TENSOR_O];
    return (size_t)(row->batch * t->batch + (first_row(lengths, row->batch) + row->row) * t->row +
                    row->head * t->head);
}

size_t attention_row_in_lse(const ptxpack_attention_desc *d, const ptxpack_attention_lengths *lengths,
                            const attention_row *row)
{
    if (d->q_rows == PTXPACK_ROWS_PACKED)
        return (size_t)((int64_t)row->head * d->rows_q + first_row(lengths, row->batch) + row->row);
    return (size_t)attention_lse_place(d, row->batch, row->head, row->row);
}

static bool all_zero(const void *memory, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)memory;
    return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

bool attention_lengths_untouched(const ptxpack_attention_desc *d, const attention_geometry *g,
                                 const attention_arrays *a, void *o, float *lse)
{
    ptxpack_attention_lengths lengths = attention_lengths_of(a);
    size_t                    element = ptxpack_dtype_bytes(attention_tensor_type(d, TENSOR_O));
    for (int32_t i = 0; i < d->batch; i++) {
        attention_sequence s = attention_lengths_sequence(d, g, &lengths, i);
        for (int32_t head = 0; head < d->heads_q; head++)
            for (int32_t row = 0; row < s.queries; row++) {
                attention_row at = {i, head, row};
                memset((uint8_t *)o + attention_row_in_o(g, &lengths, &at) * element, 0,
                       (size_t)attention_value_dim(d) * element);
                lse[attention_row_in_lse(d, &lengths, &at)] = 0;
            }
    }
    return all_zero(o, g->tensor[TENSOR_O].bytes) && all_zero(lse, g->lse_bytes);
}

/* ---- in words ----------------------------------------------------------------------------------------- */
void attention_rows_report(report *r, const ptxpack_attention_desc *d)
{
    char q[64] = "q dense", kv[96] = "k and v dense";
    report_text(r, "q_rows", "%s", kinds[d->q_rows]);
    report_text(r, "kv_rows", "%s", kinds[d->kv_rows]);
    if (d->q_rows == PTXPACK_ROWS_PACKED) {
        report_int(r, "rows_q", d->rows_q);
        snprintf(q, sizeof q, "q packed in %d", (int)d->rows_q);
    }
    if (d->rows_kv > 0)
        report_int(r, "rows_kv", d->rows_kv);
    if (d->kv_rows == PTXPACK_ROWS_PACKED)
        snprintf(kv, sizeof kv, "k and v packed in %d", (int)d->rows_kv);
    else if (d->rows_kv > 0)
        snprintf(kv, sizeof kv, "k and v of %d sequences", (int)d->rows_kv);
    if (d->kv_rows == PTXPACK_ROWS_PAGED) {
        report_int(r, "page_rows", d->page_rows);
        report_int(r, "table_width", d->table_width);
        snprintf(kv, sizeof kv, "k and v in %d pages of %d, at most %d for a sequence", (int)d->rows_kv,
                 (int)d->page_rows, (int)d->table_width);
    }
    report_text(r, ".rows_kept", "%s, %s", q, kv);
}

/* Adds "NAME 3, 700, 0; " to the text: at most eight numbers. */
static size_t add_numbers(char *text, size_t at, size_t cap, const char *name, const int32_t *values, size_t n)
{
    enum { SHOWN = 8 };
    at += (size_t)snprintf(text + at, cap - at, "%s%s", at > 0 ? "; " : "", name);
    for (size_t i = 0; i < n && i < SHOWN; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%d", i > 0 ? ", " : " ", (int)values[i]);
    if (n > SHOWN)
        at += (size_t)snprintf(text + at, cap - at, ", .. of %zu", n);
    return at;
}

void attention_lengths_report(report *r, const ptxpack_attention_desc *d, const attention_arrays *a)
{
    static const struct {
        int         array, starts;
        const char *name, *words;
    } rows[] = {{ARRAY_LENGTHS_Q, ARRAY_STARTS_Q, "lengths_q", "q"},
                {ARRAY_LENGTHS_KV, ARRAY_STARTS_KV, "lengths_kv", "k and v"},
                {ARRAY_LEFT_PAD, ARRAY_COUNT, "left_pad", "left pad"},
                {ARRAY_ROW_MAP, ARRAY_COUNT, "row_map", "row map"}};
    char     text[1024] = "all as long as that";
    size_t   at = 0, batch = (size_t)d->batch;
    int32_t *values = (int32_t *)calloc(batch, sizeof *values);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && values != NULL; i++) {
        const int32_t *array = a->array[rows[i].array];
        const int32_t *starts = rows[i].starts < ARRAY_COUNT ? a->array[rows[i].starts] : NULL;
        for (size_t n = 0; n < batch; n++)
            values[n] = array != NULL ? array[n] : starts != NULL ? starts[n + 1] - starts[n] : 0;
        if (array == NULL && starts == NULL)
            continue;
        report_open(r, rows[i].name, '[');
        for (size_t n = 0; n < batch; n++)
            report_int(r, NULL, values[n]);
        report_close(r);
        at = add_numbers(text, at, sizeof text, rows[i].words, values, batch);
    }
    free(values);
    report_text(r, ".lengths_text", "%s", text);
}
