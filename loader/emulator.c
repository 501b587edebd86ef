/* emulator.c - finding the emulated driver, and whether the environment asks for it. */
#include "emulator.h"
#include <dlfcn.h>
#include <link.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "files.h"

#define NAME "libptxpack-emu.so"

/* The file that contains this code: libptxpack.so, or the program that it was linked into. */
static bool own_file(char path[PATH_MAX])
{
    static const char here = 0;
    Dl_info           info;
    struct link_map  *map = NULL;
    ptxpack_linker_enter();
    bool found = dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map != NULL;
    ptxpack_linker_leave();
    return found && realpath(map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe", path) != NULL;
}

/* Where the dynamic linker itself finds the library: in its own folders and in LD_LIBRARY_PATH. */
static bool linker_finds(char *buf, size_t cap)
{
    ptxpack_linker_enter();
    void *library = dlopen(NAME, RTLD_LAZY | RTLD_LOCAL);
    bool  found = library != NULL && snprintf(buf, cap, "%s", ptxpack_library_path(library)) < (int)cap;
    if (library != NULL)
        dlclose(library);
    ptxpack_linker_leave();
    return found;
}

const char *ptxpack_emulator_path(char *buf, size_t cap)
{
    static const char *const places[] = {"", "../", "../lib/", "../lib64/"};
    char                     own[PATH_MAX] = "";
    const char              *named = secure_getenv("PTXPACK_EMU");
    if (named != NULL && *named != '\0')
        return snprintf(buf, cap, "%s", named) < (int)cap ? buf : NULL;
    int folder = own_file(own) ? (int)(strrchr(own, '/') + 1 - own) : 0;
    for (size_t i = 0; folder > 0 && i < sizeof places / sizeof places[0]; i++)
        if (snprintf(buf, cap, "%.*s%s" NAME, folder, own, places[i]) < (int)cap && access(buf, R_OK) == 0)
            return buf;
    if (linker_finds(buf, cap))
        return buf;
    snprintf(buf, cap, "%s", own);
    return NULL;
}

ptxpack_status ptxpack_emulator_asked(const char **path, char buf[PTXPACK_EMULATOR_PATH], char *detail,
                                      size_t cap)
{
    const char *device = secure_getenv("PTXPACK_DEVICE");
    if (device == NULL || *device == '\0' || strcmp(device, "gpu") == 0)
        return PTXPACK_OK;
    if (strcmp(device, "emu") != 0) {
        snprintf(detail, cap, "PTXPACK_DEVICE: '%.80s' is neither gpu nor emu", device);
        return PTXPACK_E_ARG;
    }
    const char *found = ptxpack_emulator_path(buf, PTXPACK_EMULATOR_PATH);
    if (found == NULL) {
        snprintf(detail, cap,
                 "PTXPACK_DEVICE=emu: " NAME
                 " is neither beside %.600s nor where the linker looks; PTXPACK_EMU "
                 "may name it",
                 buf);
        return PTXPACK_E_NO_DRIVER;
    }
    *path = found;
    return PTXPACK_OK;
}
