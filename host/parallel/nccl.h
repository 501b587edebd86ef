/* nccl.h - private: NCCL as a table of functions, which are found at run time.  The declarations are our own and hold only what
 * is used of the ABI; tests/host/parallel/nccl_abi.c compares them with nccl.h. */
#ifndef PTXPACK_PARALLEL_NCCL_H
#define PTXPACK_PARALLEL_NCCL_H
#include <stddef.h>
#include "loader/loader.h"

struct ncclComm;
typedef unsigned int nccl_result; /* ncclResult_t */
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_INT8 = 0 };  /* ncclDataType_t */
typedef struct nccl_id { /* ncclUniqueId */
    char bytes[128];
} nccl_id;
/* ncclConfig_t as it was in 2.14: its size and version say so. */
typedef struct nccl_config {
    size_t       size;
    unsigned int magic, version;
    int          blocking; /* 0: calls return at once, and are in progress */
} nccl_config;
enum { NCCL_CONFIG_MAGIC = (int)0xcafebeef, NCCL_CONFIG_VERSION = 21400 };

#define NCCL_MAP(X)                                                                                        \
    X(nccl_result, ncclGetUniqueId, (nccl_id * id))                                                        \
    X(const char *, ncclGetErrorString, (nccl_result result))                                              \
    X(const char *, ncclGetLastError, (struct ncclComm * comm))                                            \
    X(nccl_result, ncclCommInitRankConfig,                                                                 \
      (struct ncclComm * *comm, int ranks, nccl_id id, int rank, nccl_config *config))                     \
    X(nccl_result, ncclCommDestroy, (struct ncclComm * comm))                                              \
    X(nccl_result, ncclCommAbort, (struct ncclComm * comm))                                                \
    X(nccl_result, ncclCommGetAsyncError, (struct ncclComm * comm, nccl_result * error))                   \
    X(nccl_result, ncclCommCount, (struct ncclComm * comm, int *count))                                    \
    X(nccl_result, ncclCommUserRank, (struct ncclComm * comm, int *rank))                                  \
    X(nccl_result, ncclGroupStart, (void))                                                                 \
    X(nccl_result, ncclGroupEnd, (void))                                                                   \
    X(nccl_result, ncclSend,                                                                               \
      (const void *from, size_t count, unsigned int type, int peer, struct ncclComm *comm,                 \
       struct CUstream_st *s))                                                                             \
    X(nccl_result, ncclRecv,                                                                               \
      (void *to, size_t count, unsigned int type, int peer, struct ncclComm *comm, struct CUstream_st *s)) \
    X(nccl_result, ncclAllGather,                                                                          \
      (const void *from, void *to, size_t count, unsigned int type, struct ncclComm *comm,                 \
       struct CUstream_st *s))

typedef struct nccl_table {
#define NCCL_FIELD(type, name, parameters) type(*name) parameters;
    NCCL_MAP(NCCL_FIELD)
#undef NCCL_FIELD
} nccl_table;

/* The library $PTXPACK_NCCL, else libnccl.so.2: loaded once, never unloaded.  PTXPACK_E_NO_NCCL, with the handle's line */
ptxpack_status nccl_open(const ptxpack *handle, const nccl_table **out);
#endif
