/* report.c - named values, and their printer. */
#include "report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

typedef enum item_kind {
    ITEM_OPEN,
    ITEM_CLOSE,
    ITEM_INT,
    ITEM_REAL,
    ITEM_BOOL,
    ITEM_TEXT,
    ITEM_LINE
} item_kind;

struct report_item {
    item_kind   kind;
    bool        late;
    char        bracket;
    const char *name;
    int64_t     number; /* of ITEM_BOOL, too */
    double      real;
    char       *text; /* ITEM_TEXT and ITEM_LINE; owned */
};

/* ---- filling ---------------------------------------------------------------------------------------- */
static void add(report *r, report_item item)
{
    if (r->count == r->capacity) {
        size_t       capacity = r->capacity != 0 ? 2 * r->capacity : 128;
        report_item *larger = (report_item *)realloc(r->items, capacity * sizeof *larger);
        if (larger == NULL) {
            r->failed = true;
            free(item.text);
            return;
        }
        r->items = larger;
        r->capacity = capacity;
    }
    item.late = r->late;
    r->items[r->count++] = item;
}

void report_open(report *r, const char *name, char bracket)
{
    add(r, (report_item){.kind = ITEM_OPEN, .name = name, .bracket = bracket});
}

void report_close(report *r) { add(r, (report_item){.kind = ITEM_CLOSE}); }

void report_int(report *r, const char *name, int64_t value)
{
    add(r, (report_item){.kind = ITEM_INT, .name = name, .number = value});
}

void report_real(report *r, const char *name, double value)
{
    add(r, (report_item){.kind = ITEM_REAL, .name = name, .real = value});
}

void report_bool(report *r, const char *name, bool value)
{
    add(r, (report_item){.kind = ITEM_BOOL, .name = name, .number = value});
}

void report_text(report *r, const char *name, const char *format, ...)
{
    char   *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        r->failed = true;
    else
        add(r, (report_item){.kind = ITEM_TEXT, .name = name, .text = text});
}

void report_line(report *r, const char *line)
{
    char *text = strdup(line);
    if (text == NULL)
        r->failed = true;
    else
        add(r, (report_item){.kind = ITEM_LINE, .text = text});
}

/* ---- JSON ------------------------------------------------------------------------------------------- */
static void json_item(const report_item *item)
{
    switch (item->kind) {
    case ITEM_OPEN:
        json_open(item->name, item->bracket);
        break;
    case ITEM_CLOSE:
        json_close();
        break;
    case ITEM_INT:
        json_int(item->name, item->number);
        break;
    case ITEM_REAL:
        json_real(item->name, item->real);
        break;
    case ITEM_BOOL:
        json_bool(item->name, item->number != 0);
        break;
    case ITEM_TEXT:
        json_text(item->name, item->text);
        break;
    case ITEM_LINE:
        break;
    }
}

static void json_items(const report *r, bool late)
{
    int hidden = 0; /* open objects and arrays, from the one with a '.' on */
    for (const report_item *item = r->items; item < r->items + r->count; item++) {
        if (item->late != late)
            continue;
        bool skipped = hidden > 0 || (item->name != NULL && item->name[0] == '.');
        if (skipped)
            hidden += item->kind == ITEM_OPEN ? 1 : item->kind == ITEM_CLOSE ? -1 : 0;
        else
            json_item(item);
    }
}

/* ---- text ------------------------------------------------------------------------------------------- */
static const report_item *find(const report *r, const report_item *line, const char *name, size_t length)
{
    while (line-- > r->items) {
        const char *own = line->name != NULL ? line->name + (line->name[0] == '.') : "";
        if (strlen(own) == length && memcmp(own, name, length) == 0)
            return line;
    }
    abort(); /* a mistake in the command itself: its lines are fixed by its code */
}

static void print_array(const report_item *open)
{
    const char *between = "{";
    for (const report_item *item = open + 1; item->kind != ITEM_CLOSE; item++, between = ", ")
        printf("%s%lld", between, (long long)item->number);
    putchar('}');
}

/* `format` is the conversion that printf is to use, without the '%'; "" stands for the usual one. */
static void print_value(const report_item *item, const char *format)
{
    char conversion[32]; /* more than a format of 24, which callers have */
    int  plain = (int)strcspn(format, "dsg");
    switch (item->kind) {
    case ITEM_INT:
        snprintf(conversion, sizeof conversion, "%%%.*slld", plain, format);
        printf(conversion, (long long)item->number);
        break;
    case ITEM_REAL:
        snprintf(conversion, sizeof conversion, "%%%s", *format != '\0' ? format : ".4g");
        printf(conversion, item->real);
        break;
    case ITEM_TEXT:
        snprintf(conversion, sizeof conversion, "%%%.*ss", plain, format);
        printf(conversion, item->text);
        break;
    default:
        print_array(item);
    }
}

/* What stands between two braces, `length` characters. */
static void print_place(const report *r, const report_item *line, const char *place, size_t length)
{
    size_t             name = strcspn(place, " :}");
    const report_item *item = find(r, line, place, name);
    char               rest[24] = "";
    if (name < length)
        snprintf(rest, sizeof rest, "%.*s", (int)(length - name - 1), place + name + 1);
    if (place[name] != ' ')
        print_value(item, rest);
    else
        printf("%lld %s%s", (long long)item->number, rest,
               item->number == 1               ? ""
               : rest[strlen(rest) - 1] == 'x' ? "es"
                                               : "s");
}

static void print_line(const report *r, const report_item *line)
{
    for (const char *at = line->text; *at != '\0';) {
        size_t plain = strcspn(at, "{");
        fwrite(at, 1, plain, stdout);
        at += plain;
        if (at[0] == '{' && at[1] == '{') {
            putchar('{');
            at += 2;
        } else if (*at == '{') {
            size_t length = strcspn(at + 1, "}");
            print_place(r, line, at + 1, length);
            at += length + 2;
        }
    }
    putchar('\n');
}

/* ---- both ------------------------------------------------------------------------------------------- */
int report_print(report *r, const char *subcommand, bool json)
{
    int status = r->failed ? command_fail(subcommand, "out of memory") : COMMAND_OK;
    if (status == COMMAND_OK && json) {
        json_items(r, false);
        json_items(r, true);
    }
    for (size_t i = 0; i < r->count && status == COMMAND_OK && !json; i++)
        if (r->items[i].kind == ITEM_LINE)
            print_line(r, &r->items[i]);
    report_free(r);
    return status;
}

void report_free(report *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->items[i].text);
    free(r->items);
    *r = (report){.items = NULL};
}
