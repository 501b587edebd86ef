/* time.h - the time of a launch by events: the first, and the median of many. */
#ifndef PTXPACK_PROGRAM_TIME_H
#define PTXPACK_PROGRAM_TIME_H
#include <stdbool.h>
#include "tools/device.h"
#include "run.h"

typedef struct program_launch {
    device                 *gpu;
    const ptxpack_function *function;
    uint32_t                grid[3], block[3];
    size_t                  smem;
    void *const            *arguments;
    program_launching       launching; /* called before a wait, and after it */
    void                   *context;
} program_launch;

/* Each returns false with gpu->line set. */
bool program_time_first(const program_launch *l, double *ms);
/* Time `launches` more, one after the other, each between two events.  With `graph`, time that many graphs of
 * PROGRAM_GRAPH launches and divide.  Sets ms, least_ms, most_ms and launches of the result. */
enum { PROGRAM_GRAPH = 20 };
bool program_time_many(const program_launch *l, int64_t launches, bool graph, program_result *result);
#endif
