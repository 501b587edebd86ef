/* loader_fixture.h - what the tests of the loader share: a folder of their own, fresh copies of the fake
 * libraries (a library is initialised once per process and path), and a tiny pack. */
#ifndef LOADER_FIXTURE_H
#define LOADER_FIXTURE_H
#include <dlfcn.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/fake/driver.h"
#include "tests/support/unit.h"
#include "host/ptxpack.h"

static char folder[64]; /* the folder of this run */

/* A path below the folder; valid until the 64th call after it. */
static const char *below(const char *name)
{
    static char paths[64][256];
    static int  next;
    char       *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The row that the tests build, and its text; line 4 of the file is expanded from a macro. */
static const char            test_ptx[] = ".macro STEP x\n"
                                          "        mov.u32 \\x, 0;\n"
                                          ".endm\n"
                                          ".version \\[ISA/10].\\[ISA%10]\n"
                                          ".target sm_\\[ARCH]\n"
                                          ".address_size 64\n"
                                          ".visible .entry test (.param .u64 p)\n"
                                          "{\n"
                                          "        .reg .b32 %r<2>;\n"
                                          "        STEP %r\\[WHICH]\n"
                                          "        ret;\n"
                                          "}\n";
static const ptxpack_variant row = {.id = "test_row",
                                    .op = "test",
                                    .file = "kernel/test.ptx",
                                    .entry = "test",
                                    .arch = 80,
                                    .isa = 70,
                                    .threads = 64,
                                    .shared_bytes = 50000,
                                    .blocks_per_sm = 1};

static void write_pack(const char *text)
{
    mkdir(below("ptx"), 0700);
    mkdir(below("ptx/kernel"), 0700);
    write_text(below("ptx/kernel/test.ptx"), text);
}

/* Copies a fake library beside this program under a new name. */
static inline const char *fresh_copy(const char *name)
{
    static unsigned count;
    char            program[512], command[1400], copy[64];
    ssize_t         n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(copy, sizeof copy, "copy-%u-%s", count++, name);
    snprintf(command, sizeof command, "cp '%s/%s' '%s'", program, name, below(copy));
    assert_int_equal(system(command), 0);
    return below(copy);
}

static void *library_symbol(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
    void *symbol = dlsym(library, name);
    assert_non_null(symbol);
    return symbol;
}

static inline struct fake_record *record_of(const char *driver)
{
    return (struct fake_record *)library_symbol(driver, "fake_record");
}

static inline ptxpack *open_with(const ptxpack_options *options)
{
    ptxpack *handle = NULL;
    if (ptxpack_open(options, &handle) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(NULL));
    return handle;
}

/* Symbols for `row`. */
static const ptxpack_symbol which[] = {{"WHICH", 1}};

static inline ptxpack_status load_row(ptxpack *handle, const ptxpack_variant *v, ptxpack_kernel **kernel)
{
    return ptxpack_kernel_load(handle, v, which, 1, kernel);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", text, part);
}

/* ---- before and after ----------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static int make_folder(void **state)
{
    static const char *const variables[] = {"DRIVER",         "PTXJIT",
                                            "PTX_DIR",        "ARCH",
                                            "LINE_INFO",      "PTXAS",
                                            "CACHE_DISABLE",  "CACHE_READONLY",
                                            "CACHE_MAX_SIZE", "CACHE_READONLY_DIRS",
                                            "FORBID_COMPILE"};
    char                     name[64];
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        snprintf(name, sizeof name, "PTXPACK_%s", variables[i]);
        unsetenv(name);
    }
    snprintf(folder, sizeof folder, "/tmp/ptxpack-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    setenv("PTXPACK_CACHE_DIR", below("cache"), 1);
    setenv("PTXPACK_PTX_DIR", below("ptx"), 1);
    write_pack(test_ptx);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Each case starts with an empty cache and nothing chosen. */
static int reset(void **state)
{
    (void)state;
    nftw(below("cache"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    unsetenv("FAKE_CUDA");
    unsetenv("FAKE_PTXJIT");
    unsetenv("PTXPACK_ARCH");
    unsetenv("PTXPACK_CACHE_READONLY_DIRS");
    unsetenv("PTXPACK_FORBID_COMPILE");
    setenv("PTXPACK_PTXAS", "none", 1);
    write_pack(test_ptx);
    return 0;
}
#endif
