/* report.h - a report of named values: a subcommand fills it once, and one printer writes it as text for people
 * or as JSON for programs. */
#ifndef PTXPACK_REPORT_H
#define PTXPACK_REPORT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct report_item report_item;
typedef struct report {
    report_item *items;
    size_t       count, capacity;
    bool         late;   /* JSON has what is added now after everything else */
    bool         failed; /* out of memory */
} report;

/* Values of the innermost open object or array.  `name` must outlive the report; it is NULL within an array.
 * A value whose name starts with '.' is for the text alone, and so is all in an object of such a name. */
void report_open(report *r, const char *name, char bracket); /* '{' or '[' */
void report_close(report *r);
void report_int(report *r, const char *name, int64_t value);
void report_real(report *r, const char *name, double value);
void report_bool(report *r, const char *name, bool value);
void report_text(report *r, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A line of the text.  Braces hold a value's name, without its '.'; it is the last one of this name above the
 * line:
 *   {block_m}      the value; an array as {64, 128}
 *   {from:7d}      with a conversion of printf
 *   {stages stage} a number with its noun: "1 stage", "2 stages"
 *   {{             a brace */
void report_line(report *r, const char *line);

/* Print it and free it; its values become members of the JSON object that is open.  Returns an exit status. */
int  report_print(report *r, const char *subcommand, bool json);
void report_free(report *r);
#endif
