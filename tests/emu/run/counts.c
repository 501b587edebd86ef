/* counts.c - what the emulated GPU counts: an instruction after if/else is executed once for all lanes, because
 * they have met again. */
#include "tools/emu/emu_api.h"
#include "tests/support/emu_test.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

static const char text[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { .reg .pred %p1; .reg .b32 %r<12>;\n"
    "mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 16; @%p1 bra A; mov.u32 %r9, 3; bra C; A: mov.u32 %r9, 4;\n"
    "C: mul.lo.u32 %r10, %r0, 3; add.u32 %r9, %r9, %r10; ret; }\n";

static void count_multiplications(void *context, const struct ptxpack_emu_row *row)
{
    uint64_t *sums = (uint64_t *)context;
    if (strncmp(row->instruction, "mul.lo", 6) == 0) {
        sums[0] += row->warps;
        sums[1] += row->lanes;
    }
}

TEST(test_lanes_meet_again)
{
    uint64_t sums[2] = {0, 0};
    emu_machine(75);
    ptxpack_emu_profile_start();
    emu_must_end(emu_run(text, "k", 1, 32, 0, NULL, 0), 0, NULL, text);
    ptxpack_emu_profile_stop();
    ptxpack_emu_profile_read(count_multiplications, sums);
    assert_int_equal(sums[0], 1);
    assert_int_equal(sums[1], 32);
}

RUN_TESTS(NULL, NULL)
