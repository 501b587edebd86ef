/* atom_tiled.c - "ptxpack atom --tiled": tiled MMAs and tiled copies, and what a thread has of a tensor. */
#include <stdio.h>
#include <string.h>

#include "atom.h"
#include "host/atom/banks.h"
#include "loader/loader.h"
#include "tools/command.h"
#include "tools/notation/atom_show.h"
#include "tools/notation/draw.h"
#include "tools/notation/layout_expr.h"

static int drawn(ptxpack_status status)
{
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("atom", "%s", ptxpack_detail(NULL));
}

/* ---- layouts of options ------------------------------------------------------------------------------- */
/* Evaluates the layout that an option holds, and where it starts. */
static int take_slice(const char *name, const char *text, ptxpack_slice *out)
{
    return expr_slice(text, out) == PTXPACK_OK ? COMMAND_OK : atom_refused(name, text);
}

/* Only M, N and K are modes of a tiled MMA, and of a tiled copy. */
static int check_modes(const char *name, const char *text, const ptxpack_layout *l)
{
    int rank = ptxpack_rank(&l->shape);
    if (rank <= 3)
        return COMMAND_OK;
    return command_fail("atom", "%s %s has %d modes; there are only M, N and K", name, text, rank),
           COMMAND_USAGE;
}

/* Reads the tiler that an option holds; its modes are M, N and K, or the first of them. */
static int take_tiler(const char *name, const char *text, ptxpack_layout *out)
{
    return expr_tiler(text, out) == PTXPACK_OK ? check_modes(name, text, out) : atom_refused(name, text);
}

/* Reads a layout whose modes are these. */
static int take_layout(const char *name, const char *text, ptxpack_layout *out)
{
    ptxpack_slice slice;
    if (take_slice(name, text, &slice) != COMMAND_OK)
        return COMMAND_USAGE;
    *out = slice.layout;
    return check_modes(name, text, out);
}

/* The operand that a text names; false if none is. */
static bool take_operand(const char *text, ptxpack_operand *operand, bool *smallest)
{
    static const struct {
        const char     *text;
        ptxpack_operand operand;
        bool            smallest;
    } rows[] = {{"A", PTXPACK_A, false},
                {"B", PTXPACK_B, false},
                {"C", PTXPACK_C, false},
                {"C_atom", PTXPACK_C, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(text, rows[i].text) == 0) {
            *operand = rows[i].operand;
            *smallest = rows[i].smallest;
            return true;
        }
    return false;
}

/* Is there such a thread? */
static int check_thread(int64_t thread, int64_t threads)
{
    if (thread >= 0 && thread < threads)
        return COMMAND_OK;
    return command_fail("atom", "--thread %lld: there are threads 0 to %lld", (long long)thread,
                        (long long)threads - 1),
           COMMAND_USAGE;
}

/* ---- tiled MMA ---------------------------------------------------------------------------------------- */
static ptxpack_status draw_tiled_mma(const ptxpack_tiled_mma *mma, draw_format format)
{
    static const ptxpack_operand operands[3] = {PTXPACK_A, PTXPACK_B, PTXPACK_C};
    ptxpack_layout               tv[3];
    ptxpack_tuple                size = ptxpack_product_each(&mma->tile_size_mnk);
    for (int i = 0; i < 3; i++) {
        tv[i] = ptxpack_mma_layout_tv(mma, operands[i]);
        if (tv[i].shape.status != PTXPACK_OK)
            return tv[i].shape.status;
        if (size.value[i] > DRAW_CELLS)
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "a tile of %lld rows is too large for a picture",
                                (long long)size.value[i]);
    }
    return draw_mma(stdout, format, &tv[0], &tv[1], &tv[2], (int)size.value[0], (int)size.value[1],
                    (int)size.value[2], NULL);
}

/* The tile that says what ValLayoutMNK said: its extents times those of all atoms. */
static int tile_of_values(const atom_settings *s, const ptxpack_tiled_mma *mma, ptxpack_layout *tile)
{
    ptxpack_layout values;
    if (take_layout("--val-layout", s->value_layout, &values) != COMMAND_OK)
        return COMMAND_USAGE;
    ptxpack_tuple size = ptxpack_product_each(&mma->tile_size_mnk), times = ptxpack_product_each(&values.shape);
    for (int i = 0; i < size.items && i < times.items; i++)
        if (__builtin_mul_overflow(size.value[i], times.value[i], &size.value[i]))
            return command_fail("atom", "--val-layout %s is too large", s->value_layout), COMMAND_USAGE;
    *tile = ptxpack_tiler_of(&size);
    return COMMAND_OK;
}

/* Makes the tiled MMA of an atom that the options describe; an error names the option that causes it. */
static int make_mma(const atom_settings *s, const ptxpack_mma_atom *atom, ptxpack_tiled_mma *mma)
{
    ptxpack_layout atoms, tile;
    if (s->atoms != NULL && take_layout("--atoms", s->atoms, &atoms) != COMMAND_OK)
        return COMMAND_USAGE;
    if (s->tile != NULL && take_tiler("--tile", s->tile, &tile) != COMMAND_OK)
        return COMMAND_USAGE;
    *mma = ptxpack_make_tiled_mma(atom, s->atoms != NULL ? &atoms : NULL, NULL);
    if (mma->status != PTXPACK_OK)
        return atom_refused("--atoms", s->atoms);
    if (s->value_layout != NULL && tile_of_values(s, mma, &tile) != COMMAND_OK)
        return COMMAND_USAGE;
    if (s->tile != NULL || s->value_layout != NULL)
        *mma = ptxpack_make_tiled_mma(atom, s->atoms != NULL ? &atoms : NULL, &tile);
    return mma->status == PTXPACK_OK ? COMMAND_OK : atom_refused("--tile", s->tile);
}

/* A thread's partition of the tensor, and its fragment. */
static int fill_mma_part(const atom_settings *s, const ptxpack_tiled_mma *mma, atom_mma_part *part)
{
    ptxpack_slice tensor;
    if (take_slice("--tensor", s->tensor, &tensor) != COMMAND_OK)
        return COMMAND_USAGE;
    part->partition = ptxpack_mma_partition(mma, part->operand, part->thread, &tensor.layout);
    if (part->partition.layout.shape.status != PTXPACK_OK)
        return atom_refused("--tensor", s->tensor);
    part->partition.offset.value[0] += tensor.offset.value[0];
    part->fragment = ptxpack_mma_partition_fragment(mma, part->operand, &tensor.layout);
    return part->fragment.shape.status == PTXPACK_OK ? COMMAND_OK : atom_refused("--tensor", s->tensor);
}

static int tiled_mma(const atom_settings *s, const ptxpack_mma_atom *atom)
{
    ptxpack_tiled_mma mma;
    atom_mma_part     part = {.thread = s->thread == OPTION_NOT_GIVEN ? 0 : s->thread};
    bool              smallest;
    int               status = make_mma(s, atom, &mma);
    if (status != COMMAND_OK)
        return status;
    if (s->latex || s->svg)
        return drawn(draw_tiled_mma(&mma, s->svg ? DRAW_SVG : DRAW_LATEX));
    if (s->tensor != NULL) {
        take_operand(s->operand, &part.operand, &smallest);
        status = check_thread(part.thread, ptxpack_mma_threads(&mma));
    }
    if (s->tensor != NULL && status == COMMAND_OK)
        status = fill_mma_part(s, &mma, &part);
    if (status != COMMAND_OK)
        return status;
    return atom_show_tiled(&mma, s->tensor != NULL ? &part : NULL, s->json) == PTXPACK_OK
               ? COMMAND_OK
               : atom_refused("", NULL);
}

/* ---- tiled copy --------------------------------------------------------------------------------------- */
static int64_t bits_of_values(const atom_settings *s) { return s->bits == OPTION_NOT_GIVEN ? 16 : s->bits; }

static int copy_of_threads(const atom_settings *s, const ptxpack_copy_atom *atom, ptxpack_tiled_copy *copy)
{
    ptxpack_slice threads, values;
    if (take_slice("--threads", s->threads, &threads) != COMMAND_OK)
        return COMMAND_USAGE;
    if (s->values != NULL && take_slice("--values", s->values, &values) != COMMAND_OK)
        return COMMAND_USAGE;
    *copy = ptxpack_make_tiled_copy(atom, bits_of_values(s), &threads.layout,
                                    s->values != NULL ? &values.layout : NULL);
    return copy->status == PTXPACK_OK ? COMMAND_OK : atom_refused("", NULL);
}

/* The copy whose layout is given: of the elements of a tile, or of addresses in the data. */
static int copy_of_tv(const atom_settings *s, const ptxpack_copy_atom *atom, ptxpack_tiled_copy *copy)
{
    ptxpack_slice  tv, data;
    ptxpack_layout tile;
    if (take_slice("--tv", s->tv, &tv) != COMMAND_OK)
        return COMMAND_USAGE;
    if (s->data != NULL && take_slice("--data", s->data, &data) != COMMAND_OK)
        return COMMAND_USAGE;
    if (s->tile != NULL && take_tiler("--tile", s->tile, &tile) != COMMAND_OK)
        return COMMAND_USAGE;
    *copy = s->data != NULL ? ptxpack_make_cotiled_copy(atom, bits_of_values(s), &tv.layout, &data.layout)
                            : ptxpack_make_tiled_copy_tv(atom, bits_of_values(s), &tv.layout, &tile);
    return copy->status == PTXPACK_OK ? COMMAND_OK : atom_refused("", NULL);
}

static int64_t operand_bits(const ptxpack_mma_atom *atom, ptxpack_operand operand)
{
    return operand == PTXPACK_A   ? atom->a_bits
           : operand == PTXPACK_B ? atom->b_bits
                                  : ptxpack_value_bits(atom->c);
}

static int copy_of_mma(const atom_settings *s, const ptxpack_copy_atom *atom, ptxpack_tiled_mma *mma,
                       ptxpack_operand operand, bool smallest, ptxpack_tiled_copy *copy)
{
    ptxpack_mma_atom  multiply;
    ptxpack_copy_atom other;
    if (atom_is_copy(s->mma, &other))
        return command_fail("atom", "--mma: %s is a copy, not an MMA", s->mma), COMMAND_USAGE;
    if (ptxpack_mma_atom_find(s->mma, &multiply) != PTXPACK_OK)
        return atom_refused("", NULL);
    int status = make_mma(s, &multiply, mma);
    if (status != COMMAND_OK)
        return status;
    int64_t bits = s->bits == OPTION_NOT_GIVEN ? operand_bits(&multiply, operand) : s->bits;
    *copy = smallest ? ptxpack_make_tiled_copy_c_atom(atom, bits, mma)
                     : ptxpack_make_tiled_copy_mma(atom, bits, mma, operand);
    return copy->status == PTXPACK_OK ? COMMAND_OK : atom_refused("", NULL);
}

static int make_copy(const atom_settings *s, const ptxpack_copy_atom *atom, ptxpack_tiled_mma *mma,
                     ptxpack_operand *operand, ptxpack_tiled_copy *copy);

/* The copy that matches one side of another one. */
static int copy_like(const atom_settings *s, const ptxpack_copy_atom *atom, ptxpack_tiled_copy *copy)
{
    atom_spelling      spelling;
    atom_settings      other = {.rows = OPTION_NOT_GIVEN, .bits = OPTION_NOT_GIVEN, .thread = OPTION_NOT_GIVEN};
    ptxpack_copy_atom  other_atom;
    ptxpack_tiled_mma  mma;
    ptxpack_operand    operand;
    ptxpack_tiled_copy shape;
    if (!atom_spelling_read(s->like, &spelling) || !atom_take_spelling(&other, &spelling) ||
        !atom_is_copy(other.tiled, &other_atom))
        return command_fail("atom", "--like %s is not a tiled copy", s->like), COMMAND_USAGE;
    const char *wrong = atom_tiled_conflict(&other);
    if (wrong != NULL)
        return command_fail("atom", "--like %s: %s", s->like, wrong), COMMAND_USAGE;
    if (make_copy(&other, &other_atom, &mma, &operand, &shape) != COMMAND_OK)
        return COMMAND_USAGE;
    const ptxpack_side side = strcmp(s->side, "S") == 0 ? PTXPACK_SRC : PTXPACK_DST;
    *copy = ptxpack_make_tiled_copy_like(atom, s->bits != OPTION_NOT_GIVEN ? s->bits : shape.value_bits, &shape,
                                         side);
    return copy->status == PTXPACK_OK ? COMMAND_OK : atom_refused("", NULL);
}

/* Makes the tiled copy that the options describe; and its tiled MMA with the operand, if it is made from one. */
static int make_copy(const atom_settings *s, const ptxpack_copy_atom *atom, ptxpack_tiled_mma *mma,
                     ptxpack_operand *operand, ptxpack_tiled_copy *copy)
{
    bool smallest = false;
    if (s->mma == NULL)
        return s->like != NULL ? copy_like(s, atom, copy)
               : s->tv != NULL ? copy_of_tv(s, atom, copy)
                               : copy_of_threads(s, atom, copy);
    take_operand(s->operand, operand, &smallest);
    return copy_of_mma(s, atom, mma, *operand, smallest, copy);
}

/* What is retiled: the option's layout, or the tiled MMA's fragment of the tensor; items 0: nothing. */
static int fill_retile(const atom_settings *s, const ptxpack_tiled_mma *mma, const ptxpack_slice *tensor,
                       atom_copy_part *part)
{
    ptxpack_slice fragment = {.offset = ptxpack_int(0)};
    part->fragment.layout.shape.items = 0;
    if (s->fragment != NULL) {
        if (take_slice("--fragment", s->fragment, &fragment) != COMMAND_OK)
            return COMMAND_USAGE;
    } else if (mma != NULL && tensor != NULL) {
        fragment.layout = ptxpack_mma_partition_fragment(mma, part->operand, &tensor->layout);
    } else {
        return COMMAND_OK;
    }
    part->fragment = fragment;
    part->of_mma = s->fragment == NULL;
    part->retiled = ptxpack_copy_retile(&part->copy, &fragment.layout);
    const char *name = s->fragment != NULL ? "--fragment" : "--tensor";
    return part->retiled.shape.status == PTXPACK_OK
               ? COMMAND_OK
               : atom_refused(name, s->fragment != NULL ? s->fragment : s->tensor);
}

/* The conflicts of each side that is in shared memory, or may be, and the swizzle against them. */
static int fill_banks(const atom_settings *s, const ptxpack_layout *tensor, atom_copy_part *part)
{
    const ptxpack_space space[2] = {part->copy.atom.src_space, part->copy.atom.dst_space};
    bool                any = false;
    for (int side = PTXPACK_SRC; side <= PTXPACK_DST; side++) {
        part->shared[side] = space[side] == PTXPACK_SPACE_SHARED || space[side] == PTXPACK_SPACE_ANY;
        any |= part->shared[side];
        if (!part->shared[side])
            continue;
        part->banks[side] = ptxpack_copy_conflicts(&part->copy, (ptxpack_side)side, tensor);
        if (part->banks[side].status != PTXPACK_OK)
            return atom_refused("--tensor", s->tensor);
        part->free_swizzle[side] = part->banks[side].conflicts > 0 &&
                                   ptxpack_copy_find_swizzle(&part->copy, (ptxpack_side)side, tensor,
                                                             &part->swizzle[side]) == PTXPACK_OK;
    }
    if (any)
        return COMMAND_OK;
    return command_fail("atom", "--banks: neither side of %s is in shared memory", part->copy.atom.name),
           COMMAND_USAGE;
}

static int fill_copy_part(const atom_settings *s, const ptxpack_tiled_mma *mma, atom_copy_part *part)
{
    ptxpack_slice tensor;
    if (s->tensor == NULL)
        return fill_retile(s, mma, NULL, part);
    if (take_slice("--tensor", s->tensor, &tensor) != COMMAND_OK)
        return COMMAND_USAGE;
    for (int side = PTXPACK_SRC; side <= PTXPACK_DST; side++) {
        ptxpack_slice *mine = &part->partition[side];
        *mine = ptxpack_copy_partition(&part->copy, (ptxpack_side)side, part->thread, &tensor.layout);
        if (mine->layout.shape.status != PTXPACK_OK)
            return atom_refused("--tensor", s->tensor);
        mine->offset.value[0] += tensor.offset.value[0];
    }
    part->tensor = true;
    if (s->banks && fill_banks(s, &tensor.layout, part) != COMMAND_OK)
        return COMMAND_USAGE;
    return fill_retile(s, mma, &tensor, part);
}

static int tiled_copy(const atom_settings *s, const ptxpack_copy_atom *atom)
{
    static atom_copy_part part; /* large */
    ptxpack_tiled_mma     mma;
    part.operand = PTXPACK_A;
    part.threads = s->thread != OPTION_NOT_GIVEN || s->tensor != NULL;
    part.thread = s->thread == OPTION_NOT_GIVEN ? 0 : s->thread;
    int status = make_copy(s, atom, &mma, &part.operand, &part.copy);
    if (status != COMMAND_OK)
        return status;
    for (int side = PTXPACK_SRC; side <= PTXPACK_DST; side++) {
        part.tv[side] = ptxpack_copy_layout_tv(&part.copy, (ptxpack_side)side);
        if (part.tv[side].shape.status != PTXPACK_OK)
            return atom_refused("", NULL);
    }
    if (s->latex || s->svg) {
        ptxpack_tuple tile = ptxpack_product_each(&part.copy.tiler.shape);
        return drawn(draw_copy(stdout, s->svg ? DRAW_SVG : DRAW_LATEX, &part.tv[PTXPACK_SRC],
                               &part.tv[PTXPACK_DST], &tile));
    }
    status = check_thread(part.thread, ptxpack_copy_threads(&part.copy));
    if (status == COMMAND_OK)
        status = fill_copy_part(s, s->mma != NULL ? &mma : NULL, &part);
    if (status == COMMAND_OK)
        atom_show_tiled_copy(&part, s->json);
    return status;
}

/* ---- the command -------------------------------------------------------------------------------------- */
const char *atom_tiled_conflict(const atom_settings *s)
{
    ptxpack_copy_atom copy;
    ptxpack_operand   operand;
    bool              smallest, copies = atom_is_copy(s->tiled, &copy), draws = s->latex || s->svg;
    if (!copies &&
        (s->threads != NULL || s->values != NULL || s->mma != NULL || s->tv != NULL || s->data != NULL ||
         s->like != NULL || s->side != NULL || s->fragment != NULL || s->banks || s->bits != OPTION_NOT_GIVEN))
        return "--threads, --values, --mma, --tv, --data, --like, --side, --fragment, --banks and --bits go "
               "with a copy after --tiled";
    if (copies && (s->threads != NULL) + (s->mma != NULL) + (s->tv != NULL) + (s->like != NULL) != 1)
        return "a tiled copy is made from one of --threads, --mma, --tv and --like";
    if (s->tv != NULL && (s->tile != NULL) + (s->data != NULL) != 1)
        return "--tv goes with --tile or with --data";
    if (s->data != NULL && s->tv == NULL)
        return "--data goes with --tv";
    if ((s->like != NULL) != (s->side != NULL))
        return "--like and --side go together";
    if (s->side != NULL && strcmp(s->side, "S") != 0 && strcmp(s->side, "D") != 0)
        return "--side is S, the source, or D, the destination";
    if (s->values != NULL && s->threads == NULL)
        return "--values goes with --threads";
    if (copies && s->mma == NULL && (s->atoms != NULL || (s->tile != NULL && s->tv == NULL)))
        return "--atoms and --tile go with --mma, --tile also with --tv";
    if (s->operand != NULL && (copies ? s->mma == NULL : s->tensor == NULL))
        return copies ? "--operand goes with --mma" : "--operand goes with --tensor";
    if (s->operand == NULL && (copies ? s->mma != NULL : s->tensor != NULL))
        return "--operand says which operand of the tiled MMA: A, B or C";
    if (s->operand != NULL && (!take_operand(s->operand, &operand, &smallest) || (smallest && !copies)))
        return copies ? "--operand is A, B, C or C_atom" : "--operand is A, B or C";
    if (!copies && s->thread != OPTION_NOT_GIVEN && s->tensor == NULL)
        return "--thread goes with --tensor";
    if (s->banks && s->tensor == NULL)
        return "--banks goes with --tensor";
    if (draws && (s->tensor != NULL || s->fragment != NULL || s->thread != OPTION_NOT_GIVEN))
        return "--latex and --svg draw the whole tile, without --tensor, --fragment and --thread";
    return NULL;
}

int atom_tiled(const atom_settings *s)
{
    ptxpack_copy_atom copy;
    ptxpack_mma_atom  mma;
    if (atom_is_copy(s->tiled, &copy))
        return tiled_copy(s, &copy);
    if (ptxpack_mma_atom_find(s->tiled, &mma) != PTXPACK_OK)
        return atom_unknown(s->tiled);
    return tiled_mma(s, &mma);
}
