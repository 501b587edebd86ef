/* params.c - the entries of PTX text; reads just enough tokens to find their parameters. */
#include "params.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A token: a word (letters, digits and . _ $ % @), or one other character. */
typedef struct token {
    const char *at;
    size_t      bytes; /* 0: the end of the text */
} token;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '$' || c == '%' || c == '@';
}

/* Skip blanks and comments. */
static const char *skip(const char *at)
{
    for (;;) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end != NULL ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

static token next(const char **text)
{
    token t = {skip(*text), 0};
    if (*t.at == '"') { /* a string of .file or .section */
        const char *end = strchr(t.at + 1, '"');
        t.bytes = end != NULL ? (size_t)(end + 1 - t.at) : strlen(t.at);
    } else if (*t.at != '\0' && !is_word(*t.at)) {
        t.bytes = 1;
    } else {
        while (is_word(t.at[t.bytes]))
            t.bytes++;
    }
    *text = t.at + t.bytes;
    return t;
}

static bool is(token t, const char *word)
{
    return strlen(word) == t.bytes && memcmp(t.at, word, t.bytes) == 0;
}

static bool copy(token t, char *to, size_t cap)
{
    if (t.bytes == 0 || t.bytes >= cap)
        return false;
    memcpy(to, t.at, t.bytes);
    to[t.bytes] = '\0';
    return true;
}

/* ---- entries -------------------------------------------------------------------------------------- */
/* Skip the next ".entry NAME"; false at the end of the text. */
static bool next_entry(const char **text, token *name)
{
    for (token t = next(text); t.bytes > 0; t = next(text))
        if (is(t, ".entry")) {
            *name = next(text);
            return name->bytes > 0;
        }
    return false;
}

size_t program_entry_names(const char *ptx, char names[PROGRAM_MAX_ENTRIES][PROGRAM_NAME], size_t *left_out)
{
    size_t count = 0;
    token  name;
    for (*left_out = 0; next_entry(&ptx, &name);)
        if (count < PROGRAM_MAX_ENTRIES && copy(name, names[count], PROGRAM_NAME))
            count++;
        else
            ++*left_out;
    return count;
}

bool program_entry_exists(const char *ptx, const char *name)
{
    token found;
    while (next_entry(&ptx, &found))
        if (is(found, name))
            return true;
    return false;
}

/* The size of a type such as ".u32"; 0 if it is not a type. */
static size_t type_bytes(token t)
{
    static const char *const opaque[] = {".texref", ".samplerref", ".surfref"};
    for (size_t i = 0; i < 3; i++)
        if (is(t, opaque[i]))
            return 8;
    if (t.bytes < 3 || t.bytes > 5 || t.at[0] != '.' || strchr("busf", t.at[1]) == NULL)
        return 0;
    int bits = 0;
    for (size_t i = 2; i < t.bytes; i++)
        bits = isdigit((unsigned char)t.at[i]) ? 10 * bits + t.at[i] - '0' : 1000;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? (size_t)bits / 8 : 0;
}

/* ".param .align 8 .b8 name[48]", ".param .u64 .ptr .global .align 16 name", up to the , or ) in *end. */
static bool read_param(const char **text, program_param *out, token *end)
{
    size_t size = 0;
    memset(out, 0, sizeof *out);
    for (token t = next(text); t.bytes > 0; t = next(text)) {
        if (is(t, ",") || is(t, ")")) {
            *end = t;
            return size > 0 && out->name[0] != '\0';
        }
        if (is(t, ".align")) {
            next(text);
        } else if (is(t, "[")) {
            token count = next(text);
            out->array = true;
            out->bytes = count.bytes > 0 ? size * (size_t)strtoul(count.at, NULL, 0) : 0;
            if (!is(next(text), "]"))
                return false;
        } else if (size == 0 && (size = type_bytes(t)) > 0) {
            out->bytes = size;
            copy((token){t.at + 1, t.bytes - 1}, out->type, sizeof out->type);
        } else if (t.at[0] != '.' && !copy(t, out->name, sizeof out->name)) {
            return false;
        }
    }
    return false;
}

bool program_entry_find(const char *ptx, const char *name, program_entry *out)
{
    token found, end = {NULL, 0};
    memset(out, 0, sizeof *out);
    do
        if (!next_entry(&ptx, &found))
            return false;
    while (!is(found, name));
    copy(found, out->name, sizeof out->name);
    const char *inside = ptx;
    if (!is(next(&inside), "("))
        return true; /* none */
    const char *first = inside;
    if (is(next(&first), ")"))
        return true;
    do
        if (out->count == PROGRAM_MAX_PARAMS || !read_param(&inside, &out->params[out->count++], &end))
            return false;
    while (!is(end, ")"));
    return true;
}

/* Count the statements that begin with neither a directive nor a label. */
long program_entry_instructions(const char *ptx, const char *name)
{
    token found;
    long  count = 0, depth = 0;
    bool  begins = true;
    do
        if (!next_entry(&ptx, &found))
            return 0;
    while (!is(found, name));
    for (token t = next(&ptx); t.bytes > 0; t = next(&ptx)) {
        bool brace = is(t, "{") || is(t, "}");
        depth += brace ? (is(t, "{") ? 1 : -1) : 0;
        if (depth == 0 && brace)
            break;
        if (is(t, ";") || is(t, ":")) {
            begins = true;
        } else if (is(t, ".loc") && begins) {
            ptx += strcspn(ptx, "\n"); /* ends with its line */
        } else if (depth > 0 && begins && !brace) {
            const char *after = ptx;
            count += t.at[0] != '.' && !is(next(&after), ":");
            begins = false;
        }
    }
    return count;
}

/* ---- arguments ------------------------------------------------------------------------------------ */
static const char *describe(const program_entry *entry, size_t i, char buf[PROGRAM_LINE])
{
    const program_param *p = &entry->params[i];
    if (p->name[0] != '\0')
        snprintf(buf, PROGRAM_LINE, "parameter %zu of %.200s, %.200s (.%s%s)", i + 1, entry->name, p->name,
                 p->type, p->array ? "[]" : "");
    else
        snprintf(buf, PROGRAM_LINE, "parameter %zu of %.200s", i + 1, entry->name);
    return buf;
}

/* Check `arg`, the first member of parameter i; the members take `bytes`, with C's padding `size` bytes. */
static bool suits(const program_entry *entry, const program_arg *arg, size_t members, size_t bytes, size_t size,
                  size_t i, char *line)
{
    const program_param *p = &entry->params[i];
    char                 where[PROGRAM_LINE];
    if (members > 1) { /* any bits */
        if (bytes == p->bytes || size == p->bytes)
            return true;
        snprintf(line, PROGRAM_LINE, "--arg %.200s: %s has %zu bytes, not the %zu of these %zu members",
                 arg->spec, describe(entry, i, where), p->bytes, bytes, members);
        return false;
    }
    if (bytes != p->bytes) {
        snprintf(line, PROGRAM_LINE, "--arg %.200s: %s has %zu bytes, not %zu%s", arg->spec,
                 describe(entry, i, where), p->bytes, bytes,
                 program_arg_is_buffer(arg) ? " of an address" : "");
        return false;
    }
    bool is_value = arg->kind == PROGRAM_VALUE && !p->array;
    bool wide = program_arg_is_buffer(arg) || (is_value && element_kind(arg->type) != 'f');
    bool to_float = p->type[0] == 'f' && !p->array;
    bool to_integer = (p->type[0] == 'u' || p->type[0] == 's') && !p->array;
    if ((wide && to_float) || (is_value && element_kind(arg->type) == 'f' && to_integer)) {
        snprintf(line, PROGRAM_LINE, "--arg %.200s: %s takes %s (bytes: passes any bits)", arg->spec,
                 describe(entry, i, where), to_float ? "a float" : "an integer");
        return false;
    }
    return true;
}

bool program_entry_takes(const program_entry *entry, const program_arg *args, size_t count,
                         char line[PROGRAM_LINE])
{
    char   where[PROGRAM_LINE];
    size_t given = 0, beyond = 0, members, bytes, size;
    for (size_t i = 0; i < count; i += members, given++) {
        members = program_arg_members(&args[i], count - i, &bytes, &size);
        if (given < entry->count && !suits(entry, &args[i], members, bytes, size, given, line))
            return false;
        beyond = given == entry->count ? i : beyond;
    }
    if (given > entry->count)
        snprintf(line, PROGRAM_LINE, "--arg %.200s: %.200s has %zu parameter%s, and %zu were given",
                 args[beyond].spec, entry->name, entry->count, entry->count == 1 ? "" : "s", given);
    else if (given < entry->count)
        snprintf(line, PROGRAM_LINE, "%s has no --arg: %zu were given, %zu are wanted",
                 describe(entry, given, where), given, entry->count);
    return given == entry->count;
}
