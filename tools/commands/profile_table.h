/* profile_table.h - counters of the emulated driver, gathered per source line and per warp, and printed. */
#ifndef PTXPACK_PROFILE_TABLE_H
#define PTXPACK_PROFILE_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include "tools/emu/emu_api.h"

typedef struct profile_table {
    struct profile_row *rows; /* as they came, with their own copies of the texts */
    size_t              count, cap;
    bool                failed; /* memory was out */
} profile_table;

void profile_table_begin(profile_table *table);
void profile_table_add(void *table, const struct ptxpack_emu_row *row); /* a ptxpack_emu_visit */
void profile_table_free(profile_table *table);
/* What each warp of a block does by kind of instruction, then the `lines` source lines that are executed most
 * (0: all), in the order of the text. */
void profile_table_print(const profile_table *table, size_t lines);
/* Members of an open JSON object. */
void profile_table_json(const profile_table *table);
#endif
