/* warp_ops.c - the emulated GPU's shfl, vote, match, redux, activemask and elect: each lane against
 * what it should get from its warp, in whole warps, partial ones, and groups; and what must be reported. */
#include <math.h>
#include "tests/support/emu_cases.h"

enum { MOST_CASES = 200, LANES = 32 };
static struct emu_case cases[MOST_CASES];
static char            texts[MOST_CASES][400];
static unsigned int    case_count;

/* %yr: the members.  Of all that execute; or of those of them in the lane's group: lanes 0 to 11, and the
 * rest. */
#define WHOLE "activemask.b32 %yr; "
#define GROUPS                                                            \
    "activemask.b32 %yr; mov.u32 %xr, %laneid; setp.lt.u32 %xp, %xr, 12;" \
    " selp.b32 %xr, 0xfff, 0xfffff000, %xp; and.b32 %yr, %yr, %xr; "

static struct emu_case *add_case(emu_reference *reference, int kind, bool groups, const char *text)
{
    struct emu_case *c = &cases[case_count];
    assert_true(case_count < MOST_CASES);
    snprintf(texts[case_count], sizeof texts[0], "%s%s", groups ? GROUPS : WHOLE, text);
    *c = (struct emu_case){texts[case_count], reference, kind, 0, groups, NULL};
    case_count++;
    return c;
}

/* ---- what a reference sees ----------------------------------------------------------------------------- */
static uint32_t        lane_of(const uint64_t in[4]) { return (uint32_t)((in - case_inputs[0]) / 4) % LANES; }
static const uint64_t *at_lane(const uint64_t in[4], uint32_t lane) { return in - 4 * lane_of(in) + 4 * lane; }
static uint32_t        members(const struct emu_case *c, const uint64_t in[4])
{
    uint32_t mask = 0;
    for (uint32_t l = 0; l < LANES; l++)
        if ((l & case_leave) == 0 && (!c->sign || (l < 12) == (lane_of(in) < 12)))
            mask |= 1u << l;
    return mask;
}

/* Whole warps in which all d are equal, or two values, or all differ. */
static void adjust(void)
{
    for (int i = 0; i < CASE_ELEMENTS; i++) {
        const int warp = i / LANES;
        if (warp % 4 == 0)
            case_inputs[i][3] = case_inputs[warp * LANES][3];
        else if (warp % 4 == 1)
            case_inputs[i][3] = case_inputs[warp * LANES + i * 7 % 3 % 2][3];
    }
}

/* ---- shfl ---------------------------------------------------------------------------------------------- */
/* kind: the mode, plus 4 for the predicate; bits: b and c are numbers (b, c << 8), or -1 for those of the
 * lane */
static uint64_t shuffled(const struct emu_case *c, const uint64_t in[4])
{
    const uint32_t word_b = c->bits < 0 ? (uint32_t)in[1] : (uint32_t)c->bits & 255;
    const uint32_t word_c = c->bits < 0 ? (uint32_t)in[2] : (uint32_t)c->bits >> 8;
    const int      lane = (int)lane_of(in), b = (int)(word_b % 32);
    const int      clamp = (int)(word_c % 32), segment = (int)(word_c >> 8 & 31);
    const int      most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int            from = 0;
    bool           inside = false;
    switch (c->kind & 3) {
    case 0:
        from = lane - b;
        inside = from >= most;
        break;
    case 1:
        from = lane + b;
        inside = from <= most;
        break;
    case 2:
        from = lane ^ b;
        inside = from <= most;
        break;
    case 3:
        from = least | (b & ~segment);
        inside = from <= most;
        break;
    }
    if (c->kind & 4)
        return inside;
    if (!inside)
        from = lane;
    return (from & (int)case_leave) != 0 ? 0
                                         : at_lane(in, (uint32_t)from)[0]; /* left out: 0, seen on an H200 */
}

static void test_shfl(void **state)
{
    static const char *const  modes[] = {"up", "down", "bfly", "idx"};
    static const unsigned int clamps[] = {31, 0, 0x1f, 0x181f, 0x1800, 0x1c1f, 0x1e05, 0x0f10};
    char                      text[160];
    (void)state;
    case_count = 0;
    for (int mode = 0; mode < 4; mode++)
        for (int groups = 0; groups < 2; groups++) {
            snprintf(text, sizeof text, "shfl.sync.%s.b32 %%or, %%ar, %%br, %%cr, %%yr;", modes[mode]);
            add_case(shuffled, mode, groups, text)->bits = -1;
            snprintf(text, sizeof text, "shfl.sync.%s.b32 %%xr|%%op, %%ar, %%br, %%cr, %%yr;", modes[mode]);
            add_case(shuffled, mode + 4, groups, text)->bits = -1;
            for (size_t i = 0; i < sizeof clamps / sizeof *clamps; i++) {
                const int b = (int)i * 5 % 32 + 1;
                snprintf(text, sizeof text, "mov.b32 %%or, %%ar; shfl.sync.%s.b32 %%or, %%or, %d, 0x%x, %%yr;",
                         modes[mode], b, clamps[i]);
                add_case(shuffled, mode, groups, text)->bits = b | (int)(clamps[i] << 8);
            }
        }
    case_adjust = NULL;
    case_unjudged = EMU_JUDGE_UNINITIALISED; /* lanes that are left out are read */
    case_run(cases, case_count, 75);
    case_unjudged = 0;
}

/* ---- vote, match, elect -------------------------------------------------------------------------------- */
enum { V_ALL, V_ANY, V_UNI, V_BALLOT, V_MATCH_ANY, V_MATCH_ALL, V_MATCH_P, V_ACTIVE, V_ELECT, V_ELECT_P };
/* bits: of the value; negative: the predicate is negated */
static uint64_t voted(const struct emu_case *c, const uint64_t in[4])
{
    const uint32_t mask = members(c, in), lane = lane_of(in);
    uint32_t       set = 0, same = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        const uint64_t d = at_lane(in, l)[3];
        if ((mask >> l & 1) == 0)
            continue;
        set |= ((uint32_t)d & 1) != (c->bits < 0) ? 1u << l : 0;
        same |= (c->bits == 64 ? d == in[3] : (uint32_t)d == (uint32_t)in[3]) ? 1u << l : 0;
    }
    switch (c->kind) {
    case V_ALL:
        return set == mask;
    case V_ANY:
        return set != 0;
    case V_UNI:
        return set == mask || set == 0;
    case V_BALLOT:
        return set;
    case V_MATCH_ANY:
        return same;
    case V_MATCH_ALL:
        return same == mask ? mask : 0;
    case V_MATCH_P:
        return same == mask;
    case V_ACTIVE:
        return mask;
    case V_ELECT:
        return (uint32_t)__builtin_ctz(mask);
    default:
        return (mask & ((1u << lane) - 1)) == 0;
    }
}

static void test_vote(void **state)
{
    (void)state;
    case_count = 0;
    for (int groups = 0; groups < 2; groups++) {
        add_case(voted, V_ALL, groups, "vote.sync.all.pred %op, %dp, %yr;");
        add_case(voted, V_ANY, groups, "vote.sync.any.pred %op, %dp, %yr;");
        add_case(voted, V_UNI, groups, "vote.sync.uni.pred %op, %dp, %yr;");
        add_case(voted, V_BALLOT, groups, "vote.sync.ballot.b32 %or, %dp, %yr;");
        add_case(voted, V_ALL, groups, "vote.sync.all.pred %op, !%dp, %yr;")->bits = -1;
        add_case(voted, V_BALLOT, groups, "vote.sync.ballot.b32 %or, !%dp, %yr;")->bits = -1;
        add_case(voted, V_MATCH_ANY, groups, "match.any.sync.b32 %or, %dr, %yr;");
        add_case(voted, V_MATCH_ANY, groups, "match.any.sync.b64 %or, %dd, %yr;")->bits = 64;
        add_case(voted, V_MATCH_ALL, groups, "match.all.sync.b32 %or, %dr, %yr;");
        add_case(voted, V_MATCH_ALL, groups, "match.all.sync.b32 %or|%xp, %dr, %yr;");
        add_case(voted, V_MATCH_P, groups, "match.all.sync.b64 %xr|%op, %dd, %yr;")->bits = 64;
        add_case(voted, V_ELECT, groups, "elect.sync %or|%xp, %yr;");
        add_case(voted, V_ELECT_P, groups, "elect.sync _|%op, %yr;");
    }
    add_case(voted, V_ACTIVE, false, "mov.b32 %or, %yr;");
    case_adjust = adjust;
    case_run(cases, case_count, 90);
}

/* ---- redux
 * ----------------------------------------------------------------------------------------------------------
 */
enum { R_ADD, R_MIN, R_MAX, R_AND, R_OR, R_XOR };
static uint64_t reduced(const struct emu_case *c, const uint64_t in[4])
{
    const uint32_t mask = members(c, in);
    wide           result = 0;
    bool           first = true;
    for (uint32_t l = 0; l < LANES; l++) {
        const wide v = case_number(at_lane(in, l)[0], 32, c->bits == 1);
        if ((mask >> l & 1) == 0)
            continue;
        if (first)
            result = v;
        else
            result = c->kind == R_ADD   ? result + v
                     : c->kind == R_MIN ? (v < result ? v : result)
                     : c->kind == R_MAX ? (v > result ? v : result)
                     : c->kind == R_AND ? (result & v)
                     : c->kind == R_OR  ? (result | v)
                                        : (result ^ v);
        first = false;
    }
    return (uint64_t)result;
}

static void test_redux(void **state)
{
    static const char *const words[] = {"add", "min", "max", "and", "or", "xor"};
    char                     text[100];
    (void)state;
    case_count = 0;
    for (int groups = 0; groups < 2; groups++)
        for (int i = 0; i < 6; i++)
            for (int sign = 0; sign < (i < R_AND ? 2 : 1); sign++) {
                snprintf(text, sizeof text, "redux.sync.%s.%s %%or, %%ar, %%yr;", words[i],
                         i >= R_AND ? "b32"
                         : sign     ? "s32"
                                    : "u32");
                add_case(reduced, i, groups, text)->bits = sign;
            }
    case_adjust = NULL;
    case_run(cases, case_count, 80);
}

/* kind: 1 the greatest, 2 of sizes, 4 NaNs win */
static uint64_t reduced_float(const struct emu_case *c, const uint64_t in[4])
{
    const uint32_t mask = members(c, in);
    uint32_t       best = 0x7fffffff;
    bool           any_nan = false, found = false;
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t v = (uint32_t)at_lane(in, l)[0];
        float    f, g;
        if ((mask >> l & 1) == 0)
            continue;
        v = c->kind & 2 ? v & 0x7fffffff : v;
        memcpy(&f, &v, 4);
        memcpy(&g, &best, 4);
        if (isnan(f)) {
            any_nan = true;
            continue;
        }
        if (!found || (c->kind & 1 ? f > g || (f == g && !signbit(f)) : f < g || (f == g && signbit(f))))
            best = v;
        found = true;
    }
    return any_nan && (c->kind & 4) ? 0x7fffffff : best;
}

static void float_inputs(void)
{
    for (int i = 0; i < CASE_ELEMENTS; i++)
        if (i / LANES % 2 == 0) /* few NaNs */
            case_inputs[i][0] = i % 97 == 5  ? 0x7f800001
                                : i % 5 == 0 ? (uint64_t)(i % 2) << 31
                                             : case_inputs[i][0] & 0xbfffffff;
}

static void test_redux_float(void **state)
{
    char text[100];
    (void)state;
    case_count = 0;
    for (int kind = 0; kind < 8; kind++) {
        snprintf(text, sizeof text, "redux.sync.%s%s%s.f32 %%or, %%ar, %%yr;", kind & 1 ? "max" : "min",
                 kind & 2 ? ".abs" : "", kind & 4 ? ".NaN" : "");
        add_case(reduced_float, kind, false, text);
        add_case(reduced_float, kind, true, text);
    }
    case_adjust = float_inputs;
    case_version = "8.6";
    case_suffix = "a";
    case_run(cases, case_count, 100);
    case_adjust = NULL;
    case_version = "8.3";
    case_suffix = "";
}

/* ---- divergence, exits, and what must be reported ------------------------------------------------------ */
/* %r0 is the lane; the body leaves its result in %r1.  block 32. */
static const char *run_body(int sm, const char *body, uint32_t words[32], unsigned int *result)
{
    char     text[4096];
    uint64_t out;
    memset(words, 0xee, 128);
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
             ".reg .pred %%p<4>; .reg .b32 %%r<9>; .reg .b32 %%u; .reg .b64 %%rd<4>;\n"
             "ld.param.u64 %%rd0, [out]; mov.u32 %%r0, %%tid.x; mul.wide.u32 %%rd1, %%r0, 4;\n"
             "add.u64 %%rd0, %%rd0, %%rd1;\n%s\nst.global.u32 [%%rd0], %%r1; ret; }\n",
             sm, body);
    emu_machine(sm < 75 ? 75 : sm);
    emu_test_settings.budget = 100000;
    out = emu_buffer(128);
    emu_write(out, words, 128);
    *result = emu_run(text, "k", 1, 32, 0, &out, 1);
    emu_read(words, out, 128);
    return emu_log();
}

static void expect_lanes(int sm, const char *body, uint32_t (*wanted)(uint32_t lane))
{
    uint32_t     words[32];
    unsigned int result;
    const char  *log = run_body(sm, body, words, &result);
    if (result != 0 || *log != '\0')
        fail_msg("%s: result %u: %s", body, result, log);
    for (uint32_t l = 0; l < 32; l++)
        if (words[l] != wanted(l))
            fail_msg("%s: lane %u: %#x instead of %#x", body, l, words[l], wanted(l));
}

static uint32_t want_pair(uint32_t lane) { return lane ^ 2; }
static uint32_t want_reverse(uint32_t lane) { return 31 - lane; }
static uint32_t want_twenty(uint32_t lane) { return lane < 20 ? 0xfffffu : 0xeeeeeeeeu; }
static uint32_t want_seven(uint32_t lane) { return (void)lane, 7; }

static void test_divergence(void **state)
{
    (void)state;
    /* odd and even lanes at different places, each among themselves */
    expect_lanes(75,
                 "and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 1; @%p0 bra ODD;\n"
                 "shfl.sync.bfly.b32 %r1, %r0, 2, 31, 0x55555555; bra DONE;\n"
                 "ODD: shfl.sync.bfly.b32 %r1, %r0, 2, 31, 0xaaaaaaaa;\nDONE:",
                 want_pair);
    /* lanes come one after the other, out of a loop of lane-many turns, and wait */
    expect_lanes(
        75,
        "mov.u32 %r2, 0;\nLOOP: setp.ge.u32 %p0, %r2, %r0; @%p0 bra OUT; add.u32 %r2, %r2, 1; bra LOOP;\n"
        "OUT: shfl.sync.bfly.b32 %r1, %r2, 31, 31, -1;",
        want_reverse);
    /* exited lanes are no longer members */
    expect_lanes(75,
                 "setp.ge.u32 %p0, %r0, 20; @%p0 exit; setp.ge.u32 %p1, %r0, 0;\n"
                 "vote.sync.ballot.b32 %r1, %p1, -1;",
                 want_twenty);
    /* only lane 0's value is defined, and only that is read */
    expect_lanes(75,
                 "setp.ne.u32 %p0, %r0, 0; @%p0 bra JOIN; mov.u32 %u, 7;\n"
                 "JOIN: shfl.sync.idx.b32 %r1, %u, 0, 31, -1;",
                 want_seven);
    /* before sm_70 without .sync */
    expect_lanes(60, "shfl.bfly.b32 %r1, %r0, 31, 31;", want_reverse);
    expect_lanes(60, "setp.ge.u32 %p0, %r0, 20; @%p0 exit; vote.ballot.b32 %r1, !%p0;", want_twenty);
}

static void expect_report(const char *body, unsigned int wanted, const char *part)
{
    uint32_t     words[32];
    unsigned int result;
    const char  *log = run_body(90, body, words, &result);
    if (result != wanted || strstr(log, part) == NULL)
        fail_msg("%s: result %u, not %u with '%s': %s", body, result, wanted, part, log);
}

static void test_reports(void **state)
{
    (void)state;
    expect_report("shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0x7fffffff;", 719, "does not name the lane itself");
    expect_report("setp.lt.u32 %p0, %r0, 16; mov.u32 %r1, 0; @%p0 shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;", 719,
                  "guard");
    expect_report(
        "setp.lt.u32 %p0, %r0, 16; selp.b32 %r2, 0xffff, -1, %p0; vote.sync.ballot.b32 %r1, %p0, %r2;", 719,
        "member mask is 0x");
    expect_report("setp.lt.u32 %p0, %r0, 16; selp.b32 %r2, 0xffff, -1, %p0; elect.sync %r1|%p1, %r2;", 719,
                  "member mask is 0x");
    expect_report("setp.lt.u32 %p0, %r0, 16; mov.u32 %r1, 0; @%p0 bra END; bar.sync 0;\n"
                  "END: @%p0 redux.sync.add.u32 %r1, %r0, 0xfffe;",
                  719, "does not name the lane itself");
    expect_report("shfl.sync.bfly.b32 %r1, %u, 1, 31, -1;", 719, "which nothing has written");
    expect_report("shfl.sync.bfly.b32 %r1, %r0, %u, 31, -1;", 719, "lane operand, which nothing has written");
    expect_report("setp.ge.u32 %p0, %r0, 20; @%p0 exit; shfl.sync.down.b32 %r1, %r0, 1, 31, -1;", 719,
                  "which nothing has written"); /* lane 19 reads one that is gone */
    expect_report("setp.eq.u32 %p0, %r0, 3; @%p0 bra GONE; match.any.sync.b32 %r1, %r0, -1; bra END;\n"
                  "GONE: bar.warp.sync 8; bra GONE;\nEND:",
                  702, "");
}

static void test_refused(void **state)
{
    static const char *const wrong[] = {"shfl.bfly.b32 %r1, %r0, 1, 31;",
                                        "vote.ballot.b32 %r1, %p0;",
                                        "shfl.sync.bfly.b64 %rd1, %rd0, 1, 31, -1;",
                                        "shfl.sync.left.b32 %r1, %r0, 1, 31, -1;",
                                        "shfl.sync.bfly.b32 %r1, %r0, 1, 31;",
                                        "vote.sync.all.b32 %r1, %p0, -1;",
                                        "vote.sync.ballot.pred %p1, %p0, -1;",
                                        "match.any.sync.b32 %r1|%p0, %r0, -1;",
                                        "match.all.b32 %r1, %r0, -1;",
                                        "redux.sync.add.b32 %r1, %r0, -1;",
                                        "redux.sync.and.u32 %r1, %r0, -1;",
                                        "redux.sync.min.f32 %r1, %r0, -1;",
                                        "redux.sync.min.abs.s32 %r1, %r0, -1;",
                                        "elect.sync %p1, -1;",
                                        "activemask.u32 %r1;"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_report(wrong[i], 218, "line ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shfl),       cmocka_unit_test(test_vote),
                                       cmocka_unit_test(test_redux),      cmocka_unit_test(test_redux_float),
                                       cmocka_unit_test(test_divergence), cmocka_unit_test(test_reports),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("emulator, lanes of a warp", tests, print_seed, NULL);
}
