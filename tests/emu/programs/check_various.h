/* check_various.h - CUB, various.cu, calls of the driver's functions, and Hopper's instructions. */
#ifndef EMU_PROGRAMS_CHECK_VARIOUS_H
#define EMU_PROGRAMS_CHECK_VARIOUS_H
#include <fcntl.h>
#include "check_tensor.h"
#include "compile.h"

/* ---- CUB --------------------------------------------------------------------------------------------- */
static int order_words(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void check_cub_sort(struct program *p)
{
    enum { N = 1024 };
    uint32_t in[N], keys[N];
    int values[N];
    for (int i = 0; i < N; i++)
        in[i] = (uint32_t)random_word() & 0xffff00ff;
    uint64_t dkeys = put(p, in, sizeof in), dvalues = buffer(p, sizeof values);
    launch(p, "cub_sort", SHAPE(2), SHAPE(128), 0, ARGS(&dkeys, &dvalues));
    get(p, keys, dkeys, sizeof keys);
    get(p, values, dvalues, sizeof values);
    for (int i = 0; i < N; i++) {
        assert_in_range(values[i], 0, 511);
        assert_int_equal(keys[i], in[i / 512 * 512 + values[i]]);
    }
    for (int b = 0; b < N; b += 512)
        qsort(in + b, 512, 4, order_words);
    same_words(p, "cub_sort", keys, in, N, 4);
}

static void check_cub(struct program *p)
{
    enum { N = 512, M = 64 };
    int *in = random_ints(N, -500, 500), out[N], sums[2];
    check_cub_sort(p);
    uint64_t din = put(p, in, N * 4), dout = buffer(p, sizeof out), dsums = buffer(p, sizeof sums);
    launch(p, "cub_scan", SHAPE(2), SHAPE(128), 0, ARGS(&din, &dout, &dsums));
    get(p, out, dout, sizeof out);
    get(p, sums, dsums, sizeof sums);
    for (int b = 0; b < 2; b++) {
        int sum = 0;
        for (int i = b * 256; i < b * 256 + 256; sum += in[i++])
            assert_int_equal(out[i], sum);
        assert_int_equal(sums[b], sum);
    }
    launch(p, "cub_warp", SHAPE(1), SHAPE(64), 0, ARGS(&din, &dsums));
    get(p, out, din, M * 4);
    get(p, sums, dsums, sizeof sums);
    for (int w = 0; w < 2; w++) {
        for (int i = 1; i < 32; i++)
            in[w * 32 + i] += in[w * 32 + i - 1];
        assert_int_equal(sums[w], in[w * 32 + 31]);
    }
    same_words(p, "cub_warp", out, in, M, 4);
    free(in);
}

/* ---- various ----------------------------------------------------------------------------------------- */
static void check_nbody(struct program *p)
{
    enum { N = 128 };
    float *bodies = random_floats(N * 4, 0.1, 1), forces[N * 4];
    int n = N;
    uint64_t dbodies = put(p, bodies, N * 16), dforces = buffer(p, sizeof forces);
    launch(p, "nbody", SHAPE(N / 64), SHAPE(64), 0, ARGS(&dbodies, &dforces, &n));
    get(p, forces, dforces, sizeof forces);
    for (int i = 0; i < N; i++) {
        double f[3] = {0, 0, 0};
        for (int j = 0; j < N; j++) {
            double d[3], r = 0.01;
            for (int k = 0; k < 3; k++) {
                d[k] = (double)bodies[4 * j + k] - (double)bodies[4 * i + k];
                r += d[k] * d[k];
            }
            for (int k = 0; k < 3; k++)
                f[k] += d[k] * (double)bodies[4 * j + 3] / (r * sqrt(r));
        }
        for (int k = 0; k < 3; k++)
            near_double(p, "nbody", (size_t)(4 * i + k), (double)forces[4 * i + k], f[k], 1e-4, 1e-3);
    }
    free(bodies);
}

static void check_mandelbrot(struct program *p)
{
    enum { W = 50, H = 33, MOST = 60 };
    int w = W, h = H, most = MOST;
    unsigned char out[W * H];
    uint64_t dout = buffer(p, sizeof out);
    launch(p, "mandelbrot", SHAPE(4, 5), SHAPE(16, 8), 0, ARGS(&dout, &w, &h, &most));
    get(p, out, dout, sizeof out);
    for (int i = 0; i < W * H; i++) {
        double cx = -2 + 3.0 * (i % W) / W, cy = -1 + 2.0 * (i / W) / H, a = 0, b = 0;
        int n = 0, close = 0;
        for (; n < MOST && a * a + b * b <= 4; n++) {
            double next = a * a - b * b + cx;
            b = 2 * a * b + cy;
            a = next;
            close += fabs(a * a + b * b - 4) < 1e-9;
        }
        assert_true(close || out[i] == n); /* the constants may be rounded differently */
    }
}

static void check_graph(struct program *p)
{
    enum { NODES = 200, EDGES = 1000 };
    int starts[NODES + 1] = {0}, edges[EDGES], distance[NODES], wanted[NODES], nodes = NODES, changed = 1;
    float values[EDGES], x[NODES], y[NODES];
    for (int v = 0; v < NODES; v++)
        starts[v + 1] = v == NODES - 1 ? EDGES : starts[v] + (int)random_below(9);
    for (int e = 0; e < EDGES; e++) {
        edges[e] = (int)random_below(NODES);
        values[e] = (float)(int)random_below(10);
    }
    for (int v = 0; v < NODES; v++) {
        x[v] = (float)(int)random_below(10);
        wanted[v] = distance[v] = v == 0 ? 0 : -1;
    }
    uint64_t dstarts = put(p, starts, sizeof starts), dedges = put(p, edges, sizeof edges),
             ddistance = put(p, distance, sizeof distance), dvalues = put(p, values, sizeof values),
             dx = put(p, x, sizeof x), dy = buffer(p, sizeof y), dchanged = buffer(p, 4);
    launch(p, "spmv", SHAPE(50), SHAPE(128), 0, ARGS(&dstarts, &dedges, &dvalues, &dx, &dy, &nodes));
    get(p, y, dy, sizeof y);
    for (int v = 0; v < NODES; v++) {
        float sum = 0;
        for (int e = starts[v]; e < starts[v + 1]; e++)
            sum += values[e] * x[edges[e]];
        assert_true(y[v] == sum);
    }
    for (int level = 0; changed; level++) {
        assert_int_equal(p->cu->cuMemsetD8_v2(dchanged, 0, 4), 0);
        launch(p, "bfs_level", SHAPE(4), SHAPE(64), 0,
               ARGS(&dstarts, &dedges, &ddistance, &level, &nodes, &dchanged));
        get(p, &changed, dchanged, 4);
        for (int v = 0; v < NODES; v++)
            for (int e = starts[v]; wanted[v] == level && e < starts[v + 1]; e++)
                if (wanted[edges[e]] < 0)
                    wanted[edges[e]] = level + 1;
    }
    get(p, distance, ddistance, sizeof distance);
    same_words(p, "bfs", distance, wanted, NODES, 4);
}

static void check_fft(struct program *p)
{
    enum { N = 256 };
    float *in = random_floats(4 * N, -1, 1), out[4 * N];
    uint64_t ddata = put(p, in, sizeof out);
    launch(p, "fft", SHAPE(2), SHAPE(128), 0, ARGS(&ddata));
    get(p, out, ddata, sizeof out);
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < N; k++) {
            double re = 0, im = 0;
            for (int i = 0; i < N; i++) {
                double x = (double)in[2 * (b * N + i)], y = (double)in[2 * (b * N + i) + 1];
                double c = cos(2 * M_PI * i * k / N), s = -sin(2 * M_PI * i * k / N);
                re += x * c - y * s;
                im += x * s + y * c;
            }
            near_double(p, "fft", (size_t)k, (double)out[2 * (b * N + k)], re, 1e-5, 1e-4);
            near_double(p, "fft, imaginary", (size_t)k, (double)out[2 * (b * N + k) + 1], im, 1e-5, 1e-4);
        }
    free(in);
}

static void check_various(struct program *p)
{
    uint64_t word = 42, inside, dinside = zeros(p, 8);
    int rounds = 20;
    check_nbody(p);
    check_mandelbrot(p);
    check_graph(p);
    check_fft(p);
    launch(p, "monte_carlo", SHAPE(4), SHAPE(128), 0, ARGS(&word, &rounds, &dinside));
    get(p, &inside, dinside, 8);
    near_double(p, "pi", 0, 4.0 * (double)inside / (512 * 20), M_PI, 0, 0.06);
}

/* ---- functions of the driver ------------------------------------------------------------------------- */
/* Redirects standard output to a file; the end returns what was printed. */
static int printing_begin(int *kept)
{
    char path[128];
    snprintf(path, sizeof path, "%s/printed", emu_folder);
    fflush(stdout);
    *kept = dup(1);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(*kept >= 0 && file >= 0 && dup2(file, 1) == 1);
    return file;
}

static char *printing_end(int file, int kept)
{
    char path[128];
    snprintf(path, sizeof path, "%s/printed", emu_folder);
    fflush(stdout);
    dup2(kept, 1);
    close(kept);
    close(file);
    return read_text(path);
}

static void check_printf(struct program *p)
{
    static const char name[] = "this block";
    static const char first[] = "this block has 32 threads,  3.14|ab    |z|0000beef|-5000000000|"
                                "18446744073709551615|%|1.234568e+04|+7|    42|-9|0x1234\n";
    int counts[2], kept;
    uint64_t dname = put(p, name, sizeof name), dcounts = buffer(p, sizeof counts);
    int file = printing_begin(&kept);
    unsigned int result = try_launch(p, "say", SHAPE(1), SHAPE(32), 0, ARGS(&dname, &dcounts));
    char *text = printing_end(file, kept);
    assert_int_equal(result, 0);
    get(p, counts, dcounts, sizeof counts);
    if (!strstr(text, first) || !strstr(text, "no arguments\n") ||
        strlen(text) != strlen(first) + strlen("no arguments\n"))
        fail_msg("%s: printed '%s'", p->name, text);
    assert_int_equal(counts[0], 14);
    assert_int_equal(counts[1], 0);
    free(text);
}

static void check_device_calls(struct program *p)
{
    enum { N = 48 };
    int out[N], values[N], most = N, count = 6;
    uint64_t dout = buffer(p, sizeof out);
    check_printf(p);
    launch(p, "lists", SHAPE(1), SHAPE(N), 0, ARGS(&dout, &count));
    get(p, out, dout, sizeof out);
    for (int t = 0; t < N; t++) {
        assert_int_equal(out[t], 15 * t);
        values[t] = t;
    }
    uint64_t dvalues = put(p, values, sizeof values);
    launch(p, "check", SHAPE(1), SHAPE(N), 0, ARGS(&dvalues, &most));
    struct stat s;
    assert_true(stat(p->log, &s) != 0 || s.st_size == 0); /* no finding so far */
    most = 40;
    assert_int_equal(try_launch(p, "check", SHAPE(1), SHAPE(N), 0, ARGS(&dvalues, &most)), 710);
    char *log = read_text(p->log);
    if (!strstr(log, "device_calls.cu:") || !strstr(log, "check") ||
        !strstr(log, "`values[threadIdx.x] < most' failed"))
        fail_msg("%s: says '%s'", p->name, log);
    free(log);
    unlink(p->log);
}

/* ---- Hopper ------------------------------------------------------------------------------------------ */
static struct CUtensorMap_st tile_map(struct program *p, uint64_t address, int rows, int columns)
{
    struct CUtensorMap_st map;
    uint64_t size[2] = {(uint64_t)columns, (uint64_t)rows}, stride[1] = {(uint64_t)columns * 2};
    uint32_t box[2] = {64, 64}, step[2] = {1, 1};
    memset(&map, 0, sizeof map);
    /* 6: f16; 3: swizzle of 128 bytes */
    assert_int_equal(p->cu->cuTensorMapEncodeTiled(&map, 6, 2, (void *)(uintptr_t)address, size, stride, box,
                                                   step, 0, 3, 0, 0), 0);
    return map;
}

static void check_wgmma(struct program *p)
{
    enum { M = 128, N = 64, K = 320 };
    struct factors f = make_factors(p, M, N, K, F16, true, false);
    struct CUtensorMap_st a = tile_map(p, f.da, M, K), b = tile_map(p, f.db, N, K);
    float *c = (float *)host(M * N, 4);
    uint64_t dc = buffer(p, M * N * 4);
    launch(p, "matmul_wgmma", SHAPE(N / 64, M / 64), SHAPE(128), 4 * 8192 + 2048,
           ARGS(&a, &b, &dc, &f.n, &f.k));
    get(p, c, dc, M * N * 4);
    for (int i = 0; i < M * N; i++)
        near_double(p, "matmul_wgmma", (size_t)i, (double)c[i], factor_sum(&f, i / N, i % N), 0, 0);
    free(c);
    free_factors(&f);
}
#endif
