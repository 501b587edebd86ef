/* bulk.h - what the two families of cp.async.bulk share: reductions and the operands of completion. */
#ifndef EMU_BULK_H
#define EMU_BULK_H
#include "state.h"
#include "cp.h"

/* ---- reductions ----------------------------------------------------------------------------------- */
enum bulk_reduction {
    BULK_ADD,
    BULK_MIN,
    BULK_MAX,
    BULK_INC,
    BULK_DEC,
    BULK_AND,
    BULK_OR,
    BULK_XOR,
    BULK_REDUCTIONS
};
/* clang-format off */
enum bulk_type {
    BULK_U32, BULK_S32, BULK_U64, BULK_S64, BULK_B32, BULK_B64, BULK_F16, BULK_BF16, BULK_F32, BULK_F64,
    BULK_F32_FTZ, BULK_TYPES
};
/* clang-format on */
extern const char *const bulk_reduction_words[], *const bulk_type_words[]; /* end in NULL */
unsigned int bulk_type_bytes(enum bulk_type type);
bool         bulk_can_reduce(enum bulk_reduction reduction, enum bulk_type type, bool global);
/* Combine each element of `from` into that of `to`.  Each element is updated atomically, but not all
 * together. */
void bulk_reduce(unsigned char *to, const unsigned char *from, uint64_t bytes, enum bulk_reduction reduction,
                 enum bulk_type type);

/* The same for the memory of a copy; undefined bytes are reported.  `beyond`: the bytes lie beyond the last
 * element of a tensor, and may be undefined. */
struct async_op;
void bulk_reduce_ref(const struct async_op *a, const struct emu_ref *to, const struct emu_ref *from,
                     uint64_t bytes, enum bulk_reduction reduction, enum bulk_type type, bool beyond);

/* ---- source, destination and completion ----------------------------------------------------------- */
enum bulk_way { BULK_LOAD, BULK_STORE, BULK_ACROSS }; /* global to shared, back, shared to another block's */
struct bulk_target {
    enum bulk_way     way;
    bool              remote;   /* shared::cluster: the memory may be another block's */
    struct cp_address mbarrier; /* of a load, and across                             */
    int               blocks;   /* source that holds the mask of blocks; -1: no multicast */
    int               policy;   /* source that holds the policy of the cache; -1: none     */
};
bool bulk_decode_spaces(struct decoder *d, struct bulk_target *target);
bool bulk_decode_completion(struct decoder *d, const struct bulk_target *target);
/* .multicast::cluster and .L2::cache_hint.  bulk_decode_last then reads, after all other operands, the mbarrier
 * and the operands of these two from operand `next` on. */
struct bulk_options {
    bool multicast, hint;
};
bool bulk_decode_options(struct decoder *d, const struct bulk_target *target, struct bulk_options *out);
bool bulk_decode_last(struct decoder *d, struct bulk_target *target, const struct bulk_options *options,
                      unsigned int next);

/* A finding if the policy is none: what createpolicy makes has zeros in its lower half. */
void bulk_check_policy(struct emu_warp *w, const struct emu_op *op, const struct bulk_target *target, int lane);
/* Find the mbarrier, and call `issue` for each block that the operation writes to.  False: a fault. */
bool bulk_each_block(struct emu_warp *w, const struct emu_op *op, const struct bulk_target *target, int lane,
                     struct emu_cta *own, void *context,
                     bool (*issue)(void *context, struct emu_cta *cta, struct mbarrier_place mbarrier));
/* Signal the mbarrier at the end of an operation. */
void bulk_signal(struct async_signal *signal);
#endif
