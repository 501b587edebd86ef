/* args.c - argument specs: parsing them, and what their buffers hold at first. */
#include "args.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char      *word;
    program_arg_kind kind;
} kinds[] = {
    {"bytes", PROGRAM_BYTES}, {"in", PROGRAM_IN},   {"zero", PROGRAM_ZERO},
    {"iota", PROGRAM_IOTA},   {"out", PROGRAM_OUT}, {"inout", PROGRAM_INOUT},
};

static bool refuse(char *line, const program_arg *arg, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(char *line, const program_arg *arg, const char *format, ...)
{
    va_list arguments;
    int     length = snprintf(line, PROGRAM_LINE, "--arg %.300s: ", arg->spec);
    va_start(arguments, format);
    vsnprintf(line + length, (size_t)(PROGRAM_LINE - length), format, arguments);
    va_end(arguments);
    return false;
}

bool program_arg_is_buffer(const program_arg *arg) { return arg->kind >= PROGRAM_IN; }
bool program_arg_is_shown(const program_arg *arg) { return arg->kind >= PROGRAM_OUT; }

size_t program_arg_bytes(const program_arg *arg)
{
    return program_arg_is_buffer(arg) ? sizeof(uint64_t) : arg->value_bytes;
}

/* Values and addresses lie on multiples of their size. */
static size_t alignment(const program_arg *arg)
{
    return arg->kind == PROGRAM_BYTES ? 1 : program_arg_bytes(arg);
}

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t program_arg_place(const program_arg *arg, size_t bytes) { return round_up(bytes, alignment(arg)); }

size_t program_arg_members(const program_arg *args, size_t count, size_t *bytes, size_t *size)
{
    size_t n = 0, most = 1;
    *bytes = 0;
    do {
        *bytes = program_arg_place(&args[n], *bytes) + program_arg_bytes(&args[n]);
        most = alignment(&args[n]) > most ? alignment(&args[n]) : most;
    } while (++n < count && args[n].member);
    *size = round_up(*bytes, most);
    return n;
}

void program_arg_free(program_arg *arg)
{
    free(arg->value);
    free(arg->text);
    arg->value = NULL;
    arg->text = NULL;
}

/* ---- values --------------------------------------------------------------------------------------- */
static bool parse_value(program_arg *arg, const program_symbols *symbols, const char *text, char *line)
{
    char why[PROGRAM_LINE];
    arg->value_bytes = element_bytes(arg->type);
    arg->value = (unsigned char *)calloc(1, sizeof(uint64_t));
    if (arg->value == NULL)
        return refuse(line, arg, "out of memory");
    return element_parse(arg->type, symbols, text, arg->value, why) || refuse(line, arg, "%s", why);
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

static bool parse_bytes(program_arg *arg, const char *text, char *line)
{
    size_t digits = strlen(text);
    arg->value_bytes = digits / 2;
    if (digits == 0 || digits % 2 != 0 || arg->value_bytes > PROGRAM_MAX_ARG_BYTES)
        return refuse(line, arg, "%zu hexadecimal digits are not two for each of 1 to %d bytes", digits,
                      PROGRAM_MAX_ARG_BYTES);
    arg->value = (unsigned char *)malloc(arg->value_bytes);
    if (arg->value == NULL)
        return refuse(line, arg, "out of memory");
    for (size_t i = 0; i < arg->value_bytes; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return refuse(line, arg, "\"%.2s\" is not a byte of two hexadecimal digits", text + 2 * i);
        arg->value[i] = (unsigned char)(16 * high + low);
    }
    return true;
}

/* ---- buffers -------------------------------------------------------------------------------------- */
static bool is_file(const char *text)
{
    size_t bytes = strlen(text);
    return bytes > 4 && strcmp(text + bytes - 4, ".npy") == 0;
}

/* Split "a.npy:b.npy"; NULL when there is no second file. */
static char *split_files(char *text)
{
    char *colon = strstr(text, ".npy:");
    if (colon == NULL)
        return NULL;
    colon[4] = '\0';
    return colon + 5;
}

/* The length of the first factor of a product of factors; 0 when a sum or a division stands outside of
 * parentheses. */
static size_t first_factor(const char *text)
{
    int depth = 0;
    for (const char *p = text; *p != '\0'; p++) {
        depth += (*p == '(') - (*p == ')');
        if (depth == 0 && strchr("+-/%", *p) != NULL)
            return 0;
    }
    depth = 0;
    for (const char *p = text;; p++) {
        depth += (*p == '(') - (*p == ')');
        if (*p == '\0' || (depth == 0 && *p == '*'))
            return (size_t)(p - text);
    }
}

/* "128*64" is 8192 elements of the shape (128, 64). */
static bool parse_count(program_arg *arg, const program_symbols *symbols, const char *text, char *line)
{
    char               why[PROGRAM_LINE];
    program_wide       total, extent;
    const program_wide most = ((program_wide)1 << 40) / (program_wide)element_bytes(arg->type);
    if (!program_number(symbols, text, strlen(text), &total, why))
        return refuse(line, arg, "%s", why);
    if (total < 1 || total > most)
        return refuse(line, arg, "the count %.100s is not from 1 to %lld", text, (long long)most);
    arg->count = (size_t)total;
    arg->rank = 1;
    arg->shape[0] = (int64_t)total;
    int    rank = 0;
    size_t bytes;
    for (const char *at = text; (bytes = first_factor(at)) > 0; at += bytes + 1) {
        if (rank == PROGRAM_MAX_RANK || !program_number(symbols, at, bytes, &extent, why) || extent < 1)
            return true; /* the shape stays one row */
        arg->shape[rank++] = (int64_t)extent;
        if (at[bytes] == '\0') {
            arg->rank = rank;
            return true;
        }
    }
    arg->shape[0] = (int64_t)total;
    return true;
}

/* Parse what follows the kind: [TYPE:], a count or a file, and for out and inout the file to write. */
static bool parse_buffer(program_arg *arg, const program_symbols *symbols, char *rest, char *line)
{
    char *colon = strchr(rest, ':');
    bool  reads = arg->kind == PROGRAM_IN || arg->kind == PROGRAM_INOUT;
    arg->type = colon != NULL ? element_find(rest, (size_t)(colon - rest)) : ELEMENT_COUNT;
    char *size = arg->type != ELEMENT_COUNT ? colon + 1 : rest, *second = NULL;
    if (reads && strstr(size, ".npy") != NULL) {
        second = split_files(size);
        if (is_file(size)) {
            arg->from = size;
            size = NULL;
        }
    }
    if (size != NULL && (second = strchr(size, ':')) != NULL)
        *second++ = '\0';
    if (size != NULL && arg->type == ELEMENT_COUNT) {
        if (second == NULL)
            return refuse(line, arg, "%s%s:COUNT is wanted behind the colon", reads ? "a .npy file or " : "",
                          "TYPE");
        return refuse(line, arg, "\"%s\" is not a type: " ELEMENT_NAMES, size);
    }
    if (second != NULL && !program_arg_is_shown(arg))
        return refuse(line, arg, "\"%s\" is one field too many", second);
    if (second != NULL && !is_file(second))
        return refuse(line, arg, "\"%s\" is not a .npy file", second);
    arg->to = second;
    return size == NULL || parse_count(arg, symbols, size, line);
}

bool program_arg_parse(const char *spec, const program_symbols *symbols, program_arg *out,
                       char line[PROGRAM_LINE])
{
    memset(out, 0, sizeof *out);
    out->spec = spec;
    out->member = spec[0] == '+';
    out->kind = PROGRAM_VALUE;
    out->type = ELEMENT_COUNT;
    out->text = strdup(spec + out->member);
    if (out->text == NULL)
        return refuse(line, out, "out of memory");
    size_t word = strcspn(out->text, ":");
    if (out->text[word] == '\0')
        return refuse(line, out, "a : is missing, as in u32:1 or in:x.npy");
    char *rest = out->text + word + 1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].word) == word && memcmp(kinds[i].word, out->text, word) == 0)
            out->kind = kinds[i].kind;
    if (out->kind == PROGRAM_BYTES)
        return parse_bytes(out, rest, line);
    if (out->kind != PROGRAM_VALUE)
        return parse_buffer(out, symbols, rest, line);
    out->type = element_find(out->text, word);
    if (out->type == ELEMENT_COUNT)
        return refuse(line, out,
                      "\"%.*s\" is neither in, zero, iota, out, inout or bytes nor a type: " ELEMENT_NAMES,
                      (int)word, out->text);
    return parse_value(out, symbols, rest, line);
}

/* ---- what a buffer holds at first ----------------------------------------------------------------- */
static bool read_file(program_arg *arg, void **data, char *line)
{
    npy_array array;
    char      why[NPY_LINE];
    if (!npy_read(arg->from, &array, why))
        return refuse(line, arg, "%s", why);
    if (arg->type == ELEMENT_COUNT)
        arg->type = element_of_npy(array.type);
    if (element_npy(arg->type) != array.type || array.count == 0) {
        npy_free(&array);
        return array.count == 0 ? refuse(line, arg, "%s has no elements", arg->from)
                                : refuse(line, arg, "%s holds %s, which is not %s", arg->from,
                                         npy_type_name(array.type), element_name(arg->type));
    }
    arg->rank = array.rank;
    memcpy(arg->shape, array.shape, sizeof arg->shape);
    arg->count = array.count;
    *data = array.data;
    return true;
}

bool program_arg_fill(program_arg *arg, uint64_t seed, void **data, char line[PROGRAM_LINE])
{
    *data = NULL;
    if (arg->from != NULL)
        return read_file(arg, data, line);
    if (arg->kind == PROGRAM_OUT)
        return true;
    *data = calloc(arg->count, element_bytes(arg->type));
    if (*data == NULL)
        return refuse(line, arg, "no memory for %zu elements", arg->count);
    if (arg->kind == PROGRAM_IOTA)
        element_iota(arg->type, *data, arg->count);
    else if (arg->kind != PROGRAM_ZERO)
        element_random(arg->type, seed, *data, arg->count);
    return true;
}
