/* emu.h - the emulated GPU: decoded code, and the state of warps, blocks and clusters while it runs.
 *
 * A warp executes one decoded op at a time for a set of lanes.  A register is a row of 32 values, one for each
 * lane, so that an op is a loop over 32 lanes.  Lanes that took different branches are fragments of the warp,
 * each with its own pc; the lowest pc runs first, so that fragments meet again where their code does.
 *
 *   static void exec_add_u32(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
 *   {
 *       uint32_t *d = emu_r32(w, op->result[0]);
 *       const uint32_t *a = emu_r32(w, op->source[0]), *b = emu_r32(w, op->source[1]);
 *       EMU_FOR_LANES(mask, l) d[l] = a[l] + b[l];
 *   }
 *
 * The caller of an exec function (run/warp.c) has applied the guard (mask is never 0); afterwards it marks the
 * results as defined, or as undefined if a source is and the op's rule says so (enum emu_undefined).
 *
 * Threads  one host thread at a time runs a cluster; clusters share the memory and the grid. */
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
struct emu_origin;

/* ---- registers ------------------------------------------------------------------------------------------
 * A register is a row number within a bank (the top two bits).
 *   8, 16 and 32 bits   uint32_t[32]; the upper bits of 8 and 16 are zero, always
 *   64 bits             uint64_t[32]
 *   128 bits            uint64_t[2][32]: the low halves, then the high ones
 *   predicates          one uint32_t: a bit for each lane */
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
       EMU_OP_DEFINES = 2, /* the exec function itself marks its results as defined                 */
       EMU_OP_CHECKS = 4,  /* it also checks its sources                                            */
       EMU_OP_CONTROL = 8  /* runs even if the guard leaves no lane (mask may be 0)                    */
};

/* What an op does when bits of its sources are undefined: run/undefined.c. */
enum emu_undefined {
    EMU_UNDEFINED_BY_OPCODE, /* until decode/undefined.c has looked it up                           */
    EMU_UNDEFINED_REPORTS,   /* it uses them: a finding                                                */
    EMU_UNDEFINED_SPREADS,   /* all bits of its results are undefined                                  */
    EMU_UNDEFINED_UPWARDS,   /* those from the lowest undefined bit up are: add, mul.lo, ...           */
    EMU_UNDEFINED_BITS,      /* each result bit depends on few bits of the first `tried` sources       */
    EMU_UNDEFINED_PARTS,     /* packed values, of which each is undefined or not                       */
    EMU_UNDEFINED_PACKS,     /* cvt of two sources into halves; the second one becomes the lower half  */
    EMU_UNDEFINED_WARP,      /* its results are undefined in all lanes                                 */
    EMU_UNDEFINED_OWN        /* it looks at w->missing, but uses its first `tried` sources            */
};

/* Classes for the counters. */
/* clang-format off */
#define EMU_CLASS_MAP(X)                                                                             \
    X(integer) X(floating) X(half) X(convert) X(compare) X(move) X(control) X(sync) X(shuffle)       \
    X(load_global) X(store_global) X(load_shared) X(store_shared) X(load_local) X(store_local)       \
    X(load_param) X(load_const) X(atomic) X(matrix_load) X(async_copy) X(tensor) X(special) X(other)
/* clang-format on */
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
    uint8_t     undefined, tried; /* enum emu_undefined; how many sources that is about */
    uint16_t    result_count, source_count;
    emu_reg    *result, *source; /* all registers that are written, read, in the order of the exec function */
    int64_t     offset;          /* of an address: the family adds it, usually to source[0] */
    uint32_t    target;          /* of a branch: index of an op */
    uint8_t     u8[8];           /* for the family: widths, modes, ... */
    uint32_t    u32[4];
    const void *data;   /* for the family, allocated with decode_alloc */
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
    const uint8_t             *row_bits;    /* by row: the width of the register that begins there */
    uint32_t                   frame;       /* the first of its rows among those of a warp: emu_frame_of */
    uint32_t                   registers;   /* an estimate of what a thread needs: registers.c */
    uint32_t                   local_bytes; /* of its frame of local memory, for one lane */
    struct emu_formal         *parameters, *results;
    uint32_t                   parameter_count, result_count, parameter_bytes;
    uint32_t                   shared_bytes;  /* static, including what the hardware reserves at address 0 */
    uint32_t                   shared_static; /* the value of cuFuncGetAttribute */
    uint32_t                   shared_align;  /* of the dynamic part */
    bool                       calls, calls_recursively; /* any function; itself, directly or not */
    /* attributes that the driver sets */
    int  max_dynamic_shared, carveout;
    bool nonportable_cluster;
};

struct emu_global {
    const char *name;
    uint64_t    address, bytes;
    bool        constant, visible;
};

struct emu_source {     /* what a module was made of, of one that may be kept; bytes 0: not known */
    uint64_t digest[2]; /* XXH3-128 of the text, which would take as much memory as the module */
    size_t   bytes;
    uint32_t shared_reserved, shared_default; /* of the settings */
};

struct emu_module {
    struct ptx_module   *text;
    struct ptx_memory   *memory; /* what ops and tables are allocated from */
    int                  sm;     /* of the device it was decoded for: 75, 80, ... */
    uint64_t             age;    /* the number of the module, because addresses of freed modules are reused */
    struct emu_function *functions; /* in order of ptx_module.functions */
    uint32_t             function_count;
    struct emu_global   *globals;
    uint32_t             global_count;
    unsigned char       *constants; /* the rows of EMU_BANK_CONSTANT */
    uint32_t             constant_rows;
    uint32_t             op_count;   /* ops that have a number */
    uint32_t             frame_rows; /* of all functions */
    struct emu_source    source;
};

/* ---- state ---------------------------------------------------------------------------------------- */
enum emu_state {
    EMU_RUNS,
    EMU_WAITS_LANES,   /* at an .aligned or *.sync op: until other lanes of the warp come here     */
    EMU_WAITS_BARRIER, /* at bar.sync, barrier.cluster.wait: the thread that completes it releases  */
    EMU_WAITS_CHANGE   /* at mbarrier.try_wait and the like: runs again when cluster->changes moves */
};

struct emu_fragment {
    uint32_t                   mask, pc;
    enum emu_state             state;
    uint64_t                   seen;    /* EMU_WAITS_CHANGE: cluster->changes at the time        */
    bool                       expired; /* no other fragment can run, so the wait may give up, once */
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

enum emu_event { /* exec functions set it through the calls below */
                 EMU_NO_EVENT,
                 EMU_EVENT_SPLIT, /* fragments changed: choose again */
                 EMU_EVENT_BLOCK, /* the running fragment waits; its pc is set */
                 EMU_EVENT_YIELD, /* let other warps run first */
                 EMU_EVENT_STOP   /* the grid failed */
};

struct emu_warp {
    unsigned char *bank[EMU_BANKS];
    uint32_t      *defined; /* of the running frame: a lane mask for each row (the first row of a register) */
    uint32_t      *busy;    /* likewise: lanes whose register a wgmma in flight owns; NULL: none yet   */
    uint64_t      *written; /* likewise: w->executed when an op last wrote it; valid when busy is not NULL */
    uint32_t       missing; /* EMU_UNDEFINED_OWN: lanes in which some source is not defined            */
    uint32_t       holes;   /* lanes whose bytes the last EMU_PARTIAL read found undefined in part     */
    uint32_t       active;  /* lanes of the running fragment */
    uint32_t       next;    /* pc after the running op; branches set it */
    uint32_t       live;    /* lanes that exist and have not exited */
    enum emu_event event;
    struct emu_fragment *now;
    struct emu_fragment  fragments[EMU_LANES];
    uint32_t             fragment_count;
    struct emu_return   *returns;      /* [depth][lane] */
    uint32_t             return_depth; /* allocated */
    unsigned char       *rows;         /* all frames, bank[0] points into it */
    uint32_t            *defined_rows, *busy_rows;
    uint64_t            *written_rows;
    uint64_t             wgmma_fence; /* w->executed at the last wgmma.fence; 0: there was none  */
    unsigned char       *mirror;      /* of all rows: undefined.h                        */
    struct emu_origin   *origins;     /* [row]; NULL: none yet                           */
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
    uint32_t             executing; /* lanes for which the running op executes; they wait if it waits */
    bool                 polls;     /* emu_yield was called in this turn */
    bool                 waited;    /* the running op had no effect and will be executed again */
    uint32_t             cluster_generation[EMU_LANES]; /* of barrier.cluster, when the lane arrived */
};

struct emu_barrier {                     /* bar, barrier.cta */
    uint32_t            expected;        /* threads; 0: all of the block */
    uint32_t            arrived;         /* threads; an aligned op counts 32 for its warp */
    uint32_t            lanes;           /* threads, as they are */
    bool                open;            /* a thread has arrived */
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
    uint64_t              changes;      /* counts changes of everything that a wait may look at */
    uint64_t              executed;     /* warp-ops of the turns that are over */
    uint64_t              polls;        /* successive rounds in which warps only polled */
    bool                  waits;        /* it has asked may_change since it last did anything else */
    uint64_t              expiries;     /* successive waits that gave up without any effect */
    uint64_t              ended_seen;   /* clusters of the grid that had ended at the last look */
    bool                  counted_idle; /* grid.c counts it as one that only polls */
    uint64_t              random;       /* state of emu_random */
    uint32_t              barrier_arrived, barrier_generation; /* barrier.cluster, threads */
    struct judge_clock   *barrier_clock, *barrier_done;        /* of the running phase, of the last one */
    struct judge_cluster *judge;
    struct async_cluster *async;
    uint32_t              id;   /* in the grid */
    struct emu_cluster   *link; /* in the queue of suspended clusters */
};

/* A launch.  While it runs, only `stop`, the result and the findings change. */
/* `again`: this cluster has only polled since it asked last. */
typedef bool emu_may_change(void *data, bool again);
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
    struct judge_grid         *judge;           /* NULL: not judged */
    struct judge_grid        **kept;            /* what the judge keeps of the grids before; NULL: nothing */
    bool                       dependent;       /* it may begin before the grid before it has ended */
    atomic_bool                stop;            /* something failed: all host threads end */
    unsigned int               result;          /* CUresult of the first failure */
    unsigned int               findings, notes; /* of the judge; notes do not fail the launch */
    unsigned int               said;            /* printed lines, which the lock of report.c protects */
    struct grid_work          *work;            /* grid.c */
    uint32_t                   role_count;      /* warps of a block: rows of the counters */
    bool                       explicit_cluster;
    uint32_t                   unreachable; /* bits of the devices whose memory it may not access */
    /* All clusters only poll: may something outside the grid still change what they poll?  NULL: nothing may. */
    emu_may_change *may_change;
    void           *may_change_data;
};

/* ---- for exec functions --------------------------------------------------------------------------- */
static inline void *emu_row(const struct emu_warp *w, emu_reg r)
{
    return w->bank[EMU_BANK(r)] + (size_t)EMU_ROW_OF(r) * EMU_ROW;
}
static inline uint32_t *emu_r32(const struct emu_warp *w, emu_reg r) { return (uint32_t *)emu_row(w, r); }
static inline uint64_t *emu_r64(const struct emu_warp *w, emu_reg r) { return (uint64_t *)emu_row(w, r); }
static inline void      emu_define_results(const struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    for (uint32_t i = 0; i < op->result_count; i++)
        w->defined[op->result[i]] |= mask;
}
/* A predicate: bits of all lanes. */
static inline uint32_t emu_pred(const struct emu_warp *w, emu_reg r) { return *emu_r32(w, r); }
static inline void     emu_set_pred(const struct emu_warp *w, emu_reg r, uint32_t mask, uint32_t bits)
{
    uint32_t *p = emu_r32(w, r);
    *p = (*p & ~mask) | (bits & mask);
}

/* For each lane of mask.  The common case of all lanes is a plain loop that the compiler vectorises, so the
 * body must not depend on the order of the lanes. */
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

/* The running fragment cannot continue.  It stays at this op, and executes all of it again when something has
 * changed.  now->expired then says that nothing else in the cluster can run: a try_wait gives up and returns
 * false. */
void emu_wait_change(struct emu_warp *w);
/* Something has happened that a fragment may be waiting for (an arrival, completed bytes, ...). */
static inline void emu_changed(struct emu_cluster *c) { c->changes++; }
/* Allocate w->busy and w->written if there are none yet; false: out of memory. */
bool emu_busy_rows(struct emu_warp *w);
/* Let other warps run first, because this one polls something that another block (emu_yield), or only its own
 * cluster (emu_yield_cluster), may change. */
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
/* For *.sync ops with a member mask.  True: all `members` are in `w->active`.  False: the fragment waits until
 * the missing lanes come to this op, and the exec function must return at once.  If lanes have exited or never
 * come, a deadlock is reported. */
bool emu_gather(struct emu_warp *w, const struct emu_op *op, uint32_t members);

/* xorshift, seeded by settings->seed and the cluster: the same in every run with the same seed. */
uint32_t emu_random(struct emu_cluster *c);

/* A fatal error of the kernel: print one line with place, thread and text, and stop the grid with `result` (a
 * CUresult: 700 illegal address, 716 misaligned, 715 illegal instruction, 719 launch failed, 702 timeout).
 * lane < 0: the warp as a whole. */
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
    uint64_t conflicts;    /* wavefronts beyond the ideal       */
    uint64_t tensor_ops;   /* multiply-adds of tensor cores     */
};
#endif
