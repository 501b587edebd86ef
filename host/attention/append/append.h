/* append.h - plan and launch an append to a cache of keys and values, with rotary embedding.
 *
 * What it does   Row i of a sequence's new keys and values is written to row length - new + i of its cache, where
 *          `new` is the number of its new rows and `length` that of its rows in the cache, those counted that this
 *          launch appends: the same array that a following attention takes as lengths_kv.  (flash-attention's
 *          cache_seqlens are those before: add the new rows.)  The new keys, and on request the queries of the same
 *          rows, are rotated first.
 * Shapes   From the slowest to the fastest dimension, with strides in ELEMENTS; the last dimension is contiguous:
 *            k_new, v_new  [batch][seqlen_new][heads_kv][head_dim], or packed [rows_new][heads_kv][head_dim]
 *            q, q_out      the same with heads_q
 *            k, v          [batch][seqlen_kv][heads_kv][head_dim]; with a row map [rows_kv] sequences; in pages
 *                          [rows_kv] pages of [page_rows][heads_kv][head_dim].  K and V may be two tensors or parts
 *                          of one, with rows or heads first: strides say it
 *            cos, sin      [positions][rotary_dim / 2], of the tensors' type, compact
 * Rotary   x_j and y_j are elements j and j + rotary_dim / 2 of a head (GPT-NeoX), or with PTXPACK_ROPE_PAIRS 2 j and
 *          2 j + 1 (GPT-J); they become x_j cos_j - y_j sin_j and y_j cos_j + x_j sin_j, computed in f32.  Elements
 *          from rotary_dim on stay.  The position of a row, which chooses the row of cos and sin, is its row in the
 *          cache, minus the sequence's left_pad if PTXPACK_LEFT_PAD is given.  (flash-attention rotates by the row
 *          in the cache, whatever its left padding: give no left_pad.  A left_pad may be any number: with length -
 *          new - p the first new row has position p.)  A position that is not one of the tables is taken as the
 *          nearest one.
 * Lengths  All are read from device memory at each launch, so that one plan, or one captured graph, serves a decoding
 *          loop.  A sequence may have no new rows.  Numbers of new rows beyond seqlen_new, or beyond starts_new[i + 1] -
 *          starts_new[i], are taken as these, those below 0 as 0.  A new row that has no place - before row 0, from
 *          row seqlen_kv on, in a page that is not one of rows_kv (as -1), in a sequence that row_map does not give as
 *          one of rows_kv - is dropped.  Nothing but the new rows is written.
 * In one call   A descriptor of this file may be a part of an attention's (ptxpack_attention_desc.append), and so may the
 *          buffers: each launch of that plan then appends and attends, on one stream, with nothing of the host in between.
 *          What both state must agree, and may be 0 here, which means "as the attention's".  In the descriptor these
 *          are dtype, batch, seqlen_kv, heads_kv, head_dim, kv_rows, rows_kv, page_rows, table_width, PTXPACK_ROW_MAP and
 *          the strides of k and v; seqlen_new 0 means seqlen_q.  In the buffers these are k, v, lengths_kv, row_map and
 *          page_table; left_pad 0 means the attention's, if it has one, and may be another, as it is about positions.
 *          The attention's options include PTXPACK_LENGTHS_KV, and its lengths count the new rows.
 *          Where heads_q is not 0, the attention's q is what is rotated: it is q_out, with its strides, and may be 0
 *          here.  `q` is where its rows come from; address 0 means that they are rotated in place, strides of 0 mean those
 *          of q_out.  If it is elsewhere, o may be there.  All rows of q are rotated, so that they are as many as the new rows, and stored as these: new_rows,
 *          rows_new, PTXPACK_LENGTHS_NEW, starts_new and lengths_new are the attention's q_rows, rows_q,
 *          PTXPACK_LENGTHS_Q, starts_q and lengths_q, and may be 0 here.  Where heads_q is 0, a sequence may have other
 *          numbers of new rows than of query rows, and new_rows and options say how they are stored; addresses of
 *          starts_new and lengths_new of 0 mean those of q.
 * Bytes    With kv_dtype the new rows are of 16 bits and those of the cache bytes.  A number x, rotated and rounded to dtype, becomes the
 *          code nearest to x / descale, of f32 (ptxpack_from_float): what is too large becomes the largest code.
 *          With PTXPACK_Q8_0 each 32 elements of a head, rotated and rounded to dtype, become a block as ptxpack_set_elements makes
 *          it (dtype.h, also of zeros, NaN and infinity), byte for byte; there are no descales.  Strides of k and v are multiples
 *          of 32, and count elements, of which 32 take 34 bytes; an attention asks for more (attention.h, "Caches").
 * Memory, errors and threads are as attention.h says.  The kernel is ptx/kv_cache/append.ptx. */
#ifndef PTXPACK_ATTENTION_APPEND_H
#define PTXPACK_ATTENTION_APPEND_H
#include <stdint.h>
#include "host/attention/attention.h"
#include "host/dtype.h"
#include "loader/loader.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Bits of ptxpack_attention_append_desc.options, besides PTXPACK_ROW_MAP and PTXPACK_LEFT_PAD. */
enum {
    PTXPACK_LENGTHS_NEW =
        1 << 16, /* [batch], new rows; with packed rows at most starts_new[i + 1] - starts_new[i] */
    PTXPACK_ROPE_PAIRS = 1 << 17,     /* pairs are neighbours */
    PTXPACK_ROPE_Q_AT_START = 1 << 18 /* all rows of q have the position of the sequence's first new row, as
                                          flash-attention has it without a causal mask or a window */
};

typedef struct ptxpack_attention_append_desc {
    uint32_t      size;  /* = sizeof(ptxpack_attention_append_desc); an older one is fine */
    ptxpack_dtype dtype; /* PTXPACK_F16, or from sm_80 on PTXPACK_BF16 */
    int32_t       batch, seqlen_new, seqlen_kv; /* each >= 1; the most rows that a sequence appends, and has */
    int32_t       heads_kv;                     /* >= 1 */
    int32_t       heads_q;                      /* of q, to rotate it, too; 0: there is no q */
    int32_t       head_dim;    /* a multiple of 8, with kv_dtype of 16, of blocks of 32, at most 1024 */
    int32_t       rotary_dim;  /* a multiple of 16, at most head_dim; 0: nothing is rotated */
    int32_t       positions;   /* rows of cos and sin; 0 without rotary_dim */
    ptxpack_rows  new_rows;    /* of k_new, v_new, q and q_out: dense or packed */
    ptxpack_rows  kv_rows;     /* of k and v: dense or paged */
    int32_t       rows_new;    /* packed: rows of k_new, v_new and q in memory; otherwise 0 */
    int32_t       rows_kv;     /* paged: pages; row map: sequences; otherwise 0 */
    int32_t       page_rows;   /* paged: a power of two up to 1024; otherwise 0 */
    int32_t       table_width; /* paged: entries of the page table for a sequence; otherwise 0 */
    uint32_t      options;     /* PTXPACK_ROW_MAP (dense k and v), PTXPACK_LEFT_PAD, PTXPACK_LENGTHS_NEW, .. */
    ptxpack_strides k_new, v_new, k, v, q, q_out; /* as those of attention.h; a single 0 repeats an input */
    /* Of k and v: PTXPACK_E4M3 or PTXPACK_INT8, see "Bytes", with PTXPACK_DESCALES_HEAD or PTXPACK_DESCALES_TENSOR in
     * options as in attention.h; PTXPACK_Q8_0, see there, too; 0, or dtype: as dtype.  Where `size` ends before, it is 0. */
    ptxpack_dtype kv_dtype;
    uint32_t      reserved; /* 0 */
} ptxpack_attention_append_desc;

/* Device addresses.  Those of tensors, cos and sin are multiples of 16 bytes.  What the descriptor does not ask for is
 * ignored.  k_new, v_new and q may be parts of one tensor. */
typedef struct ptxpack_attention_append_buffers {
    uint32_t size;                    /* = sizeof(ptxpack_attention_append_buffers); an older one is fine */
    uint64_t k_new, v_new;            /* read */
    uint64_t k, v;                    /* the new rows are written */
    uint64_t q;                       /* read */
    uint64_t q_out;                   /* written; may be q, with the same strides */
    uint64_t cos, sin;                /* read */
    uint64_t lengths_kv;              /* [batch] int32, after the append; always read */
    uint64_t lengths_new, starts_new; /* [batch]; [batch + 1], packed */
    uint64_t row_map, left_pad;       /* [batch] */
    uint64_t page_table;              /* [batch][table_width]; only the entries of new rows are read */
    uint32_t launch;                  /* bits: PTXPACK_LAUNCH_OVERLAP, PTXPACK_LAUNCH_CONSTANT_KV (loader.h) */
    uint32_t reserved;                /* 0 */
    /* With kv_dtype of bytes, f32: see k_descale of attention.h.  Above 0; address 0: ones.  Where `size` ends before, it is 0. */
    uint64_t k_descale, v_descale;
} ptxpack_attention_append_buffers;

typedef struct ptxpack_attention_append_plan ptxpack_attention_append_plan;

/* Check `desc`, choose the kernel for the handle's device, and load it.  *plan belongs to the caller, who frees it
 * before closing the handle.  On failure *plan is NULL.
 *   PTXPACK_E_ARG          a field is out of the range stated above
 *   PTXPACK_E_UNSUPPORTED  no kernel for this device covers dtype, or there is too much work for 32-bit numbers
 *   The other codes are those of ptxpack_kernel_load. */
PTXPACK_API ptxpack_status ptxpack_attention_append_plan_create(ptxpack                             *handle,
                                                                const ptxpack_attention_append_desc *desc,
                                                                ptxpack_attention_append_plan      **plan);
PTXPACK_API void ptxpack_attention_append_plan_free(ptxpack_attention_append_plan *plan); /* NULL is allowed */
/* The kernel, which belongs to the handle; NULL if `plan` is NULL. */
PTXPACK_API const ptxpack_kernel *ptxpack_attention_append_kernel(const ptxpack_attention_append_plan *plan);

/* Append, on `stream` (NULL: the default stream of the plan's context).  Two sequences must not have a page, or a
 * sequence of the cache, in common that both write.
 *   PTXPACK_E_ARG     a pointer is null or misaligned; the address range of k, v or q_out overlaps an input, but for q
 *                     in place and parts of one tensor; k and v are the same; `launch` has unknown bits
 *   PTXPACK_E_DRIVER  the plan's context cannot be made current
 *   PTXPACK_E_LAUNCH, _E_FORKED */
PTXPACK_API ptxpack_status ptxpack_attention_append(const ptxpack_attention_append_plan    *plan,
                                                    const ptxpack_attention_append_buffers *buffers,
                                                    struct CUstream_st                     *stream);

/* The inputs in HOST memory. */
typedef struct ptxpack_attention_append_inputs {
    const void    *k_new, *v_new, *q, *cos, *sin;
    const int32_t *lengths_kv, *lengths_new, *starts_new, *row_map, *left_pad, *page_table;
    const float   *k_descale, *v_descale; /* with kv_dtype of bytes; NULL: ones */
} ptxpack_attention_append_inputs;

/* Compute the append on the CPU in double precision, to check results.  k, v and q_out, with the strides of the
 * descriptor, are doubles (where kv_dtype says bytes, what the codes mean with a descale of 1, and of blocks what they mean), and each may be NULL; what a launch would not write keeps what it holds.  After an error the
 * line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan, or an input is NULL, or a sequence has new rows beyond seqlen_new or rows_new;
 *                     some rows may have been written */
PTXPACK_API ptxpack_status ptxpack_attention_append_reference(const ptxpack_attention_append_desc   *desc,
                                                              const ptxpack_attention_append_inputs *inputs,
                                                              double *k, double *v, double *q_out);

/* An append and an attention in one call, on the CPU, to check results: `desc` has an append.  q, k and v are in HOST
 * memory.  The new rows are written to k and v, and the rotated ones to q, computed in double precision and rounded once;
 * then o and lse are computed from these, as by ptxpack_attention_reference_lengths, unless both are NULL.  In `inputs` q NULL means that q is
 * rotated in place, and an array that is NULL is that of `lengths`.  After an error the line is ptxpack_detail(NULL).
 *   PTXPACK_E_ARG     as for the plan and for both references; some rows may have been written
 *   PTXPACK_E_MEMORY  the same */
PTXPACK_API ptxpack_status ptxpack_attention_reference_append(const ptxpack_attention_desc          *desc,
                                                              const ptxpack_attention_append_inputs *inputs,
                                                              void *q, void *k, void *v,
                                                              const ptxpack_attention_lengths *lengths,
                                                              double *o, double *lse);
#ifdef __cplusplus
}
#endif
#endif
