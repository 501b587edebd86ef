/* text.c - messages about addresses and about accesses that are not allowed. */
#include <inttypes.h>
#include <stdio.h>
#include "tools/emu/machine/arena.h"
#include "tools/emu/judge/judge.h"
#include "access.h"

enum { TEXT = 256 };

static const char *const kinds[] = {
    [EMU_MEMORY_DEVICE] = "allocation",
    [EMU_MEMORY_HOST] = "host allocation",
    [EMU_MEMORY_MANAGED] = "managed allocation",
    [EMU_MEMORY_MODULE] = "variable",
    [EMU_MEMORY_CONSTANT] = "constant",
    [EMU_MEMORY_PARAMETERS] = "parameters",
    [EMU_MEMORY_POOL] = "allocation",
    [EMU_MEMORY_OPENED] = "memory of another process,",
};

/* "allocation 12 (1024 bytes)", "variable 'table' (64 bytes)" */
static void name_allocation(const struct emu_allocation *a, char *buf, size_t cap)
{
    if (a->kind == EMU_MEMORY_PARAMETERS)
        snprintf(buf, cap, "the kernel's parameters (%" PRIu64 " bytes)", a->bytes);
    else if (a->name != NULL)
        snprintf(buf, cap, "%s '%s' (%" PRIu64 " bytes)", kinds[a->kind], a->name, a->bytes);
    else
        snprintf(buf, cap, "%s %" PRIu64 " (%" PRIu64 " bytes)", kinds[a->kind], a->id, a->bytes);
}

static void global_text(uint64_t address, char *buf, size_t cap)
{
    struct arena_neighbour n;
    struct emu_allocation  a;
    char                   name[TEXT];
    if (emu_arena_find(address, &a)) {
        name_allocation(&a, name, sizeof name);
        snprintf(buf, cap, "global 0x%" PRIx64 ", byte %" PRIu64 " of %s", address, address - a.address, name);
        return;
    }
    if (!arena_near(address, &n)) {
        snprintf(buf, cap, "global 0x%" PRIx64 ", in no allocation", address);
        return;
    }
    name_allocation(&n.what, name, sizeof name);
    if (n.freed)
        snprintf(buf, cap, "global 0x%" PRIx64 ", byte %" PRIu64 " of %s, which was freed", address,
                 address - n.what.address, name);
    else if (n.before)
        snprintf(buf, cap, "global 0x%" PRIx64 ", %" PRIu64 " bytes before %s", address,
                 n.what.address - address, name);
    else
        snprintf(buf, cap, "global 0x%" PRIx64 ", %" PRIu64 " bytes beyond %s", address,
                 address - n.what.address - n.what.bytes, name);
}

static void shared_text(struct emu_warp *w, const struct memory_part *p, uint64_t offset, char *buf, size_t cap)
{
    if (p->cta == w->cta)
        snprintf(buf, cap, "shared 0x%" PRIx64 " (the block has 0x%x bytes)", offset, p->cta->shared_bytes);
    else
        snprintf(buf, cap, "shared 0x%" PRIx64 " of the cluster's block %u (it has 0x%x bytes%s)", offset,
                 p->cta->rank, p->cta->shared_bytes, p->cta->warps_left ? "" : ", and has exited");
}

const char *emu_address_text(struct emu_warp *w, int lane, enum emu_space space, uint64_t address, char *buf,
                             size_t cap)
{
    struct memory_part p;
    (void)lane;
    if (!memory_part_of(w, space, address, &p))
        snprintf(buf, cap, "%s 0x%" PRIx64 ", %s", space == EMU_SHARED ? "shared" : "generic", address,
                 space == EMU_SHARED || address >> 56 == EMU_SHARED_WINDOW >> 56 ? "of no block of the cluster"
                                                                                 : "in no window");
    else if (p.space == EMU_SHARED)
        shared_text(w, &p, address - p.window, buf, cap);
    else if (p.space == EMU_LOCAL)
        snprintf(buf, cap, "local 0x%" PRIx64 " (the thread has 0x%x bytes)", address - p.window,
                 w->local_bytes);
    else
        global_text(address, buf, cap);
    return buf;
}

static const char *verb(unsigned int access)
{
    return (access & (EMU_READ | EMU_WRITE)) == (EMU_READ | EMU_WRITE) ? "updates"
           : access & EMU_WRITE                                        ? "writes"
                                                                       : "reads";
}

void memory_outside(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                    uint64_t address, uint64_t bytes, unsigned int access)
{
    char                  text[2 * TEXT];
    const char           *why = "outside of all allocations: ";
    struct emu_allocation a;
    struct memory_part    p;
    bool                  global = memory_part_of(w, space, address, &p) && p.space == EMU_GLOBAL;
    bool                  found = global && emu_arena_find(address, &a);
    if (found && a.device & w->cluster->grid->unreachable)
        why = "of a peer device, to whose memory cuCtxEnablePeerAccess gave this context no access: ";
    else if (found && bytes <= a.address + a.bytes - address)
        why = space == EMU_CONST && !(access & EMU_WRITE) ? "not constant memory: " : "read-only: ";
    emu_address_text(w, lane, space, address, text, sizeof text);
    emu_fault(w, op, lane, FAULT_ADDRESS, "%s %" PRIu64 " bytes %s%s", verb(access), bytes, why, text);
}

void memory_overread(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                     uint64_t address, uint64_t bytes)
{
    char text[2 * TEXT];
    emu_address_text(w, lane, space, address, text, sizeof text);
    judge_find(w, op, lane, JUDGE_OVERREAD,
               "reads %" PRIu64 " bytes, not all of them within the allocation: %s", bytes, text);
}

void memory_misaligned(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                       uint64_t address, uint64_t bytes, uint64_t align)
{
    char text[2 * TEXT];
    emu_address_text(w, lane, space, address, text, sizeof text);
    emu_fault(w, op, lane, FAULT_MISALIGNED, "%" PRIu64 " bytes not aligned to %" PRIu64 ": %s", bytes, align,
              text);
}

void memory_undefined(struct emu_warp *w, const struct emu_op *op, int lane, enum emu_space space,
                      uint64_t address, uint64_t bytes, uint64_t hole)
{
    char text[2 * TEXT];
    emu_address_text(w, lane, space, address, text, sizeof text);
    judge_find(w, op, lane, JUDGE_UNINITIALISED,
               "reads %" PRIu64 " bytes, byte %" PRIu64
               " of which was never written, or was copied from such a byte: %s",
               bytes, hole, text);
}
