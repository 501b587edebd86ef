/* abi.h - the types of NCCL's ABI, as nccl.h of NCCL 2.28 has them (tests/emu/nccl/abi.c compares). */
#ifndef EMU_NCCL_ABI_H
#define EMU_NCCL_ABI_H
#include <stddef.h>

struct ncclComm;
struct CUstream_st;
typedef unsigned int nccl_result;    /* ncclResult_t   */
typedef unsigned int nccl_type;      /* ncclDataType_t */
typedef unsigned int nccl_reduction; /* ncclRedOp_t    */

enum { NCCL_VERSION = 22800 };
enum { NCCL_ID_BYTES = 128 };
typedef struct { /* ncclUniqueId */
    char internal[NCCL_ID_BYTES];
} nccl_id;

/* clang-format off */
/* RESULT(name, value, meaning) */
#define NCCL_RESULT_MAP(RESULT)                                                                      \
    RESULT(Success, 0, "no error")                                                                   \
    RESULT(UnhandledCudaError, 1, "a call of the CUDA driver failed")                                \
    RESULT(SystemError, 2, "a call of the operating system failed")                                  \
    RESULT(InternalError, 3, "an internal error")                                                    \
    RESULT(InvalidArgument, 4, "an argument is invalid")                                             \
    RESULT(InvalidUsage, 5, "the calls of the ranks do not go together, or one is not allowed here") \
    RESULT(RemoteError, 6, "another rank has failed, ended or aborted")                              \
    RESULT(InProgress, 7, "the operation is in progress")
/* TYPE(name, value, bytes) */
#define NCCL_TYPE_MAP(TYPE)                                                      \
    TYPE(Int8, 0, 1) TYPE(Uint8, 1, 1) TYPE(Int32, 2, 4) TYPE(Uint32, 3, 4)      \
    TYPE(Int64, 4, 8) TYPE(Uint64, 5, 8) TYPE(Float16, 6, 2) TYPE(Float32, 7, 4) \
    TYPE(Float64, 8, 8) TYPE(Bfloat16, 9, 2)                                     \
    TYPE(Float8e4m3, 10, 1) TYPE(Float8e5m2, 11, 1)
/* clang-format on */
enum {
#define NCCL_RESULT_ENUM(name, value, text) NCCL_##name = value,
    NCCL_RESULT_MAP(NCCL_RESULT_ENUM)
#undef NCCL_RESULT_ENUM
};

enum {
#define NCCL_TYPE_ENUM(name, value, bytes) NCCL_##name = value,
    NCCL_TYPE_MAP(NCCL_TYPE_ENUM)
#undef NCCL_TYPE_ENUM
        NCCL_TYPES
};

enum { NCCL_Sum, NCCL_Prod, NCCL_Max, NCCL_Min, NCCL_Avg, NCCL_REDUCTIONS }; /* ncclRedOp_t */

enum { NCCL_CONFIG_MAGIC = (int)0xcafebeef };
typedef struct { /* the fields of ncclConfig_t that are read; callers give more, and say how many bytes */
    size_t       size;
    unsigned int magic, version;
    int          blocking; /* 0: ncclCommInitRankConfig returns at once; INT_MIN: not set */
} nccl_config;
#endif
