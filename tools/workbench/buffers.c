/* buffers.c - the arguments of a run on the device. */
#include "buffers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

bool program_buffers_parse(program_buffers *b, const program_settings *s, const program_symbols *symbols,
                           char line[PROGRAM_LINE])
{
    for (b->count = 0; b->count < s->args.count; b->count++)
        if (!program_arg_parse(s->args.words[b->count], symbols, &b->args[b->count], line)) {
            program_arg_free(&b->args[b->count]);
            return false;
        }
    return true;
}

/* ---- up ------------------------------------------------------------------------------------------- */
/* The data of argument i: read, generated, or kept from the last run.  If *owned, the caller frees it. */
static bool host_data(program_buffers *b, size_t i, uint64_t seed, void **data, bool *owned, char *line)
{
    program_arg *arg = &b->args[i];
    *owned = arg->from != NULL;
    if (*owned || arg->kind == PROGRAM_OUT)
        return program_arg_fill(arg, seed, data, line);
    if (b->kept[i].data == NULL || b->kept[i].kind != arg->kind || b->kept[i].type != arg->type ||
        b->kept[i].count != arg->count) {
        free(b->kept[i].data);
        b->kept[i].data = NULL;
        if (!program_arg_fill(arg, seed, &b->kept[i].data, line))
            return false;
        b->kept[i].kind = arg->kind;
        b->kept[i].type = arg->type;
        b->kept[i].count = arg->count;
    }
    *data = b->kept[i].data;
    return true;
}

/* Outputs are filled with NaN before the launch, so that elements which the kernel does not write are seen.  Not on
 * the emulated driver, which itself finds reads of memory that was never written. */
static bool fill(device *gpu, uint64_t to, const void *data, size_t bytes)
{
    if (data != NULL)
        return device_upload(gpu, to, data, bytes);
    return gpu->emulated ||
           device_try(gpu, gpu->driver->cuMemsetD8Async(to, 0xff, bytes, gpu->stream), "cuMemsetD8Async");
}

static bool upload_one(program_buffers *b, size_t i, uint64_t seed, device *gpu, char *line)
{
    program_arg *arg = &b->args[i];
    void        *data = NULL;
    bool         owned;
    if (!host_data(b, i, seed, &data, &owned, line))
        return false;
    size_t bytes = arg->count * element_bytes(arg->type);
    bool   ok = device_alloc(gpu, &b->addresses[i], bytes) && fill(gpu, b->addresses[i], data, bytes);
    if (!ok)
        snprintf(line, PROGRAM_LINE, "--arg %.300s: %s", arg->spec, gpu->line);
    if (owned)
        free(data);
    return ok;
}

/* Make the parameter values for the launch; the members of a struct lie side by side. */
static bool gather(program_buffers *b, char *line)
{
    size_t room = 0, members, bytes, size, parameter = 0;
    for (size_t i = 0; i < b->count; i++)
        room += program_arg_bytes(&b->args[i]) + sizeof(uint64_t); /* and its padding */
    b->values = (unsigned char *)calloc(1, room + 1);
    if (b->values == NULL) {
        snprintf(line, PROGRAM_LINE, "--arg: no memory for %zu bytes", room);
        return false;
    }
    unsigned char *next = b->values;
    for (size_t i = 0; i < b->count; i += members) {
        members = program_arg_members(&b->args[i], b->count - i, &bytes, &size);
        b->pointers[parameter++] = next;
        bytes = 0;
        for (size_t m = i; m < i + members; m++) {
            const program_arg *arg = &b->args[m];
            const void        *value = program_arg_is_buffer(arg) ? (void *)&b->addresses[m] : arg->value;
            bytes = program_arg_place(arg, bytes);
            memcpy(next + bytes, value, program_arg_bytes(arg));
            bytes += program_arg_bytes(arg);
        }
        next += size;
    }
    return true;
}

bool program_buffers_upload(program_buffers *b, const program_settings *s, device *gpu, char line[PROGRAM_LINE])
{
    for (size_t i = 0; i < b->count; i++)
        if (program_arg_is_buffer(&b->args[i]) && !upload_one(b, i, (uint64_t)s->seed + i, gpu, line))
            return false;
    return gather(b, line);
}

/* ---- down ----------------------------------------------------------------------------------------- */
static void describe(const program_arg *arg, size_t index, const void *data, program_output *out)
{
    memset(out, 0, sizeof *out);
    out->argument = (int)index;
    out->rank = arg->rank;
    out->count = (int64_t)arg->count;
    memcpy(out->shape, arg->shape, sizeof out->shape);
    snprintf(out->type, sizeof out->type, "%s", element_name(arg->type));
    snprintf(out->file, sizeof out->file, "%s", arg->to != NULL ? arg->to : "");
    for (size_t i = 0; i < arg->count && i < PROGRAM_SHOWN; i++)
        element_text(arg->type, data, i, out->first[i], sizeof out->first[i]);
    out->least = INFINITY;
    out->most = -INFINITY;
    for (size_t i = 0; i < arg->count; i++) {
        double value = element_value(arg->type, data, i);
        out->nans += isnan(value);
        out->least = value < out->least ? value : out->least;
        out->most = value > out->most ? value : out->most;
        out->mean += isnan(value) ? 0 : value;
    }
    out->mean /= (double)(out->count - out->nans); /* NaN if all elements are NaN */
    out->checksum = XXH3_64bits(data, arg->count * element_bytes(arg->type));
}

static bool write_file(const program_arg *arg, void *data, char *line)
{
    char      why[NPY_LINE];
    npy_array array = {.type = element_npy(arg->type), .rank = arg->rank, .count = arg->count, .data = data};
    memcpy(array.shape, arg->shape, sizeof array.shape);
    if (npy_write(arg->to, &array, why))
        return true;
    snprintf(line, PROGRAM_LINE, "--arg %.300s: %s", arg->spec, why);
    return false;
}

static bool fetch_one(program_buffers *b, size_t i, device *gpu, program_result *result, char *line)
{
    const program_arg *arg = &b->args[i];
    size_t             bytes = arg->count * element_bytes(arg->type);
    void              *data = malloc(bytes);
    bool               ok = data != NULL;
    if (!ok)
        snprintf(line, PROGRAM_LINE, "--arg %.300s: no memory for %zu bytes", arg->spec, bytes);
    if (ok && !device_download(gpu, data, b->addresses[i], bytes)) {
        snprintf(line, PROGRAM_LINE, "--arg %.300s: %s", arg->spec, gpu->line);
        ok = false;
    }
    if (ok && result->output_count < PROGRAM_OUTPUTS)
        describe(arg, i, data, &result->outputs[result->output_count++]);
    else
        result->outputs_left_out += ok;
    ok = ok && (arg->to == NULL || write_file(arg, data, line));
    free(data);
    return ok;
}

bool program_buffers_fetch(program_buffers *b, device *gpu, program_result *result, char line[PROGRAM_LINE])
{
    for (size_t i = 0; i < b->count; i++)
        if (program_arg_is_shown(&b->args[i]) && !fetch_one(b, i, gpu, result, line))
            return false;
    return true;
}

void program_buffers_release(program_buffers *b, device *gpu)
{
    for (size_t i = 0; i < b->count; i++) {
        device_free(gpu, b->addresses[i]);
        b->addresses[i] = 0;
        program_arg_free(&b->args[i]);
    }
    free(b->values);
    b->values = NULL;
    b->count = 0;
}

void program_buffers_free(program_buffers *b)
{
    for (size_t i = 0; i < PROGRAM_MAX_PARAMS; i++)
        free(b->kept[i].data);
    memset(b, 0, sizeof *b);
}
