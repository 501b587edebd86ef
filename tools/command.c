/* command.c - option parsing and JSON output for every subcommand. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"

/* ---- the streams -------------------------------------------------------------------------------- */
void command_begin(void)
{
    int fd;
    /* Read-only: what is printed to a stream that was closed fails as before. */
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
    signal(SIGXFSZ, SIG_IGN);
}

/* Why the first flush failed; 0: none did, though a write may have. */
static int flush_error;

bool command_flush(void)
{
    if (fflush(stdout) != 0 && flush_error == 0)
        flush_error = errno;
    return !ferror(stdout);
}

int command_end(int status)
{
    if (command_flush())
        return status;
    return command_fail(NULL, "cannot write the output%s%s", flush_error != 0 ? ": " : "",
                        flush_error != 0 ? strerror(flush_error) : "");
}

/* The bytes of a control character at `p`: one of ASCII, or of U+0080 to U+009F in UTF-8; 0: it is none. */
static int control_bytes(const unsigned char *p)
{
    return *p < 0x20 || *p == 0x7f ? 1 : *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

/* What a file name or an argument holds must neither break the line nor reach the terminal as a command: control
 * characters are written as \n, \t or \x1b. */
static void write_escaped(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        int control = control_bytes(p);
        if (control == 0)
            fputc(*p++, stderr);
        else if (*p == '\n' || *p == '\t')
            fputs(*p++ == '\n' ? "\\n" : "\\t", stderr);
        else
            for (; control > 0; control--)
                fprintf(stderr, "\\x%02x", *p++);
    }
}

int command_fail(const char *subcommand, const char *format, ...)
{
    va_list arguments;
    char    line[16384]; /* longer ones are cut off */
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    command_flush();
    progress_clear();
    fprintf(stderr, "ptxpack%s%s: ", subcommand != NULL ? " " : "", subcommand != NULL ? subcommand : "");
    write_escaped(line);
    fputc('\n', stderr);
    return COMMAND_FAILED;
}

/* ---- options ------------------------------------------------------------------------------------ */
static bool is_letter(const option *row) { return row->name[1] == '\0'; }

static void print_usage(const char *synopsis, const option *rows)
{
    printf("usage: %s\n", synopsis);
    for (const option *row = rows; row != NULL && row->name != NULL; row++) {
        char name[64];
        snprintf(name, sizeof name, is_letter(row) ? "-%s" : "--%s", row->name);
        printf("  %-16s %s\n", name, row->help);
    }
}

/* The row that `word` names ("--name", "--name=value", "-n", of a list "-nvalue"), and where its value
 * starts, if inline. */
static const option *find_row(const option *rows, const char *word, const char **inline_value)
{
    size_t dashes = word[1] == '-' ? 2 : 1;
    for (const option *row = rows; row != NULL && row->name != NULL; row++) {
        size_t length = strlen(row->name);
        if (strncmp(word + dashes, row->name, length) != 0 || (dashes == 1 && !is_letter(row)))
            continue;
        const char *rest = word + dashes + length;
        bool        attached = *rest != '\0' && dashes == 1 && row->kind == OPTION_LIST;
        *inline_value = attached ? rest : *rest == '=' ? rest + 1 : NULL;
        if (*rest == '\0' || *rest == '=' || attached)
            return row;
    }
    return NULL;
}

/* Store `text` as the value of `row`; false when it is malformed or out of the type's range. */
static bool store_value(const option *row, const char *text)
{
    char *end;
    errno = 0;
    if ((row->kind == OPTION_INT || row->kind == OPTION_REAL) && isspace((unsigned char)*text))
        return false; /* strtoll and strtod would skip blanks */
    switch (row->kind) {
    case OPTION_INT: {
        long long number = strtoll(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || number == OPTION_NOT_GIVEN)
            return false;
        *(int64_t *)row->value = number;
        return true;
    }
    case OPTION_REAL: {
        double number = strtod(text, &end);
        if (end == text || *end != '\0' || !isfinite(number))
            return false;
        *(double *)row->value = number;
        return true;
    }
    case OPTION_LIST: {
        option_list *list = (option_list *)row->value;
        if (list->count == OPTION_LIST_MAX)
            return false;
        list->words[list->count++] = text;
        return true;
    }
    default:
        *(const char **)row->value = text;
        return true;
    }
}

/* What a value is not that store_value refused. */
static const char *wanted_kind(const option *row)
{
    return row->kind == OPTION_INT    ? "an integer"
           : row->kind == OPTION_REAL ? "a number"
                                      : "one of the 256 that may be given";
}

/* Whether a word that stands where a value should is an option itself. */
static bool is_option(const option *rows, const char *word)
{
    const char *value;
    return word[0] == '-' && word[1] != '\0' &&
           (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0 || find_row(rows, word, &value) != NULL);
}

/* Apply the option argv[*at], and step *at over a value of its own; false after a line on stderr. */
static bool apply_option(int argc, char **argv, int *at, const option *rows)
{
    const char   *word = argv[*at], *value = NULL;
    const option *row = find_row(rows, word, &value);
    if (row == NULL) {
        command_fail(argv[0], "unknown option %s (try --help)", word);
        return false;
    }
    if (row->kind == OPTION_FLAG) {
        if (value != NULL) {
            command_fail(argv[0], "option %s takes no value", word);
            return false;
        }
        *(bool *)row->value = true;
        return true;
    }
    bool optional = row->kind == OPTION_MAYBE || row->kind == OPTION_INLINE;
    bool next_is_value = *at + 1 < argc && row->kind != OPTION_INLINE && (!optional || argv[*at + 1][0] != '-');
    if (value == NULL && next_is_value)
        value = argv[++*at];
    if (value == NULL && optional)
        value = "";
    if (value == NULL) {
        command_fail(argv[0], "option %s needs a value", word);
        return false;
    }
    if (value == argv[*at] && is_option(rows, value)) {
        command_fail(argv[0], "option %s needs a value, and %s is an option (%s=%s is taken as it stands)",
                     word, value, word, value);
        return false;
    }
    if ((row->kind == OPTION_TEXT || row->kind == OPTION_LIST) && *value == '\0') {
        command_fail(argv[0], "option %s%s: the value is empty", is_letter(row) ? "-" : "--", row->name);
        return false;
    }
    if (!store_value(row, value)) {
        command_fail(argv[0], "option %s%s: \"%s\" is not %s", is_letter(row) ? "-" : "--", row->name, value,
                     wanted_kind(row));
        return false;
    }
    return true;
}

static command_visit *describing;

void command_describe(command_visit *visit) { describing = visit; }

int command_options(int argc, char **argv, const char *synopsis, const option *rows, int *words)
{
    if (describing != NULL)
        return describing(synopsis, rows), COMMAND_OK;
    int  count = 0;
    bool options_over = false;
    for (int at = 1; at < argc; at++) {
        char *word = argv[at];
        if (!options_over && (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)) {
            print_usage(synopsis, rows);
            return COMMAND_OK;
        }
        if (!options_over && strcmp(word, "--") == 0) {
            options_over = true;
        } else if (!options_over && word[0] == '-' && word[1] != '\0') {
            if (!apply_option(argc, argv, &at, rows))
                return COMMAND_USAGE;
        } else if (words == NULL) {
            command_fail(argv[0], "unexpected word \"%s\" (try --help)", word);
            return COMMAND_USAGE;
        } else {
            argv[++count] = word;
        }
    }
    if (words != NULL)
        *words = count;
    return -1;
}

/* ---- JSON --------------------------------------------------------------------------------------- */
enum { JSON_DEPTH = 32 };
static struct {
    char closing[JSON_DEPTH]; /* the bracket that ends each open level */
    int  depth;
    bool first; /* nothing was written yet in the innermost level */
} json = {.depth = 0, .first = true};

/* A string with its quotes.  Bytes that are no valid UTF-8 become U+FFFD, so that any file name is
 * still JSON. */
static void write_string(const char *text)
{
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        int more = *p < 0x80                           ? 0
                   : (*p & 0xe0) == 0xc0 && *p >= 0xc2 ? 1
                   : (*p & 0xf0) == 0xe0               ? 2
                   : (*p & 0xf8) == 0xf0 && *p <= 0xf4 ? 3
                                                       : -1;
        for (int i = 1; i <= more; i++)
            if ((p[i] & 0xc0) != 0x80) /* the terminating NUL fails here too */
                more = -1;
        if ((more == 2 && ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0))) ||
            (more == 3 && ((*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] >= 0x90))))
            more = -1; /* overlong, surrogate, or beyond U+10FFFF */
        if (more < 0) {
            fputs("\\ufffd", stdout);
            p++;
        } else if (more > 0) {
            fwrite(p, 1, (size_t)more + 1, stdout);
            p += more + 1;
        } else {
            if (*p == '"' || *p == '\\')
                printf("\\%c", *p);
            else if (*p == '\n')
                fputs("\\n", stdout);
            else if (*p < 0x20 || *p == 0x7f)
                printf("\\u%04x", *p);
            else
                putchar(*p);
            p++;
        }
    }
    putchar('"');
}

static void new_line(void) { printf("\n%*s", 2 * json.depth, ""); }

/* Comma, line and key before a value. */
static void before_value(const char *key)
{
    if (json.depth > 0) {
        if (!json.first)
            putchar(',');
        new_line();
    }
    json.first = false;
    if (key != NULL) {
        write_string(key);
        fputs(": ", stdout);
    }
}

/* A value at the top ends the document. */
static void after_value(void)
{
    if (json.depth == 0) {
        putchar('\n');
        json.first = true;
    }
}

void json_open(const char *key, char bracket)
{
    before_value(key);
    putchar(bracket);
    if (json.depth == JSON_DEPTH)
        abort(); /* a mistake in the command itself: nesting is fixed by its code */
    json.closing[json.depth++] = bracket == '{' ? '}' : ']';
    json.first = true;
}

void json_close(void)
{
    bool empty = json.first;
    char bracket = json.closing[--json.depth];
    if (!empty)
        new_line();
    putchar(bracket);
    json.first = false;
    after_value();
}

void json_text(const char *key, const char *value)
{
    before_value(key);
    if (value == NULL)
        fputs("null", stdout);
    else
        write_string(value);
    after_value();
}

void json_int(const char *key, int64_t value)
{
    before_value(key);
    printf("%lld", (long long)value);
    after_value();
}

void json_real(const char *key, double value)
{
    before_value(key);
    if (isfinite(value))
        printf("%.10g", value);
    else
        fputs("null", stdout);
    after_value();
}

void json_bool(const char *key, bool value)
{
    before_value(key);
    fputs(value ? "true" : "false", stdout);
    after_value();
}
