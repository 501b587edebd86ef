/* attached.c - appends that are parts of attentions: what descriptors and buffers may say, sizes of all ages, and launches on a
 * fake driver, which enqueue both kernels or none; and the reference of both. */
#include <math.h>
#include <stddef.h>

#include "tests/loader/loader_fixture.h"
#include "host/attention/append/attached.h"
#include "host/attention/inspect.h"

enum { BATCH = 2, ROWS = 3, KV = 40, HEADS = 4, HEADS_KV = 2, DIM = 64 };

static const ptxpack_attention_append_desc rotated = {.size = sizeof rotated,
                                                      .heads_q = HEADS,
                                                      .rotary_dim = 32,
                                                      .positions = KV};
static const ptxpack_attention_append_desc copied = {.size = sizeof copied, .seqlen_new = 1};
static const ptxpack_attention_desc        good = {.size = sizeof good,
                                                   .dtype = PTXPACK_F16,
                                                   .batch = BATCH,
                                                   .seqlen_q = ROWS,
                                                   .seqlen_kv = KV,
                                                   .heads_q = HEADS,
                                                   .heads_kv = HEADS_KV,
                                                   .head_dim = DIM,
                                                   .options = PTXPACK_LENGTHS_KV};

static void paged(ptxpack_attention_desc *d)
{
    d->kv_rows = PTXPACK_ROWS_PAGED;
    d->rows_kv = 30;
    d->page_rows = 4;
    d->table_width = 12;
}
static void packed(ptxpack_attention_desc *d)
{
    d->q_rows = PTXPACK_ROWS_PACKED;
    d->rows_q = 5;
}

/* ---- descriptors -------------------------------------------------------------------------------------- */
static void what_is_0_is_the_attentions(void **state)
{
    (void)state;
    char                          line[PLAN_LINE];
    ptxpack_attention_append_desc a;
    ptxpack_attention_desc        d = good;
    paged(&d);
    packed(&d);
    d.options |= PTXPACK_LENGTHS_Q | PTXPACK_LEFT_PAD;
    d.k = (ptxpack_strides){DIM * 4 * HEADS_KV, DIM, DIM * 4};
    d.v = (ptxpack_strides){DIM * 5 * HEADS_KV, DIM, DIM * 5};
    d.q = (ptxpack_strides){0, 2 * HEADS * DIM, DIM};
    d.append = &rotated;
    if (attached_describe(&d, &a, line) != PTXPACK_OK)
        fail_msg("%s", line);
    assert_true(a.dtype == PTXPACK_F16 && a.batch == BATCH && a.seqlen_new == ROWS && a.seqlen_kv == KV);
    assert_true(a.heads_kv == HEADS_KV && a.heads_q == HEADS && a.head_dim == DIM && a.rotary_dim == 32);
    assert_true(a.new_rows == PTXPACK_ROWS_PACKED && a.rows_new == 5 && a.kv_rows == PTXPACK_ROWS_PAGED);
    assert_true(a.rows_kv == 30 && a.page_rows == 4 && a.table_width == 12);
    assert_int_equal(a.options,
                     PTXPACK_LENGTHS_NEW); /* the left pad is about positions: it has its own option */
    assert_memory_equal(&a.k, &d.k, sizeof d.k);
    assert_memory_equal(&a.v, &d.v, sizeof d.v);
    assert_memory_equal(&a.q_out, &d.q, sizeof d.q);
    assert_memory_equal(&a.q, &d.q, sizeof d.q);
    ptxpack_attention_append_desc own = rotated;
    own.q = (ptxpack_strides){0, 3 * HEADS * DIM, DIM}; /* not all are 0 */
    d.append = &own;
    assert_int_equal(attached_describe(&d, &a, line), PTXPACK_OK);
    assert_memory_equal(&a.q, &own.q, sizeof own.q);
    d.append = &copied; /* without q the new rows are their own */
    assert_int_equal(attached_describe(&d, &a, line), PTXPACK_OK);
    assert_true(a.new_rows == PTXPACK_ROWS_DENSE && a.seqlen_new == 1 && a.options == 0 && a.heads_q == 0);
    d = good;
    d.options |= PTXPACK_ROW_MAP;
    d.rows_kv = 5;
    d.append = &copied;
    assert_int_equal(attached_describe(&d, &a, line), PTXPACK_OK);
    assert_true(a.options == PTXPACK_ROW_MAP && a.rows_kv == 5);
}

typedef ptxpack_attention_desc        whole;
typedef ptxpack_attention_append_desc part;
static void                           no_lengths(whole *d, part *a) { (void)a, d->options = 0; }
static void packed_kv(whole *d, part *a) { (void)a, d->kv_rows = PTXPACK_ROWS_PACKED, d->rows_kv = 80; }
static void odd_size(whole *d, part *a) { (void)d, a->size -= 4; }
static void other_type(whole *d, part *a) { (void)d, a->dtype = PTXPACK_BF16; }
static void other_kv_dtype(whole *d, part *a) { d->kv_dtype = PTXPACK_E4M3, a->kv_dtype = PTXPACK_INT8; }
static void kv_dtype_alone(whole *d, part *a) { (void)d, a->kv_dtype = PTXPACK_INT8; }
static void fp8(whole *d, part *a) { (void)a, d->dtype = PTXPACK_E4M3; }
static void other_batch(whole *d, part *a) { (void)d, a->batch = 3; }
static void other_kv(whole *d, part *a) { (void)d, a->seqlen_kv = KV + 1; }
static void other_heads(whole *d, part *a) { (void)d, a->heads_kv = 1; }
static void other_dim(whole *d, part *a) { (void)d, a->head_dim = 32; }
static void other_rows(whole *d, part *a) { (void)d, a->kv_rows = PTXPACK_ROWS_PAGED; }
static void other_pages(whole *d, part *a) { paged(d), a->rows_kv = 31; }
static void other_page(whole *d, part *a) { paged(d), a->page_rows = 8; }
static void other_table(whole *d, part *a) { paged(d), a->table_width = 11; }
static void other_map(whole *d, part *a) { (void)d, a->options = PTXPACK_ROW_MAP; }
static void other_k(whole *d, part *a) { (void)d, a->k = (ptxpack_strides){KV * 2 * DIM, DIM, KV * DIM}; }
static void other_v(whole *d, part *a)
{
    d->v = (ptxpack_strides){KV * 2 * DIM, DIM, KV * DIM};
    a->v = (ptxpack_strides){KV * 4 * DIM, DIM, KV * DIM};
}
static void other_q(whole *d, part *a) { (void)d, a->q_out = (ptxpack_strides){ROWS * 512, 512, DIM}; }
static void other_heads_q(whole *d, part *a) { (void)d, a->heads_q = 2; }
static void other_new(whole *d, part *a) { (void)d, a->seqlen_new = 1; }
static void other_lengths(whole *d, part *a) { (void)d, a->options = PTXPACK_LENGTHS_NEW; }
static void other_q_rows(whole *d, part *a) { (void)d, a->new_rows = PTXPACK_ROWS_PACKED; }
static void other_rows_q(whole *d, part *a) { packed(d), a->rows_new = 6; }
static void repeated_q(whole *d, part *a) { (void)a, d->q = (ptxpack_strides){0, 256, 64}; }
static void odd_rotary(whole *d, part *a) { (void)d, a->rotary_dim = 24; }
static void odd_option(whole *d, part *a) { (void)d, a->options = 1; }
static void wrong_whole(whole *d, part *a) { d->heads_q = 3, a->batch = 3; }

static const struct {
    void (*spoil)(whole *d, part *a);
    const char *line;
} refusals[] = {
    {no_lengths, "options do not have PTXPACK_LENGTHS_KV, which an append needs"},
    {packed_kv, "append: kv_rows is 1, not PTXPACK_ROWS_DENSE or PTXPACK_ROWS_PAGED"},
    {odd_size, "append: desc.size is "},
    {other_kv_dtype, "append: kv_dtype is 4, but kv_dtype of the attention is 3"},
    {kv_dtype_alone, "append: kv_dtype is 4, but kv_dtype of the attention is 0"},
    {other_type, "append: dtype is 2, but dtype of the attention is 1"},
    {fp8, "append: dtype 3 is neither PTXPACK_F16 nor PTXPACK_BF16"},
    {other_batch, "append: batch is 3, but batch of the attention is 2"},
    {other_kv, "append: seqlen_kv is 41, but seqlen_kv of the attention is 40"},
    {other_heads, "append: heads_kv is 1, but heads_kv of the attention is 2"},
    {other_dim, "append: head_dim is 32, but head_dim of the attention is 64"},
    {other_rows, "append: kv_rows is 2, but kv_rows of the attention is 0"},
    {other_pages, "append: rows_kv is 31, but rows_kv of the attention is 30"},
    {other_page, "append: page_rows is 8, but page_rows of the attention is 4"},
    {other_table, "append: table_width is 11, but table_width of the attention is 12"},
    {other_map, "append: options have PTXPACK_ROW_MAP, but those of the attention do not have PTXPACK_ROW_MAP"},
    {other_k, "append: k.row is 64, but k.row of the attention is 128"},
    {other_v, "append: v.batch is 10240, but v.batch of the attention is 5120"},
    {other_q, "append: q_out.batch is 1536, but q.batch of the attention is 768"},
    {other_heads_q, "append: heads_q is 2, but heads_q of the attention is 4"},
    {other_new, "append: seqlen_new is 1, but seqlen_q of the attention is 3"},
    {other_lengths,
     "append: options have PTXPACK_LENGTHS_NEW, but those of the attention do not have PTXPACK_LENGTHS_Q"},
    {other_q_rows, "append: new_rows is 1, but q_rows of the attention is 0"},
    {other_rows_q, "append: rows_new is 6, but rows_q of the attention is 5"},
    {repeated_q, "append: q_out.batch: stride 0 would write every element 2 times"},
    {odd_rotary, "append: rotary_dim 24 is not a multiple of 16 up to head_dim 64"},
    {odd_option, "append: options has the unknown bits 0x1"},
    {wrong_whole, "heads_q 3 is not a multiple of heads_kv 2"},
};

static ptxpack *open_fake(const char *words, struct fake_record **record)
{
    static const char        text[] = ".version \\[ISA/10].\\[ISA%10]\n.target sm_\\[ARCH]\n";
    static const char *const files[] = {"ptx/attention/decode.ptx", "ptx/attention/mma.ptx",
                                        "ptx/attention/wgmma.ptx", "ptx/kv_cache/append.ptx"};
    mkdir(below("ptx/attention"), 0700);
    mkdir(below("ptx/kv_cache"), 0700);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        write_text(below(files[i]), text);
    setenv("FAKE_CUDA", words, 1);
    ptxpack_options options = {.size = sizeof options, .ptxjit = "none", .no_cache = true};
    options.driver = fresh_copy("fake_driver.so");
    ptxpack *handle = open_with(&options);
    *record = record_of(options.driver);
    return handle;
}

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    struct fake_record *record;
    ptxpack            *handle = open_fake("", &record);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ptxpack_attention_desc        d = good;
        ptxpack_attention_append_desc a = rotated;
        ptxpack_attention_plan       *plan;
        d.append = &a;
        refusals[i].spoil(&d, &a);
        assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_E_ARG);
        assert_null(plan);
        assert_has(ptxpack_detail(handle), refusals[i].line);
    }
    assert_int_equal(record->loads, 0);
    ptxpack_close(handle);
}

/* ---- launches ----------------------------------------------------------------------------------------- */
static const ptxpack_attention_append_buffers new_rows = {.size = sizeof new_rows,
                                                          .k_new = 0x110000,
                                                          .v_new = 0x120000,
                                                          .cos = 0x130000,
                                                          .sin = 0x140000};
static const ptxpack_attention_buffers        buffers = {.size = sizeof buffers,
                                                         .q = 0x10000,
                                                         .k = 0x20000,
                                                         .v = 0x30000,
                                                         .o = 0x40000,
                                                         .lse = 0x50000,
                                                         .workspace = 0x1000000,
                                                         .lengths_q = 0x60000,
                                                         .lengths_kv = 0x70000,
                                                         .starts_q = 0x80000,
                                                         .left_pad = 0x90000,
                                                         .page_table = 0xa0000,
                                                         .append = &new_rows};

/* One address is changed; of a problem in pages, with packed q, lengths of q and left pads. */
static const struct {
    bool        of_append;
    size_t      member;
    uint64_t    address;
    const char *line; /* NULL: it is fine */
} changes[] = {
#define OF(member) false, offsetof(ptxpack_attention_buffers, member)
#define AT(member) true, offsetof(ptxpack_attention_append_buffers, member)
    {OF(q), 0, "q is null"},
    {OF(append), 0, "append is NULL, but the plan appends"},
    {AT(k_new), 0, "append: k_new is null"},
    {AT(k_new), 0x110004, "append: k_new: address 0x110004 is not a multiple of 16 bytes"},
    {AT(cos), 0, "append: cos is null"},
    {AT(k), 0x20000, NULL},
    {AT(k), 0x21000, "append: k is 0x21000, but k of the attention is 0x20000"},
    {AT(v), 0x31000, "append: v is 0x31000, but v of the attention is 0x30000"},
    {AT(q), 0x150000, NULL}, /* q comes from there */
    {AT(q_out), 0x10000, NULL},
    {AT(q_out), 0x150000, "append: q_out is 0x150000, but q of the attention is 0x10000"},
    {AT(lengths_kv), 0x70004, "append: lengths_kv is 0x70004, but lengths_kv of the attention is 0x70000"},
    {AT(lengths_new), 0x60000, NULL},
    {AT(lengths_new), 0x60010, "append: lengths_new is 0x60010, but lengths_q of the attention is 0x60000"},
    {AT(starts_new), 0x80010, "append: starts_new is 0x80010, but starts_q of the attention is 0x80000"},
    {AT(page_table), 0xa0004, "append: page_table is 0xa0004, but page_table of the attention is 0xa0000"},
    {AT(left_pad), 0x160000, NULL}, /* positions may be others */
    {AT(left_pad), 0x160002, "append: left_pad: address 0x160002 is not a multiple of 4 bytes"},
    {AT(row_map), 0x3, NULL}, /* not asked for */
    {AT(q), 0x10010, "append: q_out overlaps q: 0x10000 and 0x10010"},
    {AT(cos), 0x20010, "append: k overlaps cos: 0x20000 and 0x20010"},
    {AT(k_new), 0x40010, "o overlaps k_new: 0x40000 and 0x40010"},
    {AT(q), 0x40000, NULL}, /* o comes after it */
    {AT(q), 0x50000, "lse overlaps q: 0x50000 and 0x50000"},
    {AT(sin), 0x50010, "lse overlaps sin: 0x50000 and 0x50010"},
    {AT(left_pad), 0x1000000, "workspace overlaps left_pad: 0x1000000 and 0x1000000"},
    {OF(left_pad), 0x30000, "append: v overlaps left_pad: 0x30000 and 0x30000"},
#undef OF
#undef AT
};

static void addresses_are_checked(void **state)
{
    (void)state;
    struct fake_record           *record;
    ptxpack                      *handle = open_fake("", &record);
    ptxpack_attention_desc        d = good;
    ptxpack_attention_append_desc a = rotated;
    ptxpack_attention_plan       *plan;
    unsigned                      launches = 0;
    paged(&d);
    packed(&d);
    d.options |= PTXPACK_LENGTHS_Q | PTXPACK_LEFT_PAD;
    a.options = PTXPACK_LEFT_PAD;
    d.append = &a;
    if (ptxpack_attention_plan_create(handle, &d, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    memset(&a, 0xee, sizeof a); /* it was read when the plan was made */
    assert_true(ptxpack_attention_workspace(plan) > 0);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        ptxpack_attention_buffers        b = buffers;
        ptxpack_attention_append_buffers n = new_rows;
        b.append = &n;
        memcpy((changes[i].of_append ? (char *)&n : (char *)&b) + changes[i].member, &changes[i].address,
               sizeof changes[i].address);
        bool           fine = changes[i].line == NULL;
        ptxpack_status status = ptxpack_attention_launch(plan, &b, NULL);
        if (status != (fine ? PTXPACK_OK : PTXPACK_E_ARG) ||
            (!fine && strcmp(ptxpack_detail(handle), changes[i].line) != 0))
            fail_msg("change %zu: \"%s\", not \"%s\"", i, ptxpack_detail(handle), fine ? "" : changes[i].line);
        launches += fine ? 2 : 0;
        assert_int_equal(record->launches, launches);
    }
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* q that is not rotated may be another number of rows than the new ones. */
static void rows_of_q_are_their_own(void **state)
{
    (void)state;
    struct fake_record              *record;
    ptxpack                         *handle = open_fake("", &record);
    ptxpack_attention_desc           d = good;
    ptxpack_attention_append_buffers n = new_rows;
    ptxpack_attention_buffers        b = buffers;
    ptxpack_attention_plan          *plan;
    d.options |= PTXPACK_LENGTHS_Q;
    d.append = &(ptxpack_attention_append_desc){.size = sizeof *d.append, .options = PTXPACK_LENGTHS_NEW};
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    n.lengths_new = 0x170000;
    n.q = n.q_out = 3; /* not read */
    b.append = &n;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    assert_int_equal(record->launches, 2);
    n.lengths_new = 0; /* as the lengths of q */
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    assert_int_equal(record->launches, 4);
    b.q = b.k + 16;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle), "k overlaps q: 0x20000 and 0x20010");
    assert_int_equal(record->launches, 4);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* Of dense k and v with a row map, and packed q and new rows of the same starts. */
static void other_arrays_are_the_attentions(void **state)
{
    (void)state;
    struct fake_record              *record;
    ptxpack                         *handle = open_fake("", &record);
    ptxpack_attention_desc           d = good;
    ptxpack_attention_append_desc    a = copied;
    ptxpack_attention_append_buffers n = new_rows;
    ptxpack_attention_buffers        b = buffers;
    ptxpack_attention_plan          *plan;
    packed(&d);
    d.options |= PTXPACK_ROW_MAP;
    d.rows_kv = 4;
    a.new_rows = PTXPACK_ROWS_PACKED;
    a.rows_new = 3;
    d.append = &a;
    if (ptxpack_attention_plan_create(handle, &d, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    b.row_map = 0xb0000;
    b.append = &n;
    if (ptxpack_attention_launch(plan, &b, NULL) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    n.starts_new = 0x180000;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    n.row_map = 0xb0004;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle),
                        "append: row_map is 0xb0004, but row_map of the attention is 0xb0000");
    assert_int_equal(record->launches, 4);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* The append comes first: what was enqueued last is the attention.  If the attention's arguments cannot be made, nothing is
 * enqueued. */
static void both_are_enqueued_or_none(void **state)
{
    (void)state;
    struct fake_record              *record;
    ptxpack                         *handle = open_fake("", &record);
    ptxpack_attention_append_buffers n = {.size = sizeof n, .k_new = 0x11000000, .v_new = 0x12000000};
    ptxpack_attention_buffers        b = {.size = sizeof b,
                                          .q = 1 << 28,
                                          .k = 2 << 28,
                                          .v = 3 << 28,
                                          .o = UINT64_C(4) << 28,
                                          .workspace = UINT64_C(6) << 28,
                                          .lengths_kv = 0x13000000,
                                          .append = &n};
    ptxpack_attention_desc           d = good;
    ptxpack_attention_plan          *plan;
    d.seqlen_q = d.seqlen_kv = 1024;
    d.heads_q = d.heads_kv = 64;
    d.head_dim = 128;
    d.append = &copied;
    if (ptxpack_attention_plan_create(handle, &d, &plan) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_string_equal(ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant->file,
                        "attention/wgmma.ptx");
    if (ptxpack_attention_launch(plan, &b, NULL) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(record->launches, 2);
    assert_int_equal(record->threads,
                     ptxpack_kernel_describe(ptxpack_attention_kernel(plan))->variant->threads);
    assert_true(record->argument != n.k_new);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);

    handle = open_fake("replace=1", &record);
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    assert_true(ptxpack_attention_launch(plan, &b, NULL) != PTXPACK_OK);
    assert_int_equal(record->launches, 0);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* ---- structs of callers that know nothing of appends -------------------------------------------------- */
static void older_sizes_are_taken(void **state)
{
    (void)state;
    struct fake_record       *record;
    ptxpack                  *handle = open_fake("", &record);
    ptxpack_attention_desc    d = good;
    ptxpack_attention_buffers b = buffers;
    ptxpack_attention_plan   *plan;
    d.size = offsetof(ptxpack_attention_desc, append);
    b.size = offsetof(ptxpack_attention_buffers, append);
    memset(&d.append, 0xee, sizeof d.append); /* beyond the end: not read */
    memset(&b.append, 0xee, sizeof b.append);
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_OK);
    assert_int_equal(record->launches, 1);
    b = buffers;
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle), "append is not NULL, but the plan appends nothing");
    ptxpack_attention_plan_free(plan);
    d = good; /* an old struct of buffers has no append */
    d.append = &copied;
    assert_int_equal(ptxpack_attention_plan_create(handle, &d, &plan), PTXPACK_OK);
    b.size = offsetof(ptxpack_attention_buffers, append);
    assert_int_equal(ptxpack_attention_launch(plan, &b, NULL), PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(handle), "append is NULL, but the plan appends");
    assert_int_equal(record->launches, 1);
    ptxpack_attention_plan_free(plan);
    ptxpack_close(handle);
}

/* ---- the reference ------------------------------------------------------------------------------------ */
/* One head of 16: of two sequences, the first gets row 1 of its cache, and the second nothing. */
static void the_reference_does_both(void **state)
{
    (void)state;
    enum { LONG = 2, WIDE = 16 };
    static uint16_t q[2][WIDE], k[2][LONG][WIDE], v[2][LONG][WIDE], k_new[2][WIDE], v_new[2][WIDE],
        cosines[LONG][8], sines[LONG][8];
    static const int32_t                  lengths_kv[] = {2, 0}, lengths_new[] = {1, 0};
    const ptxpack_attention_lengths       lengths = {.lengths_kv = lengths_kv, .lengths_q = lengths_new};
    const ptxpack_attention_append_inputs in = {.k_new = k_new, .v_new = v_new, .cos = cosines, .sin = sines};
    const ptxpack_attention_append_desc   rope = {.size = sizeof rope,
                                                  .heads_q = 1,
                                                  .rotary_dim = WIDE,
                                                  .positions = LONG};
    const ptxpack_attention_desc          d = {.size = sizeof d,
                                               .dtype = PTXPACK_F16,
                                               .batch = 2,
                                               .seqlen_q = 1,
                                               .seqlen_kv = LONG,
                                               .heads_q = 1,
                                               .heads_kv = 1,
                                               .head_dim = WIDE,
                                               .scale = 1,
                                               .options = PTXPACK_LENGTHS_KV | PTXPACK_LENGTHS_Q,
                                               .append = &rope};
    double                                o[2][WIDE] = {{0}}, lse[2] = {7, 7};
    memset(k, 0xff, sizeof k); /* NaN where no row is */
    memset(v, 0xff, sizeof v);
    for (int e = 0; e < WIDE; e++) { /* the first key is 0; at position 1, (x, y) turns to (-y, x) */
        ptxpack_set_element(PTXPACK_F16, k[0][0], (size_t)e, 0);
        ptxpack_set_element(PTXPACK_F16, v[0][0], (size_t)e, 1);
        ptxpack_set_element(PTXPACK_F16, k_new[0], (size_t)e, e == 3 ? 2 : 0);
        ptxpack_set_element(PTXPACK_F16, v_new[0], (size_t)e, 5);
        ptxpack_set_element(PTXPACK_F16, q[0], (size_t)e, e == 3 ? 0.5f : 0);
        ptxpack_set_element(PTXPACK_F16, sines[1], (size_t)e % 8, 1);
    }
    assert_int_equal(ptxpack_attention_reference_append(&d, &in, q, k, v, &lengths, o[0], lse), PTXPACK_OK);
    for (size_t e = 0; e < WIDE; e++) {
        assert_true(ptxpack_element(PTXPACK_F16, k[0][1], e) == (e == 11 ? 2 : 0));
        assert_true(ptxpack_element(PTXPACK_F16, q[0], e) == (e == 11 ? 0.5f : 0));
        assert_true(ptxpack_element(PTXPACK_F16, v[0][1], e) == 5);
        assert_true(k[1][0][e] == 0xffff && v[1][1][e] == 0xffff && o[1][e] == 0);
        assert_true(fabs(o[0][e] - (1 + 5 * exp(1)) / (1 + exp(1))) < 1e-12); /* the scores are 0 and 1 */
    }
    assert_true(fabs(lse[0] - log(1 + exp(1))) < 1e-12 && lse[1] == 7);
    ptxpack_attention_desc none = d;
    none.append = NULL;
    assert_int_equal(ptxpack_attention_reference_append(&none, &in, q, k, v, &lengths, o[0], lse),
                     PTXPACK_E_ARG);
    assert_string_equal(ptxpack_detail(NULL), "desc.append is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_0_is_the_attentions),
        cmocka_unit_test_setup(bad_descriptors_are_refused, reset),
        cmocka_unit_test_setup(addresses_are_checked, reset),
        cmocka_unit_test_setup(rows_of_q_are_their_own, reset),
        cmocka_unit_test_setup(other_arrays_are_the_attentions, reset),
        cmocka_unit_test_setup(both_are_enqueued_or_none, reset),
        cmocka_unit_test_setup(older_sizes_are_taken, reset),
        cmocka_unit_test(the_reference_does_both),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
