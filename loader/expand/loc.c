/* loc.c - .loc before instructions and .file at the end, so that profilers show the lines as written.
 *
 * PTX takes .loc only in the body of an .entry or .func and .file only outside.  The body is found by
 * counting braces from the header on; an instruction starts a line after ";", "{", "}" or a label. */
#include <stdlib.h>
#include "internal.h"

static bool is_instruction(span line)
{
    char c = line.size ? line.data[0] : 0;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '@';
}

bool expand_loc_before(expander *x, span line)
{
    line_info *info = &x->info;
    place      at = x->here, last = info->last;
    line = expand_trim(line);
    if (!info->in_function || !info->boundary || !is_instruction(line) || expand_label(line) == line.size ||
        (at.file == last.file && at.line == last.line))
        return true;
    while (at.file >= info->cap)
        if (!expand_grow(x, (void **)&info->numbers, info->cap, &info->cap, sizeof *info->numbers))
            return false;
    if (!info->numbers[at.file])
        info->numbers[at.file] = ++info->used;
    info->last = at;
    text *out = &x->e->out;
    return expand_text_add(x, out, ".loc ", 5) && expand_text_number(x, out, info->numbers[at.file]) &&
           expand_text_char(x, out, ' ') && expand_text_number(x, out, at.line) &&
           expand_text_add(x, out, " 0\n", 3) && expand_map_line(x, at);
}

/* A brace outside functions opens one only after a header: initialisers have braces too. */
static void follow_brace(line_info *info, char c)
{
    if (c == '{') {
        if (info->depth++ == 0 && info->header)
            info->in_function = true;
    } else if (info->depth && --info->depth == 0) {
        info->in_function = info->header = false;
        info->last.line = 0; /* a new function starts with a .loc of its own */
    }
}

bool expand_loc_after(expander *x, span line)
{
    line_info *info = &x->info;
    bool       quoted = false;
    line = expand_trim(line);
    if (!info->in_function &&
        (memmem(line.data, line.size, ".entry", 6) != NULL || memmem(line.data, line.size, ".func", 5) != NULL))
        info->header = true;
    for (size_t i = 0; i < line.size; i++) {
        char c = line.data[i];
        if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '}'))
            follow_brace(info, c);
        else if (!quoted && c == ';' && !info->in_function)
            info->header = false; /* it was a prototype */
    }
    char end = line.size ? line.data[line.size - 1] : 0;
    info->boundary = end == ';' || end == '{' || end == '}' || expand_label(line) == line.size;
    return true;
}

/* A character that a string of PTX cannot hold becomes an underscore. */
static bool add_name(expander *x, const char *name)
{
    for (const char *p = name; *p; p++)
        if (!expand_text_char(x, &x->e->out, *p == '"' || *p == '\\' || (unsigned char)*p < 0x20 ? '_' : *p))
            return false;
    return true;
}

bool expand_loc_end(expander *x)
{
    line_info *info = &x->info;
    text      *out = &x->e->out;
    for (uint32_t n = 1; n <= info->used; n++)
        for (uint32_t file = 0; file < info->cap; file++) {
            if (info->numbers[file] != n)
                continue;
            char        where[4096];
            const char *path = x->e->files[file].path;
            bool        below_ptx = *path != '/' && x->options.locate == NULL;
            if (x->options.locate != NULL)
                path = x->options.locate(x->options.context, path, where, sizeof where);
            if (!expand_text_add(x, out, ".file ", 6) || !expand_text_number(x, out, n) ||
                !expand_text_add(x, out, " \"ptx/", below_ptx ? 6 : 2) || !add_name(x, path) ||
                !expand_text_add(x, out, "\"\n", 2) || !expand_map_line(x, (place){0, 1, 0}))
                return false;
        }
    return true;
}
