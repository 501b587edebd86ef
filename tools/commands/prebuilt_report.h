/* prebuilt_report.h - what commands say of the prebuilt folders of a cache. */
#ifndef PTXPACK_PREBUILT_REPORT_H
#define PTXPACK_PREBUILT_REPORT_H
#include <stdbool.h>
#include <stdint.h>
#include "cache/cache.h"

/* One line for each folder, beginning with `head`, or with json an array "prebuilt" in the open object, where
 * there are any.  With `check` every entry is measured; returns how many are bad. */
uint64_t prebuilt_report(const ptxpack_cache *cache, const char *head, bool check, bool json);
#endif
