/* json.c - a strict reader of JSON from memory that need not end with a NUL byte.  Bytes above 127 are taken as they are.
 *
 * All nodes and strings are in one allocation, whose size follows from the text: each node but the first comes after a comma or
 * an opening bracket; a string without its quotes, or a number, with a NUL byte is not longer than what was read for it. */
#include "llama.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 64 };
typedef struct reader {
    const char *start, *at, *end, *origin;
    json       *node; /* the next one */
    char       *text; /* where the next string goes */
    int         level;
} reader;

static void expect(const reader *r, bool condition, const char *what)
{
    NEED(condition, "%s: byte %zu: %s", r->origin, (size_t)(r->at - r->start), what);
}

static int peek(const reader *r) { return r->at < r->end ? (unsigned char)*r->at : -1; }
static bool digit(int c) { return c >= '0' && c <= '9'; }

static bool accept(reader *r, int c)
{
    bool found = peek(r) == c;
    r->at += found;
    return found;
}

static int after_blanks(reader *r)
{
    while (accept(r, ' ') || accept(r, '\t') || accept(r, '\n') || accept(r, '\r'))
        continue;
    return peek(r);
}

static unsigned read_hex(reader *r)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int c = peek(r), small = c | 0x20;
        expect(r, digit(c) || (small >= 'a' && small <= 'f'), "\\u needs four hexadecimal digits");
        code = code << 4 | (unsigned)(digit(c) ? c - '0' : small - 'a' + 10);
    }
    return code;
}

/* Reads what follows \u, with the second half of a pair, and writes UTF-8. */
static void read_code(reader *r)
{
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned              code = read_hex(r), lower = 0xdc00;
    expect(r, code != 0, "a NUL in a string");
    if (code >= 0xd800 && code < 0xe000) {
        expect(r, code < 0xdc00 && accept(r, '\\') && accept(r, 'u'), "half a surrogate pair");
        lower = read_hex(r);
        expect(r, lower >= 0xdc00 && lower < 0xe000, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (lower - 0xdc00);
    }
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *r->text++ = (char)(lead[more] | code >> 6 * more);
    while (more-- > 0)
        *r->text++ = (char)(0x80 | (code >> 6 * more & 0x3f));
}

static const char *read_string(reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char       *string = r->text, *found;
    expect(r, after_blanks(r) == '"', "a string is expected");
    for (r->at++; !accept(r, '"'); ) {
        int c = peek(r);
        expect(r, c >= 0x20, c < 0 ? "the string does not end" : "a control character in a string");
        if (!accept(r, '\\')) {
            *r->text++ = *r->at++;
        } else if (accept(r, 'u')) {
            read_code(r);
        } else {
            found = peek(r) > 0 ? strchr(from, peek(r)) : NULL;
            expect(r, found != NULL, "an unknown escape");
            *r->text++ = to[found - from];
            r->at++;
        }
    }
    *r->text++ = '\0';
    return string;
}

static void read_digits(reader *r)
{
    expect(r, digit(peek(r)), "a value, or a digit of a number, is expected");
    while (digit(peek(r)))
        r->at++;
}

static void read_number(reader *r, json *value)
{
    const char *start = r->at;
    accept(r, '-');
    if (!accept(r, '0'))
        read_digits(r);
    if (accept(r, '.'))
        read_digits(r);
    if (accept(r, 'e') || accept(r, 'E')) {
        if (!accept(r, '+'))
            accept(r, '-');
        read_digits(r);
    }
    value->kind = JSON_NUMBER;
    value->text = (const char *)memcpy(r->text, start, (size_t)(r->at - start));
    r->text += r->at - start;
    *r->text++ = '\0';
    value->number = strtod(value->text, NULL);
}

static bool read_word(reader *r, const char *word)
{
    size_t length = strlen(word);
    bool   found = (size_t)(r->end - r->at) >= length && memcmp(r->at, word, length) == 0;
    r->at += found ? length : 0;
    return found;
}

static json *read_value(reader *r, const char *name);

static void read_members(reader *r, json *parent, char close)
{
    const char *name = NULL;
    expect(r, ++r->level <= LEVELS, "too many levels");
    r->at++;
    if (after_blanks(r) != close)
        for (json **link = &parent->first; link == &parent->first || accept(r, ','); link = &(*link)->next) {
            if (close == '}') {
                name = read_string(r);
                for (const json *other = parent->first; other != NULL; other = other->next)
                    expect(r, strcmp(other->name, name) != 0, "a name for the second time in one object");
                expect(r, after_blanks(r) == ':', "':' is expected");
                r->at++;
            }
            *link = read_value(r, name);
            after_blanks(r);
        }
    expect(r, accept(r, close), "',' or the end of an array or object is expected");
    r->level--;
}

static json *read_value(reader *r, const char *name)
{
    json *value = r->node++;
    int   c = after_blanks(r);
    value->name = name;
    if (c == '{' || c == '[') {
        value->kind = c == '{' ? JSON_OBJECT : JSON_ARRAY;
        read_members(r, value, c == '{' ? '}' : ']');
    } else if (c == '"') {
        value->kind = JSON_STRING;
        value->text = read_string(r);
    } else if (read_word(r, "true") || read_word(r, "false")) {
        value->kind = c == 't' ? JSON_TRUE : JSON_FALSE;
    } else if (!read_word(r, "null")) {
        read_number(r, value);
    }
    return value;
}

json *json_read(const char *text, size_t bytes, const char *origin)
{
    size_t nodes = 1;
    for (size_t i = 0; i < bytes; i++)
        nodes += text[i] == ',' || text[i] == '[' || text[i] == '{';
    json  *root = (json *)allocate(1, nodes * sizeof *root + bytes + 1);
    reader r = {text, text, text + bytes, origin, root, (char *)(root + nodes), 0};
    read_value(&r, NULL);
    expect(&r, after_blanks(&r) < 0, "something behind the end");
    return root;
}

const json *json_member(const json *object, const char *name)
{
    const json *member = object != NULL && object->kind == JSON_OBJECT ? object->first : NULL;
    while (member != NULL && strcmp(member->name, name) != 0)
        member = member->next;
    return member != NULL && member->kind != JSON_NULL ? member : NULL;
}

bool json_whole(const json *value, uint64_t *number)
{
    bool whole = value != NULL && value->kind == JSON_NUMBER && value->number >= 0 && value->number <= 0x1p53;
    *number = whole ? (uint64_t)value->number : 0;
    return whole && (double)*number == value->number;
}
