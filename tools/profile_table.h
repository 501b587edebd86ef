/* profile_table.h - gathers counters of the emulated driver per source line and per warp, and prints them. */
#ifndef PTXPACK_PROFILE_TABLE_H
#define PTXPACK_PROFILE_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include "device.h"
#include "tools/emu/emu_api.h"

/* The counting of an emulated driver. */
typedef struct profile_calls {
    void (*start)(void);
    void (*stop)(void);
    void (*read)(ptxpack_emu_visit *visit, void *context);
} profile_calls;
/* Of the library that the device's driver came from; false with the device's line set where it counts nothing. */
bool profile_calls_find(device *d, profile_calls *calls);

typedef struct profile_table {
    struct profile_row *rows; /* in the order of arrival, with their own copies of the texts */
    size_t              count, cap;
    bool                failed; /* there was not enough memory */
} profile_table;

void profile_table_begin(profile_table *table);
void profile_table_add(void *table, const struct ptxpack_emu_row *row); /* a ptxpack_emu_visit */
void profile_table_free(profile_table *table);
/* From one process to another: write the rows to a file, add those of a file.  False: it could not be written, or holds
 * something else. */
bool profile_table_save(const profile_table *table, int fd);
bool profile_table_load(profile_table *table, int fd);
/* What each warp of a block does by kind of instruction, then the `lines` source lines that are executed most
 * (0: all), in the order of the text. */
void profile_table_print(const profile_table *table, size_t lines);
/* Writes members of an open JSON object. */
void profile_table_json(const profile_table *table);
#endif
