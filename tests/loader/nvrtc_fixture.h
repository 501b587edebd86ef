/* nvrtc_fixture.h - CUDA C++ programs on a fake NVRTC: a fresh copy for each test, sources, builds. */
#ifndef PTXPACK_TEST_NVRTC_FIXTURE_H
#define PTXPACK_TEST_NVRTC_FIXTURE_H
#include "jit_fixture.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include "tests/fake/nvrtc.h"
#include "loader/compile/nvrtc.h"
#include "loader/build/program.h"

#define BEFORE_EACH reset_nvrtc
#define AFTER_EACH  NULL

static const char *nvrtc, *driver; /* this case's copies */

static inline int reset_nvrtc(void **state)
{
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
                                            "FAKE_NVRTC"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    nvrtc = fresh_copy("fake_nvrtc.so");
    driver = NULL;
    setenv("PTXPACK_NVRTC", nvrtc, 1);
    mkdir(below("ptx/inline"), 0700);
    write_text(below("ptx/inline/tiny.h"), "#include \"types.h\"\nint tiny;\n");
    write_text(below("ptx/inline/types.h"), "int types;\n");
    mkdir(below("lib"), 0700);
    return reset_compiler(state);
}

static inline struct fake_nvrtc *seen(void) { return (struct fake_nvrtc *)library_symbol(nvrtc, "fake_nvrtc"); }

static inline ptxpack_source source_of(const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s", below("k.cu"));
    ptxpack_source s = {.size = sizeof s, .language = PTXPACK_LANGUAGE_CUDA, .path = path, .text = text};
    return s;
}

/* Compiles on an offline handle; returns whether it came from the cache. */
static inline bool build(ptxpack *handle, const ptxpack_source *source, char *cubin, size_t cap)
{
    ptxpack_program_info info;
    void                *made = NULL;
    size_t               bytes = 0;
    if (ptxpack_program_compile(handle, source, &info, NULL, &made, &bytes) != PTXPACK_OK)
        fail_msg("%s", ptxpack_detail(handle));
    assert_int_equal(info.cubin_bytes, bytes);
    if (cubin != NULL)
        snprintf(cubin, cap, "%.*s", (int)bytes, (char *)made);
    free(made);
    return info.from_cache;
}

/* Does the same on a new offline handle, as another process would. */
static inline bool build_for(const char *arch, const ptxpack_source *source)
{
    ptxpack *handle = open_offline(arch, false);
    bool     cached = build(handle, source, NULL, 0);
    ptxpack_close(handle);
    return cached;
}

static inline void expect_failure(const ptxpack_source *source, ptxpack_status status, const char *part)
{
    ptxpack       *handle = open_offline("sm_90a", false);
    void          *cubin = &handle;
    char          *log = NULL;
    ptxpack_status got = ptxpack_program_compile(handle, source, NULL, &log, &cubin, NULL);
    if (got != status || strstr(ptxpack_detail(handle), part) == NULL)
        fail_msg("%s, not %s with \"%s\": %s", ptxpack_status_name(got), ptxpack_status_name(status), part,
                 ptxpack_detail(handle));
    assert_null(cubin);
    assert_non_null(log);
    free(log);
    ptxpack_close(handle);
}
#endif
