/* errors.c - the errors in the logs of PTX compilers and NVRTC, in the order in which they are worth reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/expand/unknown.h"
#include "log.h"

enum { LINE = 600, WHERE = 512, MOST = 1000 }; /* bytes; errors that are kept */

/* What is worth reading first: misspelt macros and unknown symbols cause other errors. */
enum rank { UNKNOWN_WORD, UNKNOWN_SYMBOL, OTHER, RANKS };

typedef struct error {
    enum rank rank;
    char     *text; /* "FILE:LINE: what" */
} error;

typedef struct error_list {
    error *items;
    size_t count, bytes;
    size_t words[8]; /* lines of the PTX with unknown words */
    size_t word_count;
} error_list;

static enum rank rank_of(const char *what)
{
    static const char *const signs[] = {"Unknown symbol", "Not a name of any known instruction",
                                        "is undefined",   "is not defined",
                                        "unknown symbol", "unknown name"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strstr(what, signs[i]) != NULL)
            return UNKNOWN_SYMBOL;
    return OTHER;
}

/* Each text once.  Without memory the list is shorter. */
static void add(error_list *list, enum rank rank, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].text, text) == 0)
            return;
    if (list->items == NULL)
        list->items = (error *)calloc(MOST, sizeof *list->items);
    char *copy = list->items != NULL && list->count < MOST ? strdup(text) : NULL;
    if (copy == NULL)
        return;
    list->items[list->count++] = (error){rank, copy};
    list->bytes += strlen(text) + 1;
}

/* The texts by rank, one a line; frees the list. */
static char *finish(error_list *list, size_t *count)
{
    char *all = (char *)calloc(list->bytes + 1, 1), *at = all;
    for (int rank = 0; rank < RANKS && all != NULL; rank++)
        for (size_t i = 0; i < list->count; i++)
            if ((int)list->items[i].rank == rank)
                at += sprintf(at, "%s\n", list->items[i].text);
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].text);
    free(list->items);
    *count = all != NULL ? list->count : 0;
    return all;
}

/* The first of a list, and how many more there are; frees the list. */
static void write_first(char *list, size_t count, char *buf, size_t cap)
{
    char more[48] = "";
    if (count > 1)
        snprintf(more, sizeof more, " (and %zu more)", count - 1);
    if (list != NULL && count > 0)
        snprintf(buf, cap, "%.*s%s", (int)strcspn(list, "\n"), list, more);
    free(list);
}

static const char *next_line(const char *at, char line[LINE])
{
    if (!*at)
        return NULL;
    size_t bytes = strcspn(at, "\n");
    snprintf(line, LINE, "%.*s", bytes < LINE ? (int)bytes : LINE - 1, at);
    return at[bytes] ? at + bytes + 1 : at + bytes;
}

/* ---- PTX --------------------------------------------------------------------------------------------- */
/* "ptxas application ptx input, line 8; error   : Unknown symbol" -> line 8, "Unknown symbol". */
static const char *error_in(const char *line, size_t *number)
{
    const char *kind = strstr(line, "error "), *where = strstr(line, ", line ");
    if (kind == NULL)
        kind = strstr(line, "fatal ");
    const char *colon = kind != NULL ? strchr(kind, ':') : NULL;
    if (colon == NULL)
        return NULL;
    *number = where != NULL && where < kind ? (size_t)strtoul(where + strlen(", line "), NULL, 10) : 0;
    colon++;
    return colon + strspn(colon, " ");
}

const char *ptxpack_log_expanded_from(const void *expansion, size_t line, char *buf, size_t cap)
{
    return ptxpack_expansion_where((const ptxpack_expansion *)expansion, line, buf, cap);
}

/* Of words that are no instruction the compiler says nothing, or that something later is wrong. */
static void add_words(error_list *list, const ptxpack_expansion *expansion)
{
    enum { WORDS = sizeof list->words / sizeof list->words[0] };
    char   what[256], where[WHERE], text[LINE + WHERE];
    size_t line = 0;
    while (list->word_count < WORDS &&
           (line = ptxpack_expansion_unknown(expansion, line, what, sizeof what)) != 0) {
        snprintf(text, sizeof text, "%s: %s", ptxpack_expansion_where(expansion, line, where, sizeof where),
                 what);
        add(list, UNKNOWN_WORD, text);
        list->words[list->word_count++] = line;
    }
}

/* Whether it is only what follows from an unknown word: in its line, or where the parser stopped after it. */
static bool follows(const error_list *list, size_t line, const char *what)
{
    bool parsing = strstr(what, "arsing error") != NULL || strstr(what, "syntax error") != NULL ||
                   strstr(what, "missing before") != NULL;
    for (size_t i = 0; i < list->word_count; i++)
        if (line == list->words[i] || (parsing && line > list->words[i] && line <= list->words[i] + 2))
            return true;
    return false;
}

char *ptxpack_log_error_list(const char *log, ptxpack_line_origin origin, const void *context, size_t *count)
{
    char       line[LINE], where[WHERE], text[LINE + WHERE];
    size_t     number = 0;
    error_list list = {.items = NULL};
    if (origin == ptxpack_log_expanded_from)
        add_words(&list, (const ptxpack_expansion *)context);
    for (const char *at = log; (at = next_line(at, line));) {
        const char *what = error_in(line, &number);
        if (what == NULL || strstr(what, "aborted due to errors") != NULL || follows(&list, number, what))
            continue;
        const char *file = number && origin != NULL ? origin(context, number, where, sizeof where) : "";
        if (*file)
            snprintf(text, sizeof text, "%s: %s", file, what);
        else if (number)
            snprintf(text, sizeof text, "line %zu of the PTX: %s", number, what);
        else
            snprintf(text, sizeof text, "%s", what);
        add(&list, rank_of(what), text);
    }
    if (list.count == 0 && *log && next_line(log, line) != NULL)
        add(&list, OTHER, line);
    return finish(&list, count);
}

void ptxpack_log_errors_of(const char *log, ptxpack_line_origin origin, const void *context, char *buf,
                           size_t cap)
{
    size_t count = 0;
    char  *list = ptxpack_log_error_list(log, origin, context, &count);
    snprintf(buf, cap, "no message");
    write_first(list, count, buf, cap);
}

void ptxpack_log_errors(const char *log, const ptxpack_expansion *expansion, char *buf, size_t cap)
{
    ptxpack_log_errors_of(log, expansion != NULL ? ptxpack_log_expanded_from : NULL, expansion, buf, cap);
}

/* ---- CUDA C++ ------------------------------------------------------------------------------------------- */

/* The text after "FILE(LINE): "; NULL when the line does not begin like that.  *bytes is the length of
 * FILE. */
static const char *after_place(const char *line, size_t *bytes, unsigned long *number)
{
    for (const char *open = line; (open = strchr(open, '(')) != NULL; open++) {
        char *after = NULL;
        *number = strtoul(open + 1, &after, 10);
        *bytes = (size_t)(open - line);
        if (*number && strncmp(after, "): ", 3) == 0)
            return after + 3;
    }
    return NULL;
}

/* Turns "k.cu(12): error: what" into "k.cu:12: error: what"; "nvrtc: error: what" stays. */
static bool cuda_error_in(const char *line, char *buf, size_t cap)
{
    static const char *const kinds[] = {"error", "catastrophic error", "internal error"};
    unsigned long            number = 0;
    size_t                   bytes = 0;
    const char              *what = after_place(line, &bytes, &number);
    if (strncmp(line, "nvrtc: error", strlen("nvrtc: error")) == 0)
        return snprintf(buf, cap, "%s", line) > 0;
    for (size_t i = 0; what != NULL && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(what, kinds[i], strlen(kinds[i])) == 0)
            return snprintf(buf, cap, "%.*s:%lu: %s", (int)bytes, line, number, what) > 0;
    return false;
}

/* The lines after an error are indented: the source, and "... at line 6 of k.cu" for each template that was being
 * instantiated, the outermost last.  Writes " (instantiated from k.cu:6)", or nothing if that is the error's own file. */
static void outermost_instantiation(const char *at, char *buf, size_t cap)
{
    static const char sign[] = " at line ";
    *buf = '\0';
    for (; *at == ' '; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t      bytes = strcspn(at, "\n");
        const char *place = NULL, *next = at;
        while ((next = strstr(next, sign)) != NULL && next < at + bytes)
            place = next += strlen(sign);
        char         *of = NULL;
        unsigned long number = place != NULL ? strtoul(place, &of, 10) : 0;
        if (number && strncmp(of, " of ", 4) == 0)
            snprintf(buf, cap, " (instantiated from %.*s:%lu)", (int)(at + bytes - of - 4), of + 4, number);
        else if (number)
            *buf = '\0';
    }
}

char *ptxpack_log_cuda_list(const char *log, size_t *count)
{
    char       line[LINE], what[LINE], from[WHERE], text[LINE + WHERE];
    error_list list = {.items = NULL};
    for (const char *at = log; (at = next_line(at, line));)
        if (cuda_error_in(line, what, sizeof what)) {
            outermost_instantiation(at, from, sizeof from);
            snprintf(text, sizeof text, "%s%s", what, from);
            add(&list, rank_of(what), text);
        }
    return finish(&list, count);
}

bool ptxpack_log_cuda_errors(const char *log, char *buf, size_t cap)
{
    size_t count = 0;
    char  *list = ptxpack_log_cuda_list(log, &count);
    write_first(list, count, buf, cap);
    return count > 0;
}
