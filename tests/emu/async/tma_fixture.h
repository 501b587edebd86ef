/* tma_fixture.h - boxes of tensors and kernels that copy them, for the tests of cp.async.bulk. */
#ifndef EMU_TMA_FIXTURE_H
#define EMU_TMA_FIXTURE_H
#include "tests/support/emu_test.h"
#include "tools/emu/async/tensor_map.h"

static uint32_t seed = 4711;

static inline uint32_t dice(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

/* ---- a tensor, a box, and the right place of each element ----------------------------------------- */
struct problem {
    uint32_t type, rank, bytes, swizzle, fill;
    uint64_t dim[5], stride[5]; /* stride[0] is the element */
    uint32_t box[5], step[5], count[5];
    int32_t  at[5];
    uint32_t shared;          /* where the box is; the image of shared memory begins at 1024 */
    uint64_t extent;          /* bytes of the tensor */
    uint32_t box_bytes, room; /* that arrive, and the bytes that they occupy */
};

static const uint32_t    type_bytes[13] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const char *const swizzles[] = {"none", "32B", "64B", "128B"};

static inline void make_problem(struct problem *p, uint32_t rank, uint32_t swizzle)
{
    memset(p, 0, sizeof *p);
    p->rank = rank;
    p->swizzle = swizzle;
    p->type = dice(11); /* tf32 has a test of its own */
    p->bytes = type_bytes[p->type];
    p->fill = p->type >= 6 ? dice(2) : 0;
    uint32_t unit = 16 / p->bytes, span = swizzle ? (16u << swizzle) / p->bytes : 256 / p->bytes, rows = 1;
    p->box[0] = unit * (1 + dice(span / unit));
    if (dice(2))
        p->box[0] = span;
    p->dim[0] = 1 + dice(3 * p->box[0]);
    p->stride[0] = p->bytes;
    p->extent = (p->dim[0] * p->bytes + 15) / 16 * 16;
    for (uint32_t d = 1; d < rank; d++) {
        p->step[d] = dice(3) ? 1 : 1 + dice(3);
        p->box[d] = 1 + dice(rank > 3 ? 4 : 9);
        p->dim[d] = 1 + dice(10);
        p->stride[d] = p->extent + 16 * dice(3);
        p->extent = p->stride[d] * p->dim[d];
        p->count[d] = 0;
        for (uint32_t i = 0; i < p->box[d]; i += p->step[d])
            p->count[d]++;
        rows *= p->count[d];
    }
    p->step[0] = 1 + dice(2); /* which is ignored */
    p->count[0] = p->box[0];
    p->at[0] = ((int32_t)dice(8) - 3) * (int32_t)unit;
    for (uint32_t d = 1; d < rank; d++)
        p->at[d] = (int32_t)dice(12) - 4;
    p->shared = 1024 + 128 * dice(8);
    p->box_bytes = rows * p->box[0] * p->bytes;
    p->room = rows * (swizzle && p->box[0] < span ? span : p->box[0]) * p->bytes;
}

/* Stores and reductions may not begin before the tensor. */
static inline void begin_inside(struct problem *p)
{
    for (uint32_t d = 0; d < p->rank; d++)
        p->at[d] = p->at[d] < 0 ? -p->at[d] : p->at[d];
}

/* Element (i0, i1, ..) of the box: its place in shared memory, and its offset in the tensor or -1. */
static inline uint32_t place_of(const struct problem *p, const uint32_t i[5])
{
    uint32_t span = p->swizzle ? 16u << p->swizzle : 0, pitch = p->box[0] * p->bytes, row = 0;
    if (pitch < span)
        pitch = span;
    for (uint32_t d = p->rank; d-- > 1;)
        row = row * p->count[d] + i[d];
    uint32_t              address = p->shared + row * pitch + i[0] * p->bytes;
    static const uint32_t masks[] = {0, 0x10, 0x30, 0x70};
    return address ^ (address / 8 & masks[p->swizzle]); /* bits 7.. change bits 4.. */
}

/* The offset of an element whose first coordinate is below `length`; -1 elsewhere. */
static inline int64_t offset_within(const struct problem *p, const uint32_t i[5], uint64_t length)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < p->rank; d++) {
        int64_t at = p->at[d] + (int64_t)i[d] * (d ? p->step[d] : 1);
        if (at < 0 || at >= (int64_t)(d ? p->dim[d] : length))
            return -1;
        offset += at * (int64_t)p->stride[d];
    }
    return offset;
}

static inline int64_t offset_of(const struct problem *p, const uint32_t i[5])
{
    return offset_within(p, i, p->dim[0]);
}

static inline bool next_element(const struct problem *p, uint32_t i[5])
{
    for (uint32_t d = 0; d < p->rank; d++) {
        if (++i[d] < p->count[d])
            return true;
        i[d] = 0;
    }
    return false;
}

static inline void encode(const struct problem *p, uint64_t address, void *map)
{
    assert_int_equal(emu_tensor_map_encode(map, p->type, p->rank, address, p->dim, p->stride + 1, p->box,
                                           p->step, 0, p->swizzle, 0, p->fill),
                     0);
}

/* ---- kernels -------------------------------------------------------------------------------------- */
/* Thread t of 128 fills the words t, t + 128, ... of shared memory, from 1 KiB on, from `image`; thread 0 runs
 * the operation, and then all words are written back to `image`.  %rd0: image; %rd1: tensor; %rd2: map; %r9:
 * address; %r11...: coordinates; %r20: the expected bytes; %r8: the mbarrier. */
#define KERNEL_BEGIN                                                                                   \
    ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n"          \
    ".visible .entry k(.param .u64 image, .param .u64 tensor, .param .u64 map, .param .u32 address,\n" \
    " .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4, "                \
    ".param .u32 bytes) {\n"                                                                           \
    ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .b16 %h<4>;\n"                        \
    "ld.param.u64 %rd0, [image]; ld.param.u64 %rd1, [tensor]; ld.param.u64 %rd2, [map];\n"             \
    "ld.param.u32 %r9, [address]; ld.param.u32 %r11, [c0]; ld.param.u32 %r12, [c1]; "                  \
    "ld.param.u32 %r13, [c2];\n"                                                                       \
    "ld.param.u32 %r14, [c3]; ld.param.u32 %r15, [c4]; ld.param.u32 %r20, [bytes];\n"                  \
    "mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 0; mov.u32 %r8, sm; add.u32 %r9, %r9, %r8;\n"          \
    "mov.u32 %r1, %cluster_ctarank; mul.wide.u32 %rd10, %r1, 65536; add.u64 %rd0, %rd0, %rd10;\n"      \
    "shl.b32 %r2, %r0, 2; add.u32 %r3, %r8, %r2; cvt.u64.u32 %rd3, %r2; add.u64 %rd4, %rd0, %rd3; "    \
    "mov.u32 %r4, %r2;\n"                                                                              \
    "FILL: ld.global.u32 %r5, [%rd4]; st.shared.u32 [%r3+1024], %r5; add.u32 %r3, %r3, 512; "          \
    "add.u64 %rd4, %rd4, 512;\n"                                                                       \
    "add.u32 %r4, %r4, 512; setp.lt.u32 %p2, %r4, 65536; @%p2 bra FILL;\n"                             \
    "@%p1 mbarrier.init.shared.b64 [%r8], 1; fence.mbarrier_init.release.cluster;\n"
#define FENCE        "fence.proxy.async;\n"
#define SYNC         "bar.sync 0;\n"
#define CLUSTER_SYNC "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
#define WAIT         "L: mbarrier.try_wait.parity.shared.b64 %p3, [%r8], 0; @!%p3 bra L;\n"
#define KERNEL_END                                                                            \
    "add.u32 %r3, %r8, %r2; add.u64 %rd4, %rd0, %rd3; mov.u32 %r4, %r2;\n"                    \
    "BACK: ld.shared.u32 %r5, [%r3+1024]; st.global.u32 [%rd4], %r5; add.u32 %r3, %r3, 512; " \
    "add.u64 %rd4, %rd4, 512;\n"                                                              \
    "add.u32 %r4, %r4, 512; setp.lt.u32 %p2, %r4, 65536; @%p2 bra BACK;\nret; }\n"
enum { IMAGE = 65536, SHARED = 1024 + IMAGE, TENSOR_ROOM = 1 << 21 };

static unsigned char image[8 * IMAGE], tensor[TENSOR_ROOM], tensor_wanted[TENSOR_ROOM];
static bool          single_blocks; /* no cluster: each block runs by itself */
static uint64_t      image_address, tensor_address, map_address;
static unsigned char map_bytes[EMU_TENSOR_MAP_BYTES];

static inline void begin(void)
{
    emu_machine(90);
    image_address = emu_buffer(sizeof image);
    tensor_address = emu_buffer(sizeof tensor);
    map_address = emu_buffer(EMU_TENSOR_MAP_BYTES);
}

static inline void random_bytes(unsigned char *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (unsigned char)dice(256);
}

static inline unsigned int run(const char *text, const struct problem *p, uint32_t blocks, size_t tensor_bytes)
{
    struct {
        uint64_t image, tensor, map;
        uint32_t address;
        int32_t  c[5];
        uint32_t bytes;
    } parameters;
    struct emu_launch launch = {.grid = {blocks, 1, 1},
                                .block = {128, 1, 1},
                                .cluster = {single_blocks ? 1 : blocks, 1, 1},
                                .dynamic_shared = SHARED,
                                .parameters = &parameters};
    memset(&parameters, 0, sizeof parameters);
    parameters.image = image_address;
    parameters.tensor = tensor_address;
    parameters.map = map_address;
    parameters.address = p->shared;
    memcpy(parameters.c, p->at, sizeof parameters.c);
    parameters.bytes = p->box_bytes;
    emu_log_clear();
    emu_write(image_address, image, (uint64_t)blocks * IMAGE);
    emu_write(tensor_address, tensor, tensor_bytes);
    emu_write(map_address, map_bytes, sizeof map_bytes);
    unsigned int result = emu_run_shape(text, &launch, "k");
    emu_read(image, image_address, (uint64_t)blocks * IMAGE);
    emu_read(tensor, tensor_address, tensor_bytes);
    return result;
}

static inline void expect_clean(const char *text, const struct problem *p, uint32_t blocks, size_t tensor_bytes)
{
    emu_must_end(run(text, p, blocks, tensor_bytes), 0, NULL, strstr(text, "fence.mbarrier"));
}

static inline void same_bytes(const struct problem *p, const unsigned char *got, const unsigned char *right,
                              size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != right[i])
            fail_msg("%ud, type %u, swizzle %s, box %u x %u: byte %zu is %02x, not %02x", p->rank, p->type,
                     swizzles[p->swizzle], p->box[0], p->box[1], i, got[i], right[i]);
}

static const char *const coordinates[] =
    {"", "%r11", "%r11,%r12", "%r11,%r12,%r13", "%r11,%r12,%r13,%r14", "%r11,%r12,%r13,%r14,%r15"};

static inline const char *kernel(const struct problem *p, const char *before, const char *operation,
                                 const char *after)
{
    static char text[8192];
    char       *c = text;
    size_t      n = (size_t)snprintf(text, sizeof text, "%s%s", KERNEL_BEGIN, before);
    for (const char *o = operation; *o; o++) /* # is the rank, $ the coordinates */
        n += (size_t)(*o == '#'   ? snprintf(c + n, sizeof text - n, "%u", p->rank)
                      : *o == '$' ? snprintf(c + n, sizeof text - n, "%s", coordinates[p->rank])
                                  : snprintf(c + n, sizeof text - n, "%c", *o));
    snprintf(text + n, sizeof text - n, "%s%s", after, KERNEL_END);
    return text;
}

#define LOAD                                                                                                \
    "@!%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%r8], %r20;\n"                                   \
    "cp.async.bulk.tensor.#d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r9], [%rd2, {$}], " \
    "[%r8];\nW: "

#define STORE_END "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nW: "
#define STORE \
    "@!%p1 bra W; cp.async.bulk.tensor.#d.global.shared::cta.bulk_group [%rd2, {$}], [%r9];\n" STORE_END

/* The results of an H200 when these words are loaded as tf32, and when they are added to 0x10 and 0. */
static const uint32_t words[] = {0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000, 0xbf803000,
                                 0x00000001, 0x807fffff, 0x00001000, 0x00401000, 0x7f800000, 0xff800000,
                                 0x7f800001, 0x7fffffff, 0xff801000, 0x7f7fffff, 0x7f7ff000, 0x3f802000,
                                 0x80000000, 0x00800000, 0x007ff000, 0x007fffff, 0xffc00001, 0x7f801fff};
enum { WORDS = sizeof words / sizeof *words };

static inline void one_row(struct problem *p, uint32_t type)
{
    memset(p, 0, sizeof *p);
    p->type = type;
    p->rank = 1;
    p->bytes = 4;
    p->dim[0] = p->box[0] = p->count[0] = WORDS;
    p->step[0] = 1;
    p->shared = 1024;
    p->box_bytes = 4 * WORDS;
    encode(p, tensor_address, map_bytes);
}
#endif
