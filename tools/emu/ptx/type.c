/* type.c - the fundamental types: names and widths. */
#include <string.h>
#include "ptx.h"

static const struct {
    const char  *name;
    unsigned int bits;
} types[PTX_TYPE_COUNT] = {[PTX_NO_TYPE] = {"", 0},
#define ROW(name, bits) [PTX_##name] = {#name, bits},
                           PTX_TYPE_MAP(ROW)
#undef ROW
};

unsigned int ptx_type_bits(enum ptx_type type)
{
    return (unsigned int)type < PTX_TYPE_COUNT ? types[type].bits : 0;
}

const char *ptx_type_name(enum ptx_type type)
{
    return (unsigned int)type < PTX_TYPE_COUNT ? types[type].name : "";
}

enum ptx_type ptx_type_find(const char *name)
{
    for (int i = PTX_NO_TYPE + 1; i < PTX_TYPE_COUNT; i++)
        if (strcmp(types[i].name, name) == 0)
            return (enum ptx_type)i;
    return PTX_NO_TYPE;
}
