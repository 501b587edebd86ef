/* inline_fixture.c - the device, sources and memory of the tests of ptx/inline. */
#include "inline_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "scratch.h"

enum { SKIPPED = 77 };

device inline_gpu;

static uint64_t input[INLINE_INPUTS], output;
static size_t   output_bytes;
static bool     folder;

/* ---- the device ------------------------------------------------------------------------------------ */
static ptxpack_status try_nvrtc(void)
{
    const ptxpack_source source = {.size = sizeof source,
                                   .language = PTXPACK_LANGUAGE_CUDA,
                                   .path = "empty.cu",
                                   .text = "extern \"C\" __global__ void empty() {}"};
    ptxpack_program     *program = NULL;
    ptxpack_status       status = ptxpack_program_load(inline_gpu.handle, &source, &program);
    if (status == PTXPACK_OK)
        ptxpack_program_free(program);
    return status;
}

int inline_open(const char *test)
{
    const ptxpack_options options = {.size = sizeof options, .cache_dir = scratch_folder};
    setenv("PTXPACK_EMU_SM", "90", 1);
    folder = scratch_open(NULL) == 0;
    if (!folder)
        return fprintf(stderr, "%s: no folder for the cache\n", test), 1;
    if (device_open_as(&inline_gpu, "emu", &options) != PTXPACK_OK)
        return fprintf(stderr, "%s: %s\n", test, inline_gpu.line), 1;
    ptxpack_status status = try_nvrtc();
    if (status == PTXPACK_E_NO_NVRTC)
        return printf("SKIP: %s: %s\n", test, ptxpack_detail(inline_gpu.handle)), SKIPPED;
    if (status != PTXPACK_OK)
        return fprintf(stderr, "%s: %s\n", test, ptxpack_detail(inline_gpu.handle)), 1;
    return 0;
}

void inline_close(void)
{
    for (int i = 0; i < INLINE_INPUTS; i++)
        device_free(&inline_gpu, input[i]);
    device_free(&inline_gpu, output);
    device_close(&inline_gpu);
    if (folder)
        scratch_close(NULL);
}

void inline_must(bool ok)
{
    if (!ok)
        fail_msg("%s", inline_gpu.line);
}

/* ---- sources --------------------------------------------------------------------------------------- */
void inline_begin(inline_text *t)
{
    t->out = open_memstream(&t->at, &t->bytes);
    assert_non_null(t->out);
}

void inline_append(inline_text *t, const char *path)
{
    char  line[1024];
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    while (fgets(line, sizeof line, file) != NULL)
        fputs(line, t->out);
    fclose(file);
}

ptxpack_program *inline_load(inline_text *t)
{
    ptxpack_program *program = NULL;
    assert_int_equal(fclose(t->out), 0);
    const ptxpack_source source = {.size = sizeof source,
                                   .language = PTXPACK_LANGUAGE_CUDA,
                                   .path = "inline_kernels.cu",
                                   .text = t->at,
                                   .bytes = t->bytes};
    if (ptxpack_program_load(inline_gpu.handle, &source, &program) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(inline_gpu.handle));
    free(t->at);
    return program;
}

const ptxpack_function *inline_function_of(ptxpack_program *program, const char *name)
{
    const ptxpack_function *f = NULL;
    if (ptxpack_program_function(program, name, &f) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(inline_gpu.handle));
    return f;
}

/* ---- memory ---------------------------------------------------------------------------------------- */
uint64_t inline_give(int slot, const void *from, size_t bytes)
{
    device_free(&inline_gpu, input[slot]);
    inline_must(device_alloc(&inline_gpu, &input[slot], bytes + 16) &&
                (bytes == 0 || device_upload(&inline_gpu, input[slot], from, bytes)));
    return input[slot];
}

uint64_t inline_room(size_t bytes)
{
    device_free(&inline_gpu, output);
    inline_must(device_alloc(&inline_gpu, &output, output_bytes = bytes));
    return output;
}

void inline_poison(void)
{
    device *d = &inline_gpu;
    inline_must(
        device_try(d, d->driver->cuMemsetD8Async(output, 0xff, output_bytes, d->stream), "cuMemsetD8Async"));
}

void inline_fetch(void *answer, const char *name)
{
    if (!device_sync(&inline_gpu) || !device_download(&inline_gpu, answer, output, output_bytes))
        fail_msg("%s: %s", name, inline_gpu.line);
}

void inline_run(const ptxpack_function *f, size_t x, size_t y, uint32_t threads, size_t shared_bytes,
                void *const *parameters, void *answer, const char *name)
{
    const uint32_t grid[3] = {(uint32_t)x, (uint32_t)y, 1}, block[3] = {threads, 1, 1};
    inline_poison();
    inline_must(device_status(&inline_gpu, ptxpack_function_launch(f, grid, block, shared_bytes, parameters,
                                                                   inline_gpu.stream)));
    inline_fetch(answer, name);
}
