/* atom.c - atoms.def as a C table, and its families expanded to atoms. */
#include "atom.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"

/* ---- the table ---------------------------------------------------------------------------------------- */
#define LAYOUT(name, text) static const char name[] = text;
#define FAMILY(...)
#include "atoms.def"
#undef LAYOUT
#undef FAMILY

#define LAYOUT(name, text)
#define FAMILY(name_, ptx_, m_, n_, k_, d_, a_, b_, thr, al, bl, cl, arch_, ...) \
    {.name = name_,                                                              \
     .ptx = ptx_,                                                                \
     .m = m_,                                                                    \
     .n = n_,                                                                    \
     .k = k_,                                                                    \
     .d = d_,                                                                    \
     .a = a_,                                                                    \
     .b = b_,                                                                    \
     .thr_id = thr,                                                              \
     .a_layout = al,                                                             \
     .b_layout = bl,                                                             \
     .c_layout = cl,                                                             \
     .arch = arch_,                                                              \
     .isa = __VA_ARGS__},
static const struct family families[] = {
#include "atoms.def"
};
#undef LAYOUT
#undef FAMILY

enum { FAMILIES = sizeof families / sizeof families[0] };

const struct family *atom_families(size_t *count)
{
    *count = FAMILIES;
    return families;
}

/* ---- element types ------------------------------------------------------------------------------------ */
#define TYPE_ROW(name, bits, cute, ptx) {#name, bits, cute, ptx},
static const struct {
    const char *name;
    int         bits;
    const char *cute, *ptx;
} types[] = {PTXPACK_VALUE_TYPE_MAP(TYPE_ROW){"?", 0, "?", "?"}};
#undef TYPE_ROW

static unsigned type_row(ptxpack_value_type type)
{
    return (unsigned)type < PTXPACK_VALUE_TYPE_COUNT ? (unsigned)type : PTXPACK_VALUE_TYPE_COUNT;
}

const char *ptxpack_value_name(ptxpack_value_type type) { return types[type_row(type)].name; }

int ptxpack_value_bits(ptxpack_value_type type) { return types[type_row(type)].bits; }

const char *ptxpack_value_cute(ptxpack_value_type type) { return types[type_row(type)].cute; }

const char *ptxpack_value_ptx(ptxpack_value_type type) { return types[type_row(type)].ptx; }

/* ---- members of a family ------------------------------------------------------------------------------ */
enum { LAST_N = 256 };

bool atom_has_tile(const struct family *f, int m, int n)
{
    bool every_8 = n > 0 && n <= LAST_N && n % 8 == 0, every_16 = every_8 && n % 16 == 0;
    if (f->m != 0 && m != f->m)
        return false;
    switch (f->n) {
    case EVERY_8:
        return every_8;
    case INTEGER_WGMMA:
        return every_16 || n == 8 || n == 24;
    case CTA_1_BY_8:
        return m == 64 ? every_8 : m == 128 && every_16;
    case CTA_1_INTEGER:
        return (m == 64 && n == 8) || ((m == 64 || m == 128) && every_16);
    case CTA_1_BLOCK:
        return m == 128 && every_8;
    case CTA_1_ULTRA:
        return m == 128 && every_16;
    case CTA_2_BY_16:
        return (m == 128 || m == 256) && every_16;
    case CTA_2_BY_32:
        return (m == 128 || m == 256) && every_8 && n % 32 == 0;
    case CTA_2_BLOCK:
        return m == 256 && every_16;
    default:
        return n == f->n;
    }
}

/* Sets M and N of the stop-th tile of a family; returns how many there are before it. */
static size_t walk_tiles(const struct family *f, size_t stop, struct member *x)
{
    int    first_m = f->m ? f->m : 64, last_m = f->m ? f->m : 256;
    int    first_n = f->n > 0 ? f->n : 8, last_n = f->n > 0 ? f->n : LAST_N;
    size_t count = 0;
    for (x->m = first_m; x->m <= last_m; x->m *= 2)
        for (x->n = first_n; x->n <= last_n; x->n += 8)
            if (atom_has_tile(f, x->m, x->n) && count++ == stop)
                return stop;
    return count;
}

static size_t count_types(unsigned set) { return (size_t)__builtin_popcount(set); }

static int nth_type(unsigned set, size_t index)
{
    while (index-- > 0)
        set &= set - 1; /* drop the lowest */
    return __builtin_ctz(set);
}

size_t atom_members(const struct family *f)
{
    struct member x;
    size_t        combinations = count_types(f->d) * count_types(f->a) * count_types(f->b);
    return walk_tiles(f, SIZE_MAX, &x) * combinations * (f->flags & SATURABLE ? 2 : 1);
}

struct member atom_member(const struct family *f, size_t index)
{
    struct member x = {.saturate = false};
    size_t        d = count_types(f->d), a = count_types(f->a), b = count_types(f->b);
    if (f->flags & SATURABLE) {
        x.saturate = index % 2;
        index /= 2;
    }
    x.b = nth_type(f->b, index % b), index /= b;
    x.a = nth_type(f->a, index % a), index /= a;
    x.d = nth_type(f->d, index % d), index /= d;
    walk_tiles(f, index, &x);
    return x;
}

/* ---- texts -------------------------------------------------------------------------------------------- */
/* The text of the $.. at *at, which moves to the last letter of it. */
static void fill_one(const struct family *f, struct member x, const char **at, char *out, size_t cap)
{
    char letter = *++*at;
    int  extent = letter == 'M' ? x.m : letter == 'N' ? x.n : f->k;
    switch (letter) {
    case 'T':
        letter = *++*at;
        snprintf(out, cap, "%s", types[letter == 'd' ? x.d : letter == 'a' ? x.a : x.b].cute);
        return;
    case 'D':
        snprintf(out, cap, "%s", types[x.d].name);
        return;
    case 'A':
        snprintf(out, cap, "%s", types[x.a].name);
        return;
    case 'B':
        snprintf(out, cap, "%s", types[x.b].name);
        return;
    case 'd':
        snprintf(out, cap, "%s", types[x.d].ptx);
        return;
    case 'a':
        snprintf(out, cap, "%s", types[x.a].ptx);
        return;
    case 'b':
        snprintf(out, cap, "%s", types[x.b].ptx);
        return;
    case 's':
        snprintf(out, cap, "%s", x.saturate ? ".satfinite" : "");
        return;
    default:
        break;
    }
    if ((*at)[1] == '/') { /* by one digit */
        extent /= (*at)[2] - '0';
        *at += 2;
    }
    snprintf(out, cap, "%d", extent);
}

void atom_fill(const struct family *f, struct member x, const char *pattern, char *out, size_t cap)
{
    size_t used = 0;
    for (const char *at = pattern; *at && used + 1 < cap; at++) {
        if (*at == '$') {
            fill_one(f, x, &at, out + used, cap - used);
            used += strlen(out + used);
        } else {
            out[used++] = *at;
        }
    }
    out[used] = '\0';
}

void atom_name(const struct family *f, struct member x, const char *pattern, char *out, size_t cap)
{
    atom_fill(f, x, pattern, out, cap);
    size_t used = strlen(out);
    snprintf(out + used, cap - used, "%s", x.saturate ? "_SATURATE" : "");
}

/* ---- atoms -------------------------------------------------------------------------------------------- */
static ptxpack_layout layout_of(const struct family *f, struct member x, const char *pattern)
{
    char text[96];
    atom_fill(f, x, pattern, text, sizeof text);
    return ptxpack_layout_parse(text);
}

/* Registers for the values of one thread: of 64 bits for F64 and what is made of it. */
static int registers(const ptxpack_layout *l, int bits)
{
    int width = bits >= 64 ? 64 : 32;
    return (int)((ptxpack_mode_size(l, 1) * bits + width - 1) / width);
}

static void make_places(const struct family *f, ptxpack_mma_atom *out)
{
    out->a_shared = (f->flags & A_SHARED) != 0;
    out->b_shared = (f->flags & B_SHARED) != 0;
    out->a_tensor = (f->flags & A_TENSOR) != 0;
    out->d_tensor = (f->flags & D_TENSOR) != 0;
    out->a_major = f->a_major && !out->a_tensor ? f->a_major : 'K';
    out->b_major = f->b_major ? f->b_major : 'K';
    out->registers_d = out->d_tensor ? 0 : registers(&out->c_layout, ptxpack_value_bits(out->d));
    out->registers_a = out->a_shared || out->a_tensor ? 0 : registers(&out->a_layout, out->a_bits);
    out->registers_b = out->b_shared ? 0 : registers(&out->b_layout, out->b_bits);
}

void atom_make(const struct family *f, struct member x, ptxpack_mma_atom *out)
{
    memset(out, 0, sizeof *out);
    atom_name(f, x, f->name, out->name, sizeof out->name);
    atom_name(f, x, f->cute != NULL ? f->cute : f->name, out->cute, sizeof out->cute);
    atom_fill(f, x, f->ptx, out->ptx, sizeof out->ptx);
    out->instructions = f->times ? f->times : 1;
    out->m = x.m;
    out->n = x.n;
    out->k = f->k;
    out->d = out->c = (ptxpack_value_type)x.d;
    out->a = (ptxpack_value_type)x.a;
    out->b = (ptxpack_value_type)x.b;
    out->a_bits = f->flags & PADDED ? 8 : ptxpack_value_bits(out->a);
    out->b_bits = f->flags & PADDED ? 8 : ptxpack_value_bits(out->b);
    out->thr_id = layout_of(f, x, f->thr_id);
    out->a_layout = layout_of(f, x, f->a_layout);
    out->b_layout = layout_of(f, x, f->b_layout);
    out->c_layout = layout_of(f, x, f->c_layout);
    out->arch = f->arch;
    out->isa = f->isa;
    out->arch_specific = (f->flags & SPECIFIC) != 0;
    out->sparse = (f->flags & SPARSE) != 0;
    make_places(f, out);
    if (f->scale_vector) {
        out->scale_vector = f->scale_vector;
        out->scale = f->scale;
        if (f->sfa_layout != NULL) {
            out->sfa_layout = layout_of(f, x, f->sfa_layout);
            out->sfb_layout = layout_of(f, x, f->sfb_layout);
        }
    }
}

size_t ptxpack_mma_atom_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < FAMILIES; i++)
        count += atom_members(&families[i]);
    return count;
}

bool ptxpack_mma_atom_at(size_t index, ptxpack_mma_atom *out)
{
    if (out == NULL)
        return false;
    for (size_t i = 0; i < FAMILIES; i++) {
        size_t members = atom_members(&families[i]);
        if (index < members) {
            atom_make(&families[i], atom_member(&families[i], index), out);
            return true;
        }
        index -= members;
    }
    return false;
}
