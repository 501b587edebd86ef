/* json.c - a strict reader of JSON.  It works in a copy of the text that ends with a NUL byte, in which strings lose their escapes and
 * end with a NUL byte each.  Each node but the first comes after a comma or an opening bracket.  Bytes above 127 stay as they are. */
#include "llama.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 64 };
typedef struct reader {
    const char *start, *origin;
    char       *at;
    json       *node; /* the next one */
    int         level;
} reader;

static void expect(const reader *r, bool condition, const char *what)
{
    NEED(condition, "%s: byte %zu: %s", r->origin, (size_t)(r->at - r->start), what);
}

static bool accept(reader *r, const char *word)
{
    size_t length = strlen(word);
    bool   found = strncmp(r->at, word, length) == 0;
    r->at += found ? length : 0;
    return found;
}

static char after_blanks(reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
    return *r->at;
}

static unsigned read_hex(reader *r)
{
    char digits[5] = {0};
    expect(r, strspn(r->at, "0123456789abcdefABCDEF") >= 4, "\\u needs four hexadecimal digits");
    r->at += 4;
    return (unsigned)strtoul((const char *)memcpy(digits, r->at - 4, 4), NULL, 16);
}

/* Reads what follows \u, with the second half of a pair, and writes UTF-8, which is shorter. */
static char *read_code(reader *r, char *to)
{
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned              code = read_hex(r), lower = 0xdc00;
    expect(r, code != 0, "a NUL in a string");
    if (code >= 0xd800 && code < 0xe000) {
        lower = code < 0xdc00 && accept(r, "\\u") ? read_hex(r) : 0;
        expect(r, lower >= 0xdc00 && lower < 0xe000, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (lower - 0xdc00);
    }
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)(lead[more] | code >> 6 * more);
    while (more-- > 0)
        *to++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return to;
}

static const char *read_string(reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    expect(r, after_blanks(r) == '"', "a string is expected");
    char *string = ++r->at, *end = string;
    while (*r->at != '"') {
        expect(r, (unsigned char)*r->at >= 0x20, "a control character in a string, or the end of the text");
        if (!accept(r, "\\")) {
            *end++ = *r->at++;
        } else if (accept(r, "u")) {
            end = read_code(r, end);
        } else {
            const char *found = *r->at != '\0' ? strchr(from, *r->at) : NULL;
            expect(r, found != NULL, "an unknown escape");
            *end++ = to[found - from];
            r->at++;
        }
    }
    r->at++;
    *end = '\0';
    return string;
}

static void read_digits(reader *r)
{
    size_t count = strspn(r->at, "0123456789");
    expect(r, count > 0, "a value, or a digit of a number, is expected");
    r->at += count;
}

static double read_number(reader *r)
{
    const char *start = r->at;
    accept(r, "-");
    if (!accept(r, "0"))
        read_digits(r);
    if (accept(r, "."))
        read_digits(r);
    if (accept(r, "e") || accept(r, "E")) {
        r->at += *r->at == '+' || *r->at == '-';
        read_digits(r);
    }
    return strtod(start, NULL);
}

static json *read_value(reader *r, const char *name);

static void read_members(reader *r, json *parent, const char *close)
{
    const char *name = NULL;
    expect(r, ++r->level <= LEVELS, "too many levels");
    if (after_blanks(r) != *close)
        for (json **link = &parent->first; link == &parent->first || accept(r, ","); link = &(*link)->next) {
            if (parent->kind == JSON_OBJECT) {
                name = read_string(r);
                for (const json *other = parent->first; other != NULL; other = other->next)
                    expect(r, strcmp(other->name, name) != 0, "a name for the second time in one object");
                after_blanks(r);
                expect(r, accept(r, ":"), "':' is expected");
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
    value->name = name;
    if (after_blanks(r) == '"') {
        value->text = read_string(r);
        value->kind = JSON_STRING;
    } else if (*r->at == '{' || *r->at == '[') {
        value->kind = *r->at++ == '{' ? JSON_OBJECT : JSON_ARRAY;
        read_members(r, value, value->kind == JSON_OBJECT ? "}" : "]");
    } else if (accept(r, "true")) {
        value->kind = JSON_TRUE;
    } else if (accept(r, "false")) {
        value->kind = JSON_FALSE;
    } else if (!accept(r, "null")) {
        value->number = read_number(r);
        value->kind = JSON_NUMBER;
    }
    return value;
}

json *json_read(const char *text, size_t bytes, const char *origin)
{
    size_t nodes = 1;
    for (size_t i = 0; i < bytes; i++)
        nodes += text[i] == ',' || text[i] == '[' || text[i] == '{';
    json  *root = (json *)allocate(1, nodes * sizeof *root + bytes + 1);
    char  *copy = (char *)memcpy(root + nodes, text, bytes);
    reader r = {copy, origin, copy, root, 0};
    read_value(&r, NULL);
    after_blanks(&r);
    expect(&r, r.at == copy + bytes, "something behind the end");
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
