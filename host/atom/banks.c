/* banks.c - bank conflicts: counting them phase by phase, and trying swizzles until there are none. */
#include "banks.h"

#include "host/layout/arithmetic.h"
#include "host/layout/internal.h"
#include "tiled_internal.h"
#include "loader/loader.h"

enum { WARP = 32, BANK_BYTES = 4, LINE_BYTES = 128, LINE_BITS = 7, TOO_FAR = 1 << 30 };

/* The addresses of one access: instruction j of thread t begins at offsets(t + threads * values * j). */
typedef struct walk {
    const ptxpack_layout *offsets;
    int64_t               threads, values, instructions;
    int                   lanes; /* of a warp that give an address: the first ones */
    int                   bits, bytes;
} walk;

/* Threads in a phase; also how many pieces of that access's width one line of banks has. */
static int phase_threads(int bytes) { return LINE_BYTES / (bytes < BANK_BYTES ? BANK_BYTES : bytes); }

static ptxpack_status check_access(const ptxpack_bank_access *access, int bits)
{
    if (access == NULL || access->offsets == NULL)
        return operand_missing("ptxpack_bank_conflicts", access == NULL ? "access" : "access->offsets");
    const ptxpack_layout *l = access->offsets;
    if (l->shape.status != PTXPACK_OK)
        return l->shape.status;
    if (!is_power_of_2(access->bytes) || access->bytes > 16)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "an access of %d bytes: 1, 2, 4, 8 or 16 are possible",
                            access->bytes);
    if (bits < 1 || bits > LINE_BYTES * 8)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "an element of %d bits", bits);
    if (l->shape.items == 0 || ptxpack_mode_size(l, 0) < 1)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "the offsets of an access are a layout without threads");
    for (int i = 0; i < l->stride.items; i++)
        if (l->stride.kind[i] != 0)
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s: the offsets of threads are integers",
                                layout_text(l).text);
    return PTXPACK_OK;
}

static ptxpack_status walk_begin(const ptxpack_bank_access *access, int bits, walk *w)
{
    ptxpack_status status = check_access(access, bits);
    if (status != PTXPACK_OK)
        return status;
    int64_t threads = ptxpack_mode_size(access->offsets, 0);
    int64_t instructions = ptxpack_size(access->offsets) / threads;
    *w = (walk){access->offsets, threads, 1, instructions, WARP, bits, access->bytes};
    return PTXPACK_OK;
}

/* The byte address of one thread in one instruction. */
static ptxpack_status address_of(const walk *w, int64_t thread, int64_t instruction, int32_t *address)
{
    int64_t offset = ptxpack_at(w->offsets, thread + w->threads * w->values * instruction);
    if (offset < 0 || offset > TOO_FAR / w->bits)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "thread %lld accesses offset %lld: not in shared memory",
                            (long long)thread, (long long)offset);
    if (offset * w->bits % (8 * w->bytes))
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "thread %lld accesses %d bytes at offset %lld, which is not aligned to them",
                            (long long)thread, w->bytes, (long long)offset);
    *address = (int32_t)(offset * w->bits / 8);
    return PTXPACK_OK;
}

/* ---- phases -------------------------------------------------------------------------------------------- */
/* Where the next phase begins; `lane` is inside one warp. */
typedef struct phase_place {
    int64_t instruction, warp;
    int     lane;
} phase_place;

/* How many threads the phase at `at` has, and their addresses; 0: there are no more phases.  Moves to the next
 * one. */
static ptxpack_status next_phase(const walk *w, phase_place *at, int32_t address[WARP], int *count)
{
    *count = 0;
    if (at->instruction == w->instructions)
        return PTXPACK_OK;
    int64_t here = w->threads - at->warp * WARP;
    int     lanes = here < w->lanes ? (int)here : w->lanes, per = phase_threads(w->bytes);
    for (; *count < per && at->lane + *count < lanes; ++*count) {
        ptxpack_status status = address_of(w, at->warp * WARP + at->lane + *count, at->instruction,
                                           &address[*count]);
        if (status != PTXPACK_OK)
            return status;
    }
    at->lane += *count;
    if (at->lane == lanes) {
        at->lane = 0;
        if (++at->warp * WARP >= w->threads) {
            at->warp = 0;
            at->instruction++;
        }
    }
    return PTXPACK_OK;
}

/* Passes of one phase, less the first.  Accesses are aligned, so that two of the same width share all of
 * their words or none: it is enough to look at whole pieces. */
static int extra_passes(const int32_t *address, int count, int bytes)
{
    int     pieces = phase_threads(bytes), shift = LINE_BITS - log2_of(pieces), most = 0;
    int32_t wanted[WARP][WARP]; /* different pieces that begin in the same bank */
    int     wants[WARP] = {0};
    for (int i = 0; i < count; i++) {
        int32_t piece = address[i] >> shift;
        int     bank = piece & (pieces - 1), seen = 0;
        while (seen < wants[bank] && wanted[bank][seen] != piece)
            seen++;
        if (seen < wants[bank])
            continue;
        wanted[bank][wants[bank]++] = piece;
        if (wants[bank] > most)
            most = wants[bank];
    }
    return most - 1;
}

static ptxpack_banks count_conflicts(const walk *w)
{
    ptxpack_banks out;
    phase_place   at = {0, 0, 0};
    int32_t       address[WARP];
    int           threads;
    out.phases = out.conflicts = 0;
    while ((out.status = next_phase(w, &at, address, &threads)) == PTXPACK_OK && threads > 0) {
        if (out.phases == PTXPACK_BANK_PHASES) {
            out.status = ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is accessed in more than %d phases",
                                      layout_text(w->offsets).text, PTXPACK_BANK_PHASES);
            break;
        }
        int extra = extra_passes(address, threads, w->bytes);
        out.phase[out.phases++] = (uint8_t)extra;
        out.conflicts += extra;
    }
    out.wavefronts = out.phases + out.conflicts;
    return out;
}

ptxpack_banks ptxpack_bank_conflicts(const ptxpack_bank_access *access, int bits)
{
    walk          w;
    ptxpack_banks out;
    out.status = walk_begin(access, bits, &w);
    return out.status == PTXPACK_OK ? count_conflicts(&w) : out;
}

/* ---- tiled copies -------------------------------------------------------------------------------------- */
/* ldmatrix.x1 and .x2 ignore the upper lanes' addresses: in the atom their stride is 0. */
static int lanes_of(const ptxpack_layout *atom_side)
{
    ptxpack_layout threads = ptxpack_mode(atom_side, 0);
    int64_t        lanes = 1;
    if (ptxpack_size(&threads) != WARP)
        return WARP;
    for (int i = 0; i < threads.shape.items; i++)
        if (threads.stride.value[i] != 0)
            lanes *= threads.shape.value[i];
    return (int)lanes;
}

/* The values that a thread moves at once, mode 0 of mode 1 of `all`, must follow one another. */
static ptxpack_status check_values(const ptxpack_tiled_copy *copy, const ptxpack_layout *all, int64_t *count)
{
    ptxpack_layout values = ptxpack_mode(all, 1);
    values = ptxpack_mode(&values, 0);
    values = ptxpack_coalesce(&values, NULL);
    if (values.shape.status != PTXPACK_OK)
        return values.shape.status;
    *count = ptxpack_size(&values);
    bool together = *count == 1 || (values.shape.items == 1 && values.stride.value[0] == 1);
    bool whole = !values.composed || !values.swizzle.bits || *count <= (int64_t)1 << values.swizzle.base;
    if (together && whole && *count * copy->value_bits % 8 == 0)
        return PTXPACK_OK;
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s moves %lld values of %lld bits at once: they lie apart in %s",
                        copy->atom.name, (long long)*count, (long long)copy->value_bits, layout_text(all).text);
}

static ptxpack_status walk_copy(const ptxpack_tiled_copy *copy, ptxpack_side side, const ptxpack_layout *all,
                                walk *w)
{
    ptxpack_space  space = side == PTXPACK_SRC ? copy->atom.src_space : copy->atom.dst_space;
    int64_t        values;
    ptxpack_status status = all->shape.status;
    if (status == PTXPACK_OK && space != PTXPACK_SPACE_SHARED && space != PTXPACK_SPACE_ANY)
        status = ptxpack_fail(NULL, PTXPACK_E_ARG, "the %s of %s is not in shared memory but in %s",
                              side == PTXPACK_SRC ? "source" : "destination", copy->atom.name,
                              ptxpack_space_name(space));
    if (status == PTXPACK_OK)
        status = check_values(copy, all, &values);
    if (status != PTXPACK_OK)
        return status;
    ptxpack_bank_access access = {all, (int)(values * copy->value_bits / 8)};
    status = walk_begin(&access, (int)copy->value_bits, w);
    if (status != PTXPACK_OK)
        return status;
    w->values = values;
    w->instructions /= values;
    w->lanes = lanes_of(side == PTXPACK_SRC ? &copy->src : &copy->dst);
    return PTXPACK_OK;
}

ptxpack_banks ptxpack_copy_conflicts(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                     const ptxpack_layout *shared)
{
    GIVEN_TILED_COPY(copy);
    GIVEN_LAYOUT(shared);
    ptxpack_layout all = ptxpack_copy_tidfrg(copy, side, shared); /* (Thr,(FrgV,FrgX),(RestM,RestN,..)) */
    walk           w;
    ptxpack_banks  out;
    out.status = walk_copy(copy, side, &all, &w);
    return out.status == PTXPACK_OK ? count_conflicts(&w) : out;
}

/* ---- the search ---------------------------------------------------------------------------------------- */
/* All phases of all accesses: addresses without a swizzle. */
typedef struct phase_list {
    int     phases, addresses;
    int32_t address[PTXPACK_BANK_ADDRESSES];
    uint8_t count[PTXPACK_BANK_ADDRESSES]; /* of each phase */
    uint8_t shift[PTXPACK_BANK_ADDRESSES]; /* of each phase: log2 of the bytes of its access */
} phase_list;

static ptxpack_status list_access(const walk *w, int64_t cosize, phase_list *list)
{
    phase_place at = {0, 0, 0};
    int32_t     address[WARP];
    int         threads;
    for (;;) {
        ptxpack_status status = next_phase(w, &at, address, &threads);
        if (status != PTXPACK_OK || threads == 0)
            return status;
        if (list->addresses + threads > PTXPACK_BANK_ADDRESSES)
            return ptxpack_fail(NULL, PTXPACK_E_ARG, "the accesses have more than %d addresses",
                                PTXPACK_BANK_ADDRESSES);
        list->count[list->phases] = (uint8_t)threads;
        list->shift[list->phases++] = (uint8_t)(LINE_BITS - log2_of(phase_threads(w->bytes)));
        for (int i = 0; i < threads; i++) {
            if ((int64_t)address[i] + w->bytes > cosize * w->bits / 8)
                return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s accesses byte %lld, beyond the tile's %lld",
                                    layout_text(w->offsets).text, (long long)address[i] + w->bytes - 1,
                                    (long long)(cosize * w->bits / 8));
            list->address[list->addresses++] = address[i];
        }
    }
}

/* Does any phase have a conflict when address a becomes a ^ (a >> shift & mask)? */
static bool has_conflict(const phase_list *list, int shift, int32_t mask)
{
    const int32_t *address = list->address;
    for (int p = 0; p < list->phases; address += list->count[p++]) {
        int32_t  piece[WARP];
        uint32_t taken = 0;
        int32_t  pieces = LINE_BYTES >> list->shift[p];
        for (int i = 0; i < list->count[p]; i++) {
            int32_t here = (address[i] ^ (address[i] >> shift & mask)) >> list->shift[p];
            int     bank = here & (pieces - 1);
            if (taken >> bank & 1 && piece[bank] != here)
                return true;
            taken |= (uint32_t)1 << bank;
            piece[bank] = here;
        }
    }
    return false;
}

/* In bytes: the bits [base, base + bits) choose the bank, those `shift` above them the row. */
static ptxpack_status search(const ptxpack_layout *tile, int element_bits, const phase_list *list, int base,
                             ptxpack_swizzle *out)
{
    int64_t bytes = ptxpack_cosize(tile) * element_bits / 8;
    int     elements = base + 3 - log2_of(element_bits); /* base, counted in elements */
    *out = (ptxpack_swizzle){0, 0, 0};
    if (!has_conflict(list, 0, 0))
        return PTXPACK_OK;
    for (int bits = 1; base + bits <= LINE_BITS && bytes % ((int64_t)1 << (base + bits)) == 0; bits++)
        for (int shift = bits; (bytes - 1) >> (base + shift + bits - 1) != 0; shift++)
            if (!has_conflict(list, shift, ((1 << bits) - 1) << base)) {
                *out = (ptxpack_swizzle){(int8_t)bits, (int8_t)elements, (int8_t)shift};
                return PTXPACK_OK;
            }
    return ptxpack_fail(NULL, PTXPACK_E_UNSUPPORTED,
                        "no swizzle inside of %s rids all %d phases of bank conflicts", layout_text(tile).text,
                        list->phases);
}

/* May a swizzle of this tile be searched? */
static ptxpack_status check_search(const ptxpack_layout *tile, int bits)
{
    if (tile->shape.status != PTXPACK_OK)
        return tile->shape.status;
    if (tile->composed || !is_power_of_2(bits) || ptxpack_cosize(tile) < 1 ||
        ptxpack_cosize(tile) > TOO_FAR / bits)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s is no unswizzled tile", layout_text(tile).text);
    return PTXPACK_OK;
}

/* log2 of the bytes that a swizzle leaves together: the widest access, an element, a bank. */
static int swizzle_base(int bits, int widest)
{
    int least = bits > 8 * BANK_BYTES ? bits / 8 : BANK_BYTES;
    return log2_of(widest > least ? widest : least);
}

ptxpack_status ptxpack_find_swizzle(const ptxpack_layout *tile, int bits, int count,
                                    const ptxpack_bank_access *accesses, ptxpack_swizzle *out)
{
    GIVEN_LAYOUT(tile);
    if (accesses == NULL || out == NULL)
        return operand_missing(__func__, out == NULL ? "out" : "accesses");
    phase_list list;
    int        widest = 0;
    list.phases = list.addresses = 0;
    if (tile->shape.status != PTXPACK_OK)
        return tile->shape.status;
    if (count < 1 || count > PTXPACK_BANK_ACCESSES || !is_power_of_2(bits))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%d accesses to elements of %d bits: 1..%d and a power of 2",
                            count, bits, PTXPACK_BANK_ACCESSES);
    ptxpack_status tile_status = check_search(tile, bits);
    if (tile_status != PTXPACK_OK)
        return tile_status;
    for (int i = 0; i < count; i++) {
        walk           w;
        ptxpack_status status = walk_begin(&accesses[i], bits, &w);
        if (status == PTXPACK_OK && accesses[i].offsets->composed)
            status = ptxpack_fail(NULL, PTXPACK_E_ARG, "access %d is swizzled already: %s", i,
                                  layout_text(accesses[i].offsets).text);
        if (status == PTXPACK_OK)
            status = list_access(&w, ptxpack_cosize(tile), &list);
        if (status != PTXPACK_OK)
            return status;
        if (accesses[i].bytes > widest)
            widest = accesses[i].bytes;
    }
    return search(tile, bits, &list, swizzle_base(bits, widest), out);
}

ptxpack_status ptxpack_copy_find_swizzle(const ptxpack_tiled_copy *copy, ptxpack_side side,
                                         const ptxpack_layout *shared, ptxpack_swizzle *out)
{
    GIVEN_TILED_COPY(copy);
    GIVEN_LAYOUT(shared);
    if (out == NULL)
        return operand_missing(__func__, "out");
    ptxpack_layout all = ptxpack_copy_tidfrg(copy, side, shared);
    walk           w;
    phase_list     list;
    ptxpack_status status = walk_copy(copy, side, &all, &w);
    list.phases = list.addresses = 0;
    if (status == PTXPACK_OK)
        status = check_search(shared, w.bits);
    if (status == PTXPACK_OK)
        status = list_access(&w, ptxpack_cosize(shared), &list);
    return status == PTXPACK_OK ? search(shared, w.bits, &list, swizzle_base(w.bits, w.bytes), out) : status;
}
