/* wgmma_args.h - private: the contract between host/attention/wgmma.c and
 * ptx/attention/wgmma.ptx: the one .param struct of the kernel, and its offsets as symbols of the
 * expander. */
#ifndef PTXPACK_ATTENTION_WGMMA_ARGS_H
#define PTXPACK_ATTENTION_WGMMA_ARGS_H
#include <stddef.h>
#include <stdint.h>

/* The driver's CUtensorMap. */
typedef struct attention_tensor_map {
    _Alignas(64) uint64_t opaque[16];
} attention_tensor_map;

/* One row per member: C type, member, symbol of its byte offset.  Widest first: no padding inside. */
#define ATTENTION_WGMMA_ARGUMENTS(X)                                                                        \
    X(attention_tensor_map, map_q, "ARG_MAP_Q") /* rank 4: head_dim, sequence, head, batch     */           \
    X(attention_tensor_map, map_k, "ARG_MAP_K")                                                             \
    X(attention_tensor_map, map_v, "ARG_MAP_V")                                                             \
    X(attention_tensor_map, map_o, "ARG_MAP_O")                                                             \
    X(uint64_t, lse, "ARG_LSE") /* device addresses; 0: not wanted                 */                       \
    X(uint64_t, workspace, "ARG_WORKSPACE")                                                                 \
    X(uint64_t, q_descale, "ARG_Q_DESCALE") /* of 8-bit inputs; 0: ones                        */           \
    X(uint64_t, k_descale, "ARG_K_DESCALE")                                                                 \
    X(uint64_t, v_descale, "ARG_V_DESCALE")                                                                 \
    X(int32_t, seqlen_q, "ARG_SEQLEN_Q")                                                                    \
    X(int32_t, seqlen_kv, "ARG_SEQLEN_KV")                                                                  \
    X(int32_t, heads_q, "ARG_HEADS_Q")                                                                      \
    X(int32_t, heads_per_kv, "ARG_HEADS_PER_KV")   /* heads_q / heads_kv                       */           \
    X(int32_t, left_offset, "ARG_LEFT_OFFSET")     /* row i attends to keys i + left_offset .. */           \
    X(int32_t, right_offset, "ARG_RIGHT_OFFSET")   /* .. i + right_offset, where limited       */           \
    X(int32_t, tiles_q, "ARG_TILES_Q")             /* blocks of BLOCK_M query rows a head      */           \
    X(int32_t, tiles_total, "ARG_TILES_TOTAL")     /* heads_total * tiles_q                    */           \
    X(int32_t, heads_total, "ARG_HEADS_TOTAL")     /* batch * heads_q                          */           \
    X(int32_t, section_heads, "ARG_SECTION_HEADS") /* heads whose tiles are neighbours         */           \
    X(float, scale_log2, "ARG_SCALE_LOG2")         /* scale log2(e); with softcap that in place of scale */ \
    X(float, softcap_in, "ARG_SOFTCAP_IN")         /* scale / softcap; 0 without                */

typedef struct attention_wgmma_arguments {
#define ATTENTION_WGMMA_MEMBER(type, name, symbol) type name;
    ATTENTION_WGMMA_ARGUMENTS(ATTENTION_WGMMA_MEMBER)
#undef ATTENTION_WGMMA_MEMBER
} attention_wgmma_arguments;

/* The bytes in use; sizeof adds padding at the end, which the kernel does not declare. */
enum { ATTENTION_WGMMA_ARGUMENT_BYTES = offsetof(attention_wgmma_arguments, softcap_in) + sizeof(float) };
#endif
