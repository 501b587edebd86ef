/* extents.c - --grid, --block and --smem. */
#include "extents.h"

#include <stdio.h>
#include <string.h>

bool program_extents(const char *name, const char *text, const program_symbols *symbols, uint32_t out[3],
                     char line[PROGRAM_LINE])
{
    char        why[PROGRAM_LINE];
    const char *at = text;
    out[0] = out[1] = out[2] = 1;
    for (int i = 0;; i++) {
        program_wide extent;
        size_t       bytes = strcspn(at, ",");
        if (i == 3) {
            snprintf(line, PROGRAM_LINE, "%s %.300s: more than three extents", name, text);
            return false;
        }
        if (!program_number(symbols, at, bytes, &extent, why)) {
            snprintf(line, PROGRAM_LINE, "%s %.300s: %.300s", name, text, why);
            return false;
        }
        if (extent < 1 || extent > INT32_MAX) {
            snprintf(line, PROGRAM_LINE, "%s %.300s: \"%.*s\" is not from 1 to 2147483647", name, text,
                     (int)bytes, at);
            return false;
        }
        out[i] = (uint32_t)extent;
        if (at[bytes] == '\0')
            return true;
        at += bytes + 1;
    }
}

bool program_smem(const char *text, const program_symbols *symbols, int64_t *bytes, char line[PROGRAM_LINE])
{
    char         why[PROGRAM_LINE];
    program_wide value = 0;
    *bytes = 0;
    if (text != NULL && !program_number(symbols, text, strlen(text), &value, why)) {
        snprintf(line, PROGRAM_LINE, "--smem %.300s: %.300s", text, why);
        return false;
    }
    if (value < 0 || value > 1 << 24) {
        snprintf(line, PROGRAM_LINE, "--smem %.300s: it is not from 0 to 16777216", text);
        return false;
    }
    *bytes = (int64_t)value;
    return true;
}
