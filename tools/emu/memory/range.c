/* range.c - ranges of any length on behalf of one lane, and which of their bytes are defined. */
#include "tools/emu/machine/arena.h"
#include "tools/emu/judge/judge.h"
#include "access.h"
#include "tools/emu/machine/bits.h"

/* ---- definedness ------------------------------------------------------------------------------------ */
struct bits {
    unsigned char *map;
    uint64_t       first;
    bool           common;
};

/* Local memory: the address of the bytes tells which warp owns it. */
static struct bits local_bits(const struct emu_ref *ref)
{
    for (uint32_t i = 0; i < ref->cta->warp_count; i++) {
        const struct emu_warp *w = &ref->cta->warps[i];
        uint64_t               offset = (uint64_t)((uintptr_t)ref->at - (uintptr_t)w->local);
        if (w->local != NULL && offset < (uint64_t)w->local_bytes * EMU_LANES)
            return (struct bits){w->local_defined, offset, false};
    }
    return (struct bits){NULL, 0, false};
}

static struct bits bits_of(const struct emu_ref *ref)
{
    if (ref->space == EMU_SHARED)
        return (struct bits){ref->cta->shared_defined, ref->address, false};
    if (ref->space == EMU_LOCAL)
        return local_bits(ref);
    return (struct bits){emu_arena.defined, (uint64_t)(uintptr_t)ref->at - emu_arena.base, true};
}

bool emu_defined(const struct emu_ref *ref, uint64_t bytes)
{
    struct bits b = bits_of(ref);
    return bytes == 0 || b.map == NULL || bits_all(b.map, b.first, bytes);
}

uint32_t emu_undefined_bytes(const struct emu_ref *ref, uint32_t bytes)
{
    struct bits b = bits_of(ref);
    uint32_t    undefined = 0;
    for (uint32_t i = 0; b.map != NULL && i < bytes; i++)
        undefined |= (uint32_t)!bits_all(b.map, b.first + i, 1) << i;
    return undefined;
}

void emu_define(const struct emu_ref *ref, uint64_t bytes)
{
    struct bits b = bits_of(ref);
    if (bytes && b.map != NULL)
        bits_set(b.map, b.first, bytes, true, b.common);
}

void memory_undefine(const struct emu_ref *ref, uint64_t bytes)
{
    struct bits b = bits_of(ref);
    if (bytes && b.map != NULL)
        bits_set(b.map, b.first, bytes, false, b.common);
}

void emu_copy(const struct emu_ref *to, const struct emu_ref *from, uint64_t bytes)
{
    struct bits t = bits_of(to), f = bits_of(from);
    if (bytes == 0)
        return;
    memmove(to->at, from->at, bytes);
    if (t.map != NULL && f.map != NULL)
        bits_copy(t.map, t.first, f.map, f.first, bytes, t.common);
}

/* ---- ranges ----------------------------------------------------------------------------------------- */
static void judge_range(struct emu_warp *w, const struct emu_op *op, int lane, const struct emu_ref *ref,
                        uint64_t bytes, unsigned int access)
{
    const uint64_t most = 1u << 30;
    struct emu_ref refs[EMU_LANES];
    memset(refs, 0, sizeof refs);
    refs[lane] = *ref;
    while (bytes) {
        uint32_t part = (uint32_t)(bytes < most ? bytes : most);
        judge_access(w, op, 1u << lane, refs, part, access);
        refs[lane].at += part;
        refs[lane].address += part;
        bytes -= part;
    }
}

bool emu_memory_range(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                      uint64_t address, uint64_t bytes, uint32_t align, unsigned int access,
                      struct emu_ref *out)
{
    struct memory_part p;
    if (address & (align - 1)) {
        memory_misaligned(w, op, lane, space, address, bytes, align);
        return false;
    }
    bool found = memory_part_of(w, space, address, &p);
    if (!found ||
        (bytes && !memory_inside(w, &p, space, address - p.window, bytes, access) &&
         !(access & EMU_GRANULE && memory_in_granule(w, &p, space, address - p.window, bytes, access)))) {
        memory_outside(w, op, lane, space, address, bytes, access);
        return false;
    }
    uint64_t offset = address - p.window, within = offset + (uint64_t)lane * p.lane_bytes;
    *out = (struct emu_ref){.at = (unsigned char *)((uintptr_t)p.bytes + (uintptr_t)within),
                            .space = p.space,
                            .cta = p.cta,
                            .address = offset};
    if (access & EMU_NO_JUDGE || bytes == 0)
        return true;
    within -= p.first_bit;
    if (access & EMU_READ && memory_judges_undefined(w) && !(access & EMU_PARTIAL) &&
        !bits_all(p.defined, within, bytes))
        memory_undefined(w, op, lane, space, address, bytes,
                         bits_first_hole(p.defined, within, bytes) - within);
    if (access & EMU_WRITE)
        bits_set(p.defined, within, bytes, true, p.space == EMU_GLOBAL);
    if (w->judge != NULL)
        judge_range(w, op, lane, out, bytes, access);
    return true;
}
