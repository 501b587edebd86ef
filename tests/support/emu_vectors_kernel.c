/* emu_vectors_kernel.c - a case of emu_vectors.h as PTX: its kernel, and its data in memory. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu_vectors.h"

/* ---- fragments in the registers of a warp -------------------------------------------------------------- */
static const emu_reg registers[64] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};

struct counts {
    int a, b, c, bytes;
}; /* registers of a lane; bytes of one of a warp */

static struct counts count_registers(const struct tensor_product *p)
{
    const bool                   bits = p->a == TENSOR_b1;
    const struct tensor_fragment a = {p->m < 16 ? p->m : 16, bits ? p->k / 32 : p->k,
                                      bits ? 32 : tensor_type_bits(p->a)};
    const struct tensor_fragment b = {a.columns, p->n, a.bits}, c = {a.rows, p->n, tensor_type_bits(p->c)};
    if (p->rule.method == TENSOR_BY_FMA)
        return (struct counts){2, 2, p->c == TENSOR_f16 ? 4 : 8, 128};
    return (struct counts){tensor_registers_a(&a), tensor_registers_b(&b), tensor_registers_c(&c),
                           p->c == TENSOR_f64 ? 256 : 128};
}

/* Takes rows of the register file one after the other, `count` registers of `bytes`. */
static unsigned char *take(unsigned char *to, const unsigned char *rows, int count, int bytes)
{
    for (int i = 0; i < count; i++, to += bytes)
        memcpy(to, rows + EMU_ROW_OF(registers[i]) * EMU_ROW, (size_t)bytes);
    return to;
}

static uint32_t at64(const uint32_t *words, int i, int high) { return words[2 * i + high]; }

/* Writes A and B as f64 fragments, by the formula of m8n8k4 and its multiples. */
static void put_f64(uint32_t *rows, int r, int lane, const uint32_t *words, int i)
{
    rows[(r * 64) + 2 * lane] = at64(words, i, 0);
    rows[(r * 64) + 2 * lane + 1] = at64(words, i, 1);
}

static void scatter_f64(const struct tensor_product *p, const struct vectors_input *in, struct counts n,
                        unsigned char *to)
{
    static uint32_t rows[64 * 64];
    const int       high = p->m / 8;
    for (int l = 0; l < 32; l++) {
        for (int r = 0; r < n.a; r++)
            put_f64(rows, r, l, in->a, (l / 4 + 8 * (r % high)) * p->k + l % 4 + 4 * (r / high));
        for (int r = 0; r < n.b; r++)
            put_f64(rows, n.a + r, l, in->b, (l % 4 + 4 * r) * p->n + l / 4);
        for (int r = 0; r < n.c; r++)
            put_f64(rows, n.a + n.b + r, l, in->c, (l / 4 + 8 * (r / 2)) * p->n + 2 * (l % 4) + r % 2);
    }
    memcpy(to, rows, (size_t)(n.a + n.b + n.c) * 256);
}

static void gather_f64(const struct tensor_product *p, struct counts n, const unsigned char *from, uint32_t *d)
{
    const uint32_t *rows = (const uint32_t *)(const void *)from;
    for (int l = 0; l < 32; l++)
        for (int r = 0; r < n.c; r++)
            for (int high = 0; high < 2; high++)
                d[2 * ((l / 4 + 8 * (r / 2)) * p->n + 2 * (l % 4) + r % 2) + high] =
                    rows[r * 64 + 2 * l + high];
}

/* Writes m8n8k4 of f16, .row.col: every pair of quads gets the same. */
static void scatter_quads(const struct tensor_product *p, const struct vectors_input *in, unsigned char *to)
{
    uint32_t        rows[4][32];
    unsigned char   file[64 * EMU_ROW];
    struct emu_warp w = {.bank = {file}};
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 2; i++) {
            int line = l % 4 + l / 16 * 4;
            rows[i][l] = in->a[line * 4 + 2 * i] | in->a[line * 4 + 2 * i + 1] << 16;
            rows[2 + i][l] = in->b[2 * i * 8 + line] | in->b[(2 * i + 1) * 8 + line] << 16;
        }
    memcpy(to, rows, sizeof rows);
    for (int pair = 0; pair < TENSOR_QUAD_PAIRS; pair++)
        tensor_scatter_quad_c(&w, registers, pair, tensor_type_bits(p->c), in->c);
    take(to + sizeof rows, file, p->c == TENSOR_f16 ? 4 : 8, 128);
}

static void scatter(const struct vectors_case *c, const struct vectors_input *in, unsigned char *to)
{
    const struct tensor_product *p = &c->p;
    const struct counts          n = count_registers(p);
    const bool                   bits = p->a == TENSOR_b1;
    const struct tensor_fragment a = {p->m, bits ? p->k / 32 : p->k, bits ? 32 : tensor_type_bits(p->a)};
    const struct tensor_fragment b = {a.columns, p->n, a.bits}, d = {p->m, p->n, tensor_type_bits(p->c)};
    unsigned char                file[64 * EMU_ROW];
    struct emu_warp              w = {.bank = {file}};
    if (p->c == TENSOR_f64) {
        scatter_f64(p, in, n, to);
        return;
    }
    if (p->rule.method == TENSOR_BY_FMA) {
        scatter_quads(p, in, to);
        return;
    }
    tensor_scatter_a(&w, registers, &a, in->a);
    to = take(to, file, n.a, n.bytes);
    tensor_scatter_b(&w, registers, &b, in->b);
    to = take(to, file, n.b, n.bytes);
    tensor_scatter_c(&w, registers, &d, in->c);
    take(to, file, n.c, n.bytes);
}

static void gather(const struct vectors_case *c, const unsigned char *from, uint32_t *d)
{
    const struct tensor_product *p = &c->p;
    const struct counts          n = count_registers(p);
    const struct tensor_fragment f = {p->m, p->n, tensor_type_bits(p->c)};
    unsigned char                file[64 * EMU_ROW];
    struct emu_warp              w = {.bank = {file}};
    if (p->c == TENSOR_f64) {
        gather_f64(p, n, from, d);
        return;
    }
    for (int r = 0; r < n.c; r++)
        memcpy(file + EMU_ROW_OF(registers[r]) * EMU_ROW, from + r * n.bytes, (size_t)n.bytes);
    if (p->rule.method == TENSOR_BY_FMA)
        tensor_gather_quad_c(&w, registers, 3, f.bits, d);
    else
        tensor_gather_c(&w, registers, &f, d);
}

/* wgmma: shared memory of A, of B (rows of 32 bytes, in core matrices of 8 rows x 16 bytes), then C of the
 * warps. */
enum { A_BYTES = 2048, B_BYTES = 256 };

static void put_core(unsigned char *image, int row, int byte, const void *from, size_t bytes)
{
    memcpy(image + (row / 8 * 2 + byte / 16) * 128 + row % 8 * 16 + byte % 16, from, bytes);
}

static void scatter_wgmma(const struct vectors_case *c, const struct vectors_input *in, unsigned char *to)
{
    const struct tensor_product *p = &c->p;
    const int bytes = p->a == TENSOR_b1 ? 4 : (int)tensor_type_bits(p->a) / 8, k = 32 / bytes;
    const struct tensor_fragment f = {16, p->n, tensor_type_bits(p->c)};
    const int                    count = tensor_registers_c(&f);
    unsigned char                file[64 * EMU_ROW];
    struct emu_warp              w = {.bank = {file}};
    for (int i = 0; i < k; i++) {
        for (int m = 0; m < p->m; m++)
            put_core(to, m, i * bytes, &in->a[m * k + i], (size_t)bytes);
        for (int n = 0; n < p->n; n++)
            put_core(to + A_BYTES, n, i * bytes, &in->b[i * p->n + n], (size_t)bytes);
    }
    for (int warp = 0; warp < 4; warp++) {
        tensor_scatter_c(&w, registers, &f, in->c + warp * 16 * p->n);
        take(to + A_BYTES + B_BYTES + warp * count * 128, file, count, 128);
    }
}

static void gather_wgmma(const struct vectors_case *c, const unsigned char *from, uint32_t *d)
{
    const struct tensor_fragment f = {16, c->p.n, tensor_type_bits(c->p.c)};
    const int                    count = tensor_registers_c(&f);
    unsigned char                file[64 * EMU_ROW];
    struct emu_warp              w = {.bank = {file}};
    for (int warp = 0; warp < 4; warp++) {
        for (int r = 0; r < count; r++)
            memcpy(file + EMU_ROW_OF(registers[r]) * EMU_ROW, from + (warp * count + r) * 128, 128);
        tensor_gather_c(&w, registers, &f, d + warp * 16 * c->p.n);
    }
}

/* wmma: whole matrices, A and B and C one after the other. */
enum { B_AT = 4096, C_AT = 8192 };

static void put_matrix(unsigned char *to, const uint32_t *words, int count, enum tensor_type type)
{
    const size_t bytes = tensor_type_bits(type) / 8;
    for (int i = 0; i < count; i++)
        memcpy(to + (size_t)i * bytes, &words[i], bytes);
}

static void scatter_wmma(const struct vectors_case *c, const struct vectors_input *in, unsigned char *to)
{
    put_matrix(to, in->a, c->p.m * c->p.k, c->p.a);
    put_matrix(to + B_AT, in->b, c->p.k * c->p.n, c->p.b);
    put_matrix(to + C_AT, in->c, c->p.m * c->p.n, c->p.c);
}

static void gather_wmma(const struct vectors_case *c, const unsigned char *from, uint32_t *d)
{
    const size_t bytes = tensor_type_bits(c->p.c) / 8;
    memset(d, 0, vectors_d_words(c) * sizeof *d);
    for (int i = 0; i < c->p.m * c->p.n; i++)
        memcpy(&d[i], from + (size_t)i * bytes, bytes);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */
static char   text[16384];
static size_t length;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text + length, sizeof text - length, format, list);
    va_end(list);
    length += n > 0 ? (size_t)n : 0;
    if (length >= sizeof text)
        abort(); /* the largest kernel fits */
}

static void say_list(const char *name, int count)
{
    say("{");
    for (int i = 0; i < count; i++)
        say("%s%%%s%d", i ? "," : "", name, i);
    say("}");
}

static void say_head(int isa)
{
    length = 0;
    say(".version %d.%d\n.target sm_90a\n.address_size 64\n", isa < 80 ? 8 : isa / 10, isa < 80 ? 0 : isa % 10);
    say(".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %%in, %%out, %%x; .reg .b32 %%t, "
        "%%s;\n");
    say(".reg .b32 %%a<32>, %%b<32>, %%c<32>, %%d<32>; .reg .b64 %%wa<32>, %%wb<32>, %%wc<32>, %%wd<32>;\n");
    say("ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; mov.u32 %%s, %%ctaid.x; mul.wide.u32 %%x, %%s, "
        "%d;\n",
        VECTORS_STRIDE);
    say("add.u64 %%in, %%in, %%x; add.u64 %%out, %%out, %%x; mov.u32 %%t, %%tid.x;\n");
}

static void write_mma(const struct vectors_case *c)
{
    const struct counts n = count_registers(&c->p);
    const bool          wide = n.bytes == 256;
    const char         *w = wide ? "w" : "", *type = wide ? "b64" : "b32";
    const struct {
        const char *name;
        int         count;
    } loads[] = {{"a", n.a}, {"b", n.b}, {"c", n.c}};
    int at = 0;
    say_head(c->isa);
    say("mul.wide.u32 %%x, %%t, %d; add.u64 %%in, %%in, %%x; add.u64 %%out, %%out, %%x;\n", n.bytes / 32);
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < loads[i].count; r++, at += n.bytes)
            say("ld.global.%s %%%s%s%d, [%%in+%d];\n", type, w, loads[i].name, r, at);
    say("mma.sync.aligned%s ", c->name + strlen("mma"));
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "%s%c", w, "dabc"[i]);
        say_list(name, i == 1 ? n.a : i == 2 ? n.b : n.c);
        say(i < 3 ? ", " : ";\n");
    }
    for (int r = 0; r < n.c; r++)
        say("st.global.%s [%%out+%d], %%%sd%d;\n", type, r * n.bytes, w, r);
    say("ret;\n}\n");
}

static void write_wgmma(const struct vectors_case *c)
{
    const struct tensor_fragment f = {16, c->p.n, tensor_type_bits(c->p.c)};
    const int                    count = tensor_registers_c(&f);
    say_head(c->isa);
    say(".shared .align 1024 .b8 image[%d];\n.reg .b32 %%p; .reg .b64 %%da, %%db; .reg .pred %%few, %%yes;\n",
        A_BYTES + B_BYTES);
    say("mul.wide.u32 %%x, %%t, 16; add.u64 %%x, %%in, %%x; mov.u32 %%p, image; mad.lo.u32 %%s, %%t, 16, "
        "%%p;\n");
    say("ld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%x]; st.shared.v4.b32 [%%s], {%%a0,%%a1,%%a2,%%a3};\n");
    say("setp.lt.u32 %%few, %%t, 16; setp.eq.u32 %%yes, %%p, %%p;\n");
    say("@%%few ld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%x+%d];\n", A_BYTES);
    say("@%%few st.shared.v4.b32 [%%s+%d], {%%a0,%%a1,%%a2,%%a3};\nfence.proxy.async.shared::cta; bar.sync "
        "0;\n",
        A_BYTES);
    /* word r of lane l of warp w is at (w count + r) 128 + 4 l */
    say("shr.u32 %%s, %%t, 5; and.b32 %%t, %%t, 31; mul.lo.u32 %%s, %%s, %d; mad.lo.u32 %%s, %%t, 4, %%s;\n",
        count * 128);
    say("cvt.u64.u32 %%x, %%s; add.u64 %%in, %%in, %%x; add.u64 %%out, %%out, %%x;\n");
    for (int r = 0; r < count; r++)
        say("ld.global.b32 %%c%d, [%%in+%d];\n", r, A_BYTES + B_BYTES + r * 128);
    say("shr.u32 %%s, %%p, 4; cvt.u64.u32 %%da, %%s; or.b64 %%da, %%da, %llu; add.u64 %%db, %%da, %d;\n",
        128ull / 16 << 16 | 256ull / 16 << 32, A_BYTES / 16);
    say("wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned%s ", c->name + strlen("wgmma"));
    say_list("c", count);
    bool half = c->p.a == TENSOR_f16 || c->p.a == TENSOR_bf16;
    say(", %%da, %%db, %%yes%s%s;\n", c->p.c == TENSOR_s32 ? "" : ", 1, 1", half ? ", 0, 0" : "");
    say("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
    for (int r = 0; r < count; r++)
        say("st.global.b32 [%%out+%d], %%c%d;\n", r * 128, r);
    say("ret;\n}\n");
}

static void write_wmma(const struct vectors_case *c)
{
    const struct tensor_product *p = &c->p;
    const struct {
        char             name;
        int              registers, at, stride;
        enum tensor_type type;
    } x[] = {{'a', p->a == TENSOR_f16 ? 8 : p->m * p->k * 2 / (p->a == TENSOR_tf32 ? 64 : 128), 0, p->k, p->a},
             {'b', p->a == TENSOR_f16 ? 8 : p->k * p->n * 2 / (p->a == TENSOR_tf32 ? 64 : 128), B_AT, p->n,
              p->b},
             {'c', p->c == TENSOR_f16 ? 4 : 8, C_AT, p->n, p->c}};
    const char *types = c->name + strcspn(c->name + strlen("wmma."), ".") + strlen("wmma.");
    say_head(80);
    for (int i = 0; i < 3; i++) {
        say("add.u64 %%x, %%in, %d; wmma.load.%c.sync.aligned.row.m%dn%dk%d.global.%s ", x[i].at, x[i].name,
            p->m, p->n, p->k, tensor_type_name(x[i].type));
        char name[2] = {x[i].name, '\0'};
        say_list(name, x[i].registers);
        say(", [%%x], %d;\n", x[i].stride);
    }
    say("wmma.mma.sync.aligned.row.row.m%dn%dk%d%s ", p->m, p->n, p->k, types);
    for (int i = 0; i < 4; i++) {
        char name[2] = {"dabc"[i], '\0'};
        say_list(name, x[i == 0 ? 2 : i - 1].registers);
        say(i < 3 ? ", " : ";\n");
    }
    say("wmma.store.d.sync.aligned.row.m%dn%dk%d.global.%s [%%out], ", p->m, p->n, p->k,
        tensor_type_name(p->c));
    say_list("d", x[2].registers);
    say(", %d;\nret;\n}\n", p->n);
}

const char *vectors_kernel(const struct vectors_case *c)
{
    static void (*const write[])(const struct vectors_case *) = {write_mma, write_wmma, write_wgmma};
    write[c->unit](c);
    return text;
}

void vectors_scatter(const struct vectors_case *c, const struct vectors_input *in, unsigned char *to)
{
    static void (*const put[])(const struct vectors_case *, const struct vectors_input *,
                               unsigned char *) = {scatter, scatter_wmma, scatter_wgmma};
    put[c->unit](c, in, to);
}

void vectors_gather(const struct vectors_case *c, const unsigned char *from, uint32_t *d)
{
    static void (*const get[])(const struct vectors_case *, const unsigned char *,
                               uint32_t *) = {gather, gather_wmma, gather_wgmma};
    get[c->unit](c, from, d);
}
