/* prebuilt_report.h - what commands report about the prebuilt folders of a cache. */
#ifndef PTXPACK_PREBUILT_REPORT_H
#define PTXPACK_PREBUILT_REPORT_H
#include <stdbool.h>
#include <stdint.h>
#include "cache/cache.h"

/* Prints one line for each folder, beginning with `head`, or with json writes an array "prebuilt" into the open
 * object if there are folders.  With `check` every entry is checked; returns how many are bad. */
uint64_t prebuilt_report(const ptxpack_cache *cache, const char *head, bool check, bool json);
#endif
