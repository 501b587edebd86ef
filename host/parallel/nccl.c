/* nccl.c - finding NCCL and its functions. */
#include "nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "loader/files.h"

static const struct {
    const char *name;
    size_t      offset;
} rows[] = {
#define ROW(type, name, parameters) {#name, offsetof(nccl_table, name)},
    NCCL_MAP(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static nccl_table table; /* guarded by the lock of ptxpack_linker_enter */
static bool       loaded;

/* Returns NULL, or the name of what is missing. */
static const char *load_locked(const char *path)
{
    void *library = loaded ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (loaded)
        return NULL;
    if (library == NULL)
        return "";
    for (int i = 0; i < ROWS; i++) {
        void *function = dlsym(library, rows[i].name);
        if (function == NULL)
            return rows[i].name;
        memcpy((char *)&table + rows[i].offset, &function, sizeof function);
    }
    loaded = true;
    return NULL;
}

ptxpack_status nccl_open(const ptxpack *handle, const nccl_table **out)
{
    const char *path = secure_getenv("PTXPACK_NCCL");
    if (path == NULL || *path == '\0')
        path = "libnccl.so.2";
    ptxpack_linker_enter();
    const char *missing = load_locked(path);
    ptxpack_linker_leave();
    *out = &table;
    if (missing == NULL)
        return PTXPACK_OK;
    return ptxpack_fail(handle, PTXPACK_E_NO_NCCL,
                        *missing != '\0' ? "%s has no %s: it is older than NCCL 2.14" : "%s cannot be loaded%s",
                        path, missing);
}
