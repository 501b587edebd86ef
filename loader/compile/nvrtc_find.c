/* nvrtc_find.c - finding NVRTC, where possible without loading it. */
#include "nvrtc.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "find.h"
#include "loader/files.h"

static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
enum { NAMES = sizeof names / sizeof names[0] };

/* Folders below those of Python's packages. */
static const char *const wheels[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};

static bool take(struct ptxpack_nvrtc_place *place, const char *folder, size_t bytes)
{
    for (int i = 0; i < NAMES; i++) {
        int n = snprintf(place->path, sizeof place->path, "%.*s/%s", (int)bytes, folder, names[i]);
        if (n > 0 && (size_t)n < sizeof place->path && access(place->path, R_OK) == 0)
            return true;
    }
    return false;
}

static bool take_in(struct ptxpack_nvrtc_place *place, const char *variable, const char *below)
{
    char        folder[4096];
    const char *value = secure_getenv(variable);
    if (value == NULL || *value != '/')
        return false;
    int n = snprintf(folder, sizeof folder, "%s/%s", value, below);
    return n > 0 && (size_t)n < sizeof folder && take(place, folder, (size_t)n);
}

/* A ptxpack_find_take of folders. */
static bool take_folder(const char *folder, void *place)
{
    return take((struct ptxpack_nvrtc_place *)place, folder, strlen(folder));
}

static bool take_linker_path(struct ptxpack_nvrtc_place *place)
{
    const char *path = secure_getenv("LD_LIBRARY_PATH");
    for (const char *at = path; at != NULL && *at;) {
        size_t bytes = strcspn(at, ":;");
        if (*at == '/' && take(place, at, bytes))
            return true;
        at += bytes + (at[bytes] != '\0');
    }
    return false;
}

static bool take_wheels(struct ptxpack_nvrtc_place *place)
{
    bool taken = false;
    for (size_t i = 0; i < sizeof wheels / sizeof wheels[0] && !taken; i++)
        taken = ptxpack_find_in_environment(wheels[i], take_folder, place);
    for (size_t i = 0; i < sizeof wheels / sizeof wheels[0] && !taken; i++)
        taken = ptxpack_find_in_packages(wheels[i], take_folder, place);
    return taken;
}

/* Find a library that is loaded already (`flag` RTLD_NOLOAD), or that only the dynamic linker finds (`flag` 0).
 * The caller holds the linker's lock. */
static bool take_loaded(struct ptxpack_nvrtc_place *place, const char *name, int flag)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | flag);
    if (library == NULL)
        return false;
    snprintf(place->path, sizeof place->path, "%s", ptxpack_library_path(library));
    if (flag)
        dlclose(library); /* only the count that RTLD_NOLOAD added */
    return place->path[0] == '/';
}

static bool take_any_loaded(struct ptxpack_nvrtc_place *place, int flag)
{
    bool taken = false;
    ptxpack_linker_enter();
    for (int i = 0; i < NAMES && !taken; i++)
        taken = take_loaded(place, names[i], flag);
    ptxpack_linker_leave();
    return taken;
}

static bool take_usual(struct ptxpack_nvrtc_place *place)
{
    static const char *const system[] = {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                         "/usr/lib", "/usr/local/lib"};
    for (size_t i = 0; i < sizeof system / sizeof system[0]; i++)
        if (take(place, system[i], strlen(system[i])))
            return true;
    return ptxpack_find_glob("/usr/local/cuda-*/lib64", take_folder, place);
}

static bool take_named(struct ptxpack_nvrtc_place *place, const char *named)
{
    struct stat st;
    if (strchr(named, '/') != NULL) {
        snprintf(place->path, sizeof place->path, "%s", named);
        return access(named, R_OK) == 0 && stat(named, &st) == 0 && S_ISREG(st.st_mode); /* no pipe */
    }
    ptxpack_linker_enter();
    bool taken = take_loaded(place, named, 0);
    ptxpack_linker_leave();
    return taken;
}

bool ptxpack_nvrtc_find(struct ptxpack_nvrtc_place *place, char *why, size_t cap)
{
    const char *named = secure_getenv("PTXPACK_NVRTC");
    memset(place, 0, sizeof *place);
    bool found;
    if (named != NULL && *named) {
        found = strcmp(named, "none") != 0 && take_named(place, named);
        snprintf(why, cap, "PTXPACK_NVRTC=%.200s names no usable library", named);
    } else {
        found = take_any_loaded(place, RTLD_NOLOAD) || take_in(place, "CUDA_HOME", "lib64") ||
                take_in(place, "CUDA_PATH", "lib64") || take_linker_path(place) || take_usual(place) ||
                take_wheels(place) || take_any_loaded(place, 0);
        snprintf(why, cap,
                 "there is no libnvrtc.so.13, .12 or .so where the linker looks, in CUDA_HOME, CUDA_PATH, "
                 "/usr/local/cuda*/lib64, or Python's nvidia packages; PyPI's nvidia-cuda-nvrtc has it, "
                 "PTXPACK_NVRTC may name one");
    }
    if (found && !ptxpack_file_identity(place->path, place->identity, sizeof place->identity))
        place->identity[0] = '\0';
    return found;
}
