/* emulator.c - where the emulated driver lies. */
#include "emulator.h"
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libptxpack-emu.so"

/* Where the dynamic linker finds it by itself: its own folders and LD_LIBRARY_PATH. */
static bool linker_finds(char *buf, size_t cap)
{
    struct link_map *map = NULL;
    void            *library = dlopen(NAME, RTLD_LAZY | RTLD_LOCAL);
    bool             found = library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
                 snprintf(buf, cap, "%s", map->l_name) < (int)cap;
    if (library != NULL)
        dlclose(library);
    return found;
}

const char *emulator_path(char *buf, size_t cap)
{
    static const char *const places[] = {"", "../", "../lib/", "../lib64/"};
    char                     program[3072];
    const char              *named = getenv("PTXPACK_EMU");
    if (named != NULL && *named != '\0')
        return snprintf(buf, cap, "%s", named) < (int)cap ? buf : NULL;
    ssize_t got = readlink("/proc/self/exe", program, sizeof program - 1);
    if (got <= 0)
        return NULL;
    program[got] = '\0';
    *(strrchr(program, '/') + 1) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (snprintf(buf, cap, "%s%s" NAME, program, places[i]) < (int)cap && access(buf, R_OK) == 0)
            return buf;
    return linker_finds(buf, cap) ? buf : NULL;
}
