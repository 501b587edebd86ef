/* emu_fixture.c - a test's machine: settings, buffers, and a log in a temporary file. */
#include "emu_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct emu_settings emu_test_settings;

enum { MOST_BUFFERS = 256, LOG_BYTES = 1 << 16 };
static uint64_t     buffers[MOST_BUFFERS];
static unsigned int buffer_count;
static char         log_path[] = "/tmp/ptxpack-emu-log-XXXXXX", log_text[LOG_BYTES], refusal[512];

static void remove_log(void) { unlink(log_path); }

static void fail(const char *what)
{
    fprintf(stderr, "emu_fixture: %s\n", what);
    exit(1);
}

void emu_machine(int sm)
{
    static bool open;
    char        text[16], line[256];
    snprintf(text, sizeof text, "%d", sm);
    setenv("PTXPACK_EMU_SM", text, 1);
    if (!open) {
        int file = mkstemp(log_path);
        if (file < 0)
            fail("no temporary file");
        close(file);
        atexit(remove_log);
        setenv("PTXPACK_EMU_LOG", log_path, 1);
    }
    if (!emu_settings_read(&emu_test_settings, line, sizeof line))
        fail(line);
    if (!open && !emu_arena_open(emu_test_settings.memory_bytes))
        fail("no address space for the device memory");
    open = true;
    while (buffer_count)
        emu_arena_free(buffers[--buffer_count]);
    emu_log_clear();
}

uint64_t emu_buffer(uint64_t bytes)
{
    uint64_t address = emu_arena_alloc(bytes, EMU_MEMORY_DEVICE, NULL, NULL);
    if (!address || buffer_count == MOST_BUFFERS)
        fail("no device memory");
    buffers[buffer_count++] = address;
    return address;
}

void emu_write(uint64_t to, const void *from, uint64_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    emu_arena_define(to, bytes, true);
}

void emu_read(void *to, uint64_t from, uint64_t bytes) { memcpy(to, (const void *)(uintptr_t)from, bytes); }

/* refusal becomes the first error. */
static struct emu_module *load(const char *ptx, bool allocate, unsigned int *result)
{
    struct ptx_errors errors = {.text = refusal, .cap = sizeof refusal, .most = 1};
    return emu_module_load(&emu_test_settings, ptx, strlen(ptx), allocate, NULL, result, &errors);
}

unsigned int emu_run_shape(const char *ptx, const struct emu_launch *shape, const char *entry)
{
    struct emu_launch  launch = *shape;
    unsigned int       result = 0;
    struct emu_module *m = load(ptx, true, &result);
    if (m == NULL)
        return result;
    launch.entry = emu_module_entry(m, entry);
    if (launch.entry == NULL)
        fail("no such entry");
    if (launch.dynamic_shared && launch.entry->max_dynamic_shared < 0)
        launch.entry->max_dynamic_shared = (int)launch.dynamic_shared;
    result = emu_launch_check(&emu_test_settings, &launch);
    if (result == 0)
        result = emu_launch_run(&emu_test_settings, &launch);
    emu_module_unload(m);
    return result;
}

unsigned int emu_run(const char *ptx, const char *entry, uint32_t grid, uint32_t block, uint32_t dynamic_shared,
                     const uint64_t *words, unsigned int count)
{
    unsigned char        parameters[4096];
    unsigned int         result = 0;
    struct emu_launch    launch = {.grid = {grid, 1, 1},
                                   .block = {block, 1, 1},
                                   .dynamic_shared = dynamic_shared,
                                   .parameters = parameters};
    struct emu_module   *m = load(ptx, false, &result);
    struct emu_function *f = m != NULL ? emu_module_entry(m, entry) : NULL;
    memset(parameters, 0, sizeof parameters);
    for (unsigned int i = 0; f != NULL && i < count && i < f->parameter_count; i++)
        memcpy(parameters + f->parameters[i].offset, &words[i],
               f->parameters[i].bytes < 8 ? f->parameters[i].bytes : 8);
    if (m != NULL && f == NULL)
        fail("no such entry");
    emu_module_unload(m);
    return m != NULL ? emu_run_shape(ptx, &launch, entry) : result;
}

const char *emu_log(void)
{
    FILE  *file = fopen(log_path, "r");
    size_t got = snprintf(log_text, sizeof log_text, "%s%s", refusal, *refusal ? "\n" : "");
    if (file == NULL)
        return log_text;
    got += fread(log_text + got, 1, sizeof log_text - 1 - got, file);
    log_text[got] = '\0';
    fclose(file);
    return log_text;
}

void emu_log_clear(void)
{
    refusal[0] = '\0';
    if (truncate(log_path, 0))
        fail("the log cannot be emptied");
}
