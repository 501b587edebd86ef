/* attention.h - plan and launch an attention forward: O = softmax(scale Q K^T + mask) V.
 *
 * Scores   s = scale q.k; then the softcap; then with PTXPACK_ALIBI less slope |i + seqlen_kv - seqlen_q - j|, with the
 *          query head's slope and the sequence's own lengths; plus the bias; then the mask.  Over the keys j that row i attends to
 *            o = sum e^s(j) v(j) / (sum e^s(j) + e^sink)        lse = ln(sum e^s(j) + e^sink)
 *          where e^sink is there with PTXPACK_SINKS alone: a virtual logit of the query head, as it is in memory.
 *          With PTXPACK_UNNORMALIZED o = sum e^s(j) v(j), not divided by the sum, which is still that of the lse.  Where a
 *          score_mod gives the logarithms of weights, this is attention with any weights of 0 or more: of log sigmoid(s + b),
 *          sigmoid attention.  A weight e^s is then at most e^20, and rows all of whose weights are below e^-40 may become 0.
 *          Parts of the keys have o that are added, not merged.  Neither with sinks nor with fp8.
 * Chunks   With `chunk` n the keys and the rows of a sequence lie in chunks of n positions, from its first key on, and a row
 *          attends to keys of its own chunk alone: with p = i + seqlen_kv - seqlen_q to those with p - p % n <= j <= p.
 * Bias     With PTXPACK_BIAS bias[sequence][query head][i][j] is added to the score of row i and key j, which are counted in
 *          their sequence, also of packed rows and in pages, the keys with those that left_pad skips.  -inf is a mask;
 *          a number below -1e32 may be one, too, and none may be above 1e32.  It may be read where the mask leaves nothing, and any
 *          number may be there.
 * Bits     With PTXPACK_MASK_BITS a row attends to a key that the mask leaves only if its bit is 1:
 *            mask_keys 0   bit j of row i is that of key j
 *                      n   the bits are those of the last n keys, the last one's is bit n - 1; all keys before are seen
 *                      PTXPACK_KEYS_OF_QUERIES  the same with n the sequence's own queries: the tree of a speculative
 *                          decoding, whose tokens are the last keys
 *          Bit x of a row is bit x % 8 of its byte x / 8.  Keys are counted as for a bias.
 * Shapes   They are written from the slowest to the fastest dimension, and hold unless strides say otherwise:
 *            q     [batch][seqlen_q][heads_q][head_dim],    o  [batch][seqlen_q][heads_q][head_dim_v]
 *            k     [batch][seqlen_kv][heads_kv][head_dim],  v  [batch][seqlen_kv][heads_kv][head_dim_v]
 *            lse   [batch][heads_q][seqlen_q], f32, natural logarithm; of packed q [heads_q][rows_q]
 *          Strides count ELEMENTS.  The last dimension is contiguous.
 * Lengths  A batch of sequences with lengths of their own: seqlen_q and seqlen_kv are then the most that a plan
 *          serves, and the lengths are read from device memory at each launch (ptxpack_attention_buffers), so
 *          that one plan, or one captured graph, serves a decoding loop.  Rows may be packed or in pages
 *          (ptxpack_rows).  Masks use each sequence's own lengths.  Rows of k and v beyond a length may hold
 *          anything; rows of o and of the lse beyond a length are not written.  A length may be 0.  Not with fp8.
 * Append   A launch may first write new rows of k and v to dense or paged ones, rotated, and rotate q, as append.h says
 *          under "In one call".
 * Hooks    score_mod and mask_mod are PTX with macros of the pack's language, with which the kernel is assembled, or functions
 *          in CUDA C++, of which NVRTC, found at run time, makes such macros: SCORE_MOD changes a score after softcap, ALiBi and
 *          bias, and MASK_MOD says whether a row attends to a key that the mask lets it see.  They are given sequence, query
 *          head, the positions of row and key, and up to 8 addresses.  ptx/attention/hooks/README.md is their reference,
 *          tools/examples/hooks has some to begin with.  A text that may do more than compute and read is refused with a line;
 *          one that makes a kernel spill registers gets a kernel with a smaller tile, or PTXPACK_E_UNSUPPORTED.
 * Blocks   With block_rows and block_keys the rows and keys of a sequence lie in blocks of so many, and for each block of rows of a
 *          sequence and query head a launch brings two lists of blocks of keys: of block_list all pairs of row and key are
 *          attended to that the mask and mask_mod leave, of full_list, for which mask_mod is not evaluated, all that the mask
 *          leaves.  Keys of other blocks are masked.  These are the arrays of FlexAttention's BlockMask; the kernels skip what
 *          is in neither list.  blocks.h makes them from the mask and mask_mod.  Not with fp8, nor lengths of their own.
 * Arrivals With arrival_rows n the keys come in pieces of n rows, and a launch may begin before they are there, as where GPUs
 *          share a sequence (host/parallel).  It reads rows p n .. of k and v, of all sequences, when word p of `arrivals` is
 *            1      they are in k and v
 *            r + 2  they are rows r .. of k_own and v_own, [batch][seqlen_q][heads_kv][columns], compact
 *          and until then, while the word is 0, it waits, on the GPU.  Whoever writes a word writes the rows before it; until the
 *          launch ends, words only change from 0.  What they wait for must not need this GPU: a kernel that has all of its
 *          multiprocessors would wait for ever for another one.  Rows of q before early_rows attend to early_keys keys less than the
 *          mask says: two runs of a sequence's rows in one launch; the lse is that of the first run, [batch][heads_q][early_rows],
 *          and behind it that of the other rows.  On Hopper, of 16-bit types with head_dim_v up to 256; neither
 *          with lengths of their own, ALiBi, bias, bits, hooks, lists of blocks, chunks nor append.
 * fp8      With PTXPACK_E4M3 an element of q, k and v is one byte that means code * descale; o is bf16.
 * Caches   With `kv_dtype` PTXPACK_E4M3 or PTXPACK_INT8 an element of k and v is one byte, which means code * k_descale or
 *          code * v_descale, while q and o are f16 or bf16.  Products and sums are as exact as those of 16-bit keys: the
 *          codes become f16 without an error.  head_dim is then a multiple of 16.  A code of e4m3 that is NaN, of a
 *          key that a row sees, gives NaN or counts as 480.
 *          With PTXPACK_Q8_0 k and v are ggml's blocks (dtype.h): head_dim is 64, 128 or 256; strides are multiples of
 *          head_dim, and still count elements, of which 32 take 34 bytes; there are no descales.  An element becomes f16: it is
 *          rounded once, and finite up to 65504.
 * Sums     Sums are f32 for every element type.  A row that attends to no key gives o = 0 and lse = -inf, or its
 *          sink.
 * Parts    Attentions of the same queries to parts of the keys are merged by merge.h.  One part alone may then have the
 *          sinks.
 * Memory   Device buffers belong to the caller.  The library allocates none and keeps none.
 * Errors   Calls that can fail return a ptxpack_status.  After an error nothing was enqueued and no device
 *          memory was written, and ptxpack_detail(handle) is one line that names the field or the driver call.
 * Threads  A plan is immutable, so threads may share it.  A launch takes no lock, allocates nothing, and can be
 *          captured in a CUDA graph.
 * Method   The method is FlashAttention-2 (Dao, arXiv 2307.08691) in ptx/attention/mma.ptx.  On Hopper
 *          ptx/attention/wgmma.ptx uses wgmma, TMA, and a softmax that rarely computes maxima; sequences with
 *          lengths of their own reach it by ragged tensor maps (as Triton has them).  Where up to 64
 *          query rows share many keys (decoding), ptx/attention/decode.ptx divides these among all blocks
 *          and merges the parts by their log-sum-exps, in a fixed order.  wgmma.ptx does the same where lengths
 *          are equal and more query rows make only few tiles; and where queries are few, a tile has the rows of 2, 4, 8
 *          or 16 query heads that share a key head.  Where O does not fit in a warpgroup's registers (head_dim_v above 256), two
 *          warpgroups with the same rows divide its columns, score every other block of keys, and exchange the weights, as
 *          FlashMLA does. */
#ifndef PTXPACK_ATTENTION_H
#define PTXPACK_ATTENTION_H
#include <stddef.h>
#include <stdint.h>
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The mask says when query row i attends to key j. */
typedef enum ptxpack_mask {
    PTXPACK_MASK_NONE = 0,                /* always */
    PTXPACK_MASK_CAUSAL_TOP_LEFT = 1,     /* j <= i: the first row attends to the first key */
    PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT = 2, /* j <= i + seqlen_kv - seqlen_q: the last row, to the last key */
    PTXPACK_MASK_WINDOW_TOP_LEFT = 3,     /* i - window_left <= j <= i + window_right */
    PTXPACK_MASK_WINDOW_BOTTOM_RIGHT = 4  /* the same with i + seqlen_kv - seqlen_q in place of i */
} ptxpack_mask;

/* Where the rows of a sequence are. */
typedef enum ptxpack_rows {
    PTXPACK_ROWS_DENSE = 0, /* as under "Shapes": row r of sequence i is at i * batch + r * row */
    PTXPACK_ROWS_PACKED =
        1,                 /* the sequences one after another: row r of sequence i is at (starts[i] + r) * row.
                                The length is starts[i + 1] - starts[i], unless lengths are given, too */
    PTXPACK_ROWS_PAGED = 2 /* of k and v: row r of sequence i is row r % page_rows of page p, at
                                p * batch + r % page_rows * row, with p = page_table[i][r / page_rows].  K and V
                                may be two tensors or parts of one, with rows or heads first: strides say it */
} ptxpack_rows;

/* Bits of ptxpack_attention_desc.options: what a launch brings besides, int32 in device memory but for sinks and slopes. */
enum {
    PTXPACK_LENGTHS_Q = 1,  /* [batch], of q; with packed rows at most starts_q[i + 1] - starts_q[i] */
    PTXPACK_LENGTHS_KV = 2, /* [batch], of k and v, with those that left_pad skips */
    PTXPACK_ROW_MAP = 4,    /* [batch], with dense k and v: sequence i is sequence row_map[i] of k and v */
    PTXPACK_LEFT_PAD = 8,   /* [batch], with dense or paged k and v: the first rows that are no keys; top-left
                               masks count from the first key */
    PTXPACK_SINKS = 16,     /* [heads_q], f32: see "Scores"; finite, or -inf, which is no sink */
    PTXPACK_ALIBI = 32, /* [heads_q], f32, slopes: see "Scores"; from 0 to 2^40.  Keys are counted with those
                               that left_pad skips.  A slope below 0 makes its head NaN.  Not with fp8 */
    PTXPACK_BIAS = 64,  /* see "Bias"; not with fp8 */
    PTXPACK_MASK_BITS = 128, /* see "Bits"; not with fp8 */
    PTXPACK_VALUES_IN_KEYS =
        256, /* a row of v is the first head_dim_v elements of the row of k (MLA), which is read
                               once: the buffer v is 0, or that of k, and desc.v is 0, or desc.k.  No array */
    /* With kv_dtype PTXPACK_E4M3 or PTXPACK_INT8: k_descale and v_descale are one number each, or [heads_kv]; otherwise they are [batch][heads_kv]. */
    PTXPACK_DESCALES_TENSOR = 1 << 24,
    PTXPACK_DESCALES_HEAD = 1 << 25,
    PTXPACK_UNNORMALIZED = 1 << 26 /* see "Scores" */
};
enum { PTXPACK_KEYS_OF_QUERIES = -1 }; /* for ptxpack_attention_desc.mask_keys */

/* Distances in elements from one batch, row or head to the next.  They are multiples of 16 bytes, and are
 * ignored where the extent is 1.  If all three are 0, the tensor is compact, in the order of "Shapes".  A
 * single 0 repeats an input (not o) along that dimension.  The dimensions may have any order and any gaps, but
 * each stride must step over all elements that the smaller strides span. */
typedef struct ptxpack_strides {
    int64_t batch, row, head;
} ptxpack_strides;

typedef struct ptxpack_attention_desc {
    uint32_t size; /* = sizeof(ptxpack_attention_desc); an older one is fine */
    ptxpack_dtype
        dtype; /* of q, k, v and o; with PTXPACK_E4M3 o is PTXPACK_BF16; not PTXPACK_INT8 nor PTXPACK_Q8_0 */
    int32_t         batch, seqlen_q, seqlen_kv; /* each >= 1 */
    int32_t         heads_q, heads_kv; /* heads_q / heads_kv query heads share a key head, without remainder */
    int32_t         head_dim; /* of q and k: a multiple of 16 bytes of q, at most 576; with fp8 at most 256 */
    float           scale;    /* multiplies q.k; > 0; 0 = 1/sqrt(head_dim) */
    ptxpack_mask    mask;
    int32_t         window_left, window_right; /* of window masks, < 0: no limit on that side; otherwise 0 */
    float           softcap; /* s becomes softcap tanh(s / softcap) after scale, before the mask; 0 = off */
    ptxpack_strides q, k, v, o;
    /* Lengths.  Where `size` ends before these fields they are 0, and all sequences have the same lengths. */
    ptxpack_rows q_rows, kv_rows; /* of q and o, dense or packed; of k and v */
    int32_t      rows_q;          /* packed: rows of q and o in memory; otherwise 0 */
    int32_t      rows_kv; /* packed: rows of k and v in memory; paged: pages; row map: sequences; otherwise 0 */
    int32_t      page_rows;   /* paged: a power of two up to 1024; otherwise 0 */
    int32_t      table_width; /* paged: entries of the page table for a sequence; otherwise 0 */
    uint32_t     options;     /* PTXPACK_LENGTHS_Q, .. */
    int32_t split_rows; /* 0: the library's choice; otherwise a multiple of 256: where few query rows share the
                                 keys, these are summed in parts of so many rows.  The bits of a sequence's results
                                 then depend on its own rows alone: not on the batch, nor on other sequences.
                                 With many query rows PTXPACK_E_UNSUPPORTED */
    /* What a launch appends to k and v before it attends (append.h); NULL: nothing.  It is read only while a plan is
     * created, and by ptxpack_attention_reference_append.  Where `size` ends before, it is NULL. */
    const struct ptxpack_attention_append_desc *append;
    /* Where `size` ends before these fields they are 0. */
    int32_t chunk; /* with PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT: see "Chunks"; 0: off */
    ptxpack_dtype
        kv_dtype; /* of k and v: PTXPACK_E4M3, PTXPACK_INT8 or PTXPACK_Q8_0, see "Caches"; 0, or dtype: as dtype */
    /* What the caller does to scores and masks: see "Hooks"; NULL: nothing.  Read only while a plan is created.  Not with
     * fp8.  Where `size` ends before, they are NULL. */
    const char *score_mod, *mask_mod;
    /* Where `size` ends before these fields they are 0. */
    int32_t
             head_dim_v; /* of v and o: a multiple of 16 bytes of v, at most 512; 0: head_dim.  Not with fp8, a kv_dtype, append or blocks */
    uint32_t reserved;   /* 0 */
    /* With PTXPACK_BIAS and PTXPACK_MASK_BITS; otherwise, and where `size` ends before, they are 0.  The distances from one
     * sequence, row i or query head to the next are those of a bias in ELEMENTS, those of bits in BYTES, multiples of 4.
     * They are from 0 to 2^40, those of rows below 2^31 bytes; 0 repeats the array along that dimension, also if all three
     * are 0.  Neighbouring keys are neighbours.  A bias is read in pairs of keys, which is faster, if its distances are even,
     * and so is seqlen_kv or bias.row exceeds it: all its rows then have bias.row elements in memory. */
    ptxpack_dtype   bias_dtype; /* PTXPACK_F16 or PTXPACK_BF16; 0: f32 */
    int32_t         mask_keys;  /* see "Bits" */
    ptxpack_strides bias, mask_bits;
    /* Lists of blocks: see "Blocks".  A kernel's tile must divide such a block: multiples of 128 have kernels for each
     * head_dim and device, 64 for some; others are PTXPACK_E_UNSUPPORTED.  0 and 0: no lists.  Where `size` ends before
     * these fields they are 0. */
    int32_t block_rows, block_keys;
    /* The entries of a list, from one to the next in memory; 0: as many as there are blocks of keys. */
    int32_t block_width;
    int32_t reserved_block; /* 0 */
    /* Blocks of rows from one sequence, and one query head, to the next in block_count and full_count; in the lists
     * block_width times as far.  0: all have the same lists. */
    int64_t block_batch, block_head;
    /* Keys that arrive while a launch runs: see "Arrivals"; with PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, seqlen_kv at least seqlen_q.
     * A kernel's blocks must divide arrival_rows, and 16 early_rows: multiples of 128 have kernels for each head_dim up to 256;
     * others may be PTXPACK_E_UNSUPPORTED.  0: off; then, and where `size` ends before these fields, the others are 0. */
    int32_t arrival_rows;
    int32_t early_rows;       /* from 0 to below seqlen_q */
    int32_t early_keys;       /* with early_rows at most seqlen_kv - seqlen_q; otherwise 0 */
    int32_t reserved_arrival; /* 0 */
} ptxpack_attention_desc;

/* Device addresses.  Those of q, k, v, o and bias are multiples of 16 bytes, those of lse and the descales of 4. */
typedef struct ptxpack_attention_buffers {
    uint32_t size;      /* = sizeof(ptxpack_attention_buffers); an older one is fine */
    uint64_t q, k, v;   /* read */
    uint64_t o;         /* written */
    uint64_t lse;       /* written; 0: it is not wanted */
    uint64_t workspace; /* ptxpack_attention_workspace bytes; ignored if that is 0 */
    /* Read with PTXPACK_E4M3 and, but for q_descale, with kv_dtype; ignored with other types: f32 [batch][heads_kv], the
     * value of a stored 1.  Those of q hold for all query heads that share the key head.  They are 0 or more, and
     * scale q_descale k_descale is finite.  Address 0 means that all are 1. */
    uint64_t q_descale, k_descale, v_descale;
    /* Read where the descriptor's rows or options ask for them, and otherwise ignored; int32, multiples of 4
     * bytes.  Lengths beyond the descriptor's are taken as those, and those below 0 as 0; a left_pad is taken as at
     * least 0 and at most the length.  Entries of the page table for pages without a key are not read. */
    uint64_t starts_q, starts_kv;   /* [batch + 1], packed */
    uint64_t lengths_q, lengths_kv; /* [batch] */
    uint64_t row_map, left_pad;     /* [batch] */
    uint64_t page_table;            /* [batch][table_width] */
    /* The addresses of the append (append.h), in HOST memory; NULL exactly where the descriptor's is NULL. */
    const struct ptxpack_attention_append_buffers *append;
    /* How this launch is enqueued.  Where `size` ends before these fields they are 0. */
    uint32_t launch;   /* bits: PTXPACK_LAUNCH_OVERLAP, PTXPACK_LAUNCH_CONSTANT_KV (loader.h) */
    uint32_t reserved; /* 0 */
    /* Read where the descriptor's options ask for it, and otherwise ignored; f32, multiples of 4 bytes.  Where `size`
     * ends before, it is 0. */
    uint64_t sinks, slopes;   /* [heads_q] */
    uint64_t aux[8];          /* what AUX of the hooks gives them; of any meaning, and not checked */
    uint64_t bias, mask_bits; /* read as `sinks` is; bits are words of 32, at a multiple of 4 bytes */
    /* Read where the descriptor has blocks, and otherwise ignored; int32, multiples of 4 bytes: for each block of rows how many
     * blocks of keys are in its list, and the list: numbers of blocks in any order, each at most once in both lists together.
     * Only its first entries are read, so many as are counted.  A count is taken as at least 0 and at most the blocks of
     * keys, and an entry that is no block is left out.  full_count and full_list are 0 together: no block is full.  Where
     * `size` ends before, they are 0. */
    uint64_t block_count, full_count; /* [sequences or 1][heads or 1][blocks of rows] */
    uint64_t block_list, full_list;   /* [sequences or 1][heads or 1][blocks of rows][block_width] */
    /* Read with arrival_rows, and otherwise ignored: words of 32 bits, one for each piece of the keys; and tensors, multiples of 16
     * bytes, which are 0 together if no piece is there.  Where `size` ends before, they are 0. */
    uint64_t arrivals;
    uint64_t k_own, v_own;
} ptxpack_attention_buffers;

typedef struct ptxpack_attention_plan ptxpack_attention_plan;

/* Check `desc`, choose the kernel for the handle's device, compile it or find its machine code, and load it.
 * All that is slow happens here.  *plan belongs to the caller, who frees it before closing the handle.  On
 * failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   PTXPACK_E_UNSUPPORTED  the problem is valid, but no kernel for this device covers it; nothing falls back
 *                          silently
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_attention_plan_create(ptxpack *handle, const ptxpack_attention_desc *desc,
                                                         ptxpack_attention_plan **plan);
PTXPACK_API void           ptxpack_attention_plan_free(ptxpack_attention_plan *plan); /* NULL is allowed */
/* The bytes of device memory that a launch needs as workspace; 0 if `plan` is NULL.  The workspace is aligned
 * to 16 bytes and is zero before the first launch of this plan with it.  Every launch that completes leaves it
 * ready for the plan's next one; another plan needs a workspace of its own, or zeros again.  Launches that may
 * run at the same time need a workspace each; PTXPACK_LAUNCH_OVERLAP does not make them so. */
PTXPACK_API size_t ptxpack_attention_workspace(const ptxpack_attention_plan *plan);
/* The kernel of the attention, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_attention_kernel(const ptxpack_attention_plan *plan);

/* Enqueue the kernel on `stream` (NULL: the default stream of the plan's context); after that of the append, if the
 * plan has one.
 *   PTXPACK_E_ARG     a pointer is null or misaligned, or the address range of o, lse or the workspace, from
 *                     its first to its last element, overlaps that of another buffer, or `launch` has unknown bits;
 *                     what append.h says of its addresses
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH  the driver refuses the kernel; the append may have been enqueued
 *   PTXPACK_E_FORKED */
PTXPACK_API ptxpack_status ptxpack_attention_launch(const ptxpack_attention_plan    *plan,
                                                    const ptxpack_attention_buffers *buffers,
                                                    struct CUstream_st              *stream);

/* The descales in HOST memory, f32, of the shapes that those in buffers have; NULL means that all are 1. */
typedef struct ptxpack_descales {
    const float *q, *k, *v;
} ptxpack_descales;

/* Compute the same on the CPU in double precision, to check results.  The inputs are in HOST memory.
 * `descales` matters only with PTXPACK_E4M3 and kv_dtype; NULL means that all are 1.  o (with the strides desc->o) and lse
 * ([batch][heads_q][seqlen_q]) are doubles, and either may be NULL.  The call runs on one thread and needs 8
 * bytes of memory for each of batch seqlen_kv heads_kv head_dim elements, and as many for those of v.  After an error the line is
 * ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or q, k or v is NULL; nothing was written
 *   PTXPACK_E_MEMORY  some rows may have been written */
PTXPACK_API ptxpack_status ptxpack_attention_reference(const ptxpack_attention_desc *desc, const void *q,
                                                       const void *k, const void *v,
                                                       const ptxpack_descales *descales, double *o,
                                                       double *lse);

/* score_mod and mask_mod as functions in C: the score that becomes of `s`, and whether the row attends to the key (not 0).
 * Positions are those of "Hooks". */
typedef struct ptxpack_attention_hooks {
    double (*score)(void *context, double s, int32_t batch, int32_t head, int32_t q, int32_t kv);
    int (*mask)(void *context, int32_t batch, int32_t head, int32_t q, int32_t kv);
    /* In place of both, unless NULL: a row's scores of keys kv .. kv + count - 1; -inf is masked. */
    void (*row)(void *context, int32_t batch, int32_t head, int32_t q, int32_t kv, int32_t count, double *s);
    void *context; /* threads may use it at the same time */
    /* With lists of blocks `mask` is not called for keys of full blocks; `row` is, and leaves what mask_mod would mask. */
} ptxpack_attention_hooks;

/* The arrays of ptxpack_attention_buffers in HOST memory: of sequences with lengths of their own, sinks, slopes, bias and
 * bits; and the hooks.  What the descriptor does not ask for is not read. */
typedef struct ptxpack_attention_lengths {
    const int32_t *starts_q, *starts_kv, *lengths_q, *lengths_kv, *row_map, *left_pad, *page_table;
    const float   *sinks, *slopes;
    const ptxpack_attention_hooks *hooks;
    const void                    *bias;
    const uint32_t                *mask_bits;
    const int32_t                 *block_count, *full_count, *block_list,
        *full_list; /* the last ones of each pair: or both NULL */
} ptxpack_attention_lengths;

/* The same for problems that need such arrays.  Rows of o and lse beyond a length keep what they hold.
 *   PTXPACK_E_ARG     as above, or an array that is asked for is NULL, or one of its entries is a length below 0
 *                     or beyond the descriptor's, or leads beyond the rows that the descriptor states, or is a
 *                     slope that is below 0 or not finite; or the function of a hook is missing */
PTXPACK_API ptxpack_status ptxpack_attention_reference_lengths(const ptxpack_attention_desc *desc,
                                                               const void *q, const void *k, const void *v,
                                                               const ptxpack_descales          *descales,
                                                               const ptxpack_attention_lengths *lengths,
                                                               double *o, double *lse);

/* Writes the slopes of ALiBi (Press et al., arXiv 2108.12409) for `heads` query heads to slopes[heads], in HOST memory:
 * with n the largest power of two up to `heads`, 2^(-8 i / n) for i = 1 .. n, then 2^(-4 (2 i - 1) / n) for i = 1 ..
 * heads - n.  Nothing if slopes is NULL or heads below 1. */
PTXPACK_API void ptxpack_attention_alibi_slopes(int32_t heads, float *slopes);
/* The floating-point operations that `desc` needs: 2 (head_dim + head_dim_v) for each pair of query and key that the mask
 * keeps, with sequences as long as the descriptor says.  FlashAttention's convention, which takes half of all
 * pairs for causal masks, differs only by the diagonal. */
PTXPACK_API double ptxpack_attention_flops(const ptxpack_attention_desc *desc);
/* The least number of bytes to move: each input is read once, and each output is written once. */
PTXPACK_API double ptxpack_attention_bytes(const ptxpack_attention_desc *desc);
#ifdef __cplusplus
}
#endif
#endif
