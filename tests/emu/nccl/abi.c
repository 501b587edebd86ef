/* abi.c - compares the emulated NCCL's declarations with nccl.h of NCCL 2.28 or later, if it is installed: a difference fails the
 * compilation.  Otherwise the test is skipped. */
#include <stdio.h>
#include "tests/support/unit.h"
#include "tools/emu/nccl/abi.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <nccl.h>
#pragma GCC diagnostic pop
#endif

#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22800 /* earlier ones lack types and calls */
#define RESULT(name, value, text) _Static_assert((int)nccl##name == (value), "nccl" #name " differs");
NCCL_RESULT_MAP(RESULT)
#define TYPE(name, value, bytes) _Static_assert((int)nccl##name == (value), "nccl" #name " differs");
NCCL_TYPE_MAP(TYPE)
_Static_assert((int)NCCL_TYPES == (int)ncclNumTypes, "nccl.h has other types");
_Static_assert((int)NCCL_Sum == (int)ncclSum && (int)NCCL_Prod == (int)ncclProd &&
                   (int)NCCL_Max == (int)ncclMax && (int)NCCL_Min == (int)ncclMin &&
                   (int)NCCL_Avg == (int)ncclAvg && (int)NCCL_REDUCTIONS == (int)ncclNumOps,
               "the reductions differ");
_Static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId), "ncclUniqueId differs in size");

#define FIELD(field)                                                                            \
    _Static_assert(offsetof(nccl_config, field) == offsetof(ncclConfig_t, field) &&             \
                       sizeof(((nccl_config *)0)->field) == sizeof(((ncclConfig_t *)0)->field), \
                   "ncclConfig_t." #field " differs")
FIELD(size);
FIELD(magic);
FIELD(version);
FIELD(blocking);

/* Our structures have no tags: the prototypes are compared with the header's in their place. */
#define nccl_id     ncclUniqueId
#define nccl_config ncclConfig_t
#define NCCL(type, name, parameters)                                                    \
    _Static_assert(__builtin_types_compatible_p(type(*) parameters, __typeof__(&name)), \
                   #name " has another prototype in nccl.h");
#include "tools/emu/nccl/nccl.def"
#undef NCCL

TEST(test_magic)
{
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    assert_int_equal(config.magic, (unsigned int)NCCL_CONFIG_MAGIC);
    assert_true(config.size >= 24); /* what the emulated NCCL reads */
    assert_true(config.version >= NCCL_VERSION);
}
#else
TEST(test_magic)
{
    puts("SKIP: nccl.h of NCCL 2.28 or later, and cuda_runtime.h, are not installed");
    skip();
}
#endif

RUN_TESTS(NULL, NULL)
