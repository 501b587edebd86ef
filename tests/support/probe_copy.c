/* probe_copy.c - which byte of which lane a copy must put where, if the table of atoms is right.
 *
 * A number identifies each byte of the source; two experiments show its low byte, then its high byte.  Of packed
 * elements as many experiments show as many bits each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

enum {
    SLOTS = PROBE_IMAGE / PROBE_COPY_BYTES,
    UNTOUCHED = 0x8000 /* codes from here on: what lay there before */
};

/* ---- what the table says --------------------------------------------------------------------------- */
/* The numbers of the bytes of a layout. */
typedef struct numbering {
    int     threads, bytes;
    int64_t of[PROBE_LANES][PROBE_COPY_BYTES];
} numbering;

/* Returns false when the bits of a byte are not eight neighbours in order. */
static bool read_numbers(const ptxpack_layout *l, int threads, numbering *out)
{
    int64_t bits = l->shape.status == PTXPACK_OK ? ptxpack_mode_size(l, 1) : 0;
    *out = (numbering){.threads = threads, .bytes = (int)(bits / 8)};
    if (bits < 8 || bits % 8 != 0 || bits > 8 * PROBE_COPY_BYTES || ptxpack_mode_size(l, 0) != threads)
        return false;
    for (int t = 0; t < threads; t++)
        for (int u = 0; u < out->bytes; u++) {
            int64_t first = ptxpack_at(l, t + 8 * threads * u);
            for (int bit = 1; bit < 8; bit++)
                if (first % 8 != 0 || ptxpack_at(l, t + threads * (8 * u + bit)) != first + bit)
                    return false;
            out->of[t][u] = first / 8;
        }
    return true;
}

/* The first (thread, byte) with a number, as 16 thread + byte; -1: there is none. */
static int find(const numbering *n, int64_t number)
{
    for (int t = 0; t < n->threads; t++)
        for (int u = 0; u < n->bytes; u++)
            if (n->of[t][u] == number)
                return PROBE_COPY_BYTES * t + u;
    return -1;
}

/* One group of threads: its lanes are those of the first group plus `shift`. */
static bool read_group(const ptxpack_layout *thr_id, const numbering *src, const numbering *dst, int64_t shift,
                       probe_copy *out)
{
    for (int t = 0; t < dst->threads; t++)
        for (int u = 0; u < dst->bytes; u++) {
            int     from = find(src, dst->of[t][u]);
            int64_t to_lane = ptxpack_at(thr_id, t) + shift;
            if (from < 0 || to_lane < 0 || to_lane >= PROBE_LANES)
                return false;
            if (find(dst, dst->of[t][u]) != PROBE_COPY_BYTES * t + u)
                continue; /* another copy of the bits: the address of the first thread is used */
            int64_t from_lane = ptxpack_at(thr_id, from / PROBE_COPY_BYTES) + shift;
            out->source[to_lane][u] = (uint16_t)(1 + PROBE_COPY_BYTES * from_lane + from % PROBE_COPY_BYTES);
        }
    return true;
}

/* For CuTe, and so for the table, movmatrix leaves registers where they are; the instruction does the same as
 * storing an 8 x 8 matrix row by row and loading it transposed. */
static ptxpack_layout real_destination(const ptxpack_copy_atom *atom)
{
    ptxpack_copy_atom transposed;
    if (strncmp(atom->ptx, "movmatrix.", 10) == 0 &&
        ptxpack_copy_atom_find("SM75_U16x2_LDSM_T", &transposed) == PTXPACK_OK)
        return transposed.dst;
    return atom->dst;
}

bool probe_copy_of(const ptxpack_copy_atom *atom, probe_copy *out, char *line)
{
    const ptxpack_layout to = real_destination(atom);
    const ptxpack_tuple  lanes = ptxpack_int(PROBE_LANES);
    const ptxpack_layout rest = ptxpack_complement(&atom->thr_id, &lanes);
    int                  threads = (int)ptxpack_size(&atom->thr_id);
    numbering            src, dst;
    bool ok = rest.shape.status == PTXPACK_OK && threads >= 1 && ptxpack_size(&rest) * threads == PROBE_LANES &&
              read_numbers(&atom->src, threads, &src) && read_numbers(&to, threads, &dst);
    memset(out, 0, sizeof *out);
    out->from_registers = atom->src_space == PTXPACK_SPACE_REGISTERS;
    out->to_registers = atom->dst_space == PTXPACK_SPACE_REGISTERS;
    out->fills = strstr(atom->name, "ZFILL") != NULL;
    out->packed_bits = atom->packed_bits ? atom->packed_bits : 8;
    out->bytes = ok ? dst.bytes : 0;
    for (int64_t g = 0; ok && g < ptxpack_size(&rest); g++)
        ok = read_group(&atom->thr_id, &src, &dst, ptxpack_at(&rest, g), out);
    if (!ok)
        snprintf(line, PROBE_LINE, "the table's layouts are not those of bytes of a warp");
    return ok;
}

/* ---- experiments ----------------------------------------------------------------------------------- */
enum { LOW, HIGH, ZERO_LOW, ZERO_HIGH, EXPERIMENTS }; /* the last two: write zeros instead */
enum { CODE_BITS = 16 };

/* The experiments that show a code. */
static size_t digits(const probe_copy *copy)
{
    return (size_t)((CODE_BITS + copy->packed_bits - 1) / copy->packed_bits);
}

static void batch_free(probe_copy_batch *b)
{
    free(b->image);
    free(b->source);
    free(b->where);
    free(b->words);
    free(b->after);
}

static bool batch_make(probe_copy_batch *b, size_t experiments)
{
    *b = (probe_copy_batch){.experiments = experiments};
    b->image = (uint8_t *)calloc(experiments, PROBE_IMAGE);
    b->source = (uint8_t *)calloc(experiments, PROBE_IMAGE);
    b->where = (uint32_t *)calloc(experiments, 2 * PROBE_LANES * sizeof *b->where);
    b->words = (uint32_t *)calloc(experiments, PROBE_COPY_WORDS * PROBE_LANES * sizeof *b->words);
    b->after = (uint8_t *)calloc(experiments, PROBE_AFTER);
    if (b->image != NULL && b->source != NULL && b->where != NULL && b->words != NULL && b->after != NULL)
        return true;
    batch_free(b);
    return false;
}

/* The bits of a code that an experiment shows. */
static uint8_t told(const probe_copy *copy, int code, size_t experiment)
{
    int shift = copy->packed_bits * (int)(experiment % digits(copy));
    return (uint8_t)(code >> shift & ((1 << copy->packed_bits) - 1));
}

/* Element u of 16 of a row. */
static void put_element(const probe_copy *copy, uint8_t *row, int u, uint8_t element)
{
    for (int i = 0; i < copy->packed_bits; i++) {
        int     at = copy->packed_bits * u + i;
        uint8_t bit = (uint8_t)(1 << at % 8);
        row[at / 8] = (uint8_t)(element >> i & 1 ? row[at / 8] | bit : row[at / 8] & ~bit);
    }
}

/* Gives places to lanes in random order: 16 bytes each, not shared.  Each experiment has other places. */
static void put_places(const probe_copy_batch *b, random_state *random)
{
    uint32_t place[2][SLOTS];
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t i = 0; i < SLOTS; i++)
            place[kind][i] = i;
        for (uint32_t i = 0; i < PROBE_LANES; i++) {
            uint32_t other = i + (uint32_t)random_below(random, SLOTS - i), kept = place[kind][i];
            place[kind][i] = place[kind][other];
            place[kind][other] = kept;
        }
    }
    for (size_t e = 0; e < b->experiments; e++)
        for (int lane = 0; lane < PROBE_LANES; lane++)
            for (int kind = 0; kind < 2; kind++)
                b->where[(e * PROBE_LANES + (size_t)lane) * 2 + (size_t)kind] = (place[kind][lane] +
                                                                                 (uint32_t)e) %
                                                                                SLOTS * PROBE_COPY_BYTES;
}

static uint32_t where(const probe_copy_batch *b, size_t experiment, int lane, bool global)
{
    return b->where[(experiment * PROBE_LANES + (size_t)lane) * 2 + global];
}

/* A byte of a lane's registers, in words[word][lane]. */
static uint8_t *register_byte(uint8_t *words, int lane, int byte)
{
    return words + 4 * (byte / 4 * PROBE_LANES + lane) + byte % 4;
}

/* What lies at a place of shared memory, global memory or registers before the copy, if nothing known is
 * there. */
static int filler(int place) { return UNTOUCHED + place; }

static void put_codes(const probe_copy *copy, const probe_copy_batch *b, size_t e, bool global)
{
    uint8_t *image = b->image + e * PROBE_IMAGE, *source = b->source + e * PROBE_IMAGE;
    uint8_t *words = (uint8_t *)(b->words + e * PROBE_COPY_WORDS * PROBE_LANES);
    for (int i = 0; i < PROBE_IMAGE; i++)
        image[i] = source[i] = told(copy, filler(i), e);
    for (int i = 0; i < 4 * PROBE_COPY_WORDS * PROBE_LANES; i++)
        words[i] = told(copy, filler(PROBE_IMAGE + i), e);
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int u = 0; u < PROBE_COPY_BYTES; u++) {
            uint8_t code = told(copy, 1 + PROBE_COPY_BYTES * lane + u, e);
            if (copy->from_registers)
                *register_byte(words, lane, u) = code;
            else
                put_element(copy, (global ? source : image) + where(b, e, lane, global), u, code);
        }
    for (int lane = 0; lane < PROBE_LANES && copy->fills; lane++)
        ((uint32_t *)(void *)words)[lane] = e >= ZERO_LOW ? 0 : (uint32_t)copy->bytes;
}

/* Where byte u of a lane's destination is in what an experiment leaves. */
static size_t place_after(const probe_copy *copy, const probe_copy_batch *b, size_t e, int lane, int u)
{
    size_t at = copy->to_registers ? PROBE_IMAGE + (size_t)(4 * (u / 4 * PROBE_LANES + lane) + u % 4)
                                   : where(b, e, lane, false) + (uint32_t)u;
    return e * PROBE_AFTER + at;
}

/* The code that the copy left there, from all experiments that show it. */
static int seen(const probe_copy *copy, const probe_copy_batch *b, size_t low, int lane, int u)
{
    int code = 0;
    for (size_t i = 0; i < digits(copy); i++)
        code |= b->after[place_after(copy, b, low + i, lane, u)] << copy->packed_bits * (int)i;
    return code;
}

static void name_code(int code, char *text, size_t cap)
{
    if (code >= UNTOUCHED)
        snprintf(text, cap, "what was there before");
    else if (code == 0)
        snprintf(text, cap, "0");
    else
        snprintf(text, cap, "byte %d of thread %d", (code - 1) % PROBE_COPY_BYTES,
                 (code - 1) / PROBE_COPY_BYTES);
}

static probe_verdict differs(int lane, int byte, int got, int wanted, char *line)
{
    char got_text[64], wanted_text[64];
    name_code(got, got_text, sizeof got_text);
    name_code(wanted, wanted_text, sizeof wanted_text);
    snprintf(line, PROBE_LINE, "byte %d of thread %d got %s, not %s", byte, lane, got_text, wanted_text);
    return PROBE_DIFFERS;
}

/* Whether shared memory is as it was where the copy does not write. */
static bool judge_untouched(const probe_copy *copy, const probe_copy_batch *b, size_t e, char *line)
{
    const uint8_t *before = b->image + e * PROBE_IMAGE, *after = b->after + e * PROBE_AFTER;
    bool           written[PROBE_AFTER] = {false};
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int u = 0; u < copy->bytes; u++)
            if (copy->source[lane][u] != 0)
                written[place_after(copy, b, e, lane, u) - e * PROBE_AFTER] = true;
    for (int i = 0; i < PROBE_IMAGE; i++)
        if (!written[i] && before[i] != after[i]) {
            snprintf(line, PROBE_LINE, "shared memory changed at byte %d, where nothing points", i);
            return false;
        }
    return true;
}

static probe_verdict judge(const probe_copy *copy, const probe_copy_batch *b, size_t low, char *line)
{
    for (int lane = 0; lane < PROBE_LANES; lane++)
        for (int u = 0; u < copy->bytes; u++) {
            int wanted = low >= ZERO_LOW ? 0 : copy->source[lane][u];
            if (copy->source[lane][u] != 0 && seen(copy, b, low, lane, u) != wanted)
                return differs(lane, u, seen(copy, b, low, lane, u), wanted, line);
        }
    for (size_t e = low; e < low + digits(copy); e++)
        if (!judge_untouched(copy, b, e, line))
            return PROBE_DIFFERS;
    return PROBE_PROVEN;
}

probe_verdict probe_copy_prove(const probe_copy *copy, probe_copy_executor execute, void *context,
                               uint64_t seed, char *line)
{
    random_state     random = random_start(seed);
    probe_copy_batch b;
    probe_verdict    verdict = PROBE_BROKEN;
    if (!batch_make(&b, copy->fills ? EXPERIMENTS : digits(copy))) {
        snprintf(line, PROBE_LINE, "no memory");
        return PROBE_BROKEN;
    }
    put_places(&b, &random);
    bool global = !copy->from_registers && !copy->to_registers;
    for (size_t e = 0; e < b.experiments; e++)
        put_codes(copy, &b, e, global);
    if (!execute(context, &b))
        snprintf(line, PROBE_LINE, "the instruction could not be executed");
    else
        verdict = PROBE_PROVEN;
    for (size_t low = LOW; low < b.experiments && verdict == PROBE_PROVEN; low += digits(copy))
        verdict = judge(copy, &b, low, line);
    batch_free(&b);
    return verdict;
}
