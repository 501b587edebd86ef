/* tensor.c - attention tensors on the device, among NaNs and guard bytes. */
#include "tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/attention/inspect.h"

const char *const check_layout_names[CHECK_LAYOUTS] = {"compact", "gapped-bshd", "gapped-bhsd"};

/* Every byte that is not input, and every byte of the output before it is written; it is a NaN in all types. */
enum { POISON = 0xff };

/* Makes strides with gaps of one, two and three `steps` of 16 bytes. */
static ptxpack_strides strides_of(check_layout layout, int64_t rows, int64_t heads, int64_t dim, int64_t step)
{
    if (layout == GAPPED_BSHD) {
        int64_t head = dim + step, row = heads * head + 2 * step;
        return (ptxpack_strides){.batch = rows * row + 3 * step, .row = row, .head = head};
    }
    if (layout == GAPPED_BHSD) {
        int64_t row = dim + step, head = rows * row + 2 * step;
        return (ptxpack_strides){.batch = heads * head + 3 * step, .row = row, .head = head};
    }
    return (ptxpack_strides){0, 0, 0};
}

static size_t element_bytes(const check_images *images, int tensor)
{
    return ptxpack_dtype_bytes(attention_tensor_type(&images->desc, tensor));
}

/* Allocates a host region of at least `bytes`; its contents are lost. */
static bool reserve(void **memory, size_t *capacity, size_t bytes)
{
    if (*capacity >= bytes)
        return true;
    free(*memory);
    *memory = malloc(bytes);
    *capacity = *memory != NULL ? bytes : 0;
    return *memory != NULL;
}

static void place(const check_images *images, int tensor, const void *tensor_data)
{
    const ptxpack_attention_desc *d = &images->desc;
    const attention_tensor       *t = &images->geometry.tensor[tensor];
    int64_t                       rows = tensor == TENSOR_Q ? d->seqlen_q : d->seqlen_kv,
            heads = tensor == TENSOR_Q ? d->heads_q : d->heads_kv;
    size_t         bytes = element_bytes(images, tensor), row_bytes = (size_t)d->head_dim * bytes;
    const uint8_t *from = (const uint8_t *)tensor_data;
    uint8_t       *base = images->host[tensor] + CHECK_GUARD;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t h = 0; h < heads; h++, from += row_bytes)
                memcpy(base + (size_t)(b * t->batch + i * t->row + h * t->head) * bytes, from, row_bytes);
}

bool check_images_fill(check_images *images, const ptxpack_attention_desc *compact, check_layout layout,
                       bool repeated, void *const tensor[TENSOR_COUNT], const ptxpack_descales *descales,
                       const float *sinks, const float *slopes)
{
    ptxpack_attention_desc *d = &images->desc;
    images->uploaded = false;
    images->descales = descales;
    images->sinks = sinks;
    images->slopes = slopes;
    *d = *compact;
    int64_t step = 16 / (int64_t)element_bytes(images, TENSOR_Q);
    d->q = strides_of(layout, d->seqlen_q, d->heads_q, d->head_dim, step);
    d->k = d->v = strides_of(layout, d->seqlen_kv, d->heads_kv, d->head_dim, step);
    d->o = strides_of(layout, d->seqlen_q, d->heads_q, d->head_dim, 8);
    if (repeated && layout != COMPACT)
        d->k.batch = d->v.batch = 0;
    if (ptxpack_attention_resolve(d, &images->geometry, images->line) != PTXPACK_OK)
        return false;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        images->bytes[t] = images->geometry.tensor[t].bytes + 2 * CHECK_GUARD;
        void *memory = images->host[t];
        bool  ok = reserve(&memory, &images->capacity[t], images->bytes[t]);
        images->host[t] = (uint8_t *)memory;
        if (!ok)
            return false;
        memset(images->host[t], POISON, images->bytes[t]);
        if (t != TENSOR_O)
            place(images, t, tensor[t]);
    }
    images->lse_bytes = images->geometry.lse_bytes + 2 * CHECK_GUARD;
    void *memory = images->lse;
    bool  ok = reserve(&memory, &images->lse_capacity, images->lse_bytes);
    images->lse = (float *)memory;
    return ok;
}

static bool poison_outputs(check *c, check_images *images)
{
    const struct ptxpack_driver *driver = c->gpu.driver;
    return device_try(&c->gpu,
                      driver->cuMemsetD8Async(images->device[TENSOR_O].address, POISON, images->bytes[TENSOR_O],
                                              c->gpu.stream),
                      "cuMemsetD8Async") &&
           device_try(&c->gpu,
                      driver->cuMemsetD8Async(images->lse_device.address, POISON, images->lse_bytes,
                                              c->gpu.stream),
                      "cuMemsetD8Async");
}

/* Launches once into poisoned outputs and copies them to `o` and `lse`. */
static bool launch(check *c, check_images *images, const ptxpack_attention_plan *plan, void *o, void *lse)
{
    uint64_t scale = images->descale_device.address, step = images->geometry.descale_bytes;
    const ptxpack_attention_buffers buffers = {
        .size = sizeof buffers,
        .q_descale = scale,
        .k_descale = scale + step,
        .v_descale = scale + 2 * step,
        .q = images->device[TENSOR_Q].address + CHECK_GUARD,
        .k = images->device[TENSOR_K].address + CHECK_GUARD,
        .v = images->device[TENSOR_V].address + CHECK_GUARD,
        .o = images->device[TENSOR_O].address + CHECK_GUARD,
        .lse = images->lse_device.address + CHECK_GUARD,
        .workspace = images->workspace.address,
        .sinks = images->sinks_device.address,
        .slopes = images->slopes_device.address,
    };
    return poison_outputs(c, images) &&
           device_status(&c->gpu, ptxpack_attention_launch(plan, &buffers, c->gpu.stream)) &&
           device_download(&c->gpu, o, images->device[TENSOR_O].address, images->bytes[TENSOR_O]) &&
           device_download(&c->gpu, lse, images->lse_device.address, images->lse_bytes);
}

static bool upload_descales(check *c, check_images *images)
{
    const float *const from[] = {images->descales->q, images->descales->k, images->descales->v};
    size_t             bytes = images->geometry.descale_bytes;
    bool               ok = bytes == 0 || check_reserve(c, &images->descale_device, 3 * bytes);
    for (size_t i = 0; i < 3 && ok && bytes > 0; i++)
        ok = device_upload(&c->gpu, images->descale_device.address + i * bytes, from[i], bytes);
    return ok;
}

static bool upload_heads(check *c, check_images *images)
{
    size_t bytes = (size_t)images->desc.heads_q * sizeof(float);
    return check_reserve(c, &images->sinks_device, bytes) && check_reserve(c, &images->slopes_device, bytes) &&
           device_upload(&c->gpu, images->sinks_device.address, images->sinks, bytes) &&
           device_upload(&c->gpu, images->slopes_device.address, images->slopes, bytes);
}

static bool upload(check *c, check_images *images)
{
    if (images->uploaded)
        return true;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        size_t bytes = t == TENSOR_O ? images->bytes[t] : check_input_bytes(c, images->bytes[t]);
        if (!check_reserve(c, &images->device[t], bytes) ||
            (t != TENSOR_O && !device_upload(&c->gpu, images->device[t].address, images->host[t], bytes)))
            return false;
    }
    images->uploaded = check_reserve(c, &images->lse_device, images->lse_bytes) && upload_descales(c, images) &&
                       upload_heads(c, images);
    return images->uploaded;
}

static bool fill_workspace(check *c, const check_images *images, uint64_t from, uint64_t to,
                           unsigned char value)
{
    return to == from || device_try(&c->gpu,
                                    c->gpu.driver->cuMemsetD8Async(images->workspace.address + from, value,
                                                                   to - from, c->gpu.stream),
                                    "cuMemsetD8Async");
}

/* Writes zeros to the counters, as before the first use, and NaN to the rest, which no launch may read before it
 * has written it; the second launch finds what the first one left. */
static bool clear_workspace(check *c, check_images *images, const plan_head *plan)
{
    return plan->workspace == 0 || (check_reserve(c, &images->workspace, plan->workspace) &&
                                    fill_workspace(c, images, 0, plan->counters, 0) &&
                                    fill_workspace(c, images, plan->counters, plan->workspace, 0xff));
}

/* Whether these bytes of the workspace are zero, as the next launch needs it; false also when it cannot be read. */
static bool workspace_is_zero(check *c, const check_images *images, size_t bytes)
{
    uint8_t *left = (uint8_t *)calloc(bytes + 1, 1);
    bool     zero = left != NULL;
    if (zero && bytes > 0)
        zero = device_download(&c->gpu, left, images->workspace.address, bytes);
    for (size_t i = 0; i < bytes && zero; i++)
        zero = left[i] == 0;
    free(left);
    return zero;
}

bool check_images_run(check *c, check_images *images, const ptxpack_attention_desc *masked,
                      const ptxpack_variant *row, check_output *out)
{
    ptxpack_attention_plan *plan = NULL;
    void                   *again = malloc(images->bytes[TENSOR_O]), *lse_again = malloc(images->lse_bytes);
    *out = (check_output){.images = images, .speculative = strstr(row->file, "wgmma") != NULL};
    images->desc.mask = masked->mask; /* it does not change the geometry that is used here */
    images->desc.window_left = masked->window_left;
    images->desc.window_right = masked->window_right;
    images->desc.softcap = masked->softcap;
    images->desc.chunk = masked->chunk;
    images->desc.options = masked->options;
    images->desc.split_rows = masked->split_rows;
    snprintf(images->line, sizeof images->line, "no memory");
    bool ok = again != NULL && lse_again != NULL, twice = false;
    if (ok && ptxpack_attention_plan_row(c->gpu.handle, &images->desc, row, &plan) != PTXPACK_OK) {
        snprintf(images->line, sizeof images->line, "%s", ptxpack_detail(c->gpu.handle));
        ok = false;
    }
    if (ok) { /* making the plan may compile, which is outside the lock */
        pthread_mutex_lock(&c->gpu_lock);
        ok = upload(c, images) && clear_workspace(c, images, &plan->head) &&
             launch(c, images, plan, images->host[TENSOR_O], images->lse);
        twice = check_repeats(c, plan->head.workspace);
        ok = ok && (!twice || launch(c, images, plan, again, lse_again));
        out->clean = ok && workspace_is_zero(c, images, plan->head.counters);
        snprintf(images->line, sizeof images->line, "%s", c->gpu.line);
        pthread_mutex_unlock(&c->gpu_lock);
    }
    ptxpack_attention_plan_free(plan);
    out->repeats = ok && (!twice || (memcmp(images->host[TENSOR_O], again, images->bytes[TENSOR_O]) == 0 &&
                                     memcmp(images->lse, lse_again, images->lse_bytes) == 0));
    free(again);
    free(lse_again);
    return ok;
}

void check_images_free(check *c, check_images *images)
{
    for (int t = 0; t < TENSOR_COUNT; t++) {
        free(images->host[t]);
        device_free(&c->gpu, images->device[t].address);
    }
    free(images->lse);
    device_free(&c->gpu, images->lse_device.address);
    device_free(&c->gpu, images->descale_device.address);
    device_free(&c->gpu, images->sinks_device.address);
    device_free(&c->gpu, images->slopes_device.address);
    device_free(&c->gpu, images->workspace.address);
}

const uint16_t *check_output_row(const check_output *out, int64_t batch, int64_t row, int64_t head)
{
    const attention_tensor *t = &out->images->geometry.tensor[TENSOR_O];
    return (const uint16_t *)(const void *)(out->images->host[TENSOR_O] + CHECK_GUARD) + batch * t->batch +
           row * t->row + head * t->head;
}

const float *check_output_lse(const check_output *out, int64_t batch, int64_t head)
{
    const ptxpack_attention_desc *d = &out->images->desc;
    return out->images->lse + CHECK_GUARD / sizeof(float) + (batch * d->heads_q + head) * d->seqlen_q;
}

/* The first byte that is no longer poison; `bytes` when all are poison. */
static size_t first_written(const void *memory, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)memory;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != POISON)
            return i;
    return bytes;
}

bool check_output_guards(const check_output *out, char *what, size_t cap)
{
    check_images                 *images = out->images;
    const ptxpack_attention_desc *d = &images->desc;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0; i < d->seqlen_q; i++)
            for (int64_t h = 0; h < d->heads_q; h++) {
                const uint8_t *row = (const uint8_t *)check_output_row(out, b, i, h);
                memset(images->host[TENSOR_O] + (row - images->host[TENSOR_O]), POISON,
                       (size_t)d->head_dim * sizeof(uint16_t));
            }
    memset(images->lse + CHECK_GUARD / sizeof(float), POISON, images->geometry.lse_bytes);
    size_t o = first_written(images->host[TENSOR_O], images->bytes[TENSOR_O]);
    size_t lse = first_written(images->lse, images->lse_bytes);
    if (o == images->bytes[TENSOR_O] && lse == images->lse_bytes)
        return true;
    bool in_o = o < images->bytes[TENSOR_O];
    snprintf(what, cap, "%s was written outside: byte %lld from its start", in_o ? "o" : "lse",
             (long long)(in_o ? o : lse) - CHECK_GUARD);
    return false;
}
