/* devices.c - one process with handles on several emulated devices, which are launched before any of them is waited for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "host/attention/attention.h"
#include "loader/driver.h"
#include "tests/emu/driver/api_fixture.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { DEVICES = 2, ROWS = 40, HEADS = 2, DIM = 64, ELEMENTS = ROWS * HEADS * DIM, BYTES = 2 * ELEMENTS };

static const ptxpack_attention_desc problem = {.size = sizeof problem,
                                               .dtype = PTXPACK_F16,
                                               .batch = 1,
                                               .seqlen_q = ROWS,
                                               .seqlen_kv = ROWS,
                                               .heads_q = HEADS,
                                               .heads_kv = HEADS,
                                               .head_dim = DIM};

struct side {
    ptxpack                     *handle;
    const struct ptxpack_driver *cuda;
    ptxpack_attention_plan      *plan;
    uint16_t                     q[ELEMENTS], k[ELEMENTS], v[ELEMENTS], o[ELEMENTS];
    ptxpack_attention_buffers    at;
};

static uint64_t upload(struct side *s, const uint16_t *elements)
{
    ptxpack_deviceptr at = 0;
    ok(s->cuda->cuMemAlloc(&at, BYTES));
    if (elements != NULL)
        ok(s->cuda->cuMemcpyHtoD(at, elements, BYTES));
    return at;
}

static const uint16_t zeros[ELEMENTS]; /* of the workspace */

static void open_side(struct side *s, int device, const char *driver)
{
    const ptxpack_options options = {.size = sizeof options,
                                     .device = device,
                                     .driver = driver,
                                     .ptxjit = driver,
                                     .no_cache = true};
    if (ptxpack_open(&options, &s->handle) != PTXPACK_OK)
        fail_msg("device %d: %s", device, ptxpack_detail(NULL));
    assert_int_equal(ptxpack_device(s->handle)->ordinal, device);
    s->cuda = ptxpack_driver_table(s->handle);
    if (ptxpack_attention_plan_create(s->handle, &problem, &s->plan) != PTXPACK_OK)
        fail_msg("device %d: %s", device, ptxpack_detail(s->handle));
    for (int i = 0; i < ELEMENTS; i++) {
        s->q[i] = ptxpack_from_float(PTXPACK_F16, sinf((float)(i * 3 + device)));
        s->k[i] = ptxpack_from_float(PTXPACK_F16, cosf((float)(i * 5 + device)));
        s->v[i] = ptxpack_from_float(PTXPACK_F16, sinf((float)(i * 7 - device)));
    }
    ok(s->cuda->cuCtxSetCurrent(ptxpack_context(s->handle)));
    s->at = (ptxpack_attention_buffers){.size = sizeof s->at,
                                        .q = upload(s, s->q),
                                        .k = upload(s, s->k),
                                        .v = upload(s, s->v),
                                        .o = upload(s, NULL)};
    s->at.workspace = upload(s, zeros);
    assert_true(ptxpack_attention_workspace(s->plan) <= BYTES);
}

static void verify(const struct side *s, int device)
{
    static double o[ELEMENTS], lse[ROWS * HEADS];
    ok(ptxpack_attention_reference(&problem, s->q, s->k, s->v, NULL, o, lse));
    for (int i = 0; i < ELEMENTS; i++)
        if (!(fabs((double)ptxpack_to_float(PTXPACK_F16, s->o[i]) - o[i]) < 2e-3))
            fail_msg("device %d, element %d", device, i);
}

TEST(test_a_handle_each)
{
    static struct side sides[DEVICES];
    const char        *driver = emu_fresh_library();
    emu_environment("PTXPACK_EMU_DEVICES=2 PTXPACK_EMU_MEMORY=256M");
    for (int i = 0; i < DEVICES; i++) {
        open_side(&sides[i], i, driver);
        ok(sides[i].cuda->cuCtxSetCurrent(NULL)); /* a current context would decide */
    }
    for (int i = 0; i < DEVICES; i++) {
        ok(sides[i].cuda->cuCtxSetCurrent(ptxpack_context(sides[i].handle)));
        if (ptxpack_attention_launch(sides[i].plan, &sides[i].at, NULL) != PTXPACK_OK)
            fail_msg("device %d: %s", i, ptxpack_detail(sides[i].handle));
    }
    for (int i = 0; i < DEVICES; i++) {
        ok(sides[i].cuda->cuCtxSetCurrent(ptxpack_context(sides[i].handle)));
        ok(sides[i].cuda->cuMemcpyDtoH(sides[i].o, sides[i].at.o, BYTES));
        verify(&sides[i], i);
    }
    for (int i = 0; i < DEVICES; i++) {
        ptxpack_attention_plan_free(sides[i].plan);
        ptxpack_close(sides[i].handle);
    }
}

RUN_TESTS(emu_folder_make, emu_folder_remove)
