/* npy.c - reads and writes NumPy's .npy files. */
#include "npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replace.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie in memory");

enum { MAX_HEADER = 1 << 20 };
static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    const char *descr, *name;
    size_t      bytes;
} types[] = {
    [NPY_F16] = {"<f2", "float16", 2}, [NPY_F32] = {"<f4", "float32", 4}, [NPY_U16] = {"<u2", "uint16", 2},
    [NPY_U8] = {"|u1", "uint8", 1},    [NPY_F64] = {"<f8", "float64", 8}, [NPY_S8] = {"|i1", "int8", 1},
    [NPY_S16] = {"<i2", "int16", 2},   [NPY_S32] = {"<i4", "int32", 4},   [NPY_S64] = {"<i8", "int64", 8},
    [NPY_U32] = {"<u4", "uint32", 4},  [NPY_U64] = {"<u8", "uint64", 8},
};

size_t npy_element_bytes(npy_type type) { return types[type].bytes; }

const char *npy_type_name(npy_type type) { return types[type].name; }

void npy_free(npy_array *array)
{
    free(array->data);
    array->data = NULL;
}

static bool refuse(char *line, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(char *line, const char *path, const char *format, ...)
{
    va_list arguments;
    int     length = snprintf(line, NPY_LINE, "%.300s: ", path);
    va_start(arguments, format);
    vsnprintf(line + length, (size_t)(NPY_LINE - length), format, arguments);
    va_end(arguments);
    return false;
}

/* ---- the header: {'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), } ---------------------- */
/* A position in the header; a function that fails leaves the reason in `why`. */
typedef struct cursor {
    const char *at, *end;
    const char *why;
} cursor;

static void skip_spaces(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n'))
        c->at++;
}

static bool take(cursor *c, char wanted)
{
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* Reads a quoted string without escapes; *text is not terminated. */
static bool take_string(cursor *c, const char **text, size_t *length)
{
    char quote = '\'';
    if (!take(c, quote) && !take(c, quote = '"'))
        return false;
    *text = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\' && *c->at != '\n')
        c->at++;
    *length = (size_t)(c->at - *text);
    return take(c, quote);
}

static bool equals(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

static bool take_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

static bool read_descr(cursor *c, npy_array *out)
{
    const char *text;
    size_t      length;
    if (!take_string(c, &text, &length)) {
        c->why = "descr is not a plain string: structured arrays are not supported";
        return false;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (equals(text, length, types[i].descr)) {
            out->type = (npy_type)i;
            return true;
        }
    c->why = length > 0 && text[0] == '>'
                 ? "big-endian elements are not supported"
                 : "descr is neither a float of 16 to 64 bits nor an integer of 8 to 64";
    return false;
}

static bool read_order(cursor *c)
{
    if (take_word(c, "False"))
        return true;
    c->why = take_word(c, "True") ? "fortran_order is True: save a C-ordered copy (numpy.ascontiguousarray)"
                                  : "fortran_order is neither True nor False";
    return false;
}

static bool read_extent(cursor *c, int64_t *extent)
{
    skip_spaces(c);
    const char *first = c->at;
    *extent = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*extent, 10, extent) ||
            __builtin_add_overflow(*extent, *c->at - '0', extent)) {
            c->why = "an extent of the shape is too large";
            return false;
        }
    if (c->at == first || (*first == '0' && c->at - first > 1)) {
        c->why = "shape is not a tuple of whole numbers";
        return false;
    }
    return true;
}

/* Reads a tuple: (), (3,), (2, 3) or (2, 3,); but (3) is a number. */
static bool read_shape(cursor *c, npy_array *out)
{
    bool comma = true;
    c->why = "shape is not a tuple of whole numbers";
    out->rank = 0;
    if (!take(c, '('))
        return false;
    while (!take(c, ')')) {
        if (!comma)
            return false;
        if (out->rank == NPY_MAX_RANK) {
            c->why = "shape has more than 32 dimensions";
            return false;
        }
        if (!read_extent(c, &out->shape[out->rank++]))
            return false;
        comma = take(c, ',');
    }
    return comma || out->rank > 1;
}

/* Reads the whole dictionary: each of the three keys once, in any order. */
static bool read_dictionary(cursor *c, npy_array *out)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int  seen = 0;
    bool comma = true;
    if (!take(c, '{')) {
        c->why = "the header is not a dictionary";
        return false;
    }
    while (!take(c, '}')) {
        const char *key;
        size_t      length;
        c->why = "the header's dictionary is malformed";
        if (!comma || !take_string(c, &key, &length) || !take(c, ':'))
            return false;
        int which = equals(key, length, "descr")           ? DESCR
                    : equals(key, length, "fortran_order") ? ORDER
                    : equals(key, length, "shape")         ? SHAPE
                                                           : 0;
        if (which == 0 || (seen & which)) {
            c->why = which == 0 ? "the header has an unknown key" : "the header repeats a key";
            return false;
        }
        seen |= which;
        if (!(which == DESCR ? read_descr(c, out) : which == ORDER ? read_order(c) : read_shape(c, out)))
            return false;
        comma = take(c, ',');
    }
    skip_spaces(c);
    c->why = seen != ALL ? "the header lacks descr, fortran_order or shape"
                         : "there is text after the dictionary";
    return seen == ALL && c->at == c->end;
}

/* Counts the elements of the shape; returns false when they or their bytes overflow. */
static bool count_elements(npy_array *array)
{
    size_t bytes = types[array->type].bytes;
    bool   overflow = false;
    array->count = 1;
    for (int i = 0; i < array->rank; i++)
        if (array->shape[i] == 0) {
            array->count = 0;
            return true;
        }
    for (int i = 0; i < array->rank; i++) {
        overflow = overflow || __builtin_mul_overflow(array->count, (size_t)array->shape[i], &array->count);
        overflow = overflow || __builtin_mul_overflow(bytes, (size_t)array->shape[i], &bytes);
    }
    return !overflow && bytes <= PTRDIFF_MAX;
}

/* ---- reading ------------------------------------------------------------------------------------ */
static bool read_header(FILE *file, const char *path, npy_array *out, char *line)
{
    unsigned char start[12];
    char         *header = NULL;
    bool          ok = false;
    if (fread(start, 1, 8, file) != 8 || memcmp(start, magic, sizeof magic) != 0)
        return refuse(line, path, "not a .npy file (it does not start with \\x93NUMPY)");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return refuse(line, path, ".npy format %d.%d is not supported (1.0, 2.0 and 3.0 are)", start[6],
                      start[7]);
    size_t size = start[6] == 1 ? 2 : 4, length = 0;
    if (fread(start + 8, 1, size, file) != size)
        return refuse(line, path, "the file ends inside the header");
    for (size_t i = size; i-- > 0;)
        length = length << 8 | start[8 + i];
    if (length > MAX_HEADER)
        return refuse(line, path, "the header claims %zu bytes", length);
    header = (char *)malloc(length + 1);
    if (header == NULL)
        return refuse(line, path, "no memory for the header");
    cursor c = {header, header + length, ""};
    if (fread(header, 1, length, file) != length)
        refuse(line, path, "the file ends inside the header");
    else if (length == 0 || header[length - 1] != '\n')
        refuse(line, path, "the header does not end in a newline");
    else if (!read_dictionary(&c, out))
        refuse(line, path, "%s", c.why);
    else if (!count_elements(out))
        refuse(line, path, "the product of the extents is too large");
    else
        ok = true;
    free(header);
    return ok;
}

static bool read_data(FILE *file, const char *path, npy_array *out, char *line)
{
    struct stat info;
    size_t      bytes = out->count * types[out->type].bytes;
    off_t       at = ftello(file);
    if (at < 0 || fstat(fileno(file), &info) != 0)
        return refuse(line, path, "%s", strerror(errno));
    uint64_t there = info.st_size > at ? (uint64_t)(info.st_size - at) : 0;
    if (there != bytes)
        return refuse(line, path, "the shape needs %zu bytes of data, but the file has %llu", bytes,
                      (unsigned long long)there);
    out->data = malloc(bytes > 0 ? bytes : 1);
    if (out->data == NULL)
        return refuse(line, path, "no memory for %zu bytes", bytes);
    if (fread(out->data, 1, bytes, file) != bytes)
        return refuse(line, path, "reading failed: %s",
                      ferror(file) ? strerror(errno) : "the file became shorter while it was read");
    return true;
}

bool npy_read(const char *path, npy_array *out, char line[NPY_LINE])
{
    struct stat info;
    memset(out, 0, sizeof *out);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* before open: a pipe would block */
        return refuse(line, path, "not a regular file");
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return refuse(line, path, "%s", strerror(errno));
    bool ok = read_header(file, path, out, line) && read_data(file, path, out, line);
    fclose(file);
    if (!ok)
        npy_free(out);
    return ok;
}

/* ---- writing ------------------------------------------------------------------------------------ */
/* Makes the bytes before the data, padded with spaces to a multiple of 64 as the format demands. */
static size_t make_header(const npy_array *array, char *out, size_t cap)
{
    enum { FIXED = 10 };
    size_t at = FIXED;
    at += (size_t)snprintf(out + at, cap - at, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                           types[array->type].descr);
    for (int i = 0; i < array->rank; i++)
        at += (size_t)snprintf(out + at, cap - at, "%lld%s", (long long)array->shape[i],
                               i + 1 < array->rank ? ", "
                               : array->rank == 1  ? ","
                                                   : "");
    at += (size_t)snprintf(out + at, cap - at, "), }");
    while ((at + 1) % 64 != 0)
        out[at++] = ' ';
    out[at++] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((at - FIXED) & 0xff);
    out[9] = (char)((at - FIXED) >> 8);
    return at;
}

static bool write_file(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t wrote = write(file, bytes, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

bool npy_write(const char *path, const npy_array *array, char line[NPY_LINE])
{
    char        header[2048];
    size_t      bytes = make_header(array, header, sizeof header);
    replacement file;
    const char *why = replace_begin(&file, path);
    if (why != NULL)
        return refuse(line, path, "%s", why);
    bool good = write_file(file.fd, header, bytes) &&
                write_file(file.fd, (const char *)array->data, array->count * types[array->type].bytes);
    why = replace_end(&file, good ? 0 : errno);
    return why == NULL || refuse(line, path, "%s", why);
}
