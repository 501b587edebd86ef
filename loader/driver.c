/* driver.c - finding the driver library and its functions, and the meaning of its error numbers. */
#include "driver.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "emulator.h"
#include "files.h"

/* ---- the PTX ISA of each driver ------------------------------------------------------------------- */

/* NVIDIA's release history: PTX ISA * 10, the first CUDA version that takes it, the driver branch. */
static const struct {
    int isa, cuda, branch;
} releases[] = {
    {63, 10000, 410}, {64, 10010, 418}, {65, 10020, 440}, {70, 11000, 445}, {71, 11010, 455}, {72, 11020, 460},
    {73, 11030, 465}, {74, 11040, 470}, {75, 11050, 495}, {76, 11060, 510}, {77, 11070, 515}, {78, 11080, 520},
    {80, 12000, 525}, {81, 12010, 530}, {82, 12020, 535}, {83, 12030, 545}, {84, 12040, 550}, {85, 12050, 555},
    {86, 12070, 565}, {87, 12080, 570}, {88, 12090, 575}, {90, 13000, 580}, {91, 13010, 590}, {92, 13020, 595},
    {93, 13030, 610}, {94, 13040, 615},
};
enum { RELEASES = sizeof releases / sizeof releases[0] };

int ptxpack_isa_of_cuda(int cuda_version)
{
    int isa = 0;
    for (int i = 0; i < RELEASES && releases[i].cuda <= cuda_version; i++)
        isa = releases[i].isa;
    return isa;
}

int ptxpack_cuda_of_isa(int isa, int *branch)
{
    for (int i = 0; i < RELEASES; i++)
        if (releases[i].isa == isa) {
            if (branch != NULL)
                *branch = releases[i].branch;
            return releases[i].cuda;
        }
    return 0;
}

/* ---- error numbers -------------------------------------------------------------------------------- */

/* Error numbers with a status or a hint of their own. */
static const struct {
    ptxpack_cu_result result;
    ptxpack_status    status;
    const char       *hint;
} meanings[] = {
    {PTXPACK_CU_STUB_LIBRARY, PTXPACK_E_STUB_DRIVER,
     "the toolkit's stub stands in front of the driver's library"},
    {PTXPACK_CU_NOT_INITIALIZED, PTXPACK_E_DRIVER,
     "as in a child of a process that had initialised the driver"},
    {PTXPACK_CU_NO_DEVICE, PTXPACK_E_NO_DEVICE, NULL},
    {PTXPACK_CU_INVALID_DEVICE, PTXPACK_E_NO_DEVICE, NULL},
    {PTXPACK_CU_INVALID_IMAGE, PTXPACK_E_CUBIN, NULL},
    {PTXPACK_CU_NO_BINARY_FOR_GPU, PTXPACK_E_CUBIN, NULL},
    {PTXPACK_CU_INVALID_PTX, PTXPACK_E_COMPILE, NULL},
    {PTXPACK_CU_JIT_COMPILER_NOT_FOUND, PTXPACK_E_NO_JIT,
     "libnvidia-ptxjitcompiler.so.1 of this driver is missing; containers often lack it, Debian's "
     "libnvidia-ptxjitcompiler1 brings it"},
    {PTXPACK_CU_UNSUPPORTED_PTX_VERSION, PTXPACK_E_ISA, NULL},
    {PTXPACK_CU_JIT_COMPILATION_DISABLED, PTXPACK_E_NO_JIT, "CUDA_DISABLE_PTX_JIT is set"},
    {PTXPACK_CU_CONTEXT_IS_DESTROYED, PTXPACK_E_DRIVER, "the context that is current was destroyed"},
    {PTXPACK_CU_SYSTEM_DRIVER_MISMATCH, PTXPACK_E_DRIVER,
     "kernel module and libcuda are of different versions"},
    {PTXPACK_CU_COMPAT_NOT_SUPPORTED, PTXPACK_E_DRIVER,
     "a forward-compatibility libcuda is in use on a GPU that does not support it"},
    {PTXPACK_CU_STREAM_CAPTURE_UNSUPPORTED, PTXPACK_E_DRIVER,
     "kernels must be loaded before a stream of this thread is captured"},
};
enum { MEANINGS = sizeof meanings / sizeof meanings[0] };

ptxpack_status ptxpack_driver_status(ptxpack_cu_result result)
{
    if (result == PTXPACK_CU_SUCCESS)
        return PTXPACK_OK;
    for (int i = 0; i < MEANINGS; i++)
        if (meanings[i].result == result)
            return meanings[i].status;
    return PTXPACK_E_DRIVER;
}

const char *ptxpack_driver_error(const struct ptxpack_driver *driver, ptxpack_cu_result result, char *buf,
                                 size_t cap)
{
    if (buf == NULL || cap == 0)
        return "";
    if (driver == NULL) {
        snprintf(buf, cap, "error %u of no driver", result);
        return buf;
    }
    const char *name = NULL, *text = NULL, *hint = NULL;
    if (driver->cuGetErrorName(result, &name) != PTXPACK_CU_SUCCESS || name == NULL)
        name = "unknown error";
    if (driver->cuGetErrorString(result, &text) != PTXPACK_CU_SUCCESS || text == NULL)
        text = "no description";
    for (int i = 0; i < MEANINGS; i++)
        if (meanings[i].result == result)
            hint = meanings[i].hint;
    snprintf(buf, cap, "%s (%u): %s%s%s%s", name, result, text, hint != NULL ? " (" : "",
             hint != NULL ? hint : "", hint != NULL ? ")" : "");
    return buf;
}

/* ---- finding the functions ------------------------------------------------------------------------ */

enum need { REQUIRED, OPTIONAL };
static const struct row {
    const char *name, *suffix;
    int         version;
    enum need   need;
    size_t      offset; /* of its pointer in the table */
} rows[] = {
#define ROW(name, version, suffix, need, parameters) \
    {#name, suffix, version, need, offsetof(struct ptxpack_driver, name)},
    PTXPACK_DRIVER_MAP(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* A loaded library; lives as long as the process. */
struct loaded {
    struct ptxpack_driver table;
    pid_t                 pid;  /* that called cuInit */
    char                 *path; /* as asked for */
    struct loaded        *next;
};
static struct loaded *all_loaded; /* guarded by the lock of ptxpack_linker_enter */

/* The two generations of cuGetProcAddress; both are absent before CUDA 11.3. */
struct finder {
    void *library;
    ptxpack_cu_result (*get)(const char *name, void **function, int version, uint64_t flags);
    ptxpack_cu_result (*get_v2)(const char *name, void **function, int version, uint64_t flags, int *found);
    bool stub;
};

/* ISO C has no conversion between data and function pointers; POSIX promises that they have the same
 * representation. */
static void copy_pointer(void *to, void *function) { memcpy(to, &function, sizeof function); }

static void *find(struct finder *f, const struct row *row)
{
    void *function = NULL;
    if (f->get_v2 != NULL) {
        int               found = -1;
        ptxpack_cu_result r = f->get_v2(row->name, &function, row->version, 0, &found);
        f->stub |= r == PTXPACK_CU_STUB_LIBRARY;
        return r == PTXPACK_CU_SUCCESS && found == 0 ? function : NULL;
    }
    if (f->get != NULL) {
        ptxpack_cu_result r = f->get(row->name, &function, row->version, 0);
        f->stub |= r == PTXPACK_CU_STUB_LIBRARY;
        return r == PTXPACK_CU_SUCCESS ? function : NULL;
    }
    char name[96];
    snprintf(name, sizeof name, "%s%s", row->name, row->suffix);
    return dlsym(f->library, name);
}

static ptxpack_status say(char *detail, size_t cap, ptxpack_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static ptxpack_status say(char *detail, size_t cap, ptxpack_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, cap, format, arguments);
    va_end(arguments);
    return status;
}

static ptxpack_status fill_table(void *library, struct ptxpack_driver *table, char *detail, size_t cap)
{
    struct finder f = {library, NULL, NULL, false};
    copy_pointer(&f.get_v2, dlsym(library, "cuGetProcAddress_v2"));
    copy_pointer(&f.get, dlsym(library, "cuGetProcAddress"));
    table->path = ptxpack_library_path(library);
    for (int i = 0; i < ROWS; i++) {
        void *function = find(&f, &rows[i]);
        if (f.stub)
            return say(detail, cap, PTXPACK_E_STUB_DRIVER, "%s is the toolkit's stub, not a driver (error 34)",
                       table->path);
        if (function == NULL && rows[i].need == REQUIRED)
            return say(detail, cap, PTXPACK_E_DRIVER, "%s has no %s of CUDA %d.%d, which is required",
                       table->path, rows[i].name, rows[i].version / 1000, rows[i].version % 1000 / 10);
        copy_pointer((char *)table + rows[i].offset, function);
    }
    return PTXPACK_OK;
}

static ptxpack_status initialise(struct ptxpack_driver *table, char *detail, size_t cap)
{
    char              text[512];
    ptxpack_cu_result r = table->cuInit(0);
    if (r != PTXPACK_CU_SUCCESS)
        return say(detail, cap, ptxpack_driver_status(r), "cuInit of %s: %s", table->path,
                   ptxpack_driver_error(table, r, text, sizeof text));
    r = table->cuDriverGetVersion(&table->version);
    if (r != PTXPACK_CU_SUCCESS)
        return say(detail, cap, ptxpack_driver_status(r), "cuDriverGetVersion of %s: %s", table->path,
                   ptxpack_driver_error(table, r, text, sizeof text));
    return PTXPACK_OK;
}

static void *load_library(const char *path, char *detail, size_t cap)
{
    void *library = dlopen(*path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        return library;
    const char *error = dlerror();
    snprintf(detail, cap, "%s", error != NULL ? error : "dlopen failed");
    return *path ? NULL : dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
}

static struct loaded *find_loaded(const char *path)
{
    struct loaded *one = all_loaded;
    while (one != NULL && strcmp(one->path, path) != 0)
        one = one->next;
    return one;
}

/* The caller holds the lock. */
static ptxpack_status open_locked(const char *path, const struct ptxpack_driver **out, char *detail, size_t cap)
{
    struct loaded *one = find_loaded(path);
    if (one != NULL && one->pid != getpid())
        return say(detail, cap, PTXPACK_E_FORKED,
                   "the driver was initialised by process %ld, and this is its child %ld", (long)one->pid,
                   (long)getpid());
    if (one != NULL) {
        *out = &one->table;
        return PTXPACK_OK;
    }
    void *library = load_library(path, detail, cap);
    if (library == NULL)
        return PTXPACK_E_NO_DRIVER;
    one = (struct loaded *)calloc(1, sizeof *one);
    if (one == NULL || (one->path = strdup(path)) == NULL) {
        free(one);
        return say(detail, cap, PTXPACK_E_MEMORY, "out of memory for the driver table");
    }
    ptxpack_status status = fill_table(library, &one->table, detail, cap);
    if (status == PTXPACK_OK)
        status = initialise(&one->table, detail, cap);
    if (status != PTXPACK_OK) {
        free(one->path);
        free(one);
        return status;
    }
    one->pid = getpid();
    one->next = all_loaded;
    all_loaded = one;
    *out = &one->table;
    return PTXPACK_OK;
}

/* Where there is no GPU: what can be done without one. */
static void add_advice(ptxpack_status status, char *detail, size_t cap)
{
    size_t used = cap ? strlen(detail) : 0;
    if (status == PTXPACK_E_NO_DRIVER || status == PTXPACK_E_STUB_DRIVER || status == PTXPACK_E_NO_DEVICE)
        snprintf(detail + used, cap - used, PTXPACK_EMULATOR_ADVICE);
}

ptxpack_status ptxpack_driver_open(const char *path, const struct ptxpack_driver **out, char *detail,
                                   size_t cap)
{
    if (detail == NULL)
        cap = 0;
    if (out == NULL)
        return say(detail, cap, PTXPACK_E_ARG, "ptxpack_driver_open: out is NULL");
    char           emulator[PTXPACK_EMULATOR_PATH];
    ptxpack_status status = PTXPACK_OK;
    bool           named = path != NULL && *path;
    *out = NULL;
    if (cap)
        *detail = '\0';
    if (!named) {
        path = secure_getenv("PTXPACK_DRIVER");
        status = ptxpack_emulator_asked(&path, emulator, detail, cap);
    }
    if (status != PTXPACK_OK)
        return status;
    ptxpack_linker_enter();
    status = open_locked(path != NULL ? path : "", out, detail, cap);
    ptxpack_linker_leave();
    if (!named && path != emulator)
        add_advice(status, detail, cap);
    return status;
}

const char *ptxpack_driver_path(const struct ptxpack_driver *driver)
{
    return driver != NULL ? driver->path : "";
}
