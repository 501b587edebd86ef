/* ranks_fixture.h - what the tests of several emulated devices share: ranks, each with a device, two streams, memory, and kernels
 * that poll a flag, set one, and count. */
#ifndef RANKS_FIXTURE_H
#define RANKS_FIXTURE_H
#include "api_fixture.h"

enum { READY = 0, NOT_READY = 600, GEQ = 0, EQ = 1, AND = 2, NOR = 3, NON_BLOCKING = 1 };

struct rank {
    struct CUctx_st    *context;
    struct CUstream_st *stream, *copies;
    struct CUfunc_st   *poll, *signal;
    api_address         flag, data; /* 256 bytes each, zeros */
};

/* `poll` waits until *flag is 1, then copies *data to *out; `signal` writes 1 to *flag; `count` adds 500 to *at. */
static const char ptx[] = ".version 7.8\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          ".visible .entry poll(.param .u64 flag, .param .u64 data, .param .u64 out)\n"
                          "{\n"
                          "    .reg .b64 %a<4>;\n"
                          "    .reg .b32 %r<3>;\n"
                          "    .reg .pred %p;\n"
                          "    ld.param.u64 %a1, [flag];\n"
                          "    ld.param.u64 %a2, [data];\n"
                          "    ld.param.u64 %a3, [out];\n"
                          "again:\n"
                          "    ld.acquire.sys.global.u32 %r1, [%a1];\n"
                          "    setp.ne.u32 %p, %r1, 1;\n"
                          "    @%p bra again;\n"
                          "    ld.global.u32 %r2, [%a2];\n"
                          "    st.global.u32 [%a3], %r2;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry count(.param .u64 at)\n"
                          "{\n"
                          "    .reg .b64 %a1;\n"
                          "    .reg .b32 %r<3>;\n"
                          "    .reg .pred %p;\n"
                          "    ld.param.u64 %a1, [at];\n"
                          "    mov.u32 %r1, 0;\n"
                          "again:\n"
                          "    atom.add.relaxed.sys.global.u32 %r2, [%a1], 1;\n"
                          "    add.u32 %r1, %r1, 1;\n"
                          "    setp.lt.u32 %p, %r1, 500;\n"
                          "    @%p bra again;\n"
                          "    ret;\n"
                          "}\n"
                          ".visible .entry signal(.param .u64 flag)\n"
                          "{\n"
                          "    .reg .b64 %a1;\n"
                          "    ld.param.u64 %a1, [flag];\n"
                          "    st.release.sys.global.u32 [%a1], 1;\n"
                          "    ret;\n"
                          "}\n";

static inline void make_rank(struct emu_api *cu, int device, struct rank *r)
{
    ok(cu->cuDevicePrimaryCtxRetain(&r->context, device));
    ok(cu->cuCtxSetCurrent(r->context));
    ok(cu->cuStreamCreate(&r->stream, NON_BLOCKING));
    ok(cu->cuStreamCreate(&r->copies, NON_BLOCKING));
    ok(cu->cuMemAlloc_v2(&r->flag, 256));
    ok(cu->cuMemAlloc_v2(&r->data, 256));
    ok(cu->cuMemsetD8_v2(r->flag, 0, 256));
    ok(cu->cuMemsetD8_v2(r->data, 0, 256));
    r->poll = emu_function_named(cu, ptx, "poll");
    r->signal = emu_function_named(cu, ptx, "signal");
    ok(cu->cuCtxSynchronize());
}

/* `count` devices that may access each other's memory; the context of the first is current. */
static inline struct emu_api *machine(const char *more, int count, struct rank *ranks)
{
    char words[400];
    snprintf(words, sizeof words, "PTXPACK_EMU_DEVICES=%d PTXPACK_EMU_MEMORY=64M PTXPACK_EMU_THREADS=1 %s",
             count, more);
    struct emu_api *cu = emu_api(words);
    for (int i = 0; i < count; i++)
        make_rank(cu, i, &ranks[i]);
    for (int i = 0; i < count; i++) {
        ok(cu->cuCtxSetCurrent(ranks[i].context));
        for (int k = 0; k < count; k++)
            if (k != i)
                ok(cu->cuCtxEnablePeerAccess(ranks[k].context, 0));
    }
    ok(cu->cuCtxSetCurrent(ranks[0].context));
    return cu;
}

static inline unsigned int word_at(struct emu_api *cu, api_address address)
{
    unsigned int word = 0;
    ok(cu->cuMemcpyDtoH_v2(&word, address, 4));
    return word;
}

static inline unsigned int *pinned_word(struct emu_api *cu, unsigned int value)
{
    void *host = NULL;
    ok(cu->cuMemHostAlloc(&host, 64, 3));
    *(unsigned int *)host = value;
    return (unsigned int *)host;
}

static inline api_address address_of(const void *host) { return (api_address)(uintptr_t)host; }

static inline void launch_poll(struct emu_api *cu, const struct rank *r, api_address flag, api_address out)
{
    api_address data = r->data;
    void       *parameters[] = {&flag, &data, &out};
    ok(cu->cuLaunchKernel(r->poll, 1, 1, 1, 1, 1, 1, 0, r->stream, parameters, NULL));
}
#endif
