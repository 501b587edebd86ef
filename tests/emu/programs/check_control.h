/* check_control.h - control flow, and functions that the driver itself defines for kernels. */
#ifndef EMU_PROGRAMS_CHECK_CONTROL_H
#define EMU_PROGRAMS_CHECK_CONTROL_H
#include "check_basic.h"

static int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

static int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

static int interpret(const int *code, int count, int t)
{
    int stack[16], top = 0;
    stack[top++] = t;
    for (int pc = 0; pc < count; pc++) {
        int *v = &stack[top - 1];
        switch (code[pc]) {
        case 0: stack[top] = *v; top++; break;
        case 1: top--; stack[top - 1] += stack[top]; break;
        case 2: top--; stack[top - 1] *= stack[top]; break;
        case 3: *v = -*v; break;
        case 4: stack[top++] = code[++pc]; break;
        case 5: *v = *v & 1 ? 3 * *v + 1 : *v / 2; break;
        case 6: if (*v > 100) return *v + 1000 * top; break;
        case 7: *v ^= 0x55; break;
        default: *v = -1; break;
        }
    }
    return stack[top - 1] + 1000 * top;
}

struct record { int id; double weight; int16_t tags[5]; char name[7]; };

static void check_records(struct program *p)
{
    enum { N = 40 };
    struct record base, out[N];
    memset(&base, 0, sizeof base);
    base.id = 100;
    base.weight = 0.5;
    for (int i = 0; i < 5; i++)
        base.tags[i] = (int16_t)(-i);
    memcpy(base.name, "ABCDEF", 7);
    uint64_t dout = zeros(p, sizeof out);
    launch(p, "records", SHAPE(1), SHAPE(N), 0, ARGS(&base, &dout));
    get(p, out, dout, sizeof out);
    for (int t = 0; t < N; t++) {
        struct record r = base;
        r.tags[t % 5] = (int16_t)t;
        r.name[t % 7] = (char)('a' + t % 26);
        assert_int_equal(out[t].id, 100 + t);
        assert_true(out[t].weight == 0.5 * t);
        assert_memory_equal(out[t].tags, r.tags, sizeof r.tags);
        assert_memory_equal(out[t].name, r.name, sizeof r.name);
    }
}

static void check_interpreter(struct program *p)
{
    static const int code[] = {0, 4, 3, 2, 5, 5, 1, 7, 6, 0, 2, 6, 4, 9, 1, 5, 3, 99, 4, 5, 1};
    enum { N = 96, COUNT = sizeof code / sizeof code[0] };
    int out[N], count = COUNT;
    uint32_t in[N], steps[N], n = N;
    uint64_t dcode = put(p, code, sizeof code), dout = buffer(p, sizeof out);
    launch(p, "interpreter", SHAPE(3), SHAPE(32), 0, ARGS(&dcode, &count, &dout));
    get(p, out, dout, sizeof out);
    for (int t = 0; t < N; t++) {
        assert_int_equal(out[t], interpret(code, COUNT, t));
        in[t] = 1 + random_below(10000);
    }
    uint64_t din = put(p, in, sizeof in), dsteps = buffer(p, sizeof steps);
    launch(p, "collatz", SHAPE(1), SHAPE(128), 0, ARGS(&din, &dsteps, &n));
    get(p, steps, dsteps, sizeof steps);
    for (int t = 0; t < N; t++) {
        uint32_t v = in[t], s = 0;
        for (; v != 1 && s <= 1000; s++)
            v = v % 2 ? 3 * v + 1 : v / 2;
        assert_int_equal(steps[t], s);
    }
}

static void check_control(struct program *p)
{
    enum { N = 64 };
    int out[2 * N], counter = 0;
    float areas[N];
    uint64_t dout = buffer(p, sizeof out), dareas = buffer(p, sizeof areas), dcounter = zeros(p, 4);
    launch(p, "recursion", SHAPE(2), SHAPE(N / 2), 0, ARGS(&dout));
    get(p, out, dout, sizeof out);
    for (int t = 0; t < N; t++) {
        assert_int_equal(out[2 * t], fibonacci(t % 13));
        assert_int_equal(out[2 * t + 1], ackermann(t % 3, t % 5));
    }
    launch(p, "pointers", SHAPE(1), SHAPE(N), 0, ARGS(&dout, &dareas));
    get(p, out, dout, N * 4);
    get(p, areas, dareas, sizeof areas);
    for (int t = 0; t < N; t++) {
        assert_int_equal(out[t], t % 3 == 0 ? t + 7 : t % 3 == 1 ? t - 7 : t * 7);
        assert_true(areas[t] == (float)(t % 2 ? t * t : 3 * t));
    }
    check_interpreter(p);
    check_records(p);
    launch(p, "critical", SHAPE(3), SHAPE(48), 0, ARGS(&dcounter));
    get(p, &counter, dcounter, 4);
    assert_int_equal(counter, 3 * 48);
}
#endif
