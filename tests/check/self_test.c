/* self_test.c - tests the tester: kernels are broken on purpose, one line at a time.  The cases must notice
 * every break, and must find nothing without one. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "tools/command.h"

/* One break: in `file`, the text `from` becomes `to`, wherever it stands.  Any run of blanks in `from` matches
 * any other.  No break may reach outside the tensors: a fault would end the run. */
typedef struct breakage {
    const char *what, *file, *from, *to;
    const char *filter; /* the cases that must notice */
} breakage;

static const breakage breakages[] = {
    {"nothing", "attention/mask.ptx", NULL, NULL, "f16 d64 4/2 113x"},
    {"a row sees one key too many", "attention/mask.ptx", "setp.gt.s32 %seen", "setp.ge.s32 %seen",
     "f16 d64 4/2 113x"},
    {"a row sees one key too few", "attention/mma.ptx", "add.s32 %row_sees, %row_sees, 1;", "",
     "f16 d64 4/2 113x"},
    {"a window is one key short", "attention/mask.ptx", "setp.le.and.s32 %seen", "setp.lt.and.s32 %seen",
     "f16 d64 4/2 113x"},
    {"a window's rows are counted from the first key", "attention/mma_keys.ptx",
     "sub.s32 %offset, %offset, %skipped;", "", "f16 d64 4/2 113x"},
    {"scores have no cap", "attention/softcap.ptx", "tanh.approx.f32", "mov.f32", "f16 d64 4/2 113x"},
    {"the sum is not rescaled", "attention/mma_softmax.ptx", "mul.f32 %sum\\[sm_r], %sum\\[sm_r], %factor;", "",
     "f16 d64 4/2 113x"},
    {"O is not rescaled", "attention/mma_softmax.ptx", "2*(sm_r%2) + \\e], %factor;",
     "2*(sm_r%2) + \\e], 0f3F800000;", "f16 d64 4/2 113x"},
    {"the sum is not exchanged between lanes", "attention/mma_softmax.ptx", "SM_QUAD add, %sum\\[sm_r]", "",
     "f16 d64 4/2 113x"},
    {"a column is left out of the sum", "attention/mma_softmax.ptx", ".irp e, 0, 1, 2, 3 add.f32 %sum",
     ".irp e, 0, 1, 2\n        add.f32 %sum", "f16 d64 4/2 113x"},
    {"the LSE is in base 2", "attention/mma_epilogue.ptx", "mul.f32 %ep_lse, %ep_lse, 0f3F317218;", "",
     "f16 d64 4/2 113x"},
    {"rows without keys are not 0", "attention/mma_epilogue.ptx",
     "selp.f32 %ep_scale, 0f00000000, %ep_scale, %ep_none;", "", "f16 d64 4/2 239x1"},
    {"one row too many is written", "attention/mma_epilogue.ptx", "setp.gt.s32 %ep_store, %ep_rows_left",
     "setp.ge.s32 %ep_store, %ep_rows_left", "f16 d64 4/2 113x"},
    {"all query heads use key head 0", "attention/mma.ptx", "cvt.u64.u32 %kv_head_wide, %x;",
     "mov.u64 %kv_head_wide, 0;", "f16 d64 4/2 113x"},
    {"padding is not cut off", "attention/mma_tile_load.ptx", "setp.gt.s32 %load_here, %load_left",
     "setp.ge.s32 %load_here, %load_left", "f16 d40"},
    {"the sums of a part keep their own reference", "attention/decode/merge.ptx", "mul.f32 %pd, %pd, %pf;", "",
     "f16 d64 4/2 4x700"},
    {"the last part is left out", "attention/decode/merge.ptx", "setp.le.u32 %m_here, %x, %last_part;",
     "setp.lt.u32 %m_here, %x, %last_part;", "f16 d64 4/2 4x700"},
    {"rows of a tile are those of the first head", "attention/decode/tiles.ptx",
     "sub.u32 \\member, \\member, %row_group;", "mov.u32 \\member, 0;", "f16 d64 4/2 4x700"},
    {"zeros after the last key count", "attention/decode.ptx", "setp.le.s32 %whole, %x, %y;",
     "setp.le.s32 %whole, %x, %keys_end;", "f16 d64 4/2 4x700"},
    {"all keys of a block are in the page of the block before", "attention/decode/lengths.ptx",
     "shr.u32 %x, %x, %y;", "shr.u32 %x, %x, %y;\n sub.u32 %x, %x, 1; max.s32 %x, %x, 0;", "pages of 16"},
    {"a sequence is one key too long", "attention/decode/lengths.ptx", "min.s32 %sq_end, %sq_end, %sq_keys;",
     "min.s32 %sq_end, %sq_end, %sq_keys;\n add.s32 %sq_end, %sq_end, 1;", "5x1x700 row map"},
    {"the left pad is not masked", "attention/decode.ptx", "max.s32 %before, %before, %tile_low;", "",
     "pages of 32 left pad"},
    {"a counter begins at the block's part, not at the tile's first", "attention/decode/merge.ptx",
     "mul.wide.u32 %row_wide, %first_part, 4;", "mul.wide.u32 %row_wide, %segment_part, 4;", "5x1x700 lengths"},
    {"the warps do not begin again at a part of split_rows", "attention/decode/merge.ptx",
     "@%fixed add.u32 %f, %next, %warp;", "", "6x1x900 split"},
    {"every tile of a key head begins at its first row", "attention/decode/tiles.ptx",
     "mul.lo.u32 %tile_first, \\tile, \\[ROWS];", "mov.u32 %tile_first, 0;", "f16 d64 4/2 15x330"},
    {"rows of the tiles before are masked as if they were the first", "attention/decode.ptx",
     "ROW_OF %y, %z, %lane_row, 8*\\h, %tile_first", "ROW_OF %y, %z, %lane_row, 8*\\h, 0", "bf16 4/1 3x16x270"},
    {"all sequences have the tiles of one row", "attention/decode/lengths.ptx",
     "mad.lo.u32 %sq_tiles, %sq_tiles, %sq_queries, \\[ROWS-1];", "mov.b32 %sq_tiles, \\[ROWS];",
     "bf16 4/1 3x16x270"},
    {"keys of pages are those of the block after", "attention/mma_lengths.ptx",
     "sub.s32 %page_row, %page_row, \\[BLOCK_N*\\back];", "", "pages of 16"},
    {"the keys begin before the left pad", "attention/mma_lengths.ptx", "add.s32 %first, %first, %sq_first;",
     "", " left pad,"},
    {"packed rows begin at row 0", "attention/decode/lengths.ptx", "mov.b32 %tile_q_row, %sq_row;",
     "mov.b32 %tile_q_row, 0;", "5x1x700 packed"},
    {"sinks are left out of the sum", "attention/mma_epilogue.ptx",
     "SINK_ADD %sum\\[ep_r], %minus\\[ep_r], \\sink", "", " f16 d64 4/2 239x1 normal"},
    {"all heads have the sink of the first", "attention/sinks.ptx",
     "mad.wide.u32 %sink_at, \\head, 4, %sink_at;", "", " f16 d64 4/2 239x1 normal"},
    {"sinks are taken in base 2", "attention/sinks.ptx", "\\sink, 0f3FB8AA3B, \\x;", "\\sink, 0f3F800000, \\x;",
     " f16 d64 4/2 239x1 normal"},
    {"a sink far above all scores overflows", "attention/sinks.ptx",
     "selp.f32 \\x, 0f42FE0000, \\x, %sink_far;", "", " f16 d64 4/2 239x1 normal"},
    {"the LSE of rows without keys has no sink", "attention/sinks.ptx",
     "selp.f32 \\lse, \\sink, \\lse, %sink_far;", "", " f16 d64 4/2 239x1 normal"},
    {"each part of a tile has the sinks", "attention/decode/merge.ptx", "MERGE_ADD WARPS, WARPS",
     "MERGE_ADD WARPS, WARPS\n .if SINKS\n ADD_ROW_SINK\n .endif", " f16 d64 4/2 4x700"},
    {"the sink of a key head's first query head serves all", "attention/decode/sinks.ptx",
     "mad.lo.u32 %x, %x, %head, %y;", "mul.lo.u32 %x, %x, %head;", " f16 d64 4/2 4x700"},
    {"O is divided by a sum without the sink", "attention/decode/sinks.ptx",
     "add.f32 %total_d, %total_d, %sink_x;", "", " f16 d64 4/2 4x700"},
    {"the sinks of the first tile serve all", "attention/decode.ptx", "SEGMENT: .if SINKS TILE_SINKS .endif",
     " .if SINKS\n TILE_SINKS\n .endif\nSEGMENT:", "37x1x130 pages of 1024"},
    {"ALiBi's distances have a sign", "attention/alibi.ptx", "abs.f32 %alibi_x, %alibi_x;", "",
     " f16 d64 4/2 4x700"},
    {"a column has the distance of its neighbour", "attention/alibi.ptx", "\\[C_COLUMNS*alibi_j+\\e].0",
     "\\[C_COLUMNS*alibi_j].0", " f16 d64 4/2 4x700"},
    {"all heads have the slope of the first", "attention/alibi.ptx",
     "mad.wide.u32 %alibi_at, \\head, 4, %alibi_at;", "", " f16 d64 4/2 4x700"},
    {"slopes are multiplied by the scale", "attention/alibi.ptx", "mul.f32 \\slope, \\slope, %alibi_x;", "",
     " f16 d64 4/2 4x700"},
    {"the first query is at the first key", "attention/mma_keys.ptx",
     "sub.s32 %alibi_row, %seqlen_kv, %seqlen_q;", "mov.b32 %alibi_row, 0;", " f16 d64 4/2 113x203 normal"},
    {"the slope of a key head's first query head serves all", "attention/decode/alibi.ptx",
     "mad.lo.u32 %x, %x, %head, %y;", "mul.lo.u32 %x, %x, %head;", " f16 d64 4/2 4x700"},
    {"queries of a sequence are behind its keys", "attention/decode/lengths.ptx",
     "sub.s32 %tile_diagonal, %sq_keys, %sq_queries;", "mov.b32 %tile_diagonal, %sq_keys;",
     "5x1x700 both lengths, full alibi"},
    {"nothing is broken in wide values", "attention/wgmma/exchange.ptx", NULL, NULL, "lengths d576 v512"},
    {"a warpgroup keeps its own references", "attention/wgmma/exchange.ptx", "mov.f32 %minus\\r, %other\\r;",
     "", "lengths d512 bf16"},
    {"O is not rescaled by the other warpgroup's references", "attention/wgmma/exchange.ptx",
     "MOVE CLEAR\n MOVE LAST", "MOVE CLEAR\nLAST_MOVE:\n bra.uni LAST_MOVED;", "lengths d512 bf16"},
    {"the sums are those of one warpgroup", "attention/wgmma/exchange.ptx", "add.f32 %sum0, %sum0, %other0;",
     "", "lengths d576 v512"},
    {"both warpgroups have the first columns of V", "attention/wgmma/columns.ptx",
     "mad.lo.u32 %v_low, %column_group, \\[DESC_V_GROUP], %v_low;", "", "lengths d576 v512"},
    {"a stage of K is free before it has been read as V", "attention/wgmma_multiply.ptx",
     ".set RELEASE_K, VALUES_IN_KEYS == 0", ".set RELEASE_K, 1", "lengths d576 v512"},
    {"rows of 64 heads are those of the first 16", "attention/wgmma/packed.ptx", "add.u32 \\to, \\to, %x;", "",
     "lengths d576 v512 in keys f16 64/1"},
    {"V has as many columns as K", "attention/mma_tile_load.ptx",
     "ld.param.u32 %load_left, [arg+\\[ARG_HEAD_DIM_V]];", "ld.param.u32 %load_left, [arg+\\[ARG_HEAD_DIM]];",
     "lengths d64 v128"},
    {"all sequences have the descales of the first", "attention/bytes/decode.ptx",
     "mul.wide.u32 %wide, %batch, %x;", "mov.b64 %wide, 0;", "bytes d64 f16 int8 8/2 4x6x330 row map"},
    {"all heads have the descales of the first", "attention/bytes/mma.ptx",
     "mad.wide.u32 %wide, %x, %y, %wide;", "", "bytes d64 f16 int8 8/2 4x6x330 row map"},
    {"V has no descale", "attention/decode/merge.ptx", "mul.f32 %mk, %mk, %v_descale;", "",
     "bytes d64 f16 int8 8/2 5x1x700 equal"},
    {"Q's dims are not in the order of K's", "attention/bytes/q.ptx", "{%qn\\[q_word], %qn\\[q_word+2]}",
     "{%qn\\[q_word], %qn\\[q_word+1]}", "bytes d64 f16 int8 8/2 5x1x700 equal"},
    {"even and odd dims of O are exchanged", "attention/bytes/decode.ptx",
     "{%o\\[8*j], %o\\[8*j+4], %o\\[8*j+1], %o\\[8*j+5]}", "{%o\\[8*j+4], %o\\[8*j], %o\\[8*j+5], %o\\[8*j+1]}",
     "bytes d64 f16 int8 8/2 5x1x700 equal"},
    {"O's dims of a tile stay together", "attention/bytes/mma.ptx",
     "PACK %ep_word, \\o\\[ep_even], \\o\\[ep_even+4]", "PACK %ep_word, \\o\\[ep_even], \\o\\[ep_even+1]",
     "bytes d64 f16 e4m3 2/1 2x113x203 equal"},
    {"codes of int8 are one too small", "attention/bytes/bytes.ptx", "0x64806480;", "0x64816481;",
     "bytes d64 f16 int8 8/2 5x1x700 equal"},
    {"rows of bf16 have the factor of the first", "attention/bytes/decode.ptx",
     "mul.lo.u32 %x, %x, \\[CHUNKS];", "mov.b32 %x, 0;", "bytes d128 bf16 e4m3 8/1 4x2x300 equal"},
    {"rows of a tile have the factors of those before", "attention/bytes/mma.ptx",
     "SMEM_FACTORS+4*C_ROWS*sm_r]", "SMEM_FACTORS]", "bytes d128 bf16 e4m3 2/1 1x70x260 equal"},
    {"codes keep the sign of their neighbour", "attention/bytes/bytes.ptx", "prmt.b32 %byte_x, \\x, 0, 0x3322;",
     "prmt.b32 %byte_x, \\x, 0, 0x2233;", "bytes d128 bf16 e4m3 2/1 1x70x260 equal"},
    {"the second block of a part has the scale of the first", "attention/bytes/q8_0.ptx",
     "RAW_BLOCK 18, %raw_d1", "RAW_BLOCK 18, %raw_d0", "bytes d64 f16 q8_0 8/2 5x1x700"},
    {"the last pieces of rows of blocks are not copied", "attention/bytes/q8_0.ptx",
     "\\from, 16*RAW_PIECE, \\size, %raw_last", "\\from, 0, \\size, %raw_last",
     "bytes d64 f16 q8_0 8/2 5x1x700"},
    {"numbers of blocks are one too small", "attention/bytes/q8_0.ptx", "%raw_bias, 0x64806480;",
     "%raw_bias, 0x64816481;", "bytes d64 f16 q8_0 8/2 5x1x700"},
    {"rows of bf16 keep their factor where k is blocks", "attention/decode.ptx", ".rept 4 * N_TILES * O_BF16",
     ".rept 0", "bytes d128 bf16 q8_0 8/1 4x2x300"},
    {"tiles are read before all threads have unpacked them", "attention/bytes/mma_q8_0.ptx",
     "RAW_UNPACK 0, SMEM_RAW_K, SMEM_K bar.sync 0;", "RAW_UNPACK 0, SMEM_RAW_K, SMEM_K",
     "bytes d64 f16 q8_0 2/1 2x113x203 equal"},
    {"the upper threads unpack K again", "attention/bytes/q8_0.ptx", "\\[SMEM_RAW_V-SMEM_RAW_K]", "0",
     "bytes d64 f16 q8_0 2/1 2x113x203 equal"},
    {"rows of bf16 keep their factor where tiles are unpacked", "attention/bytes/mma_q8_0.ptx",
     ".rept 4 * N_TILES * M_TILES", ".rept 0", "bytes d128 bf16 q8_0 2/1 1x70x260 equal"},
    {"fragments are read before all lanes have unpacked", "attention/decode.ptx",
     "RAW_UNPACK %stage, SMEM_RAW_V, SMEM_V bar.warp.sync -1;", "RAW_UNPACK %stage, SMEM_RAW_V, SMEM_V",
     "bytes d64 f16 q8_0 8/2 5x1x700"},
    {"new rows of every head have the first one's descale", "kv_cache/append.ptx",
     "mad.wide.u32 %from, %head, %x, %from;", "", "append f16 to int8 d80"},
    {"codes of e4m3 are rounded down", "kv_cache/bytes.ptx", "[0x7ffff-(120<<23)]", "[-(120<<23)]",
     "append f16 to e4m3 d96"},
    {"numbers of new blocks are rounded down", "kv_cache/blocks.ptx", "add.rz.f32 \\x, \\x, %block_half;", "",
     "append f16 to q8_0 d128 r0"},
    {"the largest number of a new block is that of its lower halves", "kv_cache/blocks.ptx",
     "max.f32 %block_most, %block_most, %block_high;", "", "append f16 to q8_0 d128 r0"},
    {"every new block begins at a multiple of four bytes", "kv_cache/blocks.ptx",
     "and.b32 %block_a, %block_a, 2;", "mov.b32 %block_a, 0;", "append f16 to q8_0 d96"},
    {"elements of new blocks turn one way", "kv_cache/append.ptx",
     "selp.f32 %product, %product, %turned, %upper;", "", "append f16 to q8_0 d96 r48"},
    {"V of blocks is rotated, too", "kv_cache/append.ptx", "@%is_v mov.b32 %turned_pieces, 0;", "",
     "append f16 to q8_0 d64"},
    {"hooks are given scores without the scale", "attention/hooks/hooks.ptx", "mul.f32 \\s, \\s, %hook_scale;",
     "", "hooks d64 f16 8/2 3x40x150 lengths"},
    {"scores of a hook in a unit of its own are taken for whole ones", "attention/hooks/hooks.ptx",
     "mul.f32 \\c, %hook_unit, 0f3FB8AA3B;", "mov.f32 \\c, 0f3FB8AA3B;",
     "hooks d64 f16 8/2 5x1x700 pages of 1"},
    {"keys that a hook masks are seen", "attention/hooks/hooks.ptx",
     "selp.f32 \\s, \\s, 0fFF800000, %hook_keep;", "", "hooks d40 f16 1/1 2x40x120 equal"},
    {"hooks are given the first key of a block for all", "attention/hooks/hooks.ptx",
     "add.s32 %hook_key, %hook_first, \\c;", "mov.b32 %hook_key, %hook_first;",
     "hooks d40 f16 1/1 2x40x120 equal"},
    {"hooks count the keys of a window from its first block", "attention/hooks/mma.ptx",
     "mov.b32 %hook_column, %skipped;", "", "hooks d128 bf16 2/1 1x70x260 equal"},
    {"hooks see all rows of a tile at the first one's place", "attention/hooks/mma.ptx",
     "add.s32 %hook_q, %hook_row, \\[(\\r)*C_ROWS];", "mov.b32 %hook_q, %hook_row;",
     "hooks d40 f16 1/1 2x40x120 equal"},
    {"hooks see the queries of a sequence before its keys", "attention/hooks/decode.ptx",
     "add.s32 %hook_at\\h, %x, %tile_diagonal;", "mov.b32 %hook_at\\h, %x;",
     "hooks d64 f16 8/2 5x1x700 lengths"},
    {"weights are relative to the largest one", "attention/hooks/unnormalized.ptx",
     "mul.f32 \\factor, \\factor, \\x;", "", "hooks d64 v128 f16 8/2 4x3x150"},
    {"O is divided by the sum of its weights", "attention/hooks/unnormalized.ptx",
     "mul.f32 \\factor, \\factor, \\l;", "", "hooks d40 f16 1/1 2x40x120 pages of 64 heads first"},
    {"decoding divides O by the sum of its weights", "attention/decode/merge.ptx",
     "KEEP_WEIGHTS %mk, %total_l, %pr, %pf", "", "hooks d64 f16 8/2 5x1x700 pages of 1024"},
    {"the last entry of a list is left out", "attention/blocks/walk.ptx",
     "min.s32 %walk_entries, %walk_entries, %walk_x;",
     "min.s32 %walk_entries, %walk_entries, %walk_x;\n sub.s32 %walk_entries, %walk_entries, 1;",
     "blocks d64 f16 2/1"},
    {"entries of a list are those of the block after", "attention/blocks/walk.ptx",
     "ld.global.nc.b32 %walk, [%walk_at];", "ld.global.nc.b32 %walk, [%walk_at];\n add.s32 %walk, %walk, 1;",
     "blocks d64 f16 2/1"},
    {"what is no block is the last one", "attention/blocks/walk.ptx", "setp.ge.u32 %walk_done, %walk, %walk_x;",
     "sub.s32 %walk_x, %walk_x, 1;\n min.u32 %walk, %walk, %walk_x;\n setp.ne.u32 %walk_done, %walk, %walk;",
     "blocks d"},
    {"of a block of a list only some steps are visited", "attention/blocks/walk.ptx",
     "setp.eq.u32 %walk_done, %walk_steps, 0;", "setp.eq.u32 %walk_done, %walk_steps, %walk_steps;",
     "blocks d64 f16 2/1"},
    {"all heads have the lists of the first", "attention/blocks/walk.ptx",
     "mad.lo.u32 %walk_list, %head, %walk_x, %walk_list;", "", "blocks d64 f16 2/1"},
    {"hooks mask no key of a list", "attention/blocks/mma.ptx", "setp.eq.u32 %list_hooked, %walk_full, 0;",
     "setp.ne.u32 %list_hooked, %walk_full, %walk_full;", "blocks d128 f16 2/2"},
    {"hooks mask keys of full blocks", "attention/hooks/mma.ptx", "@!%list_hooked bra.uni HOOKED\\@;", "",
     "blocks d128 f16 2/2"},
    {"blocks of a list need no mask", "attention/blocks/mma.ptx", "setp.lt.s32 %done, %n, %n_full;",
     "setp.eq.s32 %done, %n, %n;", "blocks d64 f16 2/1"},
    {"a block is full if its first keys are", "attention/blocks/make.ptx", "setp.lt.u32 %done, %x, %key_end;",
     "setp.lt.u32 %done, %x, %key_first;", "made blocks"},
    {"a block with some pairs is full", "attention/blocks/make.ptx", "and.pred %all, %all, %kept;", "",
     "made blocks"},
    {"blocks of keys are not in order", "attention/blocks/make.ptx", "and.b32 %x, %found\\full, %lower;",
     "mov.b32 %x, 0;", "made blocks"},
    {"keys behind the last one are pairs", "attention/blocks/make.ptx", "or.pred %kept, %kept, %valid;", "",
     "made blocks"},
    {"hooks see the first query head of a key head alone", "attention/hooks/decode.ptx",
     "mad.lo.u32 %hook_head\\h, %x, %head, %y;", "mul.lo.u32 %hook_head\\h, %x, %head;",
     "hooks d64 f16 8/2 5x1x700 lengths"},
    {"a bias has the rows of a matrix with shorter ones", "attention/bias/bias.ptx",
     "ld.param.s32 %bias_x, [arg+\\[ARG_\\name\\()_ROW]];",
     "ld.param.s32 %bias_x, [arg+\\[ARG_\\name\\()_ROW]];\n sub.s32 %bias_x, %bias_x, 4;",
     "bias d40 f16 1/1 2x40x120 equal"},
    {"all heads have the bias of the first", "attention/bias/bias.ptx",
     "ld.param.u64 %bias_step, [arg+\\[ARG_\\name\\()_HEAD]];", "mov.b64 %bias_step, 0;",
     "bias d64 f16 2/1 2x113x203 pages of 16"},
    {"the second key of a pair has the bias of the first", "attention/bias/bias.ptx",
     "and.b32 %bias_x, %bias_pair, 0xFFFF0000;", "", "bias d40 f16 1/1 2x40x120 equal"},
    {"a bias joins scores without their scale", "attention/bias/bias.ptx", "%hook_scale, %bias_s\\odd;",
     "0f3F800000, %bias_s\\odd;", "bias d40 f16 1/1 2x40x120 equal"},
    {"bits of a byte are read from the highest on", "attention/bias/bias.ptx",
     "%bits_low, %bits_high, %bits_column;",
     "%bits_low, %bits_high, %bits_column;\n brev.b32 %bits_low, %bits_low;\n prmt.b32 %bits_low, %bits_low, "
     "0, 0x0123;",
     "bias d128 bf16 8/1 4x2x300 equal"},
    {"bits of a word are those of the one before", "attention/bias/bias.ptx",
     "BITS_WORD %bits_high, bits_j/4+1", "", "bias d64 f16 32/8 1x6x170 equal"},
    {"keys before a tree are masked", "attention/bias/bias.ptx", "mov.b32 \\to, -1;", "mov.b32 \\to, 0;",
     "bias d128 bf16 8/1 4x2x300 equal"},
    {"a tree begins at the first key", "attention/bias/bias.ptx",
     "HOOK_DIAGONAL %bias_x sub.s32 %bits_column, %bits_column, %bias_x;", "",
     "bias d64 f16 8/2 3x40x150 row map"},
    {"bits are those of the first keys of a sequence", "attention/decode/lengths.ptx",
     "mov.b32 %tile_keys, %sq_keys;", "ld.param.s32 %tile_keys, [arg+\\[ARG_BITS_KEYS]];",
     "bias d64 bf16 4/2 37x1x130 row map"},
    {"a chunk begins one key late", "attention/mask.ptx", "mul.lo.u32 \\x, \\x, %chunk;",
     "mul.lo.u32 \\x, \\x, %chunk;\n add.u32 \\x, \\x, 1;", " f16 d64 4/2 113x203 normal"},
    {"blocks of keys before the chunk of a tile's last row have no mask", "attention/mma_keys.ptx",
     "add.s32 %left_blocks, %x, \\[BLOCK_M-1];", "mov.b32 %left_blocks, %x;", " f16 d64 8/4 190x638"},
    {"chunks begin at the first row of a cache, not behind its left pad", "attention/decode/lengths.ptx",
     "sub.s32 \\d, \\x, \\pad; CHUNK_START \\d add.s32 \\d, \\d, \\pad;", "mov.b32 \\d, \\x;\n CHUNK_START \\d",
     "6x1x900 split pages of 32 left pad, bottom-right softcap 15 chunk"},
    {"nothing is broken in gemm", "gemm/mma.ptx", NULL, NULL, "gemm bf16 rc 150x"},
    {"the last k is left out", "gemm/mma_operand_load.ptx", "shl.b32 %load_size, \\left, 1;",
     "shl.b32 %load_size, \\left, 1;\n sub.s32 %load_size, %load_size, 2;", "gemm bf16 rc 150x"},
    {"A stays at its first block of k", "gemm/mma.ptx", "OPERAND_NEXT A", "", "gemm bf16 cr 150x"},
    {"all matrices of a batch use the first A and B", "gemm/mma_operand_load.ptx",
     "mad.lo.s64 %\\X\\()_pointer, %batch_wide, %load_wide, %\\X\\()_pointer;", "", "gemm bf16 rr 150x"},
    {"the fragments are those of the step before", "gemm/mma.ptx", "((\\step+1)%K_STEPS), ((\\step+1)%2)",
     "(\\step%K_STEPS), ((\\step+1)%2)", "gemm bf16 cc 150x"},
    {"beta is 1", "gemm/mma_epilogue.ptx", "%ep_c\\e, %ep_beta,", "%ep_c\\e, 0f3F800000,", "gemm f16 rc 150x"},
    {"the bias is that of the column before", "gemm/mma_epilogue.ptx", "[%ep_pointer+\\[2*(8*ep_j+\\e)]];",
     "[%ep_pointer+\\[2*(8*ep_j+\\e)-2]];", "gemm bf16 "},
    {"the last row of D is left out", "gemm/mma_epilogue.ptx",
     "setp.gt.and.s32 %ep_here, %ep_rows, \\[ep_p*D_COPY_ROWS],",
     "setp.gt.and.s32 %ep_here, %ep_rows, \\[ep_p*D_COPY_ROWS+1],", "gemm bf16 rc 150x"},
    {"the end of a row of D is left out", "gemm/mma_epilogue.ptx", "setp.gt.s32 %ep_here, %ep_columns, \\e;",
     "setp.gt.s32 %ep_here, %ep_columns, \\e+1;", "gemm bf16 rc 150x"},
    {"nothing is broken in products of few rows", "gemm/rows.ptx", NULL, NULL, "rc 9x48"},
    {"the first part of k is all", "gemm/rows.ptx", "add.u32 %split, %split, 1;", "mov.b32 %split, %splits;",
     "rc 9x48"},
    {"a tile's counter is not set to 0 again", "gemm/rows.ptx", "sub.u32 %x, %splits, 1;", "mov.b32 %x, 255;",
     "rc 9x48"},
    {"a part of k has the next one's first blocks", "gemm/rows.ptx", "setp.lt.u32 %inside, %x, %stop;",
     "setp.eq.u32 %inside, %x, %x;", "rc 9x48"},
    {"k has no end", "gemm/rows.ptx", "setp.lt.and.u32 %inside, %x, %k, %inside;", "", "rc 9x48"},
    {"all warps have one place for their sums", "gemm/rows.ptx", "mad.lo.u32 %y, %warp, \\[SUM_WARP], %sums;",
     "mov.b32 %y, %sums;", "rc 9x48"},
    {"a gate multiplies itself", "gemm/mma_epilogue.ptx",
     "mul.f32 %sum\\[\\s+\\e], %sum\\[\\s+\\e], %sum\\[\\s+4+\\e];",
     "mul.f32 %sum\\[\\s+\\e], %sum\\[\\s+\\e], %sum\\[\\s+\\e];", "gemm f16 rc 147x"},
    {"the right half of a warp's part is D, too", "gemm/mma_epilogue.ptx",
     "setp.lt.u32 %ep_here, %ep_word, \\[WARP_N/2];", "setp.lt.u32 %ep_here, %ep_word, \\[WARP_N];",
     "gemm f16 rc 147x"},
    {"nothing is broken in merges", "attention/merge.ptx", NULL, NULL, "merge "},
    {"o of a part without keys counts", "attention/merge.ptx", "DROP_PART b, %none_b", "", "merge "},
    {"the maximum is not taken out", "attention/merge.ptx", "max.f32 %most, %lse_a, %lse_b;",
     "mov.f32 %most, 0f00000000;", "merge "},
    {"the merged LSE is in base 2", "attention/merge.ptx", "0f3F317218, %most;", "0f3F800000, %most;",
     "merge "},
    {"the LSE of one head serves all heads", "attention/merge.ptx", "mad.lo.u32 %x, %batch, %heads, %head;",
     "mul.lo.u32 %x, %batch, %heads;", "merge "},
    {"nothing is broken in gathers", "gather/gather.ptx", NULL, NULL, "gather "},
    {"an id out of range is the first one", "gather/gather.ptx", "cvt.u64.u32 %at, %id;",
     "selp.u32 %id, %id, 0, %known; cvt.u64.u32 %at, %id; setp.eq.u32 %known, %id, %id;", "gather "},
    {"rows of y are those of the table apart", "gather/gather.ptx", "[arg+\\[ARG_Y_ROW]];",
     "[arg+\\[ARG_TABLE_ROW]];", "gather "},
    {"nothing is broken in choices", "sampling/sampling.ptx", NULL, NULL, "sampling "},
    {"the last maximum is taken", "sampling/sampling.ptx", "not.b32 %x, %x; mov.b64 %wide, {%x, %key};",
     "mov.b64 %wide, {%x, %key};", "sampling "},
    {"NaN is the maximum", "sampling/sampling.ptx", "selp.f32 %z\\[j], 0fFF800000, %z\\[j], %p;", "",
     "sampling "},
    {"top_k leaves one more", "sampling/sampling.ptx", "cvt.s64.s32 %rest, %top_k;",
     "add.u32 %top_k, %top_k, 1; cvt.s64.s32 %rest, %top_k;", "sampling "},
    {"top_p forgets top_k", "sampling/sampling.ptx", "TOP_P:", "TOP_P: mov.b32 %least, 0;", "sampling "},
    {"ten rounds are nine", "sampling/sampling.ptx", ".rept 10", ".rept 9", "sampling "},
    {"a counter stays", "sampling/sampling.ptx", "add.u64 %wide, %wide, 1;", "", "sampling "},
    {"nothing is broken in norms", "norm/norm.ptx", NULL, NULL, "norm "},
    {"the sum is that of a warp", "norm/norm.ptx", "setp.le.u32 %more, %threads, 32;",
     "setp.le.u32 %more, %threads, 512;", "norm "},
    {"eps is left out", "norm/norm.ptx", "fma.rn.f32 %scale, %sum, %other, %scale;",
     "mul.f32 %scale, %sum, %other;", "norm "},
    {"the residual is added and not written", "norm/norm.ptx", "STORE_PIECES x, %r_at", "", "norm "},
    {"the weight is w where it is 1 + w", "norm/norm.ptx", ".if ONE_PLUS", ".if 0", "norm "},
    {"all heads have the first one's place", "norm/norm.ptx", "mad.lo.s64 \\at, %head_wide, %stride, \\at;", "",
     "norm "},
    {"nothing is broken in appends", "kv_cache/append.ptx", NULL, NULL, "append "},
    {"a position is one too late", "kv_cache/append.ptx", "sub.sat.s32 %position, %position, %x;",
     "sub.sat.s32 %position, %position, %x;\n add.s32 %position, %position, 1;", "append "},
    {"pairs are halves", "kv_cache/append.ptx",
     "UNPACK %x_low, %y_low, %first\\[2*\\i] UNPACK %x_high, %y_high, %first\\[2*\\i+1]",
     "UNPACK %x_low, %x_high, %first\\[2*\\i]\n UNPACK %y_low, %y_high, %first\\[2*\\i+1]",
     "append f16 d80 r32 pairs"},
    {"lengths are those before the append", "kv_cache/append.ptx", "sub.s32 %start, %start, %new;", "",
     "append "},
    {"all rows go to the sequence's first page", "kv_cache/append.ptx", "cvt.u64.u32 %to, %x;",
     "mov.u64 %to, 0;", "append f16 d128 r64"},
    {"V is rotated, too", "kv_cache/append.ptx", "@%is_v setp.ne.u32 %turn, %x, %x;", "",
     "append f16 d80 r32 pairs"},
    {"an empty sequence takes the row of the next one", "kv_cache/append.ptx", "setp.le.s32 %before, %x, %row;",
     "setp.lt.s32 %before, %x, %row;", "append f16 d128 r64"},
    {"a position is one too late before an attention", "kv_cache/append.ptx",
     "sub.sat.s32 %position, %position, %x;",
     "sub.sat.s32 %position, %position, %x;\n add.s32 %position, %position, 1;", "kvcache d64 f16"},
    {"z leaves its place in the last piece", "vector/add.ptx", "add.u64 %z, %z, 2;", "", "vector_add"},
    {"x is multiplied by b", "vector/add.ptx", "FMA2 %xs\\i, %a", "FMA2 %xs\\i, %b", "vector_add"},
};
/* Breaks of rows that only a Hopper GPU runs. */
static const breakage wgmma_breakages[] = {
    {"a row of bits has one key too many", "attention/mask.ptx", "sub.s32 \\d, \\columns, \\[\\first];",
     "sub.s32 \\d, \\columns, \\[(\\first)-1];", "f16 d64 4/2 113x"},
    {"a window of bits is one key short", "attention/mask.ptx", "not.b32 %seen_before, %seen_before;",
     "shl.b32 %seen_before, %seen_before, 1;\n or.b32 %seen_before, %seen_before, 1;\n"
     " not.b32 %seen_before, %seen_before;",
     "f16 d64 4/2 113x"},
    {"a block is left out of the row sum", "attention/wgmma_softmax.ptx",
     "add.f32 %sum\\r, %sum\\r, %ss_even\\r;", "", "f16 d64 4/2 113x"},
    {"the keys of a sequence begin a row late", "attention/wgmma/lengths.ptx",
     "add.s32 %sq_kv_row, %sq_kv_row, %sq_keys;",
     "add.s32 %sq_kv_row, %sq_kv_row, %sq_keys;\n add.s32 %sq_kv_row, %sq_kv_row, 1;", "203 packed,"},
    {"each sequence has its own keys, whatever the row map says", "attention/wgmma/lengths.ptx",
     "@%sq_given ld.global.u32 %x, [%sq_at];", "", "203 row map"},
    {"O of a sequence is written a row late", "attention/wgmma/lengths.ptx", "add.u32 %o_row, %o_row, %x;",
     "add.u32 %o_row, %o_row, %x;\n add.u32 %o_row, %o_row, 1;", "90 both lengths"},
    {"the LSE of a sequence begins at row 0", "attention/wgmma_store.ptx", "add.u32 %x, %sq_row, %c_row;",
     "mov.u32 %x, %c_row;", "203 packed,"},
    {"the last part of a tile's keys is left out", "attention/wgmma/split.ptx", "setp.ne.u32 %done, %parts, 0;",
     "setp.gt.u32 %done, %parts, 1;", "f16 d64 4/2 113x203 normal"},
    {"all threads that share the pages of a block load the first ones", "attention/wgmma/pages.ptx",
     "mul.lo.u32 %x, %x, %left; add.u32 %y, %y, %x;", "mov.u32 %x, 0;", "2x113x203 pages of 16"},
    {"each part begins at the tile's first key", "attention/wgmma/split.ptx",
     "add.u32 %n_begin, %n_begin, %to;", "", "f16 d64 4/2 113x203 normal"},
    {"parts of all tiles share a counter", "attention/wgmma/split.ptx",
     "ld.shared.b32 %x, [%message+\\[SMEM_PARTS+16]];", "mov.b32 %x, 0;", "f16 d64 4/2 113x203 normal"},
    {"the sums of a tile's part keep their own reference", "attention/wgmma/split.ptx",
     "fma.rn.f32 %sum\\r, %part_l\\r, %ss_shift\\r, %sum\\r;", "add.f32 %sum\\r, %sum\\r, %part_l\\r;",
     "f16 d64 4/2 113x203 normal"},
    {"the items of sequences are as many as their tiles", "attention/wgmma/lengths.ptx",
     "ld.param.u32 %x, [arg+\\[ARG_PARTS_MOST]];", "mov.b32 %x, 1;", " 7 parts p"},
    {"the counter of items is reset as if sequences were as long as they can be", "attention/wgmma/split.ptx",
     ".if VARLEN ld.shared.b32 %left, [%base+\\[SMEM_WALK]];",
     ".if VARLEN\n ld.param.u32 %left, [arg+\\[ARG_TILES_TOTAL]];", " 7 parts p"},
    {"parts of a sequence's tile begin at its first key", "attention/wgmma/split.ptx",
     "add.u32 %n_begin, %n_begin, %to;", "", " 7 parts p"},
    {"each row of packed heads is a query of its own", "attention/wgmma_keys.ptx",
     "add.s32 %left, %left, %query;", "add.s32 %left, %left, %c_row;", "f16 d64 8/2 16x140"},
    {"a tile of packed heads begins at the keys of its first row", "attention/tile_order.ptx",
     "QUERY_OF %query, \\row, (\\rows)-1", "QUERY_OF %query, \\row", "f16 d128 16/2 70x96"},
    {"the LSE of packed heads goes to the first one", "attention/wgmma/packed.ptx",
     "add.u32 %x, %x, \\[\\plus];", "mov.b32 %x, 0;", "f16 d64 8/2 16x140"},
    {"O of packed heads is stored by rows, not by queries", "attention/wgmma_store.ptx",
     "QUERY_OF %o_row, %o_row", "", "f16 d64 8/2 16x140"},
    {"a sequence has only the tiles of one of its packed heads", "attention/wgmma/lengths.ptx",
     "FIRST_OF_GROUP %queries, %queries", "", "f16 8/2 3x40x150 packed,"},
    {"sinks of packed heads are those of the first one", "attention/wgmma/heads.ptx",
     "add.u32 %head_of\\r, %to, %y;", "mov.b32 %head_of\\r, %y;", " f16 d64 8/2 16x140"},
    {"each part of a tile's keys has the sinks", "attention/wgmma/split.ptx", "WRITE_PART COUNT_PART",
     ".if SINKS\n ADD_SINKS\n .endif\n WRITE_PART\n COUNT_PART", " f16 d64 4/2 113x203 normal"},
    {"a tile is stored without its sinks", "attention/wgmma_store.ptx", ".if SINKS ADD_SINKS .endif", "",
     " f16 d64 4/2 113x203 normal"},
    {"tiles without keys have no sinks", "attention/wgmma.ptx",
     "OPEN_TILE .if SINKS && (LATE_SINKS == 0) TILE_SINKS",
     "OPEN_TILE\n .if SINKS\n mov.f32 %sink0, 0fFF800000;\n mov.f32 %sink1, %sink0;",
     " f16 d64 4/2 239x1 normal"},
    {"each row of packed heads is as far as a query of its own", "attention/wgmma/alibi.ptx",
     "QUERY_OF %query, %c_row, \\h*C_ROWS", "add.u32 %query, %c_row, \\h*C_ROWS;", " f16 d64 8/2 16x140"},
    {"blocks of keys before the last one are as far as that", "attention/wgmma/alibi.ptx",
     "add.f32 %less\\h, %minus\\h, %past\\h;", "mov.f32 %less\\h, %minus\\h;", " f16 d64 4/2 113x203 normal"},
    {"all lanes begin at the same column", "attention/wgmma_softmax.ptx",
     "fma.rn.f32 %ss_top\\r, %ss_top\\r, %c, %past\\r;", "mul.f32 %ss_top\\r, %ss_top\\r, %c;",
     " f16 d64 8/2 16x140"},
    {"packed heads have the slope of the first", "attention/wgmma/alibi.ptx", "ALIBI_SLOPE %slope1, %head_of1",
     "mov.f32 %slope1, %slope0;", " f16 d64 16/1 5x300"},
    {"queries of a sequence's tile are behind its keys", "attention/wgmma/alibi.ptx",
     "ld.shared.b32 %left, [%message+\\[SMEM_LENGTHS+12]];", "mov.b32 %left, 0;", "203 packed, full alibi"},
    {"hooks are told the head for the sequence", "attention/hooks/wgmma.ptx", "[%y+\\[SMEM_MESSAGE+12]];",
     "[%y+\\[SMEM_MESSAGE+8]];", "hooks d128 f16 1/1 2x140x90"},
    {"O of wide values is divided by the sum of its weights", "attention/wgmma_store.ptx",
     "KEEP_WEIGHTS %scale, %sum\\r, %minus\\r, %ss_factor\\r", "", "hooks d512 bf16 4/2 2x20x90 equal"},
    {"blocks of a list need no MASK_MOD", "attention/blocks/wgmma.ptx", "setp.eq.u32 %done, %walk_full, 0;",
     "setp.ne.u32 %done, %walk_full, %walk_full;", "blocks d128 f16 2/2"},
    {"full blocks have MASK_MOD", "attention/hooks/wgmma.ptx",
     "BLOCK_LACKS BLOCK_HOOKED @%done bra.uni HOOKED\\@;", "", "blocks d128 f16 2/2"},
    {"blocks of a list need no limits", "attention/blocks/wgmma.ptx", "setp.ge.s32 %done, %walk, %list_full;",
     "setp.ne.s32 %done, %walk, %walk;", "blocks d64 f16 2/1"},
    {"the word of a block is that of the first stage", "attention/blocks/wgmma.ptx", "shl.b32 %x, %k_stage, 2;",
     "mov.b32 %x, 0;", "blocks d64 f16 2/1"},
    {"a masked block is not announced", "attention/blocks/wgmma.ptx",
     "@%done or.b32 %list_word, %list_word, \\[NEXT_MASKED];", "", "blocks d64 f16 2/1"},
    {"V of a listed block is that of the next one", "attention/wgmma_produce.ptx",
     "mul.lo.u32 %y, %v_block, \\[BLOCK_N];", "mul.lo.u32 %y, %n, \\[BLOCK_N];", "blocks d64 f16 2/1"},
    {"hooks see both rows of a thread at the first one's place", "attention/hooks/wgmma.ptx",
     "add.s32 %hook_q, %hook_q, \\[\\r*C_ROWS];", "", "hooks d40 f16 1/1 2x40x120 equal"},
    {"a tile begins while a warpgroup has many blocks of another chunk to skip", "attention/wgmma.ptx",
     "setp.ge.or.s32 %done, %below, \\[K_STAGES], %done;", "", " f16 d64 8/4 190x638"},
    {"all rows of a warpgroup's block have the chunk of the first", "attention/wgmma_keys.ptx",
     ".if CHUNK CHUNK_START %before .endif", "", " f16 d64 4/2 113x203 normal"},
    {"nothing is broken in chains", "atom/dependent.ptx", NULL, NULL,
     "chain f16 attention_wgmma_sm90_d64_192x128"},
    {"attention does not wait for the kernel before", "attention/wgmma_produce.ptx",
     ".if VARLEN == 0 GRID_WAIT", ".if 0\n GRID_WAIT", "chain f16 attention_wgmma_sm90_d64_192x128"},
    {"fp8 attention does not wait for the kernel before", "attention/wgmma_produce.ptx",
     ".if VARLEN == 0 GRID_WAIT", ".if 0\n GRID_WAIT", "chain bf16 attention_wgmma_sm90_fp8_d64_192x128"},
    {"attention with lengths does not wait for the kernel before", "attention/wgmma_produce.ptx",
     "GRID_WAIT // by", "// by", "chain f16 attention_wgmma_sm90_d64_192x128"},
    {"a product does not wait for the kernel before", "gemm/wgmma_kernel.ptx",
     "GRID_WAIT PRODUCE_TILE:", "PRODUCE_TILE:", "chain f16 attention_wgmma_sm90_d64_192x128"},
    {"the bias is read before the kernel before has ended", "gemm/wgmma_kernel.ptx", "GRID_WAIT // the bias",
     "// the bias", "chain f16 attention_wgmma_sm90_d64_192x128"},
    {"nothing is broken in products of e4m3", "gemm/wgmma_fp8.ptx", NULL, NULL, "e4m3-tensor rc 147x"},
    {"a sum of e4m3 begins with the one before", "gemm/wgmma_fp8.ptx", "%b_desc0, %never", "%b_desc0, %always",
     "e4m3-tensor rc 147x"},
    {"a tile has the sums of the one before, too", "gemm/wgmma_fp8.ptx", "mov.f32 %u\\[zero_i], 0f00000000;",
     "", "e4m3-tensor rc 147x"},
    {"one part of a block of k is added as the other", "gemm/wgmma_fp8.ptx", "((\\part)+PARTS-1)%PARTS",
     "\\part", "e4m3-tensor rc 147x"},
    {"both rows of a thread have one scale", "gemm/wgmma_fp8.ptx", "%row_scale\\[\\j/2]", "%row_scale0",
     "e4m3-lines rc 147x"},
    {"both columns of a pair have one scale", "gemm/wgmma_fp8.ptx", "%column_scale\\[\\j%2]", "%column_scale0",
     "e4m3-lines rc 147x"},
    {"blocks of k have the scales of the first", "gemm/wgmma_fp8.ptx",
     "add.u64 %a_scale_at\\half, %a_scale_at\\half, 4;", "", "e4m3-blocks rc 147x"},
    {"a tile that begins in the middle of a block has its scale throughout", "gemm/wgmma_fp8.ptx",
     "%b_scale\\[scale_i/2+1], %b_scale\\[scale_i/2], %from_middle;",
     "%b_scale\\[scale_i/2], %b_scale\\[scale_i/2], %from_middle;", "e4m3-blocks rc 147x"},
    {"the parts of a cluster have the scales of the first part", "gemm/wgmma_fp8.ptx",
     "add.u64 \\to, \\to, %scale_wide;", "", "e4m3-blocks rc 147x"},
    {"an append does not wait for the kernel before", "kv_cache/append.ptx", "GRID_RELEASE GRID_WAIT",
     "GRID_RELEASE", "chain f16 attention_wgmma_sm90_d64_192x128"},
    {"a merge does not wait for the kernel before", "attention/merge.ptx", "GRID_RELEASE GRID_WAIT",
     "GRID_RELEASE", "chain f16 attention_wgmma_sm90_d64_192x128"},
};

enum {
    BREAKAGES = sizeof breakages / sizeof breakages[0],
    WGMMA = sizeof wgmma_breakages / sizeof wgmma_breakages[0]
};

static const breakage *breakage_at(int i)
{
    return i < BREAKAGES ? &breakages[i] : &wgmma_breakages[i - BREAKAGES];
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* The length of `pattern` at `text`, or 0 when `text` does not begin with it. */
static size_t match(const char *text, const char *pattern)
{
    const char *at = text;
    while (*pattern != '\0') {
        if (is_blank(*pattern)) {
            if (!is_blank(*at))
                return 0;
            while (is_blank(*pattern))
                pattern++;
            while (is_blank(*at))
                at++;
        } else if (*at++ != *pattern++) {
            return 0;
        }
    }
    return (size_t)(at - text);
}

/* Writes `text` with the break in it; returns how often it was made, or -1. */
static int write_broken(FILE *out, const char *text, const breakage *b)
{
    int made = 0;
    while (*text != '\0') {
        size_t length = b->from != NULL ? match(text, b->from) : 0;
        if (length > 0) {
            fputs(b->to, out);
            text += length;
            made++;
        } else {
            fputc(*text++, out);
        }
    }
    return ferror(out) ? -1 : made;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long  bytes;
    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (text = (char *)calloc((size_t)bytes + 1, 1)) != NULL &&
        fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* Copies one file, with the break if it belongs to the file; adds to *made.  Returns false when it cannot be
 * copied. */
static bool copy_file(const char *from_dir, const char *to_dir, const char *name, const breakage *b, int *made)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (snprintf(from, sizeof from, "%s/%s", from_dir, name) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s/%s", to_dir, name) >= (int)sizeof to)
        return false;
    breakage none = *b;
    none.from = NULL;
    char *text = read_text(from);
    FILE *out = text != NULL ? fopen(to, "wb") : NULL;
    int   count = out != NULL ? write_broken(out, text, strcmp(name, b->file) == 0 ? b : &none) : -1;
    if (out != NULL && fclose(out) != 0)
        count = -1;
    free(text);
    if (count > 0)
        *made += count;
    return count >= 0;
}

/* Copies every .ptx file of the folders that kernels include from. */
static bool copy_pack(const char *from, const char *to, const breakage *b, int *made)
{
    static const char *const folders[] = {"atom",
                                          "shared",
                                          "attention",
                                          "attention/decode",
                                          "attention/wgmma",
                                          "attention/hooks",
                                          "attention/bytes",
                                          "attention/bias",
                                          "attention/blocks",
                                          "kv_cache",
                                          "gemm",
                                          "vector",
                                          "norm",
                                          "gather",
                                          "sampling"};
    bool                     ok = true;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && ok; i++) {
        char           path[PATH_MAX];
        struct dirent *entry;
        ok = snprintf(path, sizeof path, "%s/%s", to, folders[i]) < (int)sizeof path &&
             mkdir(path, 0700) == 0 &&
             snprintf(path, sizeof path, "%s/%s", from, folders[i]) < (int)sizeof path;
        DIR *folder = ok ? opendir(path) : NULL;
        ok = folder != NULL;
        while (ok && (entry = readdir(folder)) != NULL) {
            size_t length = strlen(entry->d_name);
            char   name[300];
            if (length < 4 || strcmp(entry->d_name + length - 4, ".ptx") != 0)
                continue;
            snprintf(name, sizeof name, "%s/%s", folders[i], entry->d_name);
            ok = copy_file(from, to, name, b, made);
        }
        if (folder != NULL)
            closedir(folder);
    }
    return ok;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

/* Runs the cases on the pack in `folder`; `run` holds the counts. */
static void run_broken(const check *c, const breakage *b, const char *folder, check *run)
{
    const ptxpack_options options = {.size = sizeof options, .ptx_dir = folder, .no_cache = true};
    *run = (check){.quick = true, .quiet = true, .filter = b->filter, .threads = c->threads, .seed = c->seed};
    pthread_mutex_init(&run->gpu_lock, NULL);
    pthread_mutex_init(&run->print_lock, NULL);
    run->brief = c->brief;
    run->first = c->gpu.emulated && b->from != NULL; /* one case that notices is enough */
    if (device_open_as(&run->gpu, c->gpu.emulated ? "emu" : "gpu", &options) != PTXPACK_OK) {
        check_broken(run, b->what, run->gpu.line);
        return;
    }
    check_vector(run);
    check_gemm(run);
    check_attention(run);
    check_lengths(run);
    check_blocks(run);
    check_merge(run);
    check_norm(run);
    check_sampling(run);
    check_gather(run);
    check_append(run);
    check_chain(run);
    check_split(run);
    device_close(&run->gpu);
}

/* Whether the cases noticed the break, or found nothing if there is none. */
static bool try_breakage(const check *c, const breakage *b, const char *ptx_dir, const char *base)
{
    char folder[PATH_MAX];
    int  made = 0;
    bool ok = false;
    if (snprintf(folder, sizeof folder, "%s/ptxpack-self-test-XXXXXX", base) >= (int)sizeof folder ||
        mkdtemp(folder) == NULL) {
        printf("FAIL %s: no temporary folder: %s\n", b->what, strerror(errno));
        return false;
    }
    if (!copy_pack(ptx_dir, folder, b, &made)) {
        printf("FAIL %s: cannot copy the .ptx files of %s (--ptx-dir)\n", b->what, ptx_dir);
    } else if (b->from != NULL && made == 0) {
        printf("FAIL %s: %s has no \"%s\" to break\n", b->what, b->file, b->from);
    } else {
        check run;
        run_broken(c, b, folder, &run);
        int  passed = atomic_load(&run.passed), failed = atomic_load(&run.failed);
        bool judged = c->gpu.emulated && b->from != NULL; /* the judge may stop a broken kernel first */
        ok = (!atomic_load(&run.broken) || judged) &&
             (b->from == NULL ? failed == 0 && passed > 0 : failed > 0);
        printf("%s  %s: %d of %d runs failed%s%s\n", ok ? "ok  " : "FAIL", b->what, failed, passed + failed,
               atomic_load(&run.broken) && run.gpu.line[0] != '\0' ? "; the GPU or the compiler: " : "",
               atomic_load(&run.broken) ? run.gpu.line : "");
    }
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return ok;
}

int check_self_test_texts(const char *ptx_dir, char *line, size_t cap)
{
    int missing = 0;
    for (int i = 0; i < BREAKAGES + WGMMA; i++) {
        const breakage *b = breakage_at(i);
        char            path[PATH_MAX], *text = NULL;
        FILE           *nowhere = fopen("/dev/null", "w");
        if (snprintf(path, sizeof path, "%s/%s", ptx_dir, b->file) < (int)sizeof path)
            text = read_text(path);
        if (text == NULL || nowhere == NULL || (b->from != NULL && write_broken(nowhere, text, b) < 1)) {
            snprintf(line, cap, "%s: %s has no \"%s\" to break", b->what, b->file,
                     b->from != NULL ? b->from : "");
            missing++;
        }
        free(text);
        if (nowhere != NULL)
            fclose(nowhere);
    }
    return missing;
}

int check_self_test(check *c, const char *ptx_dir)
{
    const char *base = getenv("TMPDIR");
    bool        hopper = ptxpack_device(c->gpu.handle)->caps.arch == 90;
    int         missed = 0, tried = 0, count = BREAKAGES + (hopper ? WGMMA : 0);
    for (int i = 0; i < count; i++) {
        const breakage *b = breakage_at(i);
        if (c->filter != NULL && strstr(b->what, c->filter) == NULL)
            continue;
        tried++;
        missed += !try_breakage(c, b, ptx_dir, base != NULL && *base != '\0' ? base : "/tmp");
    }
    printf("self-test: %d of %d breaks were treated as they must be\n", tried - missed, tried);
    return missed == 0 && tried > 0 ? COMMAND_OK : COMMAND_FAILED;
}
