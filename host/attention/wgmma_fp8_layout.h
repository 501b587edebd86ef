/* wgmma_fp8_layout.h - private: the fp8 V tile as TMA writes it, its transpose for wgmma, and which thread
 * of a warpgroup moves what: the source of the symbols of ptx/attention/wgmma_transpose_v.ptx, whose banner
 * says why. */
#ifndef PTXPACK_ATTENTION_FP8_LAYOUT_H
#define PTXPACK_ATTENTION_FP8_LAYOUT_H
#include "host/plan/symbols.h"

typedef struct attention_fp8_layout {
    ptxpack_status        status;
    int64_t               head_dim, block_n;
    int64_t               v_row, vt_row; /* bytes of a box's rows; Vt's: the widest that divides BLOCK_N */
    ptxpack_layout        v, vt;         /* (key, channel) and (channel, slot) -> byte of the tile, swizzled */
    ptxpack_layout        key_of;        /* slot -> key */
    ptxpack_wgmma_operand operand;       /* B of P V: Vt */
    /* (thread): the row whose address it gives to ldmatrix -> byte of V, before the swizzle. */
    ptxpack_layout from;
    /* The same of stmatrix and Vt, before rows 2n and 2n + 1 with n & 4 change places, and the swizzle. */
    ptxpack_layout to;
    int64_t        v_bytes, v_box_bytes, vt_bytes, vt_box_bytes; /* tiles begin on 1024 */
} attention_fp8_layout;

/* HEAD_DIM a multiple of 16 up to 256, BLOCK_N of 32 up to 256; v_row 64 (HEAD_DIM 64 only) or 128.
 * PTXPACK_E_UNSUPPORTED, with a line in ptxpack_detail(NULL); that is l->status, too. */
ptxpack_status ptxpack_attention_fp8_layout(int64_t head_dim, int64_t block_n, int64_t v_row,
                                            attention_fp8_layout *l);
/* V_ROW, V_BOX_BYTES, V_SWIZZLE_MASK, VT_ROW, VT_BYTES, VT_BOX_BYTES, VT_SWIZZLE_MASK; functions VT_FROM,
 * VT_TO; DESC_VT_LOW, DESC_VT_HIGH: descriptor of the Vt tile at address 0; in units of 16 bytes
 * DESC_VT_STEP: 32 keys on inside a box, DESC_VT_STEPS times; DESC_VT_BOX: the next box. */
void ptxpack_attention_fp8_symbols(const attention_fp8_layout *l, symbol_list *list);
#endif
