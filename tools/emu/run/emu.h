/* emu.h - the emulated GPU: decoded code, and the state of warps, blocks and clusters while it runs.
 *
 * A warp executes one decoded op at a time for a set of lanes: registers are rows of 32 values, one a
 * lane, so that an op is a loop over 32 lanes.  Lanes that took different branches are fragments of the
 * warp, each with its own pc; the lowest pc runs first, so that they meet again where the code does.
 *
 *   static void exec_add_u32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
 *   {
 *       uint32_t *d = emu_r32(w, op->result[0]);
 *       const uint32_t *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);
 *       EMU_FOR_LANES(mask, l) d[l] = a[l] + b[l];
 *   }
 *
 * What runs an exec function (warp.c) has already: applied the guard (mask is never 0), checked that the
 * source registers are defined for these lanes, and afterwards marks the results as defined.
 *
 * Threads  a cluster is run by one host thread at a time; what clusters share (memory, the grid) says how. */
#ifndef EMU_EMU_H
#define EMU_EMU_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "tools/emu/ptx/ptx.h"
#include "settings.h"

enum {
    EMU_LANES = 32,
    EMU_ROW = 4 * EMU_LANES, /* bytes of a row: 32 x 32 bits; 64-bit registers have 2 rows, 128-bit 4 */
    EMU_MAX_WARPS = 32,      /* of a block */
    EMU_MAX_CLUSTER = 16,    /* blocks */
    EMU_CALL_DEPTH = 64,     /* of recursive functions */
    EMU_BARRIERS = 16
};
#define EMU_ALL 0xffffffffu

struct emu_op;
struct emu_warp;
struct emu_cta;
struct emu_cluster;
struct emu_grid;
struct emu_module;
struct emu_allocation;

/* ---- registers ------------------------------------------------------------------------------------------
 * A register is a row number within a bank (the top two bits).
 *   8, 16 and 32 bits   uint32_t[32]; the upper bits of 8 and 16 are zero, always
 *   64 bits             uint64_t[32]
 *   128 bits            uint64_t[2][32]: the low halves, then the high ones
 *   predicates          one uint32_t: a bit a lane */
typedef uint32_t emu_reg;
#define EMU_NO_REG 0xffffffffu
enum { EMU_BANK_FRAME, EMU_BANK_CONSTANT, EMU_BANK_SPECIAL, EMU_BANKS };
#define EMU_BANK_SHIFT  30
#define EMU_BANK(reg)   ((reg) >> EMU_BANK_SHIFT)
#define EMU_ROW_OF(reg) ((reg) & ((1u << EMU_BANK_SHIFT) - 1))

/* ---- code ----------------------------------------------------------------------------------------- */
typedef void emu_exec(struct emu_warp *w, const struct emu_op *op, uint32_t mask);

enum {                     /* emu_op.flags */
       EMU_OP_ALIGNED = 1, /* .aligned: all lanes that have not exited must be here together          */
       EMU_OP_COPIES = 2,  /* mov, selp: undefined sources are not read, they make undefined results   */
       EMU_OP_CHECKS = 4,  /* the exec function itself says which sources it reads and results it makes */
       EMU_OP_CONTROL = 8  /* runs even if the guard leaves no lane (mask may be 0)                    */
};

/* Classes for the counters. */
#define EMU_CLASS_MAP(X)                                                                           \
    X(integer)                                                                                     \
    X(floating) X(half) X(convert) X(compare) X(move) X(control) X(sync) X(shuffle) X(load_global) \
        X(store_global) X(load_shared) X(store_shared) X(load_local) X(store_local) X(load_param)  \
            X(load_const) X(atomic) X(matrix_load) X(async_copy) X(tensor) X(special) X(other)
enum emu_class {
#define EMU_CLASS_ENUM(name) EMU_CLASS_##name,
    EMU_CLASS_MAP(EMU_CLASS_ENUM)
#undef EMU_CLASS_ENUM
        EMU_CLASS_COUNT
};

struct emu_op {
    emu_exec   *exec;
    emu_reg     guard; /* EMU_NO_REG: none */
    bool        guard_negated;
    uint8_t     flags, class_;
    uint16_t    result_count, source_count;
    emu_reg    *result, *source; /* every register that is written, read: in an order the exec knows */
    int64_t     offset;          /* of an address: added to source[0] or whatever the family says */
    uint32_t    target;          /* of a branch: index of an op */
    uint8_t     u8[8];           /* the family's own: widths, modes, ... */
    uint32_t    u32[4];
    const void *data;   /* the family's own, allocated with decode_alloc */
    uint32_t    number; /* dense in the module: index of its counters */
    const struct ptx_instruction *text;
};

struct emu_formal { /* a formal parameter or result */
    const struct ptx_symbol *symbol;
    uint32_t offset, bytes; /* entry: in the parameter block; .func: in its frame of local memory */
    emu_reg  reg;           /* EMU_NO_REG when it is memory */
};

struct emu_function {
    const char                *name;
    const struct ptx_function *text;
    struct emu_module         *module;
    struct emu_op             *code; /* ends in an op that never falls through */
    uint32_t                   code_count;
    uint32_t                   rows;        /* of its frame */
    uint32_t                   frame;       /* where that begins among a warp's rows: emu_frame_of */
    uint32_t                   registers;   /* that a thread would need: registers.c */
    uint32_t                   local_bytes; /* of its frame of local memory, a lane */
    struct emu_formal         *parameters, *results;
    uint32_t                   parameter_count, result_count, parameter_bytes;
    uint32_t                   shared_bytes;  /* static, including what the hardware reserves at address 0 */
    uint32_t                   shared_static; /* as cuFuncGetAttribute tells it */
    uint32_t                   shared_align;  /* of the dynamic part */
    bool                       calls, calls_recursively; /* any function; itself, in the end */
    /* attributes that the driver sets */
    int  max_dynamic_shared, carveout;
    bool nonportable_cluster;
};

struct emu_global {
    const char *name;
    uint64_t    address, bytes;
    bool        constant, visible;
};

struct emu_module {
    struct ptx_module   *text;
    struct ptx_memory   *memory;    /* what ops and tables are allocated from */
    int                  sm;        /* of the device it was decoded for: 75, 80, ... */
    uint64_t             age;       /* modules are numbered: addresses of dead ones come back */
    struct emu_function *functions; /* in order of ptx_module.functions */
    uint32_t             function_count;
    struct emu_global   *globals;
    uint32_t             global_count;
    unsigned char       *constants; /* the rows of EMU_BANK_CONSTANT */
    uint32_t             constant_rows;
    uint32_t             op_count;   /* numbers given out */
    uint32_t             frame_rows; /* of all functions */
};

/* ---- state ---------------------------------------------------------------------------------------- */
enum emu_state {
    EMU_RUNS,
    EMU_WAITS_LANES,   /* an .aligned op or a *.sync op: for other lanes of the warp to come here */
    EMU_WAITS_BARRIER, /* bar.sync, barrier.cluster.wait: released by whoever completes it        */
    EMU_WAITS_CHANGE   /* mbarrier.try_wait and the like: runs again when cluster->changes moves  */
};

struct emu_fragment {
    uint32_t                   mask, pc;
    enum emu_state             state;
    uint64_t                   seen;    /* EMU_WAITS_CHANGE: cluster->changes at the time        */
    bool                       expired; /* the scheduler found nothing else to do: the wait may give up, once */
    const struct emu_function *function;
    uint32_t                   frame, local; /* rows and bytes of local memory below its frame        */
    uint32_t                   depth;        /* of calls                                               */
    uint32_t                   waits_for;    /* EMU_WAITS_LANES: the lanes                             */
    uint64_t                   ran_at;       /* w->turns when it ran last                              */
    bool                       warp_sync;    /* EMU_WAITS_BARRIER: at bar.warp.sync for waits_for      */
    uint32_t                   barrier;      /* EMU_WAITS_BARRIER: which                               */
};

struct emu_return {
    const struct emu_function *function;
    uint32_t                   pc, frame, local;
};

enum emu_event { /* set by exec functions through the calls below */
                 EMU_NO_EVENT,
                 EMU_EVENT_SPLIT, /* fragments changed: choose again */
                 EMU_EVENT_BLOCK, /* the running fragment waits; its pc is set */
                 EMU_EVENT_YIELD, /* let other warps run first */
                 EMU_EVENT_STOP   /* the grid failed */
};

struct emu_warp {
    unsigned char       *bank[EMU_BANKS];
    uint32_t            *defined; /* of the running frame: one lane mask a row (the first row of a register) */
    uint32_t            *busy;    /* likewise: lanes whose register a wgmma in flight owns; NULL: none yet   */
    uint32_t             active;  /* lanes of the running fragment */
    uint32_t             next;    /* pc after the running op; branches set it */
    uint32_t             live;    /* lanes that exist and have not exited */
    enum emu_event       event;
    struct emu_fragment *now;
    struct emu_fragment  fragments[EMU_LANES];
    uint32_t             fragment_count;
    struct emu_return   *returns;      /* [depth][lane] */
    uint32_t             return_depth; /* allocated */
    unsigned char       *rows;         /* all frames, bank[0] points into it */
    uint32_t            *defined_rows, *busy_rows;
    uint32_t             row_count;
    unsigned char       *local;         /* [lane][local_bytes] */
    unsigned char       *local_defined; /* a bit a byte, [lane][local_bytes / 8] */
    uint32_t             local_bytes;
    uint32_t             index;     /* in the block */
    uint32_t             registers; /* a thread, by setmaxnreg; 0: as launched */
    struct emu_cta      *cta;
    struct emu_cluster  *cluster;
    struct emu_grid     *grid;
    struct judge_warp   *judge; /* NULL: not judged */
    struct async_warp   *async;
    struct emu_count    *counts;                   /* [op number], of this warp's role; NULL: not counted */
    uint64_t             executed, executed_lanes; /* ops; ops times lanes */
    uint32_t             streak;                   /* ops that one fragment has run while others could */
    uint64_t             turns;                    /* fragments chosen so far */
    uint32_t             favoured;  /* a lane whose fragment goes first, for a streak, plus 1; 0: none */
    uint32_t             executing; /* lanes that the running op is for: those that wait if it waits */
    bool                 polls;     /* emu_yield was called in this turn */
    bool                 waited;    /* the running op has not happened: it will be executed again */
    uint32_t             cluster_generation[EMU_LANES]; /* of barrier.cluster, when the lane arrived */
};

struct emu_barrier {                     /* bar, barrier.cta */
    uint32_t            expected;        /* threads; 0: all of the block */
    uint32_t            arrived;         /* threads; an aligned op counts 32 for its warp */
    uint32_t            lanes;           /* threads, as they are */
    bool                open;            /* somebody is here */
    uint32_t            count, all, any; /* of .red: true predicates, all true, one true */
    struct judge_clock *clock;
};

struct emu_cta {
    struct emu_cluster *cluster;
    struct emu_warp    *warps;
    uint32_t            warp_count, thread_count;
    uint32_t            index[3];       /* %ctaid */
    uint32_t            rank;           /* in the cluster */
    unsigned char      *shared;         /* shared_bytes, address 0 is shared[0] */
    unsigned char      *shared_defined; /* a bit a byte */
    uint32_t            shared_bytes;   /* static and dynamic */
    uint32_t            warps_left;     /* that have not exited */
    uint32_t            warps_moved;    /* that have executed setmaxnreg */
    struct emu_barrier  barriers[EMU_BARRIERS];
    struct judge_cta   *judge;
    struct async_cta   *async; /* mbarriers, operations in flight */
};

struct emu_cluster {
    struct emu_grid      *grid;
    struct emu_cta       *ctas;
    uint32_t              cta_count;
    uint64_t              changes;      /* moves whenever something that a wait looks at has changed */
    uint64_t              executed;     /* warp-ops of the turns that are over */
    uint64_t              polls;        /* rounds in which warps only looked at something again, in a row */
    uint64_t              expiries;     /* waits that were given up, in a row, and nothing came of it */
    uint64_t              ended_seen;   /* how many clusters of the grid had ended when it was looked at */
    bool                  counted_idle; /* grid.c counts it among those that only poll */
    uint64_t              random;       /* state of emu_random */
    uint32_t              barrier_arrived, barrier_generation; /* barrier.cluster, threads */
    struct judge_clock   *barrier_clock, *barrier_done;        /* of the running phase, of the last one */
    struct judge_cluster *judge;
    struct async_cluster *async;
    uint32_t              id;   /* in the grid */
    struct emu_cluster   *link; /* of the queue of clusters that were put aside */
};

/* What a launch is; the grid never changes while it runs but for `stop`. */
struct emu_grid {
    const struct emu_function *entry;
    const struct emu_module   *module;
    uint32_t                   grid[3], block[3], cluster[3];
    uint32_t                   dynamic_shared;
    unsigned char             *parameters; /* in device memory, so that cvta.param works */
    uint64_t                   parameter_address;
    uint64_t workspace; /* cooperative launches: device memory for the barrier of the grid; 0 */
    uint64_t id;        /* %gridid, and the age of global accesses */
    const struct emu_settings *settings;
    struct judge_grid         *judge;  /* NULL: not judged */
    atomic_bool                stop;   /* something failed: every worker ends */
    unsigned int               result; /* CUresult; the first failure's */
    unsigned int      findings, said;  /* of the judge; lines that were printed, under the lock of report.c */
    struct grid_work *work;            /* grid.c */
    uint32_t          role_count;      /* warps of a block: rows of the counters */
    bool              explicit_cluster;
};

/* ---- for exec functions --------------------------------------------------------------------------- */
static inline void *emu_row(const struct emu_warp *w, emu_reg r)
{
    return w->bank[EMU_BANK(r)] + (size_t)EMU_ROW_OF(r) * EMU_ROW;
}
static inline uint32_t *emu_r32(const struct emu_warp *w, emu_reg r) { return (uint32_t *)emu_row(w, r); }
static inline uint64_t *emu_r64(const struct emu_warp *w, emu_reg r) { return (uint64_t *)emu_row(w, r); }
/* A predicate: bits of all lanes. */
static inline uint32_t emu_pred(const struct emu_warp *w, emu_reg r) { return *emu_r32(w, r); }
static inline void     emu_set_pred(const struct emu_warp *w, emu_reg r, uint32_t mask, uint32_t bits)
{
    uint32_t *p = emu_r32(w, r);
    *p = (*p & ~mask) | (bits & mask);
}

/* for each lane of mask: the common case of all lanes is a plain loop that the compiler turns into
 * vectors; the body must be elementwise: it may be executed in any order of lanes. */
#ifdef __clang__
#define EMU_IVDEP
#else
#define EMU_IVDEP _Pragma("GCC ivdep")
#endif
#define EMU_FOR_LANES(mask, l, ...)                                        \
    do {                                                                   \
        if ((mask) == EMU_ALL) {                                           \
            EMU_IVDEP for (int l = 0; l < EMU_LANES; l++) { __VA_ARGS__; } \
        } else {                                                           \
            for (uint32_t emu_m_ = (mask); emu_m_; emu_m_ &= emu_m_ - 1) { \
                const int l = __builtin_ctz(emu_m_);                       \
                __VA_ARGS__;                                               \
            }                                                              \
        }                                                                  \
    } while (0)

/* The running fragment cannot go on: it stays at this op, which is executed again (whole) when something
 * that it waits for has changed. now->expired then says that nothing else in the cluster can run: a
 * try_wait gives up and answers false. */
void emu_wait_change(struct emu_warp *w);
/* Something that a waiting fragment may be waiting for has happened (an arrival, completed bytes, ...). */
static inline void emu_changed(struct emu_cluster *c) { c->changes++; }
/* Make w->busy, if there is none yet; false: out of memory. */
bool emu_busy_rows(struct emu_warp *w);
/* Let the other warps run before this one goes on, which looks again and again at something that another
 * block may change (emu_yield), or only its own cluster (emu_yield_cluster). */
static inline void emu_yield_cluster(struct emu_warp *w)
{
    if (w->event == EMU_NO_EVENT)
        w->event = EMU_EVENT_YIELD;
}
static inline void emu_yield(struct emu_warp *w)
{
    emu_yield_cluster(w);
    w->polls = true;
}
/* *.sync ops with a member mask: true when all `members` are in `w->active`; otherwise the fragment waits
 * for the missing lanes to come to this same op (and the exec function returns at once).  Lanes that have
 * exited or never come end in a report of a deadlock. */
bool emu_gather(struct emu_warp *w, const struct emu_op *op, uint32_t members);

/* xorshift, seeded by settings->seed and the cluster: the same in every run of the same seed. */
uint32_t emu_random(struct emu_cluster *c);

/* A fatal error of the kernel: prints one line with place, thread and text, and stops the grid with
 * `result` (a CUresult: 700 illegal address, 716 misaligned, 715 illegal instruction, 719 launch failed,
 * 702 timeout). lane < 0: the warp as a whole. */
void emu_fault(struct emu_warp *w, const struct emu_op *op, int lane, unsigned int result, const char *format,
               ...) __attribute__((format(printf, 5, 6)));

static inline unsigned int emu_thread(const struct emu_warp *w, int lane) /* in the block, linear */
{
    return w->index * EMU_LANES + (unsigned int)lane;
}

/* ---- counters ------------------------------------------------------------------------------------- */
struct emu_count {
    uint64_t warps;        /* times a warp executed the op      */
    uint64_t lanes;        /* lanes that did                    */
    uint64_t bytes;        /* moved by these lanes              */
    uint64_t transactions; /* shared memory: wavefronts         */
    uint64_t conflicts;    /* of which more than the ideal      */
    uint64_t tensor_ops;   /* multiply-adds of tensor cores     */
};
#endif
