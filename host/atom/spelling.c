/* spelling.c - names of operations as C++ spells them: in a namespace, in MMA_Atom<> and its like, with a value's {}. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "inspect.h"
#include "internal.h"

/* Does the text begin with this, in upper or lower case? */
static bool begins(const char *text, const char *with) { return strncasecmp(text, with, strlen(with)) == 0; }

/* Without the blanks between a template's arguments, and without cute::.  False: too long for a name. */
static bool plain_text(const char *name, char bare[ATOM_NAME_BYTES])
{
    size_t used = 0, open = 0;
    for (; *name != '\0'; name++) {
        if (*name == ' ' && open > 0)
            continue;
        bool starts = used == 0 || strchr("<,", bare[used - 1]) != NULL;
        if (starts && begins(name, "cute::")) {
            name += strlen("cute::") - 1;
            continue;
        }
        open += *name == '<';
        open -= *name == '>' && open > 0;
        if (used + 1 == ATOM_NAME_BYTES)
            return false;
        bare[used++] = *name;
    }
    if (used > 2 && (memcmp(bare + used - 2, "{}", 2) == 0 || memcmp(bare + used - 2, "()", 2) == 0))
        used -= 2;
    bare[used] = '\0';
    return true;
}

/* MMA_Atom<NAME>, Copy_Atom<NAME,type> and their like become NAME. */
static bool peel(char bare[ATOM_NAME_BYTES])
{
    static const char *const wrappers[] = {"MMA_Atom<", "MMA_Traits<", "Copy_Atom<", "Copy_Traits<"};
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        size_t at = strlen(wrappers[i]), depth = 0, length = 0;
        if (!begins(bare, wrappers[i]))
            continue;
        for (const char *c = bare + at; *c != '\0' && (depth > 0 || (*c != ',' && *c != '>')); c++, length++)
            depth += (size_t)(*c == '<') - (size_t)(*c == '>');
        memmove(bare, bare + at, length);
        bare[length] = '\0';
        if (length > 2 && memcmp(bare + length - 2, "{}", 2) == 0)
            bare[length - 2] = '\0';
        return true;
    }
    return false;
}

/* UniversalCopy<half_t> copies what UniversalCopy<uint16_t> copies. */
static void name_width(char bare[ATOM_NAME_BYTES])
{
    static const struct {
        const char *type, *width;
    } types[] = {{"half_t", "uint16_t"},      {"bfloat16_t", "uint16_t"}, {"int16_t", "uint16_t"},
                 {"half", "uint16_t"},        {"float", "uint32_t"},      {"int", "uint32_t"},
                 {"int32_t", "uint32_t"},     {"tfloat32_t", "uint32_t"}, {"unsigned", "uint32_t"},
                 {"double", "uint64_t"},      {"int64_t", "uint64_t"},    {"float4", "uint128_t"},
                 {"int4", "uint128_t"},       {"int8_t", "uint8_t"},      {"char", "uint8_t"},
                 {"float_e4m3_t", "uint8_t"}, {"float_e5m2_t", "uint8_t"}};
    static const char copy[] = "UniversalCopy<";
    if (!begins(bare, copy))
        return;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t bytes = strlen(types[i].type);
        if (begins(bare + sizeof copy - 1, types[i].type) && strcmp(bare + sizeof copy - 1 + bytes, ">") == 0)
            snprintf(bare, ATOM_NAME_BYTES, "%s%s>", copy, types[i].width);
    }
}

/* SM90::GMMA::MMA_...<GMMA::Major::K, GMMA::Major::MN>: the layouts are the same for all majors.  What is used as GMMA::MMA_...
 * stands in SM90::. */
static bool name_wgmma(char bare[ATOM_NAME_BYTES])
{
    static const char outer[] = "SM90::";
    char             *majors = strchr(bare, '<');
    if (majors != NULL) {
        const char *first = begins(majors + 1, outer) ? majors + sizeof outer : majors + 1;
        if (begins(first, "GMMA::Major::"))
            *majors = '\0';
    }
    if (!begins(bare, "GMMA::MMA_"))
        return true;
    if (strlen(bare) + sizeof outer > ATOM_NAME_BYTES)
        return false;
    memmove(bare + sizeof outer - 1, bare, strlen(bare) + 1);
    memcpy(bare, outer, sizeof outer - 1);
    return true;
}

bool atom_bare_name(const char *name, char bare[ATOM_NAME_BYTES])
{
    if (!plain_text(name, bare))
        return false;
    while (peel(bare)) {
    }
    name_width(bare);
    return name_wgmma(bare);
}
