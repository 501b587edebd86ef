/* emu.c - measures how fast the emulated driver executes on one core: instructions a second by kind, and
 * matrix instructions a millisecond.  PTXPACK_EMU_JUDGE turns the judge on (default) or off. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tools/command.h"
#include "tools/device.h"
#include "tools/emu/emu_api.h"

enum { THREADS = 128, LOOPS = 2000, TEXT = 16384 };

typedef struct mix {
    const char *name;
    int         sm;
    const char *once; /* one iteration of the loop contains it eight times */
    int         instructions;
} mix;

/* clang-format off */
static const mix mixes[] = {
    {"integer", 75,
     "add.u32 %r4, %r4, %r0; xor.b32 %r5, %r4, %r1; shl.b32 %r6, %r5, 3; "
     "mad.lo.u32 %r4, %r6, %r5, %r4;\n", 4},
    {"float", 75,
     "fma.rn.f32 %f1, %f1, %f2, %f2; mul.f32 %f3, %f1, %f2; add.f32 %f1, %f3, %f2; "
     "max.f32 %f1, %f1, %f2;\n", 4},
    {"ex2.approx", 75, "ex2.approx.ftz.f32 %f3, %f2;\n", 1},
    {"divergent", 75, "@%p1 add.u32 %r4, %r4, %r0; @!%p1 xor.b32 %r5, %r4, %r1;\n", 2},
    {"ld.shared", 75, "ld.shared.u32 %r7, [%r2];\n", 1},
    {"st.shared", 75, "st.shared.u32 [%r2], %r0;\n", 1},
    {"ld.global", 75, "ld.global.u32 %r7, [%d1];\n", 1},
    {"st.global", 75, "st.global.u32 [%d1], %r0;\n", 1},
    {"ldmatrix.x4", 75, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r3];\n", 1},
    {"mma.m16n8k16 f16", 80, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, "
     "{%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f4, %f5, %f6, %f7};\n", 1},
    {"mma.m16n8k32 s8", 80, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r24, %r25, %r26, %r27}, "
     "{%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r24, %r25, %r26, %r27};\n", 1},
};
/* clang-format on */

/* Every thread has its own word of shared and global memory; fragments hold numbers near 1. */
static void write_kernel(const mix *m, char text[TEXT])
{
    static const char head[] =
        ".address_size 64\n"
        ".visible .entry bench(.param .u64 out) {\n"
        ".reg .pred %p<3>; .reg .b32 %r<30>; .reg .f32 %f<9>; .reg .b64 %d<3>; "
        ".shared .align 16 .b8 pad[4096];\n"
        "ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.u64 %d1, %d0, %d1;\n"
        "mov.u32 %r1, 0; mov.u32 %r4, 1; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F000000; "
        "mov.u32 %r3, pad;\n"
        "mul.lo.u32 %r2, %r0, 4; add.u32 %r2, %r2, %r3; st.global.u32 [%d1], %r0;\n"
        "st.shared.u32 [%r2], %r0; st.shared.u32 [%r2+512], %r0; st.shared.u32 [%r2+1024], %r0;\n"
        "st.shared.u32 [%r2+1536], %r0; bar.sync 0; and.b32 %r8, %r0, 3; setp.eq.u32 %p1, %r8, 0;\n"
        "mov.b32 %r10, 0x3c013bff; mov.b32 %r11, 0x38023c05; mov.b32 %r12, 0xbc073a11; "
        "mov.b32 %r13, 0x3c003555;\n"
        "mov.b32 %r14, 0x3c0f3c00; mov.b32 %r15, 0xb9993c33; mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4;\n"
        "mov.f32 %f6, %f4; mov.f32 %f7, %f4; mov.u32 %r24, 0; mov.u32 %r25, 0; mov.u32 %r26, 0; "
        "mov.u32 %r27, 0;\n"
        "and.b32 %r9, %r0, 31; mad.lo.u32 %r3, %r9, 16, %r3; mov.u32 %r5, 0;\n"
        "LOOP:\n";
    int at = snprintf(text, TEXT, ".version 7.0\n.target sm_%d\n%s", m->sm, head);
    for (int i = 0; i < 8; i++)
        at += snprintf(text + at, TEXT - (size_t)at, "%s", m->once);
    snprintf(text + at, TEXT - (size_t)at,
             "add.u32 %%r1, %%r1, 1; setp.lt.u32 %%p2, %%r1, %d; @%%p2 bra LOOP;\nret; }\n", LOOPS);
}

/* Measures the median time of a launch of one block, and counts the thread-instructions that it executed. */
static bool time_mix(device *d, const bench_settings *s, const mix *m, uint64_t (*executed)(void), double *ms,
                     double *instructions)
{
    char              text[TEXT];
    struct CUmod_st  *module = NULL;
    struct CUfunc_st *function = NULL;
    uint64_t          buffer = 0, before = 0;
    double           *rounds = (double *)calloc((size_t)s->rounds, sizeof *rounds);
    write_kernel(m, text);
    void *parameters[] = {&buffer};
    bool  ok = rounds != NULL && device_alloc(d, &buffer, THREADS * sizeof(uint32_t)) &&
              device_try(d, d->driver->cuModuleLoadDataEx(&module, text, 0, NULL, NULL), m->name) &&
              device_try(d, d->driver->cuModuleGetFunction(&function, module, "bench"), m->name);
    for (int64_t i = 0; i < s->rounds && ok; i++) {
        double started = now_ms();
        before = executed();
        ok = device_try(d,
                        d->driver->cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, d->stream, parameters,
                                                  NULL),
                        m->name) &&
             device_sync(d);
        rounds[i] = now_ms() - started;
    }
    *instructions = (double)(executed() - before);
    if (ok)
        *ms = median(rounds, (size_t)s->rounds);
    if (module != NULL)
        d->driver->cuModuleUnload(module);
    device_free(d, buffer);
    free(rounds);
    return ok;
}

static void report(const bench_settings *s, const mix *m, double ms, double instructions)
{
    double rate = instructions / ms * 1e-3, each = ms * 1e6 / (instructions / 32);
    double warp_ops = 8.0 * m->instructions * LOOPS * THREADS / 32 / ms;
    if (s->json) {
        json_open(NULL, '{');
        json_text("mix", m->name);
        json_real("million_thread_instructions_per_s", rate);
        json_real("ns_per_warp_instruction", each);
        json_real("of_the_kind_per_ms", warp_ops);
        json_close();
    } else {
        printf("| %s | %.0f | %.1f | %.0f |\n", m->name, rate, each, warp_ops);
    }
}

static int run(device *d, const bench_settings *s)
{
    void *library = dlopen(d->driver->path, RTLD_NOW | RTLD_NOLOAD);
    uint64_t (*executed)(void) = NULL;
    bool ok = true;
    if (library != NULL) {
        *(void **)&executed = dlsym(library, "ptxpack_emu_executed");
        dlclose(library); /* the driver table keeps the library open */
    }
    if (executed == NULL)
        return command_fail("bench", "%s does not count instructions", d->driver->path);
    if (s->json)
        json_open(NULL, '{');
    report_device(d, s->json);
    if (s->json)
        json_open("mixes", '[');
    else
        printf("\n| mix | million thread-instructions/s | ns per warp-instruction | of the kind per ms |\n"
               "|---|---:|---:|---:|\n");
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0] && ok; i++) {
        double ms = 0, instructions = 0;
        ok = time_mix(d, s, &mixes[i], executed, &ms, &instructions);
        if (ok)
            report(s, &mixes[i], ms, instructions);
    }
    if (s->json) {
        json_close();
        json_close();
    }
    return ok ? COMMAND_OK : command_fail("bench", "%s", d->line);
}

int bench_emu(const bench_settings *s)
{
    device gpu;
    setenv("PTXPACK_EMU_THREADS", "1", 1); /* one core is measured */
    if (device_open_as(&gpu, "emu", NULL) != PTXPACK_OK)
        return command_fail("bench", "%s", gpu.line);
    int status = run(&gpu, s);
    device_close(&gpu);
    return status;
}
