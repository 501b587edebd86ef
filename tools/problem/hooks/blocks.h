/* blocks.h - the option --blocks: lists of blocks of keys, which the device makes of the mask and --mask-mod. */
#ifndef PTXPACK_HOOK_BLOCKS_H
#define PTXPACK_HOOK_BLOCKS_H
#include "tools/device.h"
#include "host/attention/inspect.h"
#include "tools/report.h"

#define BLOCKS_OPTION_HELP                                                                                    \
    "N  visit only the blocks of N rows x N keys that the mask and --mask-mod leave: lists of them are made " \
    "first"

/* How many blocks the lists have, of how many; and the milliseconds that making them took. */
typedef struct attention_list_counts {
    int64_t masked, full, all;
    double  ms;
} attention_list_counts;

/* Sets the fields of a descriptor, with lists for each sequence and head; 0: none.  False after a line on stderr. */
bool attention_blocks_describe(const char *subcommand, int64_t blocks, ptxpack_attention_desc *desc);
/* Makes the lists at the addresses of `buffers`, and counts them; nothing without lists.  False with the device's line. */
bool attention_blocks_make(device *gpu, const ptxpack_attention_desc *desc, const attention_geometry *geometry,
                           const ptxpack_attention_buffers *buffers, attention_list_counts *counts);
void attention_blocks_report(const attention_list_counts *counts, const ptxpack_attention_desc *desc,
                             bool json);
/* The descriptor without its lists, for a reference that looks at all keys. */
ptxpack_attention_desc attention_blocks_without(const ptxpack_attention_desc *desc);
#endif
