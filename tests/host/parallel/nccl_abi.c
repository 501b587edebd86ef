/* nccl_abi.c - compares our declarations of NCCL with its own header, if that is installed: a difference fails the compilation.
 * Otherwise the test is skipped. */
#include <stdio.h>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

#include "host/parallel/nccl.h"

_Static_assert(sizeof(ncclResult_t) == sizeof(nccl_result) && sizeof(ncclDataType_t) == sizeof(unsigned int),
               "enumerations");
_Static_assert((int)NCCL_SUCCESS == (int)ncclSuccess && (int)NCCL_IN_PROGRESS == (int)ncclInProgress,
               "results");
_Static_assert((int)NCCL_INT8 == (int)ncclInt8, "types");
_Static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId), "ncclUniqueId");
#define SAME(ours, theirs)                                                        \
    _Static_assert(offsetof(nccl_config, ours) == offsetof(ncclConfig_t, theirs), \
                   "ncclConfig_t." #theirs " differs");
SAME(size, size)
SAME(magic, magic)
SAME(version, version)
SAME(blocking, blocking)

/* The prototypes, with NCCL's structures in the place of ours. */
#define nccl_id     ncclUniqueId
#define nccl_config ncclConfig_t
#define SAME_PROTOTYPE(type, name, parameters)                                          \
    _Static_assert(__builtin_types_compatible_p(type(*) parameters, __typeof__(&name)), \
                   #name " differs from nccl.h");
NCCL_MAP(SAME_PROTOTYPE)

int main(void)
{
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    if (theirs.magic != (unsigned)NCCL_CONFIG_MAGIC || NCCL_CONFIG_VERSION != NCCL_VERSION(2, 14, 0))
        return puts("FAIL: the magic number or the version of ncclConfig_t"), 1;
    puts("PASS: nccl.h");
    return 0;
}
#else
int main(void)
{
    puts("SKIP: no nccl.h");
    return 77;
}
#endif
