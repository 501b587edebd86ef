/* copy_atom.c - the table of copy atoms, and atoms made from its rows. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "inspect.h"
#include "copy_atom.h"
#include "host/layout/notation.h"

/* Layouts that rows share, for a warp and for one thread. */
#define ROWS_X1       "((8,4),128):((128,0),1)"
#define ROWS_X2       "((16,2),128):((128,0),1)"
#define ROWS_X4       "(32,128):(128,1)"
#define FRAGMENT_X1   "(32,32):(32,1)"
#define FRAGMENT_X2   "(32,(32,2)):(32,(1,1024))"
#define FRAGMENT_X4   "(32,(32,4)):(32,(1,1024))"
#define TRANSPOSED_X1 "((4,8),(16,2)):((256,16),(1,128))"
#define TRANSPOSED_X2 "((4,8),(16,2,2)):((256,16),(1,128,1024))"
#define TRANSPOSED_X4 "((4,8),(16,2,4)):((256,16),(1,128,1024))"
#define BITS(n)       "(1," #n "):(0,1)"
/* 16 rows of bytes, and a matrix whose registers have bytes of two columns and two rows. */
#define BYTE_ROWS_X1 "((2,2,4,2),128):((128,1024,256,0),1)"
#define BYTE_ROWS_X2 "((2,2,4,2),128):((128,1024,256,2048),1)"
#define BYTES_X1     "((4,8),(8,2,2)):((256,8),(1,128,64))"
#define BYTES_X2     "((4,8),(8,2,2,2)):((256,8),(1,128,64,1024))"
#define BYTES_X4     "((4,8),(8,2,2,4)):((256,8),(1,128,64,1024))"

enum { SRC, DST };

static const struct row {
    const char   *name, *ptx;
    ptxpack_space src_space, dst_space;
    int           arch, isa, threads;
    const char   *src, *dst;
    int           ref;
    bool          sized, arch_specific;
    int           packed_bits;
} rows[] = {
#define COPY_ATOM(name, ptx, from, to, arch, isa, threads, src, dst, ref) \
    {name, ptx, PTXPACK_SPACE_##from, PTXPACK_SPACE_##to, arch, isa, threads, src, dst, ref, false, false, 0},
#define SUFFIX_ATOM(name, ptx, from, to, src, dst, ref, packed) \
    {name, ptx, PTXPACK_SPACE_##from, PTXPACK_SPACE_##to, 100, 86, 32, src, dst, ref, false, true, packed},
#define SIZED_ATOM(name, ptx, from, to) \
    {name, ptx, PTXPACK_SPACE_##from, PTXPACK_SPACE_##to, 90, 80, 1, BITS(128), BITS(128), SRC, true, false, 0},
#define TMA(name, ptx, dim, from, to, tail) SIZED_ATOM(name, ptx ".bulk.tensor." dim "." tail, from, to)
#define TMA_1D_TO_5D(name, ptx, from, to, tail) \
    TMA(name "_1D", ptx, "1d", from, to, tail)  \
    TMA(name "_2D", ptx, "2d", from, to, tail)  \
    TMA(name "_3D", ptx, "3d", from, to, tail)  \
    TMA(name "_4D", ptx, "4d", from, to, tail)  \
    TMA(name "_5D", ptx, "5d", from, to, tail)  \
    TMA(name, ptx, "<1-5>d", from, to, tail)
#define TMA_3D_TO_5D(name, ptx, from, to, tail) \
    TMA(name "_3D", ptx, "3d", from, to, tail)  \
    TMA(name "_4D", ptx, "4d", from, to, tail)  \
    TMA(name "_5D", ptx, "5d", from, to, tail)  \
    TMA(name, ptx, "<3-5>d", from, to, tail)
#include "copy_atoms.def"
};

const char *ptxpack_space_name(ptxpack_space space)
{
    static const char *const names[] = {"any", "registers", "shared", "global"};
    return (unsigned)space < sizeof names / sizeof *names ? names[space] : "?";
}

size_t ptxpack_copy_atom_count(void) { return sizeof rows / sizeof *rows; }

static int registers(ptxpack_space space, const ptxpack_layout *thr_bit)
{
    return space == PTXPACK_SPACE_REGISTERS ? (int)(ptxpack_mode_size(thr_bit, 1) / 32) : 0;
}

bool ptxpack_copy_atom_at(size_t index, ptxpack_copy_atom *out)
{
    if (index >= sizeof rows / sizeof *rows || out == NULL)
        return false;
    const struct row *row = &rows[index];
    ptxpack_tuple     threads = ptxpack_int(row->threads);
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", row->name);
    snprintf(out->ptx, sizeof out->ptx, "%s", row->ptx);
    out->thr_id = ptxpack_make_layout_left(&threads);
    out->src = ptxpack_layout_parse(row->src);
    out->dst = ptxpack_layout_parse(row->dst);
    out->ref = row->ref == SRC ? out->src : out->dst;
    out->src_space = row->src_space;
    out->dst_space = row->dst_space;
    out->arch = row->arch;
    out->isa = row->isa;
    out->registers_src = registers(row->src_space, &out->src);
    out->registers_dst = registers(row->dst_space, &out->dst);
    out->sized = row->sized;
    out->arch_specific = row->arch_specific;
    out->packed_bits = row->packed_bits;
    return true;
}

static ptxpack_status say_unknown(const char *name)
{
    struct near_names near;
    near_begin(&near, name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        near_offer(&near, rows[i].name);
    return tuple_error("no copy atom is named \"%.80s\"; near: %s, %s, %s", name, near.name[0], near.name[1],
                       near.name[2])
        .status;
}

/* CuTe's DefaultCopy, and what it is an alias of: copies as wide as pointers and layouts allow, which layouts cannot say. */
static bool is_vectorizing(const char *name)
{
    return strcasecmp(name, "DefaultCopy") == 0 || strncasecmp(name, "AutoVectorizingCopy", 19) == 0;
}

/* One value of one thread, of any width, as CuTe describes it. */
static void make_vectorizing(const char *name, ptxpack_copy_atom *out)
{
    ptxpack_copy_atom_at(0, out);
    snprintf(out->name, sizeof out->name, "%.79s", name);
    snprintf(out->ptx, sizeof out->ptx, "ld; st, as wide as the pointers allow");
    out->src = out->dst = out->ref = ptxpack_layout_parse("(1,1):(0,0)");
}

ptxpack_status ptxpack_copy_atom_find(const char *name, ptxpack_copy_atom *out)
{
    if (out == NULL)
        return tuple_error("ptxpack_copy_atom_find: out is NULL").status;
    char bare[ATOM_NAME_BYTES];
    bool fits = name != NULL && atom_bare_name(name, bare);
    for (size_t i = 0; fits && i < sizeof rows / sizeof *rows; i++)
        if (strcasecmp(rows[i].name, bare) == 0) {
            ptxpack_copy_atom_at(i, out);
            return PTXPACK_OK;
        }
    if (fits && is_vectorizing(bare)) {
        make_vectorizing(bare, out);
        return PTXPACK_OK;
    }
    /* Values made of such an atom have its status. */
    memset(out, 0, sizeof *out);
    out->thr_id = out->src = out->dst = out->ref = layout_failed(PTXPACK_E_ARG);
    return name != NULL ? say_unknown(name) : tuple_error("ptxpack_copy_atom_find: name is NULL").status;
}

ptxpack_status ptxpack_copy_atom_resize(ptxpack_copy_atom *atom, int64_t bits)
{
    if (atom == NULL)
        return tuple_error("ptxpack_copy_atom_resize: atom is NULL").status;
    if (atom->thr_id.shape.status != PTXPACK_OK)
        return atom->thr_id.shape.status;
    if (!atom->sized)
        return tuple_error("%s copies a number of bits of its own", atom->name).status;
    if (bits <= 0 || bits % 128 != 0)
        return tuple_error("%s copies multiples of 128 bits, not %lld bits", atom->name, (long long)bits)
            .status;
    const int64_t extents[] = {1, bits};
    ptxpack_tuple shape = ptxpack_tuple_of(2, extents);
    atom->src = atom->dst = atom->ref = ptxpack_make_layout_left(&shape);
    return atom->src.shape.status;
}
