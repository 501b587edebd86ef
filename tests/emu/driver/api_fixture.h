/* api_fixture.h - what the tests of the emulated driver share: they load it as a program would load
 * libcuda, as a fresh copy for each machine that a test needs (a library is initialised once per process and
 * path).
 *
 *   struct emu_api *cu = emu_api("PTXPACK_EMU_SM=80 PTXPACK_EMU_MEMORY=64M");    // with cuInit done
 *   assert_int_equal(cu->cuMemAlloc_v2(&address, 16), 0);
 *
 * $PTXPACK_EMU_LIBRARY names the library; otherwise it is libptxpack-emu.so above this program's folder. */
#ifndef EMU_API_FIXTURE_H
#define EMU_API_FIXTURE_H
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/emu/driver/layouts.h"
#include "tests/support/unit.h"
#include "loader/inspect.h"

struct emu_api {
    void *library;
    char  path[512];
#define API(name, suffix, version, parameters) api_result(*name##suffix) parameters;
#include "tools/emu/driver/api.def"
#undef API
#define NVPTX(name, parameters) ptxpack_nvptx_result(*name) parameters;
    PTXPACK_PTXCOMPILER_MAP(NVPTX)
#undef NVPTX
};

static char emu_folder[64]; /* of this run */

static inline int emu_folder_make(void **state)
{
    (void)state;
    snprintf(emu_folder, sizeof emu_folder, "/tmp/ptxpack-emu-XXXXXX");
    return mkdtemp(emu_folder) != NULL ? 0 : -1;
}

static inline int emu_folder_remove(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", emu_folder);
    return system(command);
}

/* Copies the library under a new name; the name is valid until the next call. */
static inline const char *emu_fresh_library(void)
{
    static char         copy[128];
    static unsigned int count;
    char                program[512], command[1400];
    const char         *library = getenv("PTXPACK_EMU_LIBRARY");
    if (library == NULL) {
        ssize_t n = readlink("/proc/self/exe", program, 400);
        assert_true(n > 0);
        program[n] = '\0';
        *strrchr(program, '/') = '\0';
        strcpy(strrchr(program, '/'), "/libptxpack-emu.so");
        library = program;
    }
    snprintf(copy, sizeof copy, "%s/emu-%d-%u.so", emu_folder, (int)getpid(), count++); /* processes fork */
    snprintf(command, sizeof command, "cp '%s' '%s'", library, copy);
    assert_int_equal(system(command), 0);
    return copy;
}

/* Sets the environment to exactly these PTXPACK_EMU_ variables, separated by spaces. */
static inline void emu_environment(const char *words)
{
    static const char *const names[] = {"SM",      "SMS",     "MEMORY", "SHARED", "DRIVER",
                                        "DEVICES", "THREADS", "SEED",   "ASYNC",  "JUDGE",
                                        "BUDGET",  "FAULT",   "LOG",    "ERRORS", "PATIENCE"};
    char                     name[64], copy[512], *save = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "PTXPACK_EMU_%s", names[i]);
        unsetenv(name);
    }
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        assert_non_null(equals);
        *equals = '\0';
        setenv(word, equals + 1, 1);
    }
}

static inline void emu_symbol(const struct emu_api *cu, const char *name, void *function)
{
    void *symbol = dlsym(cu->library, name);
    if (symbol == NULL)
        fail_msg("%s is not exported", name);
    memcpy(function, &symbol, sizeof symbol);
}

/* Loads the library and does not initialise it.  The caller frees the result; the library stays loaded. */
static inline struct emu_api *emu_api_load(const char *environment)
{
    struct emu_api *cu = (struct emu_api *)calloc(1, sizeof *cu);
    assert_non_null(cu);
    emu_environment(environment);
    snprintf(cu->path, sizeof cu->path, "%s", emu_fresh_library());
    cu->library = dlopen(cu->path, RTLD_NOW | RTLD_LOCAL);
    if (cu->library == NULL)
        fail_msg("%s", dlerror());
#define API(name, suffix, version, parameters) emu_symbol(cu, #name #suffix, &cu->name##suffix);
#include "tools/emu/driver/api.def"
#undef API
#define NVPTX(name, parameters) emu_symbol(cu, "nvPTXCompiler" #name, &cu->name);
    PTXPACK_PTXCOMPILER_MAP(NVPTX)
#undef NVPTX
    return cu;
}

static inline struct emu_api *emu_api(const char *environment)
{
    struct emu_api *cu = emu_api_load(environment);
    assert_int_equal(cu->cuInit(0), 0);
    return cu;
}

/* Loads and initialises the library, and makes a context current. */
static inline struct emu_api *emu_api_context(const char *environment, struct CUctx_st **context)
{
    struct emu_api  *cu = emu_api(environment);
    struct CUctx_st *made = NULL;
    assert_int_equal(cu->cuCtxCreate_v2(&made, 0, 0), 0);
    if (context != NULL)
        *context = made;
    return cu;
}

/* A module for the tests: entry `store` writes its second parameter to its first, `empty` does nothing, `add`
 * adds 1 to the words of a buffer, one for each thread. */
static const char emu_ptx[] = ".version 7.8\n"
                              ".target sm_75\n"
                              ".address_size 64\n"
                              ".global .align 4 .u32 seven = 7;\n"
                              ".visible .entry store(.param .u64 p, .param .u32 q)\n"
                              "{\n"
                              "    .reg .b64 %a<2>;\n"
                              "    .reg .b32 %r<2>;\n"
                              "    ld.param.u64 %a1, [p];\n"
                              "    ld.param.u32 %r1, [q];\n"
                              "    st.global.u32 [%a1], %r1;\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry empty()\n"
                              "{\n"
                              "    ret;\n"
                              "}\n"
                              ".visible .entry add(.param .u64 p)\n"
                              "{\n"
                              "    .reg .b64 %a<4>;\n"
                              "    .reg .b32 %r<6>;\n"
                              "    .shared .align 4 .b8 unused[256];\n"
                              "    ld.param.u64 %a1, [p];\n"
                              "    mov.u32 %r1, %ctaid.x;\n"
                              "    mov.u32 %r2, %ntid.x;\n"
                              "    mov.u32 %r3, %tid.x;\n"
                              "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
                              "    mul.wide.u32 %a2, %r4, 4;\n"
                              "    add.u64 %a3, %a1, %a2;\n"
                              "    ld.global.u32 %r5, [%a3];\n"
                              "    add.u32 %r5, %r5, 1;\n"
                              "    st.global.u32 [%a3], %r5;\n"
                              "    ret;\n"
                              "}\n";

static inline struct CUfunc_st *emu_function_named(struct emu_api *cu, const char *ptx, const char *name)
{
    struct CUmod_st  *module = NULL;
    struct CUfunc_st *function = NULL;
    assert_int_equal(cu->cuModuleLoadData(&module, ptx), 0);
    assert_int_equal(cu->cuModuleGetFunction(&function, module, name), 0);
    return function;
}

static inline void *emu_number(size_t n) { return (void *)(uintptr_t)n; }

/* ok(call): the call must answer 0. */
#define ok(call)              assert_int_equal(call, 0)
#define answers(call, result) assert_int_equal(call, result)
#endif
