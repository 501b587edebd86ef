/* group.h - private: the ranks of a group, and how their data reach each other. */
#ifndef PTXPACK_PARALLEL_GROUP_H
#define PTXPACK_PARALLEL_GROUP_H
#include <stdbool.h>
#include "loader/context.h"
#include "loader/driver.h"
#include "parallel.h"

enum { GROUP_RANKS = 1024 };

typedef struct group_member {
    ptxpack            *handle;
    struct CUstream_st *copies; /* data of other ranks arrive on it */
} group_member;

struct ptxpack_parallel_group {
    int32_t       ranks, first, local; /* local ranks are first .. first + local - 1 */
    group_member *member;              /* of the local ranks */
};

/* The line of a failed call of the driver, at the handle of the first local rank. */
ptxpack_status group_fail(const ptxpack_parallel_group *group, int32_t local, ptxpack_cu_result result,
                          const char *call);
/* The same for what a local rank's handle has a line of. */
ptxpack_status group_pass(const ptxpack_parallel_group *group, int32_t local, ptxpack_status status);
/* Makes the context of a local rank current, like ptxpack_enter; the line is that of the first local rank. */
ptxpack_status group_enter(const ptxpack_parallel_group *group, int32_t local, bool *pushed);
void           group_leave(const ptxpack_parallel_group *group, int32_t local, bool pushed);
/* Enqueues a copy from the memory of local rank `from` to that of local rank `to`, on the copy stream of `to`. */
ptxpack_status group_copy(const ptxpack_parallel_group *group, int32_t to, uint64_t to_address, int32_t from,
                          uint64_t from_address, uint64_t bytes);
#endif
