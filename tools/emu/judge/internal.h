/* internal.h - internals of the judge: vector clocks, shadow cells, what a warp has observed.
 *
 * Components  a clock has a counter for every thread of the cluster, and for every sequence of asynchronous
 *             operations that become visible in order.  32 components make a row; row numbers are
 *                 kind * warps + warp     (enum judge_row_kind; the lanes of that warp of the cluster)
 *                 ROW_KINDS * warps + n   (mbarriers 32 n to 32 n + 31: operations that completed on them)
 * Vectors     rows by number, with a reference count, copied on write while shared; NULL is all zero.
 *             Lanes and warps that synchronise usually share one object.
 * Own part    a lane's knowledge of itself changes often, so it is in judge_warp.own and not in its vector.
 * Packets     rows of any cluster of the grid, for strong accesses and fences. */
#ifndef EMU_JUDGE_INTERNAL_H
#define EMU_JUDGE_INTERNAL_H
#include <pthread.h>
#include "judge.h"

/* What was observed; the part on which accesses of the async proxy to global, and to shared memory may rely. */
enum judge_part { PART_SEEN, PART_GLOBAL, PART_SHARED, PARTS };

enum judge_row_kind {
    ROW_THREAD,     /* accesses of the threads                                           */
    ROW_CP,         /* cp.async                                                          */
    ROW_BULK_READS, /* bulk copies in groups: their reads                                 */
    ROW_BULK,       /* bulk copies in groups: their writes                                */
    ROW_LOADS,      /* reads of global memory by copies that complete on an mbarrier      */
    ROW_WGMMA,      /* of a warpgroup: component 0 of its first warp                      */
    ROW_KINDS
};
enum { ROW_TABLE = 0xffff }; /* in a record: epoch is a number in judge_cluster.operations */

struct judge_row {
    uint32_t ref, at[EMU_LANES];
};
struct judge_packet_row {
    uint32_t cluster, row, at[EMU_LANES];
};
struct judge_packet {
    uint32_t                ref, count, room;
    struct judge_packet_row rows[];
}; /* by (cluster, row) */
struct judge_vector {
    uint32_t             ref, count;
    struct judge_packet *foreign; /* rows of other clusters */
    struct judge_row    *row[];
};

struct judge_clock { /* an object through which threads synchronise */
    struct judge_vector *part[PARTS];
    struct judge_vector *origin[PARTS];   /* the clock that it began as, which is known to be before `part` */
    struct judge_clock  *previous, *next; /* of the cluster's list */
};

/* ---- shadow memory ------------------------------------------------------------------------------------- */
enum { LINE_BYTES = 128, CELL_BYTES = 16, CELL_FAN = 4, LINE_CELLS = LINE_BYTES / CELL_BYTES };
enum { LINE_READS = 2 };
enum {
    BY_ASYNC_PROXY = 1,
    BY_STRONG = 2,
    BY_WIDE = 8,     /* strong, and its scope is wider than the block */
    BY_SEVERAL = 4,  /* a write: several lanes of one store wrote the same; each may read it */
    BY_CONSTANT = 16 /* a read through .nc: nothing may write there, in any order */
};

struct judge_record { /* an access; epoch 0: none */
    uint32_t epoch, op, cluster;
    uint16_t row;
    uint8_t  lane, flags;
};
struct judge_reads { /* reads by lanes of one row at one epoch */
    uint32_t epoch, op, cluster, mask;
    uint16_t row;
    uint8_t  flags;
};
struct judge_readers {
    uint32_t           room;
    struct judge_reads at[];
}; /* room: a power of two */
struct judge_cell {
    struct judge_record   write;
    struct judge_reads    read; /* unused when there are readers */
    struct judge_readers *readers;
    struct judge_cell    *split; /* CELL_FAN cells of a quarter of the bytes; then no other field is used */
};
/* A line needs no cells as long as every access covers all of it: by `lanes` lanes (a power of two) from
 * `lane`, or from the lowest of the mask, on, which access equal parts of it in order. */
struct judge_line {
    struct judge_record write;
    struct judge_reads  read[LINE_READS];
    uint8_t             write_lanes;
    uint8_t             breaks; /* how often it was split into cells */
    struct judge_cell  *cells;  /* LINE_CELLS; then no other field is used */
};

struct judge_page { /* of global memory */
    uint64_t           number;
    struct judge_page *next;
    pthread_mutex_t    lock;
    struct judge_line  lines[];
};

/* ---- strong accesses ------------------------------------------------------------------------------ */
/* Whom a fence orders accesses for: all threads, or with the scope .cta only those of its block. */
enum judge_reach { REACH_ALL, REACH_BLOCK, REACHES };
struct judge_near { /* what the threads of one block have released with fences of the scope .cta */
    uint64_t             block;
    struct judge_packet *part[PARTS];
    struct judge_near   *next;
};
struct judge_location {           /* a word through which a strong write has released */
    const void            *owner; /* the block, for shared memory */
    uint64_t               address;
    uint32_t               stores;  /* plain stores, which end the effect of earlier releases */
    uint64_t               changes; /* stores and releases */
    uint64_t               alone;   /* all later changes are by host thread `thread` */
    const void            *thread;
    struct judge_packet   *part[PARTS];
    struct judge_near     *near; /* of global memory: by block */
    struct judge_location *next;
};
enum { LOCATION_SHARDS = 64, LOCATION_BUCKETS = 1024 };
struct judge_locations {
    pthread_mutex_t        lock[LOCATION_SHARDS];
    struct judge_location *bucket[LOCATION_BUCKETS];
};

/* ---- owners --------------------------------------------------------------------------------------- */
enum { PAGE_BYTES = 4096, PAGE_BUCKETS = 1 << 14, PAGE_SHARDS = 64, PAGE_CACHE = 256 };

struct judge_launch {            /* a grid, or one of several that may overlap: chain.c */
    struct emu_grid      *shape; /* what reports say of it; of the current grid, too */
    const struct emu_op **ops;   /* by number, in the order of their first use */
    uint32_t              op_count;
    struct judge_packet  *ended; /* what those who have waited for the grid before know; NULL: there is none */
    uint32_t              first, clusters; /* the numbers of its clusters: those of the next grid follow */
    uint32_t              covers; /* its end implies the end of all grids of the chain from this one on */
    bool                  waited; /* a thread has executed griddepcontrol.wait */
    bool                  late;   /* a block has let dependents begin, or ended, after it had waited */
    bool                  over;   /* it had ended before the current grid began */
};
struct judge_grid { /* the current grid, and those before it with which it may overlap */
    struct emu_grid       *grid;
    struct judge_launch   *launch; /* the last one is the current one */
    uint32_t               launch_count;
    uint32_t               first; /* of the current one, as its ops */
    const struct emu_op  **ops;
    uint32_t               op_count;
    bool                   off;  /* out of memory, or too slow: races are not judged any more */
    uint64_t               rows; /* of packets that were read or copied so far */
    pthread_mutex_t        lock[PAGE_SHARDS];
    struct judge_page     *bucket[PAGE_BUCKETS];
    uint64_t               bytes;     /* of pages and all that belongs to them */
    struct judge_locations locations; /* of global memory */
};

struct judge_operation {             /* completes on an mbarrier */
    uint32_t point_row, point_epoch; /* its component once it has completed; epoch 0: in flight */
    uint16_t row;                    /* who issued it */
    uint8_t  lane, point_lane;
};

struct judge_remote;
struct judge_cta {
    struct judge_line    *lines;
    uint32_t              count;
    struct judge_remote **remote;   /* [warp of the cluster]: accesses by other blocks; NULL: none */
    bool                  waited;   /* a thread has executed griddepcontrol.wait ... */
    bool                  released; /* ... griddepcontrol.launch_dependents */
};

struct judge_cluster {
    struct emu_cluster     *cluster;
    struct judge_grid      *grid;
    uint32_t                id, warps; /* of all its blocks */
    struct judge_warp      *warp;      /* [warps] */
    struct judge_cta       *cta;
    struct judge_clock     *clocks;
    struct judge_operation *operations; /* number 0 is not used */
    uint32_t                operation_count, operation_room;
    struct judge_clock   ***barriers; /* mbarriers by number: the address of their clock's pointer */
    uint32_t               *barrier_epoch;
    uint32_t                barrier_count, barrier_room;
    struct judge_async     *spare;            /* operations that have ended */
    struct judge_page      *page[PAGE_CACHE]; /* found last */
    struct judge_locations  locations;        /* of shared memory */
};

enum { PENDING = 4 };
struct judge_pending { /* a strong read of a word, and what had been released through the word before */
    const void          *owner;
    uint64_t             address, changes;
    uint32_t             stores;
    const void          *thread; /* the host thread that read */
    struct judge_packet *part[REACHES][PARTS];
};
struct judge_snapshot { /* what lanes had observed at their last fence */
    struct judge_vector *part[PARTS][EMU_LANES];
    uint32_t             own[PARTS][ROW_KINDS][EMU_LANES];
    uint32_t             lanes; /* that have executed one; of REACH_BLOCK: since the last of REACH_ALL */
};
struct judge_strong { /* of a warp that has executed a fence or a strong read of a released word */
    struct judge_snapshot at[REACHES];
    struct judge_pending  pending[EMU_LANES][PENDING];
    uint8_t               pending_count[EMU_LANES];
};

struct judge_warp {
    struct judge_cluster *cluster;
    struct emu_warp      *w;
    uint32_t              number; /* in the cluster: its ROW_THREAD row */
    uint32_t              leader; /* the first warp of its warpgroup */
    uint32_t              epoch;  /* of accesses from now on */
    uint32_t              kinds;  /* bit k: own components of row kind k are not all zero */
    bool                  fenced; /* has executed a proxy fence */
    struct judge_vector  *part[PARTS][EMU_LANES];
    uint32_t             own[PARTS][ROW_KINDS][EMU_LANES]; /* [PART_SEEN][ROW_THREAD] is set at releases only */
    uint32_t             issued[ROW_KINDS][EMU_LANES];     /* asynchronous operations */
    uint32_t             settled[EMU_LANES]; /* cp.async that have completed on mbarriers: all up to this one */
    struct judge_strong *strong;
};

/* ---- judge.c -------------------------------------------------------------------------------------- */
/* Zeroed.  NULL: out of memory; the judge is switched off and has reported it. */
void *judge_alloc(struct judge_grid *grid, size_t count, size_t size);
bool  judge_is_off(const struct judge_grid *grid);
/* Count rows of packets that were read or copied; too many switch the judge off. */
void judge_count_rows(struct judge_grid *grid, uint64_t rows);
/* From now on, records use its number. */
void                 judge_note_op(struct judge_grid *grid, const struct emu_op *op);
const struct emu_op *judge_noted_op(const struct judge_launch *launch, uint32_t number);

/* ---- chain.c -------------------------------------------------------------------------------- */
bool judge_chain_has_room(const struct judge_grid *g, const struct emu_grid *grid);
/* One more grid, which depends on the last one if there is one; false: out of memory. */
bool judge_chain_add(struct judge_grid *g, const struct emu_grid *grid);
void judge_chain_end(struct judge_grid *g); /* the current grid ends */
void judge_chain_free(struct judge_grid *g);
/* Does the cluster belong to an earlier grid? */
static inline bool judge_is_earlier(const struct judge_grid *g, uint32_t cluster) { return cluster < g->first; }
const struct judge_launch *judge_launch_of(const struct judge_grid *g, uint32_t cluster);
/* Has the view's lane observed the end of the earlier grid to which this cluster belongs? */
struct judge_view;
bool judge_earlier_ordered(const struct judge_view *view, enum judge_part p, uint32_t cluster);
/* The last threads of the warp's block exit. */
void judge_dependents_begin_at_exit(struct judge_warp *w);

/* ---- vector.c ------------------------------------------------------------------------------- */
struct judge_vector *judge_vector_keep(struct judge_vector *v, uint32_t times);
void                 judge_vector_drop(struct judge_vector *v, uint32_t times);
void judge_vector_join(struct judge_grid *grid, struct judge_vector **to, struct judge_vector *from);
/* Raise the components of a row to those of `at`. */
void judge_vector_lanes(struct judge_grid *grid, struct judge_vector **to, uint32_t row, uint32_t mask,
                        const uint32_t at[EMU_LANES]);
void judge_vector_point(struct judge_grid *grid, struct judge_vector **to, uint32_t row, uint32_t lane,
                        uint32_t epoch);
void judge_vector_import(struct judge_cluster *c, struct judge_vector **to, const struct judge_packet *packet);
/* A vector of nothing but a packet, which somebody else keeps; NULL: out of memory. */
struct judge_vector *judge_vector_of(struct judge_grid *grid, struct judge_packet *packet);
void judge_vector_export(struct judge_cluster *c, const struct judge_vector *v, struct judge_packet **to);
/* Clusters share the packets of words.  Any thread may drop a reference.  Taking one needs the lock of the
 * word, and so does writing to a packet, which must have only one reference. */
struct judge_packet           *judge_packet_keep(struct judge_packet *packet);
void                           judge_packet_drop(struct judge_packet *packet);
const struct judge_packet_row *judge_packet_find(const struct judge_packet *packet, uint32_t cluster,
                                                 uint32_t row);

/* ---- clock.c -------------------------------------------------------------------------------- */
struct judge_clock *judge_clock_new(struct judge_cluster *c);
void                judge_clock_free(struct judge_cluster *c, struct judge_clock *clock);
/* These lanes have observed `from`, which is known to be after `origin` (which may be NULL). */
void judge_lanes_join(struct judge_warp *w, uint32_t mask, enum judge_part p, struct judge_vector *from,
                      const struct judge_vector *origin);
/* Raise *to by what these lanes know of themselves. */
void judge_add_own(struct judge_warp *w, uint32_t mask, enum judge_part p, uint32_t own[ROW_KINDS][EMU_LANES],
                   struct judge_vector **to);

/* ---- cell.c --------------------------------------------------------------------------------- */
/* The current access, and its record. */
struct judge_view {
    struct judge_warp    *warp;
    const struct emu_op  *op;
    int                   lane;
    unsigned int          access;
    struct judge_record   me;
    uint32_t              mask;
    const struct emu_ref *all; /* of the lanes of mask; NULL: an asynchronous operation */
    const struct emu_ref *ref; /* of what follows */
    uint64_t              bytes;
    struct judge_page    *page; /* locked; NULL: none */
};
/* Has the view's lane observed these lanes' component `epoch` of a row? */
bool judge_ordered(const struct judge_view *view, enum judge_part p, uint32_t cluster, uint32_t row,
                   uint32_t lane, uint32_t epoch);
/* The same for all lanes of mask, in one step.  False may also mean that only its own part has it. */
bool judge_all_ordered(const struct judge_view *view, enum judge_part p, const struct judge_reads *before);
void judge_cell_touch(const struct judge_view *view, struct judge_cell *cell, uint64_t address, uint32_t bytes);
void judge_cells_free(struct judge_cell *cells, uint32_t count);
/* Add a read to a cell that has some. */
void judge_cell_add_reads(struct judge_grid *grid, struct judge_cell *cell, const struct judge_reads *reads);

/* ---- line.c --------------------------------------------------------------------------------- */
/* `lanes` lanes from view->me.lane on access all of the line, each its part.  False: use its cells. */
bool judge_line_touch(const struct judge_view *view, struct judge_line *line, uint32_t lanes);
/* Split the line into cells; false: out of memory. */
bool judge_line_break(struct judge_grid *grid, struct judge_line *line);
/* It was just written as a whole and may not need cells any more. */
void judge_line_join(const struct judge_view *view, struct judge_line *line, uint32_t lanes);
void judge_lines_free(struct judge_line *lines, uint32_t count);

/* ---- shadow.c ------------------------------------------------------------------------------- */
/* One lane accesses any memory.  A page of global memory stays locked until judge_touch_done. */
void judge_touch(struct judge_view *view, const struct emu_ref *ref, uint64_t bytes);
/* Many lanes access `bytes` each. */
void judge_touch_lanes(struct judge_view *view, uint32_t mask, const struct emu_ref ref[EMU_LANES],
                       uint32_t bytes);
void judge_touch_done(struct judge_view *view);
void judge_pages_free(struct judge_grid *grid);

/* ---- message.c: the report about two accesses ----------------------------------------------- */
enum judge_missing { MISSING_ORDER, MISSING_PROXY_FENCE, MISSING_CONSTANCY, MISSING_SCOPE };
void judge_report_pair(const struct judge_view *view, const struct judge_record *other, bool other_writes,
                       enum judge_missing missing);

/* ---- async.c -------------------------------------------------------------------------------- */
void judge_async_free_spare(struct judge_cluster *c);

/* ---- exit.c --------------------------------------------------------------------------------- */
/* Note accesses to the shared memory of other blocks. */
void judge_remote_access(struct judge_warp *w, const struct emu_op *op, uint32_t mask,
                         const struct emu_ref ref[EMU_LANES]);
void judge_remote_free(struct judge_cta *block, uint32_t warps);

/* ---- strong.c ------------------------------------------------------------------------------- */
void judge_strong_access(struct judge_warp *w, uint32_t mask, const struct emu_ref ref[EMU_LANES],
                         uint32_t bytes, unsigned int access);
/* These lanes acquire now what they have seen in strong reads. */
void judge_strong_acquire(struct judge_warp *w, uint32_t mask);
void judge_strong_free(struct judge_warp *w);
void judge_locations_init(struct judge_locations *table);
void judge_locations_free(struct judge_locations *table);
#endif
