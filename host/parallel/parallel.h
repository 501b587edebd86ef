/* parallel.h - attention over a sequence that several GPUs share: groups of ranks, and attention sharded along the sequence.
 *
 *   ptxpack_parallel_devices -> ptxpack_attention_parallel_plan_create -> ptxpack_attention_parallel_launch
 *
 * Ranks    A group has ranks 0 .. ranks - 1, each with a device.  The ranks of this process are local: all of a group made
 *          from a list of devices.  Where a call takes an array with an element for each rank, it has those of the local ones.
 * Shards   The whole sequence is divided into chunks of rows that differ by at most one row: chunk c of n begins at row
 *          rows * c / n, rounded down.  Every rank holds the rows of its chunks of q, k and v, and gets those of o and the lse:
 *            contiguous  `ranks` chunks; rank r holds chunk r
 *            zigzag      2 ranks chunks; rank r holds chunk r, then chunk 2 ranks - 1 - r.  With a causal mask all ranks then
 *                        have the same work
 *          A chunk may be empty, and so may a shard.
 * Shapes   With `rows` those of the rank's shard, its chunks one after another; compact:
 *            q [batch][rows][heads_q][head_dim],   o [batch][rows][heads_q][head_dim_v]
 *            k [batch][rows][heads_kv][head_dim],  v [batch][rows][heads_kv][head_dim_v]
 *            lse, f32: for each chunk, one after another, [batch][heads_q][rows of the chunk]
 * Ways     gather  a rank takes all keys that its rows attend to into its workspace, and then attends to them
 *          steps   it attends to its own keys while those of the nearest rank arrive, to these while those of the next two
 *                  arrive, then of four, ...; the parts are merged by their log-sum-exps in f32, and rounded once more
 *          heads   each rank takes all rows of its heads_q / ranks query heads and heads_kv / ranks key heads, computes one ordinary
 *                  attention of them, and takes the results of its rows from the others.  heads_kv is a multiple of the
 *                  ranks.  All ranks have the same work, with any mask and kind of shards, and nothing is merged; nothing is
 *                  computed while data are on their way
 *          arrive  one launch of all of its rows begins at once, with its own keys, and waits for those of others as it comes to
 *                  them.  Of a causal mask, dense rows in chunks of equal length, multiples of 128, on Hopper.  With NCCL, and
 *                  where ranks share a device, all keys come first, and it is not chosen; in a launch that is captured, too: ask
 *                  for steps there
 *          By all but heads, keys that no row of a rank sees are not taken.  A plan chooses the way that its model of time prefers,
 *          and heads only where it is expected to be faster by a tenth; of packed rows it chooses gather.
 * Memory   Device buffers belong to the caller, the workspace, too; the library allocates none, but for 256 bytes a rank
 *          in a group by NCCL.  k and v of a rank, with heads q, and with heads and arrive the workspace are read by other ranks: its
 *          stream goes on after they have been.
 * Streams  A launch is enqueued on a stream of each local rank.  Copies, and kernels that take what they bring, run on streams of
 *          the group beside it; copies wait for the work that is in the streams of all ranks that they read from.  Nothing waits
 *          on the host.
 * Graphs   A launch of a group of devices can be captured: begin in one rank's stream, let those of the others wait for an event of it
 *          and at the end let it wait for theirs.  The graph then has all ranks; the plan and the buffers outlive it.
 * Errors   Calls return a ptxpack_status; the line is ptxpack_detail of the handle of the group's first local rank.  After an
 *          error of a launch what was enqueued of it is of no use; nothing is left that waits for ever.
 * Threads  A group and its plans are used by one thread at a time.  Launches of one plan that may run at the same time need a
 *          workspace each. */
#ifndef PTXPACK_PARALLEL_H
#define PTXPACK_PARALLEL_H
#include <stddef.h>
#include <stdint.h>
#include "host/attention/attention.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- groups --------------------------------------------------------------------------------------------- */
typedef struct ptxpack_parallel_group ptxpack_parallel_group;

/* Make a group of devices of this process: rank r uses handles[r], which outlives the group.  Handles may be those of one
 * device, for tests.  Access of devices to each other is enabled where the driver can; otherwise copies go through the host.
 * *group belongs to the caller.  On failure it is NULL, and the line is that of handles[0].
 *   PTXPACK_E_ARG      ranks is below 1 or above 1024, or a handle is NULL or offline
 *   PTXPACK_E_DRIVER   a stream cannot be made; or the driver has no copies between devices
 *   PTXPACK_E_MEMORY, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_parallel_devices(ptxpack *const *handles, int32_t ranks,
                                                    ptxpack_parallel_group **group);
/* Make a group of several processes, or of several threads, with NCCL, which is found at run time ($PTXPACK_NCCL, else
 * libnccl.so.2, from 2.14 on).  Each calls with its handle and its rank, which is the local one; the calls return when all have
 * called.  The id comes from ptxpack_parallel_id on one of them and gets to the others by the program's own means.  Or take an
 * ncclComm_t of the application, whose handle uses the same device; it is not destroyed.  The line is the handle's, of
 * ptxpack_parallel_id ptxpack_detail(NULL).
 *   Plans of such a group are made by all ranks together, with the same descriptors, and so are launches enqueued.  A call that
 * waits for other ranks, and ptxpack_parallel_wait, waits at most `timeout_ms`.  If it is over, or NCCL reports an error, then
 * the communicator is aborted, also that of the application, what waits in streams for other ranks ends, and this call and
 * all later ones of the group return PTXPACK_E_PEER, with one line that names this rank, what it waited for, and the cause.  If
 * others have not come to a join, or to a plan that is not the first one of an application's communicator, it names those of this
 * machine: while they wait, ranks show each other that they are there, by a local socket that carries no data.
 *   PTXPACK_E_ARG       rank, ranks or timeout_ms is out of its range, or the handle is offline
 *   PTXPACK_E_NO_NCCL   there is no such library
 *   PTXPACK_E_PEER      another rank did not join in time, or NCCL failed
 *   PTXPACK_E_DRIVER, _E_MEMORY, _E_FORKED */
enum { PTXPACK_PARALLEL_ID_BYTES = 128 };
struct ncclComm; /* ncclComm_t is a pointer to it */
PTXPACK_API ptxpack_status ptxpack_parallel_id(uint8_t id[PTXPACK_PARALLEL_ID_BYTES]);
PTXPACK_API ptxpack_status ptxpack_parallel_join(ptxpack *handle, const uint8_t id[PTXPACK_PARALLEL_ID_BYTES],
                                                 int32_t ranks, int32_t rank, int32_t timeout_ms,
                                                 ptxpack_parallel_group **group);
PTXPACK_API ptxpack_status ptxpack_parallel_communicator(ptxpack *handle, struct ncclComm *comm,
                                                         int32_t timeout_ms, ptxpack_parallel_group **group);
/* Wait on the host until the work in a stream of each local rank is done.  In a group of devices it waits as long as it takes.
 *   PTXPACK_E_PEER    see above
 *   PTXPACK_E_DRIVER, ..  a kernel or copy of a local rank failed: the line names the rank */
PTXPACK_API ptxpack_status ptxpack_parallel_wait(ptxpack_parallel_group    *group,
                                                 struct CUstream_st *const *streams);
/* Free a group, after its plans and when nothing of it runs; NULL is allowed. */
PTXPACK_API void ptxpack_parallel_free(ptxpack_parallel_group *group);
/* How many ranks it has; how many of them are local; the first local one.  0 if `group` is NULL. */
PTXPACK_API int32_t ptxpack_parallel_ranks(const ptxpack_parallel_group *group);
PTXPACK_API int32_t ptxpack_parallel_local(const ptxpack_parallel_group *group);
PTXPACK_API int32_t ptxpack_parallel_rank(const ptxpack_parallel_group *group);

/* ---- attention ------------------------------------------------------------------------------------------ */
typedef enum ptxpack_shards { PTXPACK_SHARDS_CONTIGUOUS = 0, PTXPACK_SHARDS_ZIGZAG = 1 } ptxpack_shards;
typedef enum ptxpack_parallel_way {
    PTXPACK_PARALLEL_BEST = 0, /* the plan chooses */
    PTXPACK_PARALLEL_GATHER = 1,
    PTXPACK_PARALLEL_STEPS = 2,
    PTXPACK_PARALLEL_HEADS = 3, /* heads_kv, and so heads_q, is a multiple of the ranks */
    PTXPACK_PARALLEL_ARRIVE = 4 /* see "Ways" */
} ptxpack_parallel_way;

/* The attention is the one that `attention` would be on one GPU: of whole sequences, with seqlen_q equal to seqlen_kv, of
 * compact tensors of dtype, dense or packed, and any mask, scale and softcap.  Its options may be PTXPACK_SINKS and PTXPACK_ALIBI, and
 * it may have chunks; its other fields are 0.  With ALiBi or chunks the ways are gather and heads, and with ALiBi and gather no row
 * attends to keys behind it. */
typedef struct ptxpack_attention_parallel_desc {
    uint32_t                      size; /* = sizeof(ptxpack_attention_parallel_desc) */
    ptxpack_shards                shards;
    const ptxpack_attention_desc *attention; /* read only while a plan is created */
    ptxpack_parallel_way          way;
    /* Packed rows: seqlen_q and seqlen_kv are the most of a sequence, rows_q and rows_kv all rows, which are divided into chunks;
     * starts[batch + 1], in HOST memory and read only while a plan is created, says where each sequence begins: from 0 to rows_q.
     * Shards are then those of one sequence of batch 1.  Masks: none, causal, or a window with window_right 0.  NULL: dense. */
    const int32_t *starts;
    float link_gbps; /* what a rank receives, in GB/s; 0: 370, as by NVLink of Hopper.  For the model of time */
} ptxpack_attention_parallel_desc;

/* Device addresses of one local rank: multiples of 16 bytes, those of lse, sinks and slopes of 4.  Those of an empty shard are
 * ignored, but for workspace, sinks and slopes of the way PTXPACK_PARALLEL_HEADS. */
typedef struct ptxpack_attention_parallel_buffers {
    uint32_t size;      /* = sizeof(ptxpack_attention_parallel_buffers), of each element */
    uint32_t reserved;  /* 0 */
    uint64_t q, k, v;   /* read */
    uint64_t o;         /* written */
    uint64_t lse;       /* written; 0: it is not wanted */
    uint64_t workspace; /* ptxpack_attention_parallel_workspace bytes, zero before the plan's first launch */
    uint64_t sinks;     /* [heads_q], f32, with PTXPACK_SINKS */
    uint64_t slopes;    /* the same with PTXPACK_ALIBI */
    struct CUstream_st *stream; /* of the rank's context; NULL: its default stream */
} ptxpack_attention_parallel_buffers;

typedef struct ptxpack_attention_parallel_plan ptxpack_attention_parallel_plan;

/* The rows of chunk 0 or 1 of a rank in the whole sequence: the first one, and how many.  *count is 0 for a chunk that the
 * rank does not have, and both are 0 where an argument is out of its range. */
PTXPACK_API void ptxpack_attention_parallel_chunk(ptxpack_shards shards, int32_t ranks, int32_t rank,
                                                  int32_t rows, int32_t chunk, int32_t *first, int32_t *count);
/* Check `desc`, choose the way, and make the plans of all local ranks.  *plan belongs to the caller, who frees it before the
 * group.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   The other codes are those of ptxpack_attention_plan_create and of ptxpack_parallel_devices. */
PTXPACK_API ptxpack_status ptxpack_attention_parallel_plan_create(ptxpack_parallel_group                *group,
                                                                  const ptxpack_attention_parallel_desc *desc,
                                                                  ptxpack_attention_parallel_plan      **plan);
PTXPACK_API void           ptxpack_attention_parallel_plan_free(
              ptxpack_attention_parallel_plan *plan); /* NULL is allowed */
/* The bytes of workspace that local rank number `local` needs, aligned to 256; 0 if there is no such rank. */
PTXPACK_API size_t ptxpack_attention_parallel_workspace(const ptxpack_attention_parallel_plan *plan,
                                                        int32_t                                local);
/* The way that was chosen; PTXPACK_PARALLEL_BEST if `plan` is NULL. */
PTXPACK_API ptxpack_parallel_way ptxpack_attention_parallel_way(const ptxpack_attention_parallel_plan *plan);
/* Enqueue the attention of all local ranks; buffers has an element for each.
 *   PTXPACK_E_ARG      an address is missing or misaligned; nothing was enqueued
 *   PTXPACK_E_DRIVER   the driver refuses a copy or an event
 *   PTXPACK_E_LAUNCH   it refuses a kernel
 *   PTXPACK_E_FORKED */
PTXPACK_API ptxpack_status ptxpack_attention_parallel_launch(const ptxpack_attention_parallel_plan    *plan,
                                                             const ptxpack_attention_parallel_buffers *buffers);

/* ---- decoding ------------------------------------------------------------------------------------------- */
/* The keys of each sequence are divided among the ranks, token by token in any way; all ranks have the same queries.  Each
 * attends to its own keys, all get the results of all in one small exchange, and merge them: o and the lse of every rank are
 * those of all keys.  A rank without keys of a sequence has length 0 for it.
 *   `desc` is the attention of one rank's keys, the same on all ranks: dense or paged k and v, of any kv_dtype, lengths,
 * sinks (which count once), hooks (whose positions are those of the rank's own keys).  Its mask is PTXPACK_MASK_NONE: a row
 * attends to all keys.  q is dense, without lengths; no ALiBi, bias, bits, blocks or append. */
typedef struct ptxpack_parallel_decode_plan ptxpack_parallel_decode_plan;

typedef struct ptxpack_parallel_decode_buffers {
    uint32_t size;     /* = sizeof(ptxpack_parallel_decode_buffers), of each element */
    uint32_t reserved; /* 0 */
    const ptxpack_attention_buffers
            *attention; /* in HOST memory: of the rank's keys; o and lse get the result of all ranks.
                                                   Its workspace and launch are ignored */
    uint64_t workspace; /* ptxpack_parallel_decode_workspace bytes, zero before the plan's first launch */
    struct CUstream_st *stream; /* of the rank's context; NULL: its default stream */
} ptxpack_parallel_decode_buffers;

/* Codes as of ptxpack_attention_parallel_plan_create; the plan is freed before the group. */
PTXPACK_API ptxpack_status ptxpack_parallel_decode_plan_create(ptxpack_parallel_group        *group,
                                                               const ptxpack_attention_desc  *desc,
                                                               ptxpack_parallel_decode_plan **plan);
PTXPACK_API void ptxpack_parallel_decode_plan_free(ptxpack_parallel_decode_plan *plan); /* NULL is allowed */
PTXPACK_API size_t
ptxpack_parallel_decode_workspace(const ptxpack_parallel_decode_plan *plan); /* the same for all ranks */
/* Enqueue it for all local ranks.  Codes as of ptxpack_attention_parallel_launch, and of ptxpack_attention_launch. */
PTXPACK_API ptxpack_status ptxpack_parallel_decode(const ptxpack_parallel_decode_plan    *plan,
                                                   const ptxpack_parallel_decode_buffers *buffers);
#ifdef __cplusplus
}
#endif
#endif
