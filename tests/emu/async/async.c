/* async.c - cp.async on the emulated GPU: the order of copies without the judge, and random programs.
 * cp_async.txt tests what single programs copy and what is reported about them. */
#include "tests/support/emu_test.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

/* %rd0: in, %rd1: out, %r0: thread, %r1: shared address of its 16 bytes, %rd2: global address of its 16 bytes,
 * %rd3: its word of out. */
#define BEGIN                                                                   \
    ".version 8.0\n.target sm_80\n.address_size 64\n"                           \
    ".visible .entry k(.param .u64 in, .param .u64 out) {\n"                    \
    ".shared .align 16 .b8 tile[8192]; .shared .align 8 .b64 bar;\n"            \
    ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<20>;\n"                  \
    "ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; mov.u32 %r0, %tid.x;\n" \
    "shl.b32 %r2, %r0, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r2;\n"          \
    "cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd0, %rd2;\n"                        \
    "mul.wide.u32 %rd3, %r0, 4; add.u64 %rd3, %rd1, %rd3;\n"
#define END     "st.global.u32 [%rd3], %r9; ret; }\n"
#define COPY    "cp.async.cg.shared.global [%r1], [%rd2], 16;\n"
#define COMMIT  "cp.async.commit_group;\n"
#define WAIT(n) "cp.async.wait_group " #n ";\n"

enum { WORDS = 2048 };
static uint32_t in[WORDS], out[WORDS];
static uint64_t in_address, out_address;

static void begin(void)
{
    emu_machine(80);
    in_address = emu_buffer(sizeof in);
    out_address = emu_buffer(sizeof out);
    for (uint32_t i = 0; i < WORDS; i++)
        in[i] = i * 2654435761u + 12345;
}

static unsigned int run(const char *text, uint32_t threads, enum emu_async_policy policy)
{
    emu_log_clear();
    emu_test_settings.async_policy = policy;
    emu_write(in_address, in, sizeof in);
    memset(out, 0xee, sizeof out);
    emu_write(out_address, out, sizeof out);
    const uint64_t addresses[] = {in_address, out_address};
    unsigned int   result = emu_run(text, "k", 1, threads, 0, addresses, 2);
    emu_read(out, out_address, sizeof out);
    return result;
}

static void expect_clean(const char *text, uint32_t threads, enum emu_async_policy policy)
{
    emu_must_end(run(text, threads, policy), 0, NULL, text);
}

/* Without the judge, bytes that no thread waits for are missing when copies are late, and two copies of one
 * group that write the same bytes end in either order. */
TEST(test_luck_runs_out)
{
    static const char no_wait[] = BEGIN "mov.u32 %r9, 7; st.shared.u32 [%r1], %r9;\n" COPY COMMIT
                                        "ld.shared.u32 %r9, [%r1];\n" END;
    static const char                                             one_too_few[] = BEGIN
        "mov.u32 %r9, 7; st.shared.u32 [%r1], %r9;\n" COPY COMMIT WAIT(1) "ld.shared.u32 %r9, [%r1];\n" END;
    static const char twice[] = BEGIN                              COPY
        "cp.async.cg.shared.global [%r1], [%rd2+16], 16;\n" COMMIT WAIT(0) "ld.shared.u32 %r9, [%r1];\n" END;
    begin();
    emu_test_settings.judge = 0;
    const char *early[] = {no_wait, one_too_few};
    for (int i = 0; i < 2; i++) {
        expect_clean(early[i], 32, EMU_ASYNC_EARLIEST);
        assert_int_equal(out[5], in[20]);
        expect_clean(early[i], 32, EMU_ASYNC_LATEST);
        assert_int_equal(out[5], 7);
    }
    expect_clean(twice, 32, EMU_ASYNC_EARLIEST);
    assert_int_equal(out[5], in[24]);
    expect_clean(twice, 32, EMU_ASYNC_LATEST);
    assert_int_equal(out[5], in[20]);
    int seen[2] = {0, 0};
    for (emu_test_settings.seed = 1; emu_test_settings.seed <= 40; emu_test_settings.seed++) {
        expect_clean(twice, 32, EMU_ASYNC_RANDOM);
        seen[out[5] == in[20]]++;
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
}

/* Makes copies of random sizes to separate places, groups and waits: the bytes that a wait covers have
 * arrived. */
static char *random_program(char *text, size_t cap, uint32_t *seed, int *source, int *bytes, int *copies)
{
    size_t n = (size_t)snprintf(text, cap, "%s", BEGIN);
    int    groups[64], group = 0, open = 0;
    *copies = 0;
    for (int i = 0; i < 40 && *copies < 24; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        uint32_t dice = *seed >> 16;
        if (dice % 8 < 5) {
            source[*copies] = (int)(dice >> 4) % 24;
            bytes[*copies] = 4 << (dice >> 9) % 3;
            groups[*copies] = group;
            n += (size_t)snprintf(text + n, cap - n, "cp.async.ca.shared.global [%%r1+%d], [%%rd2+%d], %d;\n",
                                  *copies * 256, source[*copies] * 256, bytes[*copies]);
            ++*copies;
            open = 1;
        } else if (dice % 8 < 7) {
            n += (size_t)snprintf(text + n, cap - n, "%s", COMMIT);
            group++;
            open = 0;
        } else {
            int newest = (int)(dice >> 5) % 3;
            n += (size_t)snprintf(text + n, cap - n, "cp.async.wait_group %d;\n", newest);
            for (int c = 0; c < *copies; c++)
                if (groups[c] < group - newest)
                    n += (size_t)snprintf(text + n, cap - n, "ld.shared.u32 %%r9, [%%r1+%d];\n", c * 256);
        }
    }
    if (open)
        n += (size_t)snprintf(text + n, cap - n, "%s", COMMIT);
    n += (size_t)snprintf(text + n, cap - n, "%s mov.u32 %%r9, 0;\n", WAIT(0));
    for (int c = 0; c < *copies; c++)
        n += (size_t)snprintf(text + n, cap - n,
                              "ld.shared.u32 %%r10, [%%r1+%d]; "
                              "mad.lo.u32 %%r9, %%r9, 31, %%r10;\n",
                              c * 256 + bytes[c] - 4);
    snprintf(text + n, cap - n, "%s", END);
    return text;
}

TEST(test_random_programs)
{
    static char text[32768];
    uint32_t    seed = 20240607;
    int         source[64], bytes[64], copies;
    printf("seed %u\n", seed);
    begin();
    for (int i = 0; i < 60; i++) {
        random_program(text, sizeof text, &seed, source, bytes, &copies);
        emu_test_settings.seed = seed;
        expect_clean(text, 16, emu_policies[i % EMU_POLICIES]);
        for (int t = 0; t < 16; t++) {
            uint32_t sum = 0;
            for (int c = 0; c < copies; c++)
                sum = sum * 31 + in[source[c] * 64 + t * 4 + bytes[c] / 4 - 1];
            assert_int_equal(out[t], sum);
        }
    }
}

RUN_TESTS(NULL, NULL)
