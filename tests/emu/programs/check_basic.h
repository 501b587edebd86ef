/* check_basic.h - compares sums, scans, sorts and other programs on numbers with plain C. */
#ifndef EMU_PROGRAMS_CHECK_BASIC_H
#define EMU_PROGRAMS_CHECK_BASIC_H
#include "run.h"

static int *random_ints(size_t count, int low, int high)
{
    int *values = (int *)host(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = low + (int)random_below((unsigned int)(high - low));
    return values;
}

static float *random_floats(size_t count, double low, double high)
{
    float *values = (float *)host(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)random_between(low, high);
    return values;
}

/* ---- saxpy ------------------------------------------------------------------------------------------- */
static void check_saxpy(struct program *p)
{
    enum { N = 5000 };
    int n = N;
    float a = 2.5f, *x = random_floats(N, -9, 9), *y = random_floats(N, -9, 9), *out = (float *)host(N, 4);
    for (int vectors = 0; vectors < 2; vectors++) {
        uint64_t dx = put(p, x, N * 4), dy = put(p, y, N * 4);
        launch(p, vectors ? "saxpy4" : "saxpy", SHAPE(vectors ? 3 : (N + 255) / 256), SHAPE(256), 0,
               ARGS(&n, &a, &dx, &dy));
        get(p, out, dy, N * 4);
        for (int i = 0; i < N; i++) /* fused, or rounded twice if it is not optimised */
            if (out[i] != a * x[i] + y[i])
                near_double(p, "y", (size_t)i, (double)out[i], (double)fmaf(a, x[i], y[i]), 0, 0);
    }
    free(x);
    free(y);
    free(out);
}

/* ---- reduce ------------------------------------------------------------------------------------------ */
static void check_reduce_once(struct program *p, int n)
{
    double *in = (double *)host((size_t)n, 8), sum = 0, got;
    for (int i = 0; i < n; i++)
        sum += in[i] = (double)((int)random_below(2000) - 1000) / 8;
    uint64_t din = put(p, in, (size_t)n * 8), dpartial = buffer(p, 7 * 8), dout = buffer(p, 8);
    for (int again = 0; again < 2; again++) {
        launch(p, "reduce_once", SHAPE(7), SHAPE(128), 0, ARGS(&din, &dpartial, &dout, &n));
        get(p, &got, dout, 8);
        near_double(p, "the sum in one launch", (size_t)again, got, sum, 0, 0);
    }
    free(in);
}

static void check_reduce(struct program *p)
{
    enum { N = 9999, BLOCKS = (N + 511) / 512 };
    int n = N, *in = random_ints(N, -1000, 1000), out[BLOCKS], sum = 0, wanted = 0;
    float *floats = (float *)host(N, 4), got;
    for (int i = 0; i < N; i++) {
        wanted += in[i];
        floats[i] = (float)in[i];
    }
    uint64_t din = put(p, in, N * 4), dout = buffer(p, sizeof out);
    launch(p, "reduce_tree", SHAPE(BLOCKS), SHAPE(256), 256 * 4, ARGS(&din, &dout, &n));
    get(p, out, dout, sizeof out);
    for (int i = 0; i < BLOCKS; i++)
        sum += out[i];
    assert_int_equal(sum, wanted);
    uint64_t dfloats = put(p, floats, N * 4), dsum = zeros(p, 4);
    launch(p, "reduce_shuffle", SHAPE(5), SHAPE(192), 0, ARGS(&dfloats, &dsum, &n));
    get(p, &got, dsum, 4);
    near_double(p, "the sum by shuffles", 0, (double)got, (double)wanted, 0, 0); /* integers are exact */
    check_reduce_once(p, N);
    free(in);
    free(floats);
}

/* ---- scan -------------------------------------------------------------------------------------------- */
static void check_blelloch(struct program *p)
{
    enum { N = 6000, BLOCK = 128, BLOCKS = (N + 2 * BLOCK - 1) / (2 * BLOCK) };
    uint32_t *in = (uint32_t *)random_ints(N, 0, 1 << 20), *out = (uint32_t *)host(N, 4),
             *wanted = (uint32_t *)host(N, 4);
    int n = N, blocks = BLOCKS;
    uint64_t din = put(p, in, N * 4), dout = buffer(p, N * 4), dsums = buffer(p, BLOCKS * 4), none = 0;
    for (int i = 1; i < N; i++)
        wanted[i] = wanted[i - 1] + in[i - 1];
    launch(p, "scan_blelloch", SHAPE(BLOCKS), SHAPE(BLOCK), 2 * BLOCK * 4, ARGS(&din, &dout, &dsums, &n));
    launch(p, "scan_blelloch", SHAPE(1), SHAPE(32), 64 * 4, ARGS(&dsums, &dsums, &none, &blocks));
    launch(p, "scan_add", SHAPE((N + BLOCK - 1) / BLOCK), SHAPE(BLOCK), 0, ARGS(&dout, &dsums, &n));
    get(p, out, dout, N * 4);
    same_words(p, "Blelloch's scan", out, wanted, N, 4);
    free(in);
    free(out);
    free(wanted);
}

static void check_scan(struct program *p)
{
    enum { N = 4096, BLOCK = 256 };
    int *in = random_ints(N, -50, 100), *out = (int *)host(N, 4), *wanted = (int *)host(N, 4), n = N - 7;
    uint64_t din = put(p, in, N * 4), dout = buffer(p, N * 4), dstate = zeros(p, N / BLOCK * 8);
    for (int i = 0; i < N; i++)
        wanted[i] = in[i] + (i % BLOCK ? wanted[i - 1] : 0);
    launch(p, "scan_hillis_steele", SHAPE(N / BLOCK), SHAPE(BLOCK), 2 * BLOCK * 4, ARGS(&din, &dout));
    get(p, out, dout, N * 4);
    same_words(p, "Hillis and Steele's scan", out, wanted, N, 4);
    check_blelloch(p);
    for (int i = 0; i < N; i++)
        in[i] = (int)random_below(100);
    for (int i = 0; i < N; i++)
        wanted[i] = in[i] + (i ? wanted[i - 1] : 0);
    uint64_t din2 = put(p, in, N * 4), dout2 = buffer(p, N * 4);
    launch(p, "scan_look_back", SHAPE(N / BLOCK), SHAPE(BLOCK), 0, ARGS(&din2, &dout2, &n, &dstate));
    get(p, out, dout2, (size_t)n * 4);
    same_words(p, "the scan that looks back", out, wanted, (size_t)n, 4);
    free(in);
    free(out);
    free(wanted);
}

/* ---- transpose --------------------------------------------------------------------------------------- */
static void check_transpose(struct program *p)
{
    enum { W = 100, H = 77, N = 96 };
    int w = W, h = H, n = N;
    float *in = random_floats(W * H, -1, 1), *out = (float *)host(W * H, 4);
    unsigned char *bytes = (unsigned char *)host(N * N, 1), *turned = (unsigned char *)host(N * N, 1);
    uint64_t din = put(p, in, W * H * 4), dout = buffer(p, W * H * 4);
    launch(p, "transpose", SHAPE((W + 31) / 32, (H + 31) / 32), SHAPE(32, 8), 0, ARGS(&din, &dout, &w, &h));
    get(p, out, dout, W * H * 4);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            same_words(p, "transposed", &out[x * H + y], &in[y * W + x], 1, 4);
    for (int i = 0; i < N * N; i++)
        bytes[i] = (unsigned char)random_below(256);
    uint64_t dbytes = put(p, bytes, N * N), dturned = buffer(p, N * N);
    launch(p, "transpose_bytes", SHAPE(N / 32, N / 32), SHAPE(32, 32), 0, ARGS(&dbytes, &dturned, &n));
    get(p, turned, dturned, N * N);
    for (int i = 0; i < N * N; i++)
        assert_int_equal(turned[i % N * N + i / N], bytes[i]);
    free(in);
    free(out);
    free(bytes);
    free(turned);
}

/* ---- histogram --------------------------------------------------------------------------------------- */
static void check_extremes(struct program *p)
{
    enum { N = 1000 };
    int n = N, *in = random_ints(N, -100000, 100000), low = 1 << 30, high = -(1 << 30), got[2];
    uint32_t bits[4] = {0, 0, ~0u, 0}, found[4];
    uint64_t wide = 0, most;
    float top, up;
    uint64_t din = put(p, in, N * 4), dlow = put(p, &low, 4), dhigh = put(p, &high, 4),
             dbits = put(p, bits, 16), dtop = zeros(p, 4), dwide = zeros(p, 8);
    launch(p, "extremes", SHAPE(8), SHAPE(128), 0, ARGS(&din, &n, &dlow, &dhigh, &dbits, &dtop, &dwide));
    for (int i = 0; i < N; i++) {
        low = in[i] < low ? in[i] : low;
        high = in[i] > high ? in[i] : high;
        bits[0] ^= (uint32_t)in[i];
        bits[1] |= (uint32_t)in[i];
        bits[2] &= (uint32_t)in[i];
        bits[3] = bits[3] >= 99 ? 0 : bits[3] + 1;
        most = (uint64_t)(uint32_t)in[i] << 20;
        wide = most > wide ? most : wide;
    }
    top = high > 0 ? (float)high : 0.0f;
    get(p, &got[0], dlow, 4);
    get(p, &got[1], dhigh, 4);
    get(p, found, dbits, 16);
    get(p, &up, dtop, 4);
    get(p, &most, dwide, 8);
    assert_int_equal(got[0], low);
    assert_int_equal(got[1], high);
    same_words(p, "xor, or, and, inc", found, bits, 4, 4);
    near_double(p, "the largest", 0, (double)up, (double)top, 0, 0);
    assert_true(most == wide);
    free(in);
}

static void check_histogram(struct program *p)
{
    enum { N = 20000 };
    static const char *const kernels[] = {"histogram_global", "histogram_shared"};
    int n = N;
    unsigned char *in = (unsigned char *)host(N, 1);
    uint32_t wanted[256] = {0}, got[256];
    uint64_t wide[256], words[256];
    for (int i = 0; i < N; i++)
        wanted[in[i] = (unsigned char)(random_below(16) * random_below(17))]++;
    uint64_t din = put(p, in, N);
    for (int k = 0; k < 2; k++) {
        uint64_t dbins = zeros(p, sizeof got);
        launch(p, kernels[k], SHAPE(6), SHAPE(256), 0, ARGS(&din, &n, &dbins));
        get(p, got, dbins, sizeof got);
        same_words(p, kernels[k], got, wanted, 256, 4);
    }
    uint64_t dbins = zeros(p, sizeof words);
    launch(p, "histogram_aggregated", SHAPE(3), SHAPE(192), 0, ARGS(&din, &n, &dbins));
    get(p, words, dbins, sizeof words);
    for (int i = 0; i < 256; i++)
        wide[i] = wanted[i];
    same_words(p, "histogram_aggregated", words, wide, 256, 8);
    check_extremes(p);
    free(in);
}

/* ---- bitonic ----------------------------------------------------------------------------------------- */
static int order_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void check_bitonic(struct program *p)
{
    enum { N = 1024, BLOCK = 512, M = 2048 };
    int *in = random_ints(N, -30000, 30000), *out = (int *)host(N, 4);
    float *keys = random_floats(M, -100, 100), *sorted = (float *)host(M, 4);
    uint32_t values[M], moved[M];
    uint64_t din = put(p, in, N * 4);
    launch(p, "bitonic_block", SHAPE(N / BLOCK), SHAPE(BLOCK), BLOCK * 4, ARGS(&din));
    get(p, out, din, N * 4);
    for (int b = 0; b < N; b += BLOCK)
        qsort(in + b, BLOCK, 4, order_ints);
    same_words(p, "sorted blocks", out, in, N, 4);
    for (uint32_t i = 0; i < M; i++)
        values[i] = i;
    uint64_t dkeys = put(p, keys, M * 4), dvalues = put(p, values, sizeof values);
    for (uint32_t size = 2; size <= M; size *= 2)
        for (uint32_t stride = size / 2; stride; stride /= 2)
            launch(p, "bitonic_step", SHAPE(M / 256), SHAPE(256), 0, ARGS(&dkeys, &dvalues, &stride, &size));
    get(p, sorted, dkeys, M * 4);
    get(p, moved, dvalues, sizeof moved);
    for (int i = 0; i < M; i++) {
        assert_true(i == 0 || sorted[i - 1] <= sorted[i]);
        assert_true(moved[i] < M);
        same_words(p, "keys with their values", &sorted[i], &keys[moved[i]], 1, 4);
    }
    free(in);
    free(out);
    free(keys);
    free(sorted);
}

/* ---- stencil ----------------------------------------------------------------------------------------- */
static void check_stencil_2d(struct program *p, int w, int h)
{
    size_t n = (size_t)w * (size_t)h;
    double *in = (double *)host(n, 8), *out = (double *)host(n, 8);
    unsigned char *cells = (unsigned char *)host(n, 1), *next = (unsigned char *)host(n, 1);
    for (size_t i = 0; i < n; i++) {
        in[i] = random_between(-1, 1);
        cells[i] = random_below(3) == 0;
    }
    uint64_t din = put(p, in, n * 8), dout = buffer(p, n * 8), dcells = put(p, cells, n),
             dnext = buffer(p, n);
    struct shape grid = {((unsigned int)w + 15) / 16, ((unsigned int)h + 7) / 8, 1};
    launch(p, "stencil_2d", grid, SHAPE(16, 8), 0, ARGS(&din, &dout, &w, &h));
    launch(p, "life", grid, SHAPE(16, 8), 0, ARGS(&dcells, &dnext, &w, &h));
    get(p, out, dout, n * 8);
    get(p, next, dnext, n);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int i = y * w + x, alive = 0;
            bool edge = x == 0 || y == 0 || x == w - 1 || y == h - 1;
            double wanted = in[i];
            if (!edge)
                wanted = 0.5 * in[i] + 0.125 * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
            near_double(p, "stencil_2d", (size_t)i, out[i], wanted, 1e-15, 1e-16);
            for (int k = 0; k < 9; k++)
                alive += k != 4 && cells[(y + k / 3 - 1 + h) % h * w + (x + k % 3 - 1 + w) % w];
            assert_int_equal(next[i], alive == 3 || (alive == 2 && cells[i]));
        }
    free(in);
    free(out);
    free(cells);
    free(next);
}

static void check_stencil(struct program *p)
{
    enum { N = 2000 };
    static const double weight[7] = {0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05};
    int n = N;
    float *in = random_floats(N, -1, 1), *out = (float *)host(N, 4);
    uint64_t din = put(p, in, N * 4), dout = buffer(p, N * 4);
    launch(p, "stencil_1d", SHAPE((N + 255) / 256), SHAPE(256), 0, ARGS(&din, &dout, &n));
    get(p, out, dout, N * 4);
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int k = -3; k <= 3; k++)
            if (i + k >= 0 && i + k < N)
                sum += weight[k + 3] * (double)in[i + k];
        near_double(p, "stencil_1d", (size_t)i, (double)out[i], sum, 1e-6, 1e-6);
    }
    check_stencil_2d(p, 61, 45);
    free(in);
    free(out);
}

/* ---- matrices and rows in f32 ------------------------------------------------------------------------ */
static float *product(const float *a, const float *b, int m, int n, int k)
{
    float *c = (float *)host((size_t)m * (size_t)n, 4);
    for (int y = 0; y < m; y++)
        for (int x = 0; x < n; x++) {
            double sum = 0;
            for (int i = 0; i < k; i++)
                sum += (double)a[y * k + i] * (double)b[i * n + x];
            c[y * n + x] = (float)sum;
        }
    return c;
}

static void check_matmul(struct program *p)
{
    static const int sizes[2][3] = {{50, 37, 70}, {64, 128, 48}};
    for (int i = 0; i < 2; i++) {
        int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        float *a = random_floats((size_t)(m * k), -1, 1), *b = random_floats((size_t)(k * n), -1, 1),
              *c = product(a, b, m, n, k), *out = (float *)host((size_t)(m * n), 4);
        uint64_t da = put(p, a, (size_t)(m * k) * 4), db = put(p, b, (size_t)(k * n) * 4),
                 dc = buffer(p, (size_t)(m * n) * 4);
        if (i == 0)
            launch(p, "matmul", SHAPE(((unsigned int)n + 15) / 16, ((unsigned int)m + 15) / 16),
                   SHAPE(16, 16), 0, ARGS(&da, &db, &dc, &m, &n, &k));
        else
            launch(p, "matmul_blocked", SHAPE((unsigned int)n / 64, (unsigned int)m / 64), SHAPE(256), 0,
                   ARGS(&da, &db, &dc, &n, &k));
        get(p, out, dc, (size_t)(m * n) * 4);
        near_floats(p, i ? "matmul_blocked" : "matmul", out, c, (size_t)(m * n), 1e-5, 1e-5);
        free(a);
        free(b);
        free(c);
        free(out);
    }
}

static void check_softmax(struct program *p)
{
    enum { ROWS = 6, COLUMNS = 333 };
    int rows = ROWS, columns = COLUMNS;
    float *in = random_floats(ROWS * COLUMNS, -20, 20), *gain = random_floats(COLUMNS, 0.5, 2),
          *out = (float *)host(ROWS * COLUMNS, 4), *normal = (float *)host(ROWS * COLUMNS, 4);
    uint64_t din = put(p, in, ROWS * COLUMNS * 4), dgain = put(p, gain, COLUMNS * 4),
             dout = buffer(p, ROWS * COLUMNS * 4), dnormal = buffer(p, ROWS * COLUMNS * 4);
    launch(p, "softmax", SHAPE(ROWS), SHAPE(128), 0, ARGS(&din, &dout, &columns));
    launch(p, "layer_norm", SHAPE(2), SHAPE(96), 0, ARGS(&din, &dgain, &dnormal, &rows, &columns));
    get(p, out, dout, ROWS * COLUMNS * 4);
    get(p, normal, dnormal, ROWS * COLUMNS * 4);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, mean = 0, variance = 0, most = -1e9;
        for (int i = 0; i < COLUMNS; i++) {
            mean += (double)in[r * COLUMNS + i] / COLUMNS;
            most = fmax(most, (double)in[r * COLUMNS + i]);
        }
        for (int i = 0; i < COLUMNS; i++) {
            sum += exp((double)in[r * COLUMNS + i] - most);
            variance += ((double)in[r * COLUMNS + i] - mean) * ((double)in[r * COLUMNS + i] - mean) / COLUMNS;
        }
        for (int i = r * COLUMNS; i < (r + 1) * COLUMNS; i++) {
            double centred = (double)in[i] - mean;
            near_double(p, "softmax", (size_t)i, (double)out[i], exp((double)in[i] - most) / sum, 1e-5,
                        1e-30);
            near_double(p, "layer_norm", (size_t)i, (double)normal[i],
                        centred / sqrt(variance + 1e-5) * (double)gain[i - r * COLUMNS], 1e-5, 1e-5);
        }
    }
    free(in);
    free(gain);
    free(out);
    free(normal);
}
#endif
