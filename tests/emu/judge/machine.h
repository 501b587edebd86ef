/* machine.h - warps and blocks made by hand for the tests of the judge: what they do, and what the judge
 * reports. */
#ifndef EMU_JUDGE_MACHINE_H
#define EMU_JUDGE_MACHINE_H
#include <unistd.h>
#include "tests/support/emu_test.h"
#include "tools/emu/judge/judge.h"

/* ---- a machine ------------------------------------------------------------------------------------ */
enum { CTAS = 2, WARPS = 4, CLUSTERS = 2, SHARED = 8192, OPS = 16 };
enum op_name { LD, ST, ATOM, CP_ASYNC, TMA_LOAD, TMA_STORE, WGMMA };

static const char *const plain[] = {"shared", "u32"}, *const cp_words[] = {"async", "ca"},
                         *const load_words[] = {"async", "bulk", "mbarrier::complete_tx::bytes"},
                         *const store_words[] = {"async", "bulk", "bulk_group"},
                         *const wgmma_words[] = {"mma_async", "sync"};
static struct ptx_instruction   text[OPS];
static struct emu_op            op[OPS];

struct machine {
    struct emu_settings settings;
    struct ptx_module   ptx;
    struct emu_module   module;
    struct emu_grid     grid;
    struct emu_cluster  cluster[CLUSTERS];
    struct emu_cta      cta[CLUSTERS][CTAS];
    struct emu_warp     warp[CLUSTERS][CTAS][WARPS];
    char                log[64];
};
static struct machine m;

static inline void name_op(enum op_name name, const char *opcode, const char *const *words, unsigned int count)
{
    text[name].opcode = opcode;
    text[name].modifiers = (const char **)(uintptr_t)words;
    text[name].modifier_count = count;
    text[name].place.line = 10 + (unsigned int)name;
    op[name].text = &text[name];
    op[name].number = name;
}

static inline void begin(void)
{
    memset(&m, 0, sizeof m);
    name_op(LD, "ld", plain, 2);
    name_op(ST, "st", plain, 2);
    name_op(ATOM, "atom", plain, 2);
    name_op(CP_ASYNC, "cp", cp_words, 2);
    name_op(TMA_LOAD, "cp", load_words, 3);
    name_op(TMA_STORE, "cp", store_words, 3);
    name_op(WGMMA, "wgmma", wgmma_words, 2);
    snprintf(m.log, sizeof m.log, "/tmp/test_emu_judge.%d.log", (int)getpid());
    unlink(m.log);
    m.settings.judge = EMU_JUDGE_ALL;
    m.settings.log_path = m.log;
    m.module.text = &m.ptx;
    m.module.op_count = OPS;
    m.grid.module = &m.module;
    m.grid.settings = &m.settings;
    m.grid.block[0] = WARPS * EMU_LANES;
    m.grid.block[1] = m.grid.block[2] = 1;
    m.grid.grid[0] = CTAS * CLUSTERS;
    m.grid.grid[1] = m.grid.grid[2] = 1;
    m.grid.cluster[0] = CTAS;
    m.grid.cluster[1] = m.grid.cluster[2] = 1;
    assert_true(judge_grid_begin(&m.grid));
    for (uint32_t c = 0; c < CLUSTERS; c++) {
        m.cluster[c] = (struct emu_cluster){.grid = &m.grid, .ctas = m.cta[c], .cta_count = CTAS, .id = c};
        for (uint32_t b = 0; b < CTAS; b++) {
            m.cta[c][b] = (struct emu_cta){.cluster = &m.cluster[c],
                                           .warps = m.warp[c][b],
                                           .warp_count = WARPS,
                                           .thread_count = WARPS * EMU_LANES,
                                           .index = {c * CTAS + b, 0, 0},
                                           .rank = b,
                                           .shared_bytes = SHARED};
            for (uint32_t w = 0; w < WARPS; w++)
                m.warp[c][b][w] = (struct emu_warp){.index = w,
                                                    .cta = &m.cta[c][b],
                                                    .cluster = &m.cluster[c],
                                                    .grid = &m.grid,
                                                    .live = EMU_ALL};
        }
        assert_true(judge_cluster_begin(&m.cluster[c]));
    }
}

/* Returns how many findings there were. */
static inline unsigned int end(void)
{
    for (int c = 0; c < CLUSTERS; c++)
        judge_cluster_end(&m.cluster[c]);
    judge_grid_end(&m.grid);
    return m.grid.findings;
}

/* The log must hold this text, or be empty (NULL). */
static inline void expect(const char *fragment)
{
    static char        log[1 << 16];
    FILE              *f;
    size_t             n = 0;
    const unsigned int findings = end();
    if ((f = fopen(m.log, "r")) != NULL) {
        n = fread(log, 1, sizeof log - 1, f);
        fclose(f);
    }
    log[n] = 0;
    unlink(m.log);
    if (fragment != NULL ? strstr(log, fragment) == NULL : findings != 0)
        fail_msg("expected %s, was told: %s", fragment ? fragment : "nothing", log);
}

/* ---- what a program does -------------------------------------------------------------------------- */
static inline struct emu_warp *warp(int w) { return &m.warp[0][0][w]; }

static inline struct emu_ref in_shared(struct emu_cta *cta, uint64_t address)
{
    return (struct emu_ref){NULL, EMU_SHARED, cta, address};
}

static inline struct emu_ref in_global(uint64_t address)
{
    return (struct emu_ref){NULL, EMU_GLOBAL, NULL, address};
}

/* The lanes of mask access `bytes` each, `stride` apart, in their own block's memory. */
static inline void touch(struct emu_warp *w, enum op_name name, uint32_t mask, uint64_t address,
                         uint32_t stride, uint32_t bytes)
{
    struct emu_ref ref[EMU_LANES];
    for (uint32_t l = 0; l < EMU_LANES; l++)
        ref[l] = in_shared(w->cta, address + l * stride);
    judge_access(w, &op[name], mask, ref, bytes, name == LD ? EMU_READ : EMU_WRITE);
}

static inline void touch_global(struct emu_warp *w, enum op_name name, int lane, uint64_t address,
                                unsigned int access)
{
    struct emu_ref ref[EMU_LANES];
    for (int l = 0; l < EMU_LANES; l++)
        ref[l] = in_global(address);
    judge_access(w, &op[name], 1u << lane, ref, 4, access);
}

/* bar.sync of the first `warps` warps of block 0. */
static inline void barrier(int warps)
{
    struct judge_clock *clock = NULL;
    for (int w = 0; w < warps; w++)
        judge_release(warp(w), EMU_ALL, &clock);
    for (int w = 0; w < warps; w++)
        judge_acquire(warp(w), EMU_ALL, clock);
    judge_clock_clear(&m.cluster[0], &clock);
}

static inline struct judge_async *issue(struct emu_warp *w, enum op_name name, int lane, uint64_t address,
                                        uint64_t bytes, unsigned int access)
{
    struct judge_async *a = judge_async_begin(w, &op[name], lane, name != CP_ASYNC);
    struct emu_ref      ref = in_shared(w->cta, address);
    judge_async_touch(a, &ref, bytes, access);
    return a;
}
#endif
