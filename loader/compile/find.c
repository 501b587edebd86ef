/* find.c - where toolkits, Python's packages and distributions put compilers. */
#include "find.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

bool ptxpack_find_glob(const char *pattern, ptxpack_find_take *take, void *context)
{
    glob_t found;
    bool   taken = false;
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = found.gl_pathc; i-- > 0 && !taken;)
        taken = take(found.gl_pathv[i], context);
    globfree(&found);
    return taken;
}

bool ptxpack_find_in_path(const char *variable, const char *name, ptxpack_find_take *take, void *context)
{
    char path[PATH_BYTES];
    for (const char *at = secure_getenv(variable); at != NULL && *at;) {
        size_t bytes = strcspn(at, ":;");
        int    n = snprintf(path, sizeof path, "%.*s/%s", (int)bytes, at, name);
        if (*at == '/' && n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0 && take(path, context))
            return true;
        at += bytes + (at[bytes] != '\0');
    }
    return false;
}

/* ---- Python's packages ------------------------------------------------------------------------------- */
static bool find_below(const char *root, const char *site, const char *below, ptxpack_find_take *take,
                       void *context)
{
    char pattern[PATH_BYTES];
    int  n = snprintf(pattern, sizeof pattern, "%s/%s/%s", root, site, below);
    return n > 0 && (size_t)n < sizeof pattern && ptxpack_find_glob(pattern, take, context);
}

static bool find_below_variable(const char *variable, const char *site, const char *below,
                                ptxpack_find_take *take, void *context)
{
    const char *root = secure_getenv(variable);
    return root != NULL && *root == '/' && find_below(root, site, below, take, context);
}

bool ptxpack_find_in_environment(const char *below, ptxpack_find_take *take, void *context)
{
    static const char site[] = "lib/python3*/site-packages";
    return find_below_variable("VIRTUAL_ENV", site, below, take, context) ||
           find_below_variable("CONDA_PREFIX", site, below, take, context);
}

bool ptxpack_find_in_packages(const char *below, ptxpack_find_take *take, void *context)
{
    static const char *const sites[] = {"local/lib/python3*/dist-packages", "local/lib/python3*/site-packages",
                                        "lib/python3*/dist-packages", "lib/python3*/site-packages"};
    bool taken = find_below_variable("HOME", ".local/lib/python3*/site-packages", below, take, context);
    for (size_t i = 0; i < sizeof sites / sizeof sites[0] && !taken; i++)
        taken = find_below("/usr", sites[i], below, take, context);
    return taken;
}

/* ---- programs ---------------------------------------------------------------------------------------- */
bool ptxpack_find_tool(const char *name, ptxpack_find_take *take, void *context)
{
    static const char *const folders[] = {"nvidia/cu[1-9][0-9]/bin", "nvidia/cuda_nvcc/bin",
                                          "triton/backends/nvidia/bin"};
    enum { FOLDERS = sizeof folders / sizeof folders[0] };
    char below[FOLDERS][128], usual[128];
    bool taken = ptxpack_find_in_path("PATH", name, take, context);
    for (size_t i = 0; i < FOLDERS; i++)
        snprintf(below[i], sizeof below[i], "%s/%.60s", folders[i], name);
    for (size_t i = 0; i < FOLDERS && !taken; i++)
        taken = ptxpack_find_in_environment(below[i], take, context);
    snprintf(usual, sizeof usual, "/usr/local/cuda/bin/%.60s", name);
    taken = taken || (access(usual, F_OK) == 0 && take(usual, context));
    for (size_t i = 0; i < FOLDERS && !taken; i++)
        taken = ptxpack_find_in_packages(below[i], take, context);
    return taken;
}
