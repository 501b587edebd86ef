/* tma.c - bulk copies and boxes of tensors, against a walk by elements and what an H200 does. */
#include "tests/support/emu_test.h"
#include "tools/emu/async/tensor_map.h"

static const enum emu_async_policy policies[] = {EMU_ASYNC_EARLIEST, EMU_ASYNC_LATEST, EMU_ASYNC_RANDOM};
static uint32_t                    seed = 4711;

static uint32_t dice(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

/* ---- the map -------------------------------------------------------------------------------------- */
/* What cuTensorMapEncodeTiled of driver 580 says of each on an H200. */
static void test_limits_of_maps(void **state)
{
    (void)state;
    static const struct {
        const char  *what;
        uint32_t     type, rank;
        uint64_t     address, dim, stride;
        uint32_t     box[3], steps[2], interleave, swizzle, l2, fill;
        unsigned int result;
    } rows[] = {
        {"plain", 0, 3, 0x10000, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"address + 8", 0, 3, 0x10008, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"address 0", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"extent 0", 0, 3, 0, 0, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"extent 2^32", 0, 3, 0, 1ull << 32, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"extent 2^32 + 1", 0, 3, 0, (1ull << 32) + 1, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"stride 0", 0, 3, 0, 1024, 0, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"stride below a row", 0, 3, 0, 1024, 512, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"stride 1032", 0, 3, 0, 1024, 1032, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"stride 2^40 - 16", 0, 3, 0, 1024, (1ull << 40) - 16, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"stride 2^40", 0, 3, 0, 1024, 1ull << 40, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"box 0", 0, 3, 0, 1024, 1024, {0, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"box 256", 0, 3, 0, 1024, 1024, {64, 256, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"box 257", 0, 3, 0, 1024, 1024, {64, 257, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"box beyond the extent", 0, 3, 0, 32, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 0},
        {"rows of 8 bytes", 0, 3, 0, 1024, 1024, {8, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"step 0", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 0}, 0, 0, 0, 0, 1},
        {"first step 0", 0, 3, 0, 1024, 1024, {64, 8, 1}, {0, 1}, 0, 0, 0, 0, 1},
        {"step 8", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 8}, 0, 0, 0, 0, 0},
        {"step 9", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 9}, 0, 0, 0, 0, 1},
        {"first step 9", 0, 3, 0, 1024, 1024, {64, 8, 1}, {9, 1}, 0, 0, 0, 0, 1},
        {"first step 4, row 256, 128B", 0, 3, 0, 1024, 1024, {256, 2, 1}, {4, 1}, 0, 3, 0, 0, 1},
        {"row 128, 128B", 0, 3, 0, 1024, 1024, {128, 2, 1}, {1, 1}, 0, 3, 0, 0, 0},
        {"row 64, 128B", 0, 3, 0, 1024, 1024, {64, 2, 1}, {1, 1}, 0, 3, 0, 0, 0},
        {"row 64, 32B", 0, 3, 0, 1024, 1024, {64, 2, 1}, {1, 1}, 0, 1, 0, 0, 1},
        {"swizzle 4", 0, 3, 0, 1024, 1024, {32, 2, 1}, {1, 1}, 0, 4, 0, 0, 1},
        {"l2 3", 0, 3, 0, 1024, 1024, {32, 2, 1}, {1, 1}, 0, 0, 3, 0, 0},
        {"l2 4", 0, 3, 0, 1024, 1024, {32, 2, 1}, {1, 1}, 0, 0, 4, 0, 1},
        {"NaN of s32", 3, 3, 0, 1024, 4096, {64, 8, 1}, {1, 1}, 0, 0, 0, 1, 1},
        {"NaN of f16", 6, 3, 0, 1024, 4096, {64, 8, 1}, {1, 1}, 0, 0, 0, 1, 0},
        {"fill 2", 6, 3, 0, 1024, 4096, {64, 8, 1}, {1, 1}, 0, 0, 0, 2, 1},
        {"228 KiB", 0, 3, 0, 1024, 1024, {256, 228, 4}, {1, 1}, 0, 0, 0, 0, 0},
        {"229 KiB", 0, 3, 0, 1024, 1024, {256, 229, 4}, {1, 1}, 0, 0, 0, 0, 1},
        {"512 KiB, an eighth of it", 0, 3, 0, 1024, 1024, {256, 256, 8}, {1, 8}, 0, 0, 0, 0, 0},
        {"interleaved", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 1, 0, 0, 0, 801}, /* the hardware can */
        {"interleave 3", 0, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 3, 0, 0, 0, 1},
        {"rank 0", 0, 0, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"rank 6", 0, 6, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
        {"type 13", 13, 3, 0, 1024, 1024, {64, 8, 1}, {1, 1}, 0, 0, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char map[EMU_TENSOR_MAP_BYTES];
        uint64_t      dims[6] = {rows[i].dim, 1024, 1024, 1, 1, 1},
                 strides[5] = {rows[i].stride, rows[i].stride, 16, 16, 16};
        uint32_t     box[6] = {rows[i].box[0], rows[i].box[1], rows[i].box[2], 1, 1, 1};
        uint32_t     steps[6] = {rows[i].steps[0], rows[i].steps[1], 1, 1, 1, 1};
        unsigned int result = emu_tensor_map_encode(map, rows[i].type, rows[i].rank, rows[i].address, dims,
                                                    strides, box, steps, rows[i].interleave, rows[i].swizzle,
                                                    rows[i].l2, rows[i].fill);
        if (result != rows[i].result)
            fail_msg("%s: %u, not %u", rows[i].what, result, rows[i].result);
    }
}

static void test_maps_that_are_none(void **state)
{
    (void)state;
    unsigned char         map[EMU_TENSOR_MAP_BYTES];
    struct emu_tensor_map read;
    const char           *why;
    uint64_t              dims[2] = {64, 64}, strides[1] = {64};
    uint32_t              box[2] = {16, 2}, steps[2] = {1, 1};
    memset(map, 0, sizeof map);
    assert_false(emu_tensor_map_read(map, &read, &why));
    assert_string_equal(why, "no tensor map is there");
    assert_int_equal(emu_tensor_map_encode(map, 0, 2, 0x1000, dims, strides, box, steps, 0, 0, 0, 0), 0);
    for (size_t i = 0; i < sizeof map; i++) {
        map[i] ^= 0x10;
        assert_false(emu_tensor_map_read(map, &read, &why));
        map[i] ^= 0x10;
    }
    assert_int_equal(emu_tensor_map_replace_address(map, 0x2008), 1);
    assert_int_equal(emu_tensor_map_replace_address(map, 0x2000), 0);
    assert_true(emu_tensor_map_read(map, &read, &why));
    assert_int_equal(read.address, 0x2000);
}

/* ---- a tensor, a box, and where each element of it must be ---------------------------------------- */
struct problem {
    uint32_t type, rank, bytes, swizzle, fill;
    uint64_t dim[5], stride[5]; /* stride[0] is the element */
    uint32_t box[5], step[5], count[5];
    int32_t  at[5];
    uint32_t shared;          /* where the box is; the image of shared memory begins at 1024 */
    uint64_t extent;          /* bytes of the tensor */
    uint32_t box_bytes, room; /* that arrive, and that they are spread over */
};

static const uint32_t    type_bytes[13] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const char *const swizzles[] = {"none", "32B", "64B", "128B"};

static void make_problem(struct problem *p, uint32_t rank, uint32_t swizzle)
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
    p->step[0] = 1 + dice(2); /* which nobody looks at */
    p->count[0] = p->box[0];
    p->at[0] = ((int32_t)dice(8) - 3) * (int32_t)unit;
    for (uint32_t d = 1; d < rank; d++)
        p->at[d] = (int32_t)dice(12) - 4;
    p->shared = 1024 + 128 * dice(8);
    p->box_bytes = rows * p->box[0] * p->bytes;
    p->room = rows * (swizzle && p->box[0] < span ? span : p->box[0]) * p->bytes;
}

/* Element (i0, i1, ..) of the box: its place in shared memory, and its offset in the tensor or -1. */
static uint32_t place_of(const struct problem *p, const uint32_t i[5])
{
    uint32_t span = p->swizzle ? 16u << p->swizzle : 0, pitch = p->box[0] * p->bytes, row = 0;
    if (pitch < span)
        pitch = span;
    for (uint32_t d = p->rank; d-- > 1;)
        row = row * p->count[d] + i[d];
    uint32_t              address = p->shared + row * pitch + i[0] * p->bytes;
    static const uint32_t masks[] = {0, 0x10, 0x30, 0x70};
    return address ^ (address / 8 & masks[p->swizzle]); /* bits 7.. on bits 4.. */
}

/* Of an element whose first coordinate is below `length`; -1 elsewhere. */
static int64_t offset_within(const struct problem *p, const uint32_t i[5], uint64_t length)
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

static int64_t offset_of(const struct problem *p, const uint32_t i[5])
{
    return offset_within(p, i, p->dim[0]);
}

static bool next_element(const struct problem *p, uint32_t i[5])
{
    for (uint32_t d = 0; d < p->rank; d++) {
        if (++i[d] < p->count[d])
            return true;
        i[d] = 0;
    }
    return false;
}

static void encode(const struct problem *p, uint64_t address, void *map)
{
    assert_int_equal(emu_tensor_map_encode(map, p->type, p->rank, address, p->dim, p->stride + 1, p->box,
                                           p->step, 0, p->swizzle, 0, p->fill),
                     0);
}

/* The rows of tensor_map.c, without a kernel. */
static void test_rows(void **state)
{
    (void)state;
    printf("seed %u\n", seed);
    for (int n = 0; n < 4000; n++) {
        struct problem        p;
        struct emu_tensor_map map;
        unsigned char         bytes[EMU_TENSOR_MAP_BYTES];
        const char           *why;
        make_problem(&p, 1 + (uint32_t)n % 5, (uint32_t)n / 5 % 4);
        encode(&p, 0x100000, bytes);
        assert_true(emu_tensor_map_read(bytes, &map, &why));
        assert_int_equal((uint64_t)map.rows * map.row_bytes, p.box_bytes);
        assert_int_equal((uint64_t)map.rows * map.pitch, p.room);
        uint32_t i[5] = {0}, row = 0;
        do {
            struct emu_tensor_row r;
            emu_tensor_row_at(&map, p.at, row, &r);
            uint32_t byte = i[0] * p.bytes;
            int64_t  offset = offset_of(&p, i);
            bool     inside = byte >= r.before && byte < r.before + r.inside;
            assert_int_equal(emu_tensor_swizzle(p.shared + r.shared + byte, p.swizzle), place_of(&p, i));
            assert_int_equal(inside, offset >= 0);
            if (inside)
                assert_int_equal(r.global + byte - r.before, 0x100000 + (uint64_t)offset);
            row += i[0] + 1 == p.count[0];
        } while (next_element(&p, i));
    }
}

/* ---- kernels -------------------------------------------------------------------------------------- */
/* Thread t of 128 fills words t, t + 128, ... of shared memory, from 1 KiB on, from `image`; thread 0 does
 * something, and
 * all is written back to `image`.  %rd0 image, %rd1 tensor, %rd2 map, %r9 address, %r11.. coordinates, %r20
 * bytes to
 * come, %r8 the mbarrier. */
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

static unsigned char image[8 * IMAGE], wanted[8 * IMAGE], tensor[TENSOR_ROOM], tensor_wanted[TENSOR_ROOM];
static bool          single_blocks; /* no cluster: each by itself */
static uint64_t      image_address, tensor_address, map_address;
static unsigned char map_bytes[EMU_TENSOR_MAP_BYTES];

static void begin(void)
{
    emu_machine(90);
    image_address = emu_buffer(sizeof image);
    tensor_address = emu_buffer(sizeof tensor);
    map_address = emu_buffer(EMU_TENSOR_MAP_BYTES);
}

static void random_bytes(unsigned char *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (unsigned char)dice(256);
}

static unsigned int run(const char *text, const struct problem *p, uint32_t blocks, size_t tensor_bytes)
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

static void expect_clean(const char *text, const struct problem *p, uint32_t blocks, size_t tensor_bytes)
{
    unsigned int result = run(text, p, blocks, tensor_bytes);
    if (result != 0 || *emu_log())
        print_error("result %u\n%s", result, emu_log());
    assert_int_equal(result, 0);
    assert_string_equal(emu_log(), "");
}

static void same_bytes(const struct problem *p, const unsigned char *got, const unsigned char *right,
                       size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != right[i])
            fail_msg("%ud, type %u, swizzle %s, box %u x %u: byte %zu is %02x, not %02x", p->rank, p->type,
                     swizzles[p->swizzle], p->box[0], p->box[1], i, got[i], right[i]);
}

static const char *const coordinates[] =
    {"", "%r11", "%r11,%r12", "%r11,%r12,%r13", "%r11,%r12,%r13,%r14", "%r11,%r12,%r13,%r14,%r15"};

static const char *kernel(const struct problem *p, const char *before, const char *operation, const char *after)
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

/* By the kind of fill: what an H200 puts there, of any type. */
static const unsigned char beyond[2][8] = {{0}, {0xf7, 0x7f, 0xf7, 0x7f, 0xf7, 0x7f, 0xf7, 0x7f}};

static void test_loads(void **state)
{
    (void)state;
    printf("seed %u\n", seed);
    begin();
    int done = 0;
    for (int n = 0; n < 160; n++) {
        struct problem p;
        make_problem(&p, 1 + (uint32_t)n % 5, (uint32_t)n / 5 % 4);
        if (p.extent > sizeof tensor || p.room > IMAGE - 1024)
            continue;
        random_bytes(tensor, p.extent);
        random_bytes(image, IMAGE);
        memcpy(wanted, image, IMAGE);
        encode(&p, tensor_address, map_bytes);
        uint32_t i[5] = {0};
        do {
            int64_t        offset = offset_of(&p, i);
            unsigned char *to = wanted + place_of(&p, i) - 1024;
            memcpy(to, offset >= 0 ? tensor + offset : beyond[p.fill], p.bytes);
        } while (next_element(&p, i));
        emu_test_settings.async_policy = policies[n % 3];
        expect_clean(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, p.extent);
        same_bytes(&p, image, wanted, IMAGE);
        done++;
    }
    assert_true(done > 100);
}

/* ---- to the tensor -------------------------------------------------------------------------------- */
#define STORE_END "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nW: "
#define STORE \
    "@!%p1 bra W; cp.async.bulk.tensor.#d.global.shared::cta.bulk_group [%rd2, {$}], [%r9];\n" STORE_END

static void test_stores(void **state)
{
    (void)state;
    printf("seed %u\n", seed);
    begin();
    int done = 0;
    for (int n = 0; n < 160; n++) {
        struct problem p;
        make_problem(&p, 1 + (uint32_t)n % 5, (uint32_t)n / 5 % 4);
        if (p.extent > sizeof tensor || p.room > IMAGE - 1024)
            continue;
        random_bytes(tensor, p.extent);
        random_bytes(image, IMAGE);
        memcpy(tensor_wanted, tensor, p.extent);
        encode(&p, tensor_address, map_bytes);
        uint32_t i[5] = {0};
        do {
            uint64_t piece = 16 / p.bytes; /* written as a whole, beyond the last element, too */
            int64_t  offset = offset_within(&p, i, (p.dim[0] + piece - 1) / piece * piece);
            if (offset >= 0)
                memcpy(tensor_wanted + offset, image + place_of(&p, i) - 1024, p.bytes);
        } while (next_element(&p, i));
        emu_test_settings.async_policy = policies[n % 3];
        expect_clean(kernel(&p, FENCE SYNC, STORE, SYNC), &p, 1, p.extent);
        same_bytes(&p, tensor, tensor_wanted, p.extent);
        done++;
    }
    assert_true(done > 100);
}

static uint64_t reduced(uint64_t a, uint64_t b, int op, uint32_t type)
{
    bool is_signed = type == 3 || type == 5;
    if (type == 3) {
        a = (uint64_t)(int64_t)(int32_t)a;
        b = (uint64_t)(int64_t)(int32_t)b;
    }
    bool   a_less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    float  f, g;
    double x, y;
    memcpy(&f, &a, 4), memcpy(&g, &b, 4), memcpy(&x, &a, 8), memcpy(&y, &b, 8);
    f += g, x += y;
    uint64_t sum = 0;
    memcpy(&sum, &x, 8);
    if (type == 7)
        sum = 0, memcpy(&sum, &f, 4);
    switch (op) {
    case 0:
        return type == 7 || type == 8 ? sum : a + b;
    case 1:
        return a_less ? a : b;
    case 2:
        return a_less ? b : a;
    case 3:
        return a >= b ? 0 : a + 1;
    case 4:
        return a == 0 || a > b ? b : a - 1;
    case 5:
        return a & b;
    case 6:
        return a | b;
    default:
        return a ^ b;
    }
}

static const char *const reductions[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

static void test_reductions(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        int      ops[9];
    } rows[] = {
        {2, {0, 1, 2, 3, 4, 5, 6, 7, -1}},
        {3, {0, 1, 2, 5, -1}},
        {4, {0, 1, 2, 6, -1}},
        {5, {1, 2, 7, -1}},
        {7, {0, -1}},
        {8, {0, -1}},
    };
    char operation[512];
    printf("seed %u\n", seed);
    begin();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (const int *op = rows[r].ops; *op >= 0; op++) {
            struct problem p;
            do {
                make_problem(&p, 2, dice(4));
            } while (p.type != rows[r].type || p.room > IMAGE - 1024);
            for (uint64_t b = 0; b < sizeof tensor / 64; b += p.bytes) { /* integers: near ones */
                double   x = (double)dice(1000) - 500, y = (double)dice(1000) / 8;
                float    f = (float)x, g = (float)y;
                uint64_t word = dice(4) ? dice(5) - 2ull : (uint64_t)dice(1 << 24) << 40 | dice(1 << 24);
                memcpy(tensor + b,
                       p.type == 8   ? (void *)&x
                       : p.type == 7 ? (void *)&f
                                     : (void *)&word,
                       p.bytes);
                word = dice(4) ? dice(5) - 2ull : (uint64_t)dice(1 << 24) << 40 | dice(1 << 24);
                if (b < IMAGE)
                    memcpy(image + b,
                           p.type == 8   ? (void *)&y
                           : p.type == 7 ? (void *)&g
                                         : (void *)&word,
                           p.bytes);
            }
            assert_true(p.extent <= sizeof tensor / 64);
            memcpy(tensor_wanted, tensor, p.extent);
            encode(&p, tensor_address, map_bytes);
            uint32_t i[5] = {0};
            do {
                int64_t  offset = offset_of(&p, i);
                uint64_t a = 0, b = 0;
                if (offset < 0)
                    continue;
                memcpy(&a, tensor + offset, p.bytes);
                memcpy(&b, image + place_of(&p, i) - 1024, p.bytes);
                a = reduced(a, b, *op, p.type);
                memcpy(tensor_wanted + offset, &a, p.bytes);
            } while (next_element(&p, i));
            snprintf(operation, sizeof operation,
                     "@!%%p1 bra W; cp.reduce.async.bulk.tensor.#d.global.shared::cta.%s.tile."
                     "bulk_group [%%rd2, {$}], [%%r9];\n%s",
                     reductions[*op], STORE_END);
            expect_clean(kernel(&p, FENCE SYNC, operation, SYNC), &p, 1, p.extent);
            same_bytes(&p, tensor, tensor_wanted, p.extent);
        }
}

/* What an H200 made of these: `shared` reduced into `global`. */
static void test_half_reductions(void **state)
{
    (void)state;
    static const uint16_t shared[14] = {0x7e00, 0x3c00, 0x7e00, 0x8000, 0x0000, 0x0001, 0x8001,
                                        0x7c00, 0x7c01, 0xfe00, 0x3c01, 0x0400, 0x7bff, 0x0001};
    static const uint16_t global[14] = {0x3c00, 0x7e00, 0x7e00, 0x0000, 0x8000, 0x0001, 0x0001,
                                        0xfc00, 0x3c00, 0xfe01, 0xbc00, 0x8001, 0x7bff, 0x3c00};
    static const struct {
        const char *op;
        uint16_t    out[14];
    } rows[] = {
        {"add.noftz.f16",
         {0x7fff, 0x7fff, 0x7fff, 0, 0, 2, 0, 0x7fff, 0x7fff, 0x7fff, 0x1400, 0x03ff, 0x7c00, 0x3c00}},
        {"add.noftz.bf16",
         {0x7e00, 0x7e00, 0x7e80, 0, 0, 2, 0, 0, 0x7c01, 0xfe80, 0x3880, 0x0400, 0x7c7f, 0x3c00}},
        {"min.f16",
         {0x3c00, 0x3c00, 0x7fff, 0x8000, 0x8000, 1, 0x8001, 0xfc00, 0x3c00, 0x7fff, 0xbc00, 0x8001, 0x7bff,
          1}},
        {"max.f16",
         {0x3c00, 0x3c00, 0x7fff, 0, 0, 1, 1, 0x7c00, 0x3c00, 0x7fff, 0x3c01, 0x0400, 0x7bff, 0x3c00}},
        {"min.bf16",
         {0x3c00, 0x3c00, 0x7e00, 0x8000, 0x8000, 1, 0x8001, 0xfc00, 0x3c00, 0xfe01, 0xbc00, 0x8001, 0x7bff,
          1}},
        {"max.bf16",
         {0x7e00, 0x7e00, 0x7e00, 0, 0, 1, 1, 0x7c00, 0x7c01, 0xfe00, 0x3c01, 0x0400, 0x7bff, 0x3c00}},
    };
    char operation[512];
    begin();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct problem p = {.rank = 1, .shared = 1024};
        memset(image, 0, IMAGE);
        memset(tensor, 0, 64);
        memcpy(image, shared, sizeof shared);
        memcpy(tensor, global, sizeof global);
        snprintf(operation, sizeof operation,
                 "@!%%p1 bra W; cp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%rd1], "
                 "[%%r9], 32;\n%s",
                 rows[r].op, STORE_END);
        expect_clean(kernel(&p, FENCE SYNC, operation, SYNC), &p, 1, 64);
        for (int i = 0; i < 14; i++)
            if (memcmp(tensor + 2 * i, &rows[r].out[i], 2))
                fail_msg("%s of %04x into %04x: %02x%02x, not %04x", rows[r].op, shared[i], global[i],
                         tensor[2 * i + 1], tensor[2 * i], rows[r].out[i]);
    }
}

/* What an H200 makes of these words when they are loaded as tf32, and when they are added to 0x10 and 0. */
static const uint32_t words[] = {0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000, 0xbf803000,
                                 0x00000001, 0x807fffff, 0x00001000, 0x00401000, 0x7f800000, 0xff800000,
                                 0x7f800001, 0x7fffffff, 0xff801000, 0x7f7fffff, 0x7f7ff000, 0x3f802000,
                                 0x80000000, 0x00800000, 0x007ff000, 0x007fffff, 0xffc00001, 0x7f801fff};
enum { WORDS = sizeof words / sizeof *words };

static void one_row(struct problem *p, uint32_t type)
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

static void test_tf32_loads(void **state)
{
    (void)state;
    static const uint32_t tf32[WORDS] = {0x3f800000, 0x3f804000, 0x3f800000, 0x3f802000, 0xbf800000,
                                         0xbf804000, 0x00000000, 0x80800000, 0x00000000, 0x00400000,
                                         0x7f800000, 0xff800000, 0x7fffe000, 0x7fffe000, 0x7fffe000,
                                         0x7f800000, 0x7f800000, 0x3f802000, 0x80000000, 0x00800000,
                                         0x00800000, 0x00800000, 0x7fffe000, 0x7fffe000};
    begin();
    for (uint32_t type = 7; type < 13; type++) {
        struct problem p;
        if (type == 8 || type == 9)
            continue;
        one_row(&p, type);
        memset(image, 0, IMAGE);
        memcpy(tensor, words, sizeof words);
        expect_clean(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, sizeof words);
        same_bytes(&p, image, (const unsigned char *)(type > 10 ? tf32 : words), sizeof words);
    }
}

static void test_float_sums(void **state)
{
    (void)state;
    static const uint32_t kept[WORDS] = {0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000,
                                         0xbf803000, 0x00000011, 0x807fffef, 0x00001010, 0x00401010,
                                         0x7f800000, 0xff800000, 0x7fffffff, 0x7fffffff, 0x7fffffff,
                                         0x7f7fffff, 0x7f7ff000, 0x3f802000, 0x00000010, 0x00800010,
                                         0x007ff010, 0x0080000f, 0x7fffffff, 0x7fffffff};
    static const uint32_t flushed[WORDS] = {0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0xbf801000,
                                            0xbf803000, 0,          0,          0,          0,
                                            0x7f800000, 0xff800000, 0x7fffffff, 0x7fffffff, 0x7fffffff,
                                            0x7f7fffff, 0x7f7ff000, 0x3f802000, 0,          0x00800000,
                                            0,          0,          0x7fffffff, 0x7fffffff};
    begin();
    for (uint32_t type = 7; type < 13; type++) {
        struct problem p;
        if (type == 8 || type == 9)
            continue;
        one_row(&p, type);
        memset(image, 0, IMAGE);
        memcpy(image, words, sizeof words);
        for (int i = 0; i < WORDS; i++)
            memcpy(tensor + 4 * i, &(uint32_t){0x10}, 4);
        expect_clean(kernel(&p, FENCE SYNC,
                            "@!%p1 bra W; cp.reduce.async.bulk.tensor.#d.global.shared::cta.add.bulk_group "
                            "[%rd2, {$}], [%r9];\n" STORE_END,
                            SYNC),
                     &p, 1, sizeof words);
        same_bytes(&p, tensor, (const unsigned char *)(type == 10 || type == 12 ? flushed : kept),
                   sizeof words);
    }
}

/* ---- blocks --------------------------------------------------------------------------------------- */
/* Block 0 loads into those of a mask; the others of the cluster get nothing. */
static void test_multicast(void **state)
{
    (void)state;
    begin();
    for (uint32_t mask = 1; mask < 16; mask += 2)
        for (int policy = 0; policy < 3; policy++) {
            struct problem p;
            char           before[256];
            make_problem(&p, 2, 3);
            random_bytes(tensor, p.extent);
            random_bytes(image, 4 * IMAGE);
            memcpy(wanted, image, 4 * IMAGE);
            encode(&p, tensor_address, map_bytes);
            uint32_t i[5] = {0};
            do {
                int64_t offset = offset_of(&p, i);
                for (uint32_t b = 0; b < 4; b++)
                    if (mask >> b & 1)
                        memcpy(wanted + b * IMAGE + place_of(&p, i) - 1024,
                               offset >= 0 ? tensor + offset : beyond[p.fill], p.bytes);
            } while (next_element(&p, i));
            emu_test_settings.async_policy = policies[policy];
            snprintf(before, sizeof before,
                     FENCE "mov.u32 %%r30, %u; shr.u32 %%r31, %%r30, %%r1; "
                           "and.b32 %%r31, %%r31, 1;"
                           "setp.eq.u32 %%p5, %%r31, 1; cvt.u16.u32 %%h1, %%r30;\n",
                     mask);
            expect_clean(kernel(&p, before,
                                "and.pred %p6, %p5, %p1; "
                                "@%p6 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], "
                                "%r20;\n" CLUSTER_SYNC "setp.eq.u32 %p4, %r1, 0; and.pred %p4, %p4, %p1;\n"
                                "@%p4 cp.async.bulk.tensor.#d.shared::cluster.global."
                                "mbarrier::complete_tx::bytes."
                                "multicast::cluster [%r9], [%rd2, {$}], [%r8], %h1;\n@!%p5 bra E;\n",
                                WAIT "E: " CLUSTER_SYNC),
                         &p, 4, p.extent);
            same_bytes(&p, image, wanted, 4 * IMAGE);
        }
}

/* Runs of bytes: in, out, and to the next block; whole and reduced. */
static void test_bulk_copies(void **state)
{
    (void)state;
    begin();
    for (int n = 0; n < 24; n++) {
        struct problem p = {.rank = 1, .shared = 1024 + 16 * dice(64), .box_bytes = 16 * (1 + dice(1000))};
        size_t         at = p.shared - 1024, bytes = p.box_bytes;
        emu_test_settings.async_policy = policies[n % 3];
        random_bytes(image, 2 * IMAGE);
        random_bytes(tensor, bytes);
        memcpy(wanted, image, 2 * IMAGE);
        memcpy(wanted + at, tensor, bytes);
        expect_clean(kernel(&p, FENCE SYNC,
                            "@!%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%r8], "
                            "%r20; mov.b64 %rd9, 0;"
                            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
                            "L2::cache_hint "
                            "[%r9], "
                            "[%rd1], %r20, [%r8], %rd9;\nW: ",
                            WAIT),
                     &p, 1, bytes);
        same_bytes(&p, image, wanted, IMAGE);

        random_bytes(image, IMAGE);
        memcpy(tensor_wanted, image + at, bytes);
        expect_clean(kernel(&p, FENCE SYNC,
                            "@!%p1 bra W; cp.async.bulk.global.shared::cta.bulk_group "
                            "[%rd1], [%r9], %r20;\n"
                            "cp.async.bulk.prefetch.L2.global [%rd1], %r20;\n" STORE_END,
                            SYNC),
                     &p, 1, bytes);
        same_bytes(&p, tensor, tensor_wanted, bytes);

        random_bytes(image, 2 * IMAGE);
        memcpy(wanted, image, 2 * IMAGE);
        memcpy(wanted + at, image + IMAGE + at, bytes);
        memcpy(wanted + IMAGE + at, image + IMAGE + at, bytes);
        expect_clean(kernel(&p,
                            FENCE "setp.eq.u32 %p5, %r1, 0; and.pred %p6, %p5, %p1;\n"
                                  "@%p6 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], %r20;\n" CLUSTER_SYNC,
                            "@%p5 bra L; @!%p1 bra E; mov.u32 %r31, 0; "
                            "mapa.shared::cluster.u32 %r32, %r9, %r31;\n"
                            "mapa.shared::cluster.u32 %r33, %r8, %r31;\n"
                            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r32], "
                            "[%r9], %r20, "
                            "[%r33]; bra E;\n",
                            WAIT "E: " CLUSTER_SYNC),
                     &p, 2, bytes);
        same_bytes(&p, image, wanted, 2 * IMAGE);
    }
}

/* Eight blocks, on all the threads that run them, add to the same tensor. */
static void test_sums_of_blocks(void **state)
{
    (void)state;
    struct problem p;
    begin();
    one_row(&p, 2);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t zero = 0;
        memcpy(tensor + 4 * i, &zero, 4);
        for (uint32_t b = 0; b < 8; b++) {
            uint32_t word = i + b * 1000;
            memcpy(image + b * IMAGE + 4 * i, &word, 4);
        }
    }
    emu_test_settings.host_threads = 4;
    single_blocks = true;
    expect_clean(kernel(&p,
                        "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd10, %r1, 65536; "
                        "add.u64 %rd4, %rd0, %rd10;\n"
                        "add.u64 %rd4, %rd4, %rd3; ld.global.u32 %r5, [%rd4]; add.u32 %r3, %r8, %r2; "
                        "bar.sync 0;\n"
                        "st.shared.u32 [%r3+1024], %r5;\n" FENCE SYNC,
                        "@!%p1 bra W; cp.reduce.async.bulk.tensor.#d.global.shared::cta.add.bulk_group "
                        "[%rd2, {$}], [%r9];\n" STORE_END "ret;\n",
                        ""),
                 &p, 8, sizeof words);
    single_blocks = false;
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t sum;
        memcpy(&sum, tensor + 4 * i, 4);
        assert_int_equal(sum, 8 * i + 28000);
    }
}

/* Only one warp waits for the load; the others look at a word that it sets: nothing is ever stuck.  With
 * plain loads, which nothing tells from work, the judge is off. */
static void test_waiting_by_a_flag(void **state)
{
    (void)state;
    static const char *const loads[2] = {"ld.acquire.cta.shared", "ld.shared"};
    begin();
    for (int n = 0; n < 6; n++) {
        struct problem p;
        char           after[512];
        emu_test_settings.async_policy = policies[n / 2];
        emu_test_settings.judge = n % 2 ? 0 : EMU_JUDGE_ALL;
        one_row(&p, 2);
        memset(image, 0, IMAGE);
        memcpy(tensor, words, sizeof words);
        snprintf(after, sizeof after,
                 "setp.ge.u32 %%p4, %%r0, 32; @%%p4 bra POLL;\n%s"
                 "bar.warp.sync -1; mov.u32 %%r31, 1;\n@%%p1 st.release.cta.shared.u32 [%%r8+8], %%r31;\n"
                 "POLL: %s.u32 %%r31, [%%r8+8]; setp.eq.u32 %%p4, %%r31, 0; @%%p4 bra POLL;\n",
                 WAIT, loads[n % 2]);
        expect_clean(kernel(&p, "mov.u32 %r31, 0; @%p1 st.shared.u32 [%r8+8], %r31;\n" FENCE SYNC, LOAD, after),
                     &p, 1, sizeof words);
        same_bytes(&p, image, (const unsigned char *)words, sizeof words);
    }
}

/* ---- what is done wrongly ------------------------------------------------------------------------- */
static void expect_report(const char *text, const struct problem *p, uint32_t blocks,
                          unsigned int wanted_result, const char *part)
{
    for (int policy = 0; policy < 3; policy++) {
        emu_test_settings.async_policy = policies[policy];
        unsigned int result = run(text, p, blocks, 65536);
        if (result != wanted_result || strstr(emu_log(), part) == NULL)
            print_error("policy %d: result %u, wanted %u '%s' in\n%s\n%s", policy, result, wanted_result, part,
                        emu_log(), strstr(text, "fence.mbarrier"));
        assert_int_equal(result, wanted_result);
        assert_non_null(strstr(emu_log(), part));
    }
}

static void plain_problem(struct problem *p)
{
    memset(p, 0, sizeof *p);
    p->type = 0;
    p->rank = 2;
    p->bytes = 1;
    p->dim[0] = p->stride[1] = 256;
    p->dim[1] = 64;
    p->stride[0] = p->step[0] = p->step[1] = 1;
    p->box[0] = p->count[0] = 64;
    p->box[1] = p->count[1] = 8;
    p->shared = 1024;
    p->box_bytes = 512;
    encode(p, tensor_address, map_bytes);
}

static void test_races_are_found(void **state)
{
    (void)state;
    struct problem p;
    begin();
    random_bytes(image, IMAGE);
    random_bytes(tensor, 65536);
    plain_problem(&p);
    expect_report(kernel(&p, FENCE SYNC, LOAD, ""), &p, 1, 719, "cp.async.bulk.tensor"); /* nobody waits */
    expect_report(kernel(&p, SYNC, LOAD, WAIT), &p, 1, 719, "fence.proxy.async is missing");
    expect_report(kernel(&p, SYNC, STORE, SYNC), &p, 1, 719, "fence.proxy.async is missing");
    expect_report(kernel(&p, FENCE, STORE, SYNC), &p, 1, 719, "race"); /* no barrier */
    expect_report(kernel(&p, FENCE SYNC, LOAD, WAIT "st.shared.u32 [%r9], %r0;\n"), &p, 1, 719, "race");
    expect_report(kernel(&p, FENCE SYNC,
                         "@!%p1 bra W; cp.async.bulk.tensor.#d.global.shared::cta.bulk_group [%rd2, {$}], "
                         "[%r9];\ncp.async.bulk.commit_group;\nW: ",
                         SYNC),
                  &p, 1, 719, "wait_group.read is missing");
    expect_report(kernel(&p, FENCE SYNC,
                         "@!%p1 bra W; cp.async.bulk.tensor.#d.global.shared::cta.bulk_group [%rd2, {$}], "
                         "[%r9];\ncp.async.bulk.commit_group; st.shared.u32 [%r9], %r0;\n"
                         "cp.async.bulk.wait_group.read 0;\nW: ",
                         SYNC),
                  &p, 1, 719, "cp.async.bulk.tensor");
    expect_report(kernel(&p, FENCE SYNC,
                         "@!%p1 bra W; cp.async.bulk.tensor.#d.global.shared::cta.bulk_group [%rd2, {$}], "
                         "[%r9];\ncp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
                         "ld.global.u32 %r5, [%rd1];\n"
                         "cp.async.bulk.wait_group 0;\nW: ",
                         SYNC),
                  &p, 1, 719, "cp.async.bulk.tensor");
    emu_test_settings.async_policy = EMU_ASYNC_RANDOM;
    expect_clean(kernel(&p, FENCE SYNC,
                        "@!%p1 bra W; cp.async.bulk.tensor.#d.global.shared::cta.bulk_group "
                        "[%rd2, {$}], "
                        "[%r9];\ncp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
                        "st.shared.u32 [%r9], %r0;\n"
                        "W: ",
                        SYNC),
                 &p, 1, 65536);
}

static void test_misuse_is_found(void **state)
{
    (void)state;
    static const struct {
        const char  *before, *text;
        unsigned int result;
        const char  *line;
    } rows[] = {
        {"add.u32 %r9, %r9, 64;", LOAD WAIT, 716, "aligned"},
        {"mov.u32 %r11, 8;", LOAD WAIT, 715, "first coordinate 8"},
        {"add.u64 %rd2, %rd1, 0;", LOAD WAIT, 715, "no tensor map"},
        {"add.u64 %rd2, %rd2, 16;", LOAD WAIT, 716, "aligned"},
        {"add.u32 %r20, %r20, 16;", LOAD WAIT, 702, "16 bytes to come"},
        {"add.u32 %r20, %r20, -16;", LOAD WAIT, 702, "-16 bytes to come"},
        {"@%p1 mbarrier.inval.shared.b64 [%r8];", LOAD WAIT, 702, "mbarrier.inval"},
        {"@%p1 mbarrier.init.shared.b64 [%r9], 1; " FENCE SYNC, LOAD WAIT, 719, "within the 512 bytes"},
        {"",
         "@!%p1 bra W; cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
         "[%r9], [%rd2, "
         "{%r11}], [%r8];\nW: ",
         715, "another number of dimensions"},
        {"mov.u16 %h1, 2;",
         "@!%p1 bra W; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes."
         "multicast::cluster [%r9], [%rd2, {$}], [%r8], %h1;\nW: ",
         715, "multicast to blocks 0x2"},
        {"mov.u32 %r20, 8;",
         "@!%p1 bra W; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd1], "
         "%r20, [%r8];\nW: ",
         716, "8 bytes are no multiple of 16"},
        {"add.u64 %rd1, %rd1, 8;",
         "@!%p1 bra W; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], "
         "[%rd1], %r20, [%r8];\nW: ",
         716, "aligned"},
        {"mov.b64 %rd1, 256;",
         "@!%p1 bra W; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], "
         "[%rd1], %r20, [%r8];\nW: ",
         700, "outside"},
        {"",
         "@!%p1 bra W; cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd2, {$}], "
         "[%r9];\nW: ",
         715, "add of a tensor of u8"},
    };
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct problem p;
        char           before[512];
        random_bytes(tensor, 65536);
        plain_problem(&p);
        snprintf(before, sizeof before, "%s%s%s", FENCE SYNC, rows[i].before, "\n");
        expect_report(kernel(&p, before, rows[i].text, ""), &p, 1, rows[i].result, rows[i].line);
    }
    struct problem p; /* the map says more than there is */
    plain_problem(&p);
    p.dim[1] = 1 << 20;
    p.at[1] = TENSOR_ROOM / 256 - 4;
    encode(&p, tensor_address, map_bytes);
    expect_report(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, 700, "outside");
    plain_problem(&p);
    map_bytes[9] ^= 1;
    expect_report(kernel(&p, FENCE SYNC, LOAD, WAIT), &p, 1, 715, "changed after it was encoded");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } rows[] = {
        {"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r9], [%rd2, "
         "{%r11,%r12,%r13}], "
         "[%r8], {%h1};",
         ".im2col is not executed"},
        {"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r9], "
         "[%rd2, "
         "{%r11,%r12,%r13,%r14,%r15}], [%r8];",
         ".tile::gather4 is not executed"},
        {"cp.async.bulk.tensor.6d.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd2, "
         "{%r11}], [%r8];",
         "1d to 5d"},
        {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd2, "
         "{%r11}], [%r8];",
         "1 coordinates in 2 dimensions"},
        {"cp.async.bulk.tensor.2d.shared::cluster.global.bulk_group [%r9], [%rd2, {%r11,%r12}], [%r8];",
         "mbarrier::complete_tx::bytes is wanted"},
        {"cp.async.bulk.tensor.2d.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%rd2, "
         "{%r11,%r12}], [%r8];",
         "a tensor is in global memory"},
        {"cp.async.bulk.global.shared::cluster.bulk_group [%rd1], [%r9], 16;", "between these state spaces"},
        {"cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r9];", "operand"},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd1], [%r9], 16;",
         "there is no .add.f16"},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd1], [%r9], 16;",
         "there is no .min.f32"},
        {"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.f32 [%r9], "
         "[%r9], 16, [%r8];",
         "there is no .add.f32"},
        {"cp.reduce.async.bulk.global.shared::cta.bulk_group.mul.u32 [%rd1], [%r9], 16;",
         "a reduction of .mul"},
        {"cp.async.bulk.prefetch.L1.global [%rd1], 16;", "prefetch is .L2.global"},
        {"cp.async.bulk.wait_group.write 0;", "write"},
        {"st.async.shared::cta.mbarrier::complete_tx::bytes.u32 [%r9], %r0, [%r8];", ""},
        {"st.bulk.shared::cta [%rd1], 16, 0;", "st.bulk is not executed"},
        {"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.f32 [%r9], %r0, [%r8];",
         ""},
    };
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct problem p;
        plain_problem(&p);
        unsigned int result = run(kernel(&p, rows[i].text, "\n", ""), &p, 1, 65536);
        if (result != 218 || strstr(emu_log(), rows[i].line) == NULL)
            print_error("%s: %u %s", rows[i].text, result, emu_log());
        assert_int_equal(result, 218);
        assert_non_null(strstr(emu_log(), rows[i].line));
    }
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_of_maps), cmocka_unit_test(test_maps_that_are_none),
        cmocka_unit_test(test_rows), cmocka_unit_test(test_loads), cmocka_unit_test(test_stores),
        cmocka_unit_test(test_reductions), cmocka_unit_test(test_half_reductions),
        cmocka_unit_test(test_tf32_loads), cmocka_unit_test(test_float_sums),
        cmocka_unit_test(test_multicast), cmocka_unit_test(test_bulk_copies),
        cmocka_unit_test(test_sums_of_blocks), cmocka_unit_test(test_waiting_by_a_flag),
        cmocka_unit_test(test_races_are_found), cmocka_unit_test(test_misuse_is_found),
        cmocka_unit_test(test_refusals),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
