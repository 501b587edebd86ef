/* undefined.c - the mirror of a warp's rows that has the undefined bits. */
#include "undefined.h"
#include <stdlib.h>

static const struct emu_bits NONE = {0, 0};

/* The mirror and the origins, of the running frame on; NULL: there are none.  Without memory for them, registers
 * that are undefined in part count as undefined. */
static unsigned char *mirror_row(const struct emu_warp *w, emu_reg reg)
{
    return w->mirror != NULL ? w->mirror + (size_t)(w->now->frame + reg) * EMU_ROW : NULL;
}

static bool open_mirror(struct emu_warp *w)
{
    const size_t bytes = ((size_t)w->row_count + 1) * EMU_ROW;
    if (w->mirror == NULL && (w->mirror = (unsigned char *)malloc(bytes)) != NULL)
        memset(w->mirror, 0xff, bytes);
    return w->mirror != NULL;
}

void emu_undefined_free(struct emu_warp *w)
{
    free(w->mirror);
    free(w->origins);
    w->mirror = NULL;
    w->origins = NULL;
}

static struct emu_bits ones(unsigned int bits)
{
    return (struct emu_bits){emu_ones(bits), bits == 128 ? UINT64_MAX : 0};
}

struct emu_bits emu_undefined_get(const struct emu_warp *w, emu_reg reg, int lane)
{
    struct emu_bits out = NONE, all;
    if (emu_undefined_lanes(w, reg, 1u << lane) == 0)
        return out;
    const unsigned char *row = mirror_row(w, reg);
    const unsigned int   bits = emu_register_bits(w, reg);
    all = ones(bits);
    if (row == NULL || bits == 1)
        return all;
    if (bits <= 32)
        out.low = ((const uint32_t *)(const void *)row)[lane];
    else
        out.low = ((const uint64_t *)(const void *)row)[lane];
    if (bits == 128)
        out.high = ((const uint64_t *)(const void *)row)[EMU_LANES + lane];
    return (struct emu_bits){out.low & all.low, out.high & all.high};
}

void emu_undefined_put(struct emu_warp *w, emu_reg reg, int lane, struct emu_bits undefined)
{
    const unsigned int    bits = emu_register_bits(w, reg);
    const struct emu_bits all = ones(bits);
    undefined = (struct emu_bits){undefined.low & all.low, undefined.high & all.high};
    w->defined[reg] |= 1u << lane;
    if (!(undefined.low | undefined.high))
        return;
    w->defined[reg] &= ~(1u << lane);
    if (w->mirror == NULL && undefined.low == all.low && undefined.high == all.high)
        return;
    if (bits == 1 || !open_mirror(w))
        return;
    unsigned char *row = mirror_row(w, reg);
    if (bits <= 32)
        ((uint32_t *)(void *)row)[lane] = (uint32_t)undefined.low;
    else
        ((uint64_t *)(void *)row)[lane] = undefined.low;
    if (bits == 128)
        ((uint64_t *)(void *)row)[EMU_LANES + lane] = undefined.high;
}

void emu_mirror_ones(struct emu_warp *w, uint32_t row, unsigned int bits, uint32_t lanes)
{
    const size_t size = bits <= 32 ? sizeof(uint32_t) : sizeof(uint64_t);
    for (uint32_t m = lanes; m && w->mirror != NULL && bits > 1; m &= m - 1) {
        unsigned char *at = w->mirror + (size_t)row * EMU_ROW + size * (size_t)__builtin_ctz(m);
        memset(at, 0xff, size);
        if (bits == 128)
            memset(at + 2 * EMU_ROW, 0xff, size);
    }
}

void emu_undefine(struct emu_warp *w, emu_reg reg, uint32_t lanes)
{
    emu_mirror_ones(w, w->now->frame + reg, emu_register_bits(w, reg), lanes);
    w->defined[reg] &= ~lanes;
}

struct emu_origin emu_origin_of(const struct emu_warp *w, emu_reg reg)
{
    struct emu_origin origin = {.reg = reg};
    if (w->origins != NULL && w->origins[w->now->frame + reg].function != NULL)
        return w->origins[w->now->frame + reg];
    return origin;
}

void emu_origin_set(struct emu_warp *w, emu_reg reg, const struct emu_origin *origin)
{
    if (w->origins == NULL)
        w->origins = (struct emu_origin *)calloc((size_t)w->row_count + 1, sizeof *w->origins);
    if (w->origins == NULL)
        return;
    w->origins[w->now->frame + reg] = *origin;
    if (origin->function == NULL)
        w->origins[w->now->frame + reg].function = w->now->function;
}
