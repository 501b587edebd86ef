/* check_library.h - programs that use NVIDIA's own libraries for kernels: cooperative groups, libcu++, the
 * maths functions, half precision. */
#ifndef EMU_PROGRAMS_CHECK_LIBRARY_H
#define EMU_PROGRAMS_CHECK_LIBRARY_H
#include "check_basic.h"

/* ---- cooperative groups ------------------------------------------------------------------------------ */
static void check_tiles(struct program *p)
{
    enum { N = 64 };
    float *in = random_floats(N, -10, 10), most[N];
    int scanned[N];
    uint32_t ranks[N];
    uint64_t din = put(p, in, N * 4), dmost = buffer(p, N * 4), dscanned = buffer(p, N * 4),
             dranks = buffer(p, N * 4);
    launch(p, "groups_tiles", SHAPE(1), SHAPE(N), 0, ARGS(&din, &dmost, &dscanned, &dranks));
    get(p, most, dmost, N * 4);
    get(p, scanned, dscanned, N * 4);
    get(p, ranks, dranks, N * 4);
    for (int t = 0; t < N; t++) {
        float largest = in[t / 8 * 8];
        int before = 0, size = 0;
        for (int i = t / 8 * 8; i < t / 8 * 8 + 8; i++)
            largest = in[i] > largest ? in[i] : largest;
        for (int i = t / 32 * 32; i < t / 32 * 32 + 32; i++) {
            size += i % 3 == 0;
            before += i % 3 == 0 && i < t;
        }
        assert_true(most[t] == largest);
        assert_int_equal(scanned[t], (t % 8 + 1) * (t % 8 + 2) / 2);
        assert_int_equal(ranks[t], 80000 + (t % 3 == 0 ? before * 100 + size : 2));
    }
    free(in);
}

static void check_groups(struct program *p)
{
    enum { N = 3000, BLOCKS = 8 };
    int n = N, *in = random_ints(N, -99, 99), got, wanted = 0, out[BLOCKS * 64];
    uint64_t din = put(p, in, N * 4), dout = zeros(p, 4);
    for (int i = 0; i < N; i++)
        wanted += in[i];
    launch(p, "groups_reduce", SHAPE(3), SHAPE(128), 0, ARGS(&din, &dout, &n));
    get(p, &got, dout, 4);
    assert_int_equal(got, wanted);
    check_tiles(p);
    if (p->sm >= 90) {
        uint64_t dcluster = buffer(p, sizeof out);
        launch(p, "groups_cluster", SHAPE(BLOCKS), SHAPE(64), 0, ARGS(&din, &dcluster));
        get(p, out, dcluster, sizeof out);
        for (int i = 0; i < BLOCKS * 64; i++) {
            int sum = 0;
            for (int r = 0; r < 4; r++)
                sum += in[(i / 256 * 4 + r) * 64 + (i % 64 + r) % 64];
            assert_int_equal(out[i], sum);
        }
    }
    free(in);
}

/* ---- libcu++ ----------------------------------------------------------------------------------------- */
static void check_copies(struct program *p)
{
    enum { BLOCK = 64, BATCHES = 7, BLOCKS = 2, N = BLOCK * BATCHES * BLOCKS, M = 100 };
    int batches = BATCHES, m = M, *in = random_ints(N * 4, -1000, 1000), *out = (int *)host(N * 4, 4);
    float *numbers = random_floats(2 * M, -1, 1), turned[2 * M], quads[2 * 128 * 4], sums[2 * 128];
    uint64_t din = put(p, in, N * 16), dout = buffer(p, N * 16);
    launch(p, "pipeline_copy", SHAPE(BLOCKS), SHAPE(BLOCK), 3 * BLOCK * 16, ARGS(&din, &dout, &batches));
    get(p, out, dout, N * 16);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            assert_int_equal(out[4 * i + k], in[4 * (i / BLOCK * BLOCK + (i + 1) % BLOCK) + 3 - k]);
    uint64_t dnumbers = put(p, numbers, sizeof turned), dturned = buffer(p, sizeof turned);
    launch(p, "group_copy", SHAPE(2), SHAPE(64), 0, ARGS(&dnumbers, &dturned, &m));
    get(p, turned, dturned, sizeof turned);
    for (int i = 0; i < 2 * M; i++)
        same_words(p, "group_copy", &turned[i], &numbers[i / M * M + M - 1 - i % M], 1, 4);
    for (int i = 0; i < 2 * 128 * 4; i++)
        quads[i] = (float)(int)random_below(100);
    uint64_t dquads = put(p, quads, sizeof quads), dsums = buffer(p, sizeof sums);
    launch(p, "barrier_copy", SHAPE(2), SHAPE(128), 0, ARGS(&dquads, &dsums));
    get(p, sums, dsums, sizeof sums);
    for (int i = 0; i < 256; i++) {
        const float *v = &quads[4 * (i / 128 * 128 + 127 - i % 128)];
        assert_true(sums[i] == v[0] + v[1] + v[2] + v[3]);
    }
    free(in);
    free(out);
    free(numbers);
}

static void check_pipeline(struct program *p)
{
    enum { ROUNDS = 9, BLOCKS = 4 };
    int rounds = ROUNDS, *in = random_ints(ROUNDS * 64, -1000, 1000), out[64], answers[BLOCKS];
    uint64_t total = 0;
    if (p->sm >= 80) { /* arrivals of any count need sm_80 */
        uint64_t din = put(p, in, ROUNDS * 64 * 4), dout = buffer(p, sizeof out);
        launch(p, "barrier_produce", SHAPE(1), SHAPE(128), 0, ARGS(&din, &dout, &rounds));
        get(p, out, dout, sizeof out);
        for (int t = 0; t < 64; t++) {
            int sum = 0;
            for (int r = 0; r < ROUNDS; r++)
                sum += 2 * in[r * 64 + 63 - t];
            assert_int_equal(out[t], sum);
        }
    }
    check_copies(p);
    uint64_t ddata = zeros(p, 4), dflag = zeros(p, 4), danswers = zeros(p, sizeof answers),
             dtotal = zeros(p, 8);
    launch(p, "atomics", SHAPE(BLOCKS), SHAPE(32), 0, ARGS(&ddata, &dflag, &danswers, &dtotal));
    get(p, answers, danswers, sizeof answers);
    get(p, &total, dtotal, 8);
    for (int b = 1; b < BLOCKS; b++)
        assert_int_equal(answers[b], 42 + b);
    assert_true(total >= BLOCKS * 496);
    free(in);
}

/* ---- maths ------------------------------------------------------------------------------------------- */
static double double_row(int row, double x, double y)
{
    switch (row) {
    case 0: return sin(x);
    case 1: return cos(x);
    case 2: return tan(x);
    case 3: return exp(x);
    case 4: return log(fabs(x));
    case 5: return sqrt(fabs(x));
    case 6: return x / y;
    case 7: return pow(fabs(x), y);
    case 8: return atan2(x, y);
    case 9: return tanh(x);
    case 10: return erf(x);
    case 11: return cbrt(x);
    case 12: return fma(x, y, x);
    case 13: return floor(x) + ceil(y) + rint(x) + trunc(y);
    case 14: return fmod(x, y);
    case 15: return hypot(x, y);
    case 16: return log1p(fabs(x));
    case 17: return exp2(x);
    case 18: return tgamma(fabs(x) / 8 + 0.5);
    case 19: return remainder(x, y);
    case 20: return (double)(float)x + (double)(long long)(y * 1000) + (double)(unsigned int)fabs(x);
    case 21: return x / y;
    case 22: return x + y;
    case 23: return x * y;
    case 24: return 1 / sqrt(fabs(x));
    case 25: return sin(fmod(x, 2) * M_PI);
    case 26: return lgamma(fabs(x) + 1);
    case 27: return asin(x / 1e3) + acos(y / 1e3);
    case 28: return ldexp(x, (int)y) + logb(fabs(x));
    default: return fmin(x, y) - fmax(x, y) + copysign(x, y);
    }
}

static float float_row(int row, float a, float b)
{
    double x = (double)a, y = (double)b;
    switch (row) {
    case 13: return floorf(a) + ceilf(b) + rintf(a) + truncf(b);
    case 18: return (float)(1 / sqrt(fabs(x)));
    case 19: return roundf(a) + (float)(int)b;
    default: return (float)double_row(row, x, y);
    }
}

static void check_doubles(struct program *p)
{
    enum { N = 300, ROWS = 30, FLOAT_ROWS = 20 };
    int n = N;
    double *x = (double *)host(N, 8), *y = (double *)host(N, 8), *out = (double *)host(N * ROWS, 8);
    float *a = random_floats(N, -30, 30), *b = random_floats(N, 0.5, 9),
          *floats = (float *)host(N * FLOAT_ROWS, 4);
    for (int i = 0; i < N; i++) {
        x[i] = random_between(-30, 30);
        y[i] = random_between(0.5, 9);
    }
    uint64_t dx = put(p, x, N * 8), dy = put(p, y, N * 8), dout = buffer(p, N * ROWS * 8),
             da = put(p, a, N * 4), db = put(p, b, N * 4), dfloats = buffer(p, N * FLOAT_ROWS * 4);
    launch(p, "doubles", SHAPE(3), SHAPE(128), 0, ARGS(&dx, &dy, &dout, &n));
    launch(p, "floats", SHAPE(3), SHAPE(128), 0, ARGS(&da, &db, &dfloats, &n));
    get(p, out, dout, N * ROWS * 8);
    get(p, floats, dfloats, N * FLOAT_ROWS * 4);
    for (int i = 0; i < N; i++) {
        char what[32];
        for (int r = 0; r < ROWS; r++) {
            bool exact = r == 5 || r == 6 || (r >= 12 && r <= 14) || r == 19 || r == 20 || r >= 28;
            snprintf(what, sizeof what, "row %d of doubles", r);
            near_double(p, what, (size_t)i, out[r * N + i], double_row(r, x[i], y[i]), exact ? 0 : 4e-15,
                        exact ? 0 : 1e-14);
        }
        assert_true(out[21 * N + i] <= x[i] / y[i] && out[22 * N + i] >= x[i] + y[i]);
        assert_true(fabs(out[23 * N + i]) <= fabs(x[i] * y[i]));
        for (int r = 0; r < FLOAT_ROWS; r++) {
            bool exact = r == 5 || r == 6 || (r >= 12 && r <= 14) || r == 19;
            snprintf(what, sizeof what, "row %d of floats", r);
            near_double(p, what, (size_t)i, (double)floats[r * N + i], (double)float_row(r, a[i], b[i]),
                        exact ? 0 : 2e-6, exact ? 0 : 1e-6);
        }
    }
    free(x);
    free(y);
    free(out);
    free(a);
    free(b);
    free(floats);
}

/* ---- halves ------------------------------------------------------------------------------------------ */
static double half_row(int row, double x, double y)
{
    switch (row) {
    case 0: return x + y;
    case 1: return x - y;
    case 2: return x * y;
    case 4: return x * y + x;
    case 5: return sqrt(fabs(x));
    case 6: return x > y ? x : y;
    case 7: return x < y ? x : y;
    case 8: return (double)((float)x * 0.3333f);
    case 10: return trunc(x) + 3;
    case 11: return floor(x);
    case 12: return -y;
    default: return x + y < 0 ? 0 : x + y > 1 ? 1 : x + y;
    }
}

static void check_halves2(struct program *p, const uint16_t *x, const uint16_t *y, int n)
{
    int pairs = n / 2;
    uint16_t *out = (uint16_t *)host((size_t)n * 7, 2);
    uint64_t dx = put(p, x, (size_t)n * 2), dy = put(p, y, (size_t)n * 2), dout = buffer(p, (size_t)n * 14);
    launch(p, "halves2", SHAPE(2), SHAPE(64), 0, ARGS(&dx, &dy, &dout, &pairs));
    get(p, out, dout, (size_t)n * 14);
    for (int i = 0; i < n; i++) {
        double a = (double)of_f16(x[i]), b = (double)of_f16(y[i]);
        assert_int_equal(out[i], f16_of(a + b));
        assert_int_equal(out[n + i], f16_of(a * b + b));
        assert_int_equal(out[2 * n + i], x[i ^ 1]);
        assert_int_equal(out[3 * n + i], f16_of(a < b ? a : b));
        assert_int_equal(out[4 * n + i], x[i]);
        near_double(p, "h2rcp", (size_t)i, (double)of_f16(out[5 * n + i]), 1 / b, 1e-3, 0);
        assert_int_equal(out[6 * n + i], a > b ? 0x3c00 : 0);
    }
    free(out);
}

static void check_bfloats(struct program *p, int n)
{
    uint16_t *x = (uint16_t *)host((size_t)n, 2), *y = (uint16_t *)host((size_t)n, 2),
             *out = (uint16_t *)host((size_t)n * 6, 2);
    for (int i = 0; i < n; i++) {
        x[i] = bf16_of((float)random_between(-8, 8));
        y[i] = bf16_of((float)random_between(-8, 8));
    }
    uint64_t dx = put(p, x, (size_t)n * 2), dy = put(p, y, (size_t)n * 2), dout = buffer(p, (size_t)n * 12);
    launch(p, "bfloats", SHAPE(2), SHAPE(128), 0, ARGS(&dx, &dy, &dout, &n));
    get(p, out, dout, (size_t)n * 12);
    for (int i = 0; i < n; i++) {
        float a = of_bf16(x[i]), b = of_bf16(y[i]), wanted[6] = {a + b, a * b, b - a, a * 1.7f, 0, 0};
        wanted[4] = wanted[5] = a > b ? a : b;
        for (int r = 0; r < 6; r++)
            if (of_bf16(out[r * n + i]) != of_bf16(bf16_of(wanted[r])))
                fail_msg("%s: row %d of bfloats, %d: %g, not %g", p->name, r, i,
                         (double)of_bf16(out[r * n + i]), (double)wanted[r]);
    }
    free(x);
    free(y);
    free(out);
}

static void check_halves(struct program *p)
{
    enum { N = 200, ROWS = 14 };
    int n = N;
    uint16_t x[N], y[N], out[N * ROWS], one = 0, two[2] = {0, 0};
    double wide = 0;
    for (int i = 0; i < N; i++) {
        x[i] = f16_of(random_between(-8, 8));
        y[i] = f16_of(random_between(0.1, 8));
    }
    uint64_t dx = put(p, x, sizeof x), dy = put(p, y, sizeof y), dout = buffer(p, sizeof out);
    launch(p, "halves", SHAPE(2), SHAPE(128), 0, ARGS(&dx, &dy, &dout, &n));
    get(p, out, dout, sizeof out);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < ROWS; r++) {
            double a = (double)of_f16(x[i]), b = (double)of_f16(y[i]), got = (double)of_f16(out[r * N + i]);
            if (r == 3)
                near_double(p, "half division", (size_t)i, got, a / b, 1e-3, 1e-6);
            else if (r == 9)
                assert_true(fabs(got) <= fabs(a * 0.3333) && fabs(got) >= fabs(a * 0.3333) * 0.999 - 1e-7);
            else
                near_double(p, "halves", (size_t)(r * N + i), got, (double)of_f16(f16_of(half_row(r, a, b))),
                            0, 0);
        }
    check_halves2(p, x, y, N);
    check_bfloats(p, N);
    uint64_t done = zeros(p, 2), dtwo = zeros(p, 4), dwide = zeros(p, 8);
    launch(p, "half_atomics", SHAPE(4), SHAPE(64), 0, ARGS(&done, &dtwo, &dwide));
    get(p, &one, done, 2);
    get(p, two, dtwo, 4);
    get(p, &wide, dwide, 8);
    assert_true(of_f16(one) == 256.0f && wide == 128.0);
    assert_true(of_f16(two[0]) == 256.0f && of_f16(two[1]) == 512.0f);
}

/* ---- integers ---------------------------------------------------------------------------------------- */
__extension__ typedef __int128 wide_int;
__extension__ typedef unsigned __int128 wide_word;

static uint64_t bits_row(int row, uint64_t a, uint64_t b)
{
    uint32_t x = (uint32_t)a, y = (uint32_t)b;
    switch (row) {
    case 12:
        return (uint64_t)((x ? __builtin_clz(x) : 32) + (a ? __builtin_clzll(a) : 64) * 100 +
                          __builtin_ffs((int)x) * 10000);
    case 13: return (uint64_t)(__builtin_popcount(x) + __builtin_popcountll(a) * 100);
    case 14:
        for (int i = 0; i < 64; i++)
            b = i ? b << 1 | (a >> i & 1) : (a & 1);
        return b;
    default: return (y & 255) | (x & 0xffff00) | (y >> 8 & 255) << 24; /* bytes 4, 1, 2, 5 of y:x */
    }
}

static uint64_t integer_row(int row, uint64_t a, uint64_t b)
{
    uint32_t x = (uint32_t)a, y = (uint32_t)b;
    int32_t s = (int32_t)x, t = (int32_t)y, sum = 17;
    int64_t sa = (int64_t)a, sb = (int64_t)b;
    switch (row) {
    case 0: return a / b;
    case 1: return a % b;
    case 2: return (uint64_t)(sa / (sb | 1));
    case 3: return (uint64_t)(sa % (sb | 1));
    case 4: return x / (y | 1);
    case 5: return x % (y | 1);
    case 6: return (uint64_t)(int64_t)(t == -1 ? 0 : s / (t | 1));
    case 7: return (uint64_t)(int64_t)(s % 1000003);
    case 8: return a / 10 + x / 7 + (uint64_t)(int64_t)(s / -13);
    case 9: return (uint64_t)((wide_word)a * b >> 64);
    case 10: return (uint64_t)((wide_int)sa * sb >> 64);
    case 11: return (uint32_t)((uint64_t)x * y >> 32) + (uint32_t)((int64_t)s * t >> 32);
    case 16: return (uint32_t)(y << 11 | x >> 21) + y;
    case 17: return a << (b & 63) | a >> (b & 31);
    case 18: return (uint64_t)(sa >> (b & 63));
    case 19: return (uint32_t)(s > t ? x - y : y - x) + 5u;
    case 20: return ((x & 0x7f7f7f7fu) + (y & 0x7f7f7f7fu)) ^ ((x ^ y) & 0x80808080u);
    case 21:
        for (int i = 0; i < 4; i++)
            sum += (int8_t)(x >> 8 * i) * (int8_t)(y >> 8 * i);
        return (uint64_t)(int64_t)sum;
    case 22: return (uint64_t)((wide_word)a * b >> 64) + (uint64_t)((wide_int)sa * sb >> 32);
    case 23: return (uint64_t)(((wide_word)a << 17 | b) / (b | 1));
    case 24: return (uint64_t)(((wide_word)a + b) >> 1);
    case 25: return (uint32_t)(s < t ? s : t) + (x > y ? x : y) + (uint32_t)abs(s >> 1);
    case 26: return (uint64_t)(int64_t)((int16_t)x * (int16_t)y + (int8_t)x / ((int8_t)y | 1));
    case 28: return (uint32_t)(((uint64_t)x + y) >> 1) + (uint32_t)(((int64_t)s + t + 1) >> 1);
    case 29:
        return (uint32_t)((int64_t)((int32_t)(x << 8) >> 8) * ((int32_t)(y << 8) >> 8)) +
               (x & 0xffffff) * (y & 0xffffff);
    default: return bits_row(row, a, b);
    }
}

static uint64_t packed_row(uint32_t x, uint32_t y) /* row 27 */
{
    uint32_t most = 0, above = 0;
    for (int i = 0; i < 32; i += 16)
        most |= (uint32_t)(uint16_t)((int16_t)(x >> i) > (int16_t)(y >> i) ? x >> i : y >> i) << i;
    for (int i = 0; i < 32; i += 8)
        above |= ((x >> i & 255) > (y >> i & 255) ? 255u : 0) << i;
    return most ^ above;
}

static void check_integers(struct program *p)
{
    enum { N = 320, ROWS = 30 };
    int n = N;
    uint64_t a[N], b[N], out[N * ROWS];
    for (int i = 0; i < N; i++) { /* numbers of all sizes, and near the ends */
        a[i] = i % 5 ? random_word() >> random_below(64) : ~(uint64_t)random_below(4);
        b[i] = i % 7 ? random_word() >> random_below(64) : (1ull << random_below(64)) + random_below(2);
        b[i] |= b[i] == 0;
    }
    uint64_t da = put(p, a, sizeof a), db = put(p, b, sizeof b), dout = buffer(p, sizeof out);
    launch(p, "integers", SHAPE(5), SHAPE(64), 0, ARGS(&da, &db, &dout, &n));
    get(p, out, dout, sizeof out);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < ROWS; r++) {
            uint64_t wanted = integer_row(r, a[i], b[i]);
            if (r == 27)
                wanted = packed_row((uint32_t)a[i], (uint32_t)b[i]);
            if (out[r * N + i] != wanted)
                fail_msg("%s: row %d of %#llx and %#llx is %#llx, not %#llx", p->name, r,
                         (unsigned long long)a[i], (unsigned long long)b[i],
                         (unsigned long long)out[r * N + i], (unsigned long long)wanted);
        }
}
#include "check_various.h"

#define LIBRARY_PROGRAMS                                      \
    {"groups", check_groups, 75, 0, false, false},            \
    {"pipeline", check_pipeline, 75, 0, false, false},        \
    {"doubles", check_doubles, 75, 0, true, false},           \
    {"halves", check_halves, 75, 0, true, false},             \
    {"integers", check_integers, 75, 0, true, false},         \
    {"cub", check_cub, 75, 0, false, false},                  \
    {"various", check_various, 75, 0, false, false},          \
    {"device_calls", check_device_calls, 75, 0, true, true},  \
    {"wgmma", check_wgmma, 90, 'a', false, false},
#endif
