/* layout.c - `ptxpack layout`: evaluates expressions of CuTe's layout algebra, and draws layouts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/notation/draw.h"
#include "tools/notation/layout_expr.h"
#include "loader/loader.h"

static const char synopsis[] =
    "ptxpack layout EXPR [--grid|--latex|--svg [--tv TILE]|--json]\n"
    "       ptxpack layout - [--json]\n"
    "  EXPR is a layout, (4,8):(8,1) or Sw<3,4,3> o 0 o (8,64):(64,1), a tuple, or one of CuTe's calls,\n"
    "  nested freely: composition((6,2):(8,2),(4,3):(3,1)), size<0>(L), values(L), (4,8):(8,1)(1,_)\n"
    "  as a tiler, (4,2) acts mode by mode, as <4,2> does; local_tile and the partitions print\n"
    "  the layout without its offset (slice_and_offset prints it)\n"
    "  -  reads one expression a line on stdin, prints one result line each, `error: reason` for a bad one;\n"
    "     empty lines and lines that begin with # are copied\n";

typedef struct settings {
    bool          grid, latex, svg, json;
    const char   *tv;   /* NULL: colours by offset */
    ptxpack_tuple tile; /* what tv says            */
} settings;

/* ---- one expression -------------------------------------------------------------------------------- */
static void json_print(const char *key, void (*print)(FILE *f, const void *what), const void *what)
{
    char  *text = NULL;
    size_t bytes;
    FILE  *f = open_memstream(&text, &bytes);
    if (f != NULL) {
        print(f, what);
        fclose(f);
    }
    json_text(key, text);
    free(text);
}

static void print_value(FILE *f, const void *what) { expr_print(f, (const expr_value *)what); }

static void print_tuple(FILE *f, const void *what)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_tuple_print((const ptxpack_tuple *)what, text, sizeof text);
    fputs(text, f);
}

static void json_layout(const ptxpack_layout *l)
{
    json_print("shape", print_tuple, &l->shape);
    json_print("stride", print_tuple, &l->stride);
    json_int("size", ptxpack_size(l));
    if (ptxpack_cosize(l) > 0)
        json_int("cosize", ptxpack_cosize(l));
}

/* Prints an object with the expression and its value, or the error. */
static void json_result(const char *text, ptxpack_status status, const expr_value *value)
{
    json_open(NULL, '{');
    json_text("expression", text);
    if (status != PTXPACK_OK) {
        json_text("error", ptxpack_detail(NULL));
    } else {
        json_print("result", print_value, value);
        if (value->kind == EXPR_LAYOUT && !ptxpack_is_tiler(&value->as.layout))
            json_layout(&value->as.layout);
    }
    json_close();
}

static ptxpack_status draw(const settings *s, const expr_value *value)
{
    ptxpack_layout l = expr_layout(value);
    if (l.shape.status != PTXPACK_OK)
        return l.shape.status;
    draw_format format = s->svg ? DRAW_SVG : DRAW_LATEX;
    if (s->tv != NULL)
        return draw_tv(stdout, format, &l, &s->tile);
    return s->grid ? draw_grid(stdout, &l) : draw_layout(stdout, format, &l);
}

static int evaluate_word(const settings *s, const char *text)
{
    expr_value     value;
    ptxpack_status status = expr_evaluate(text, strlen(text), &value);
    if (s->json) {
        json_result(text, status, &value);
        return status == PTXPACK_OK ? COMMAND_OK : COMMAND_FAILED;
    }
    if (status == PTXPACK_OK && (s->grid || s->latex || s->svg)) {
        status = draw(s, &value);
    } else if (status == PTXPACK_OK) {
        expr_print(stdout, &value);
        putchar('\n');
    }
    return status == PTXPACK_OK ? COMMAND_OK : command_fail("layout", "%s", ptxpack_detail(NULL));
}

/* ---- lines ------------------------------------------------------------------------------------------ */
/* Prints one line on stdout; characters quoted from the input must not break the line. */
static void print_error(const char *reason)
{
    fputs("error: ", stdout);
    for (const char *p = reason; *p != '\0'; p++)
        putchar((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
    putchar('\n');
}

static bool evaluate_line(const settings *s, const char *text, size_t bytes)
{
    expr_value     value;
    ptxpack_status status = expr_evaluate(text, bytes, &value);
    if (s->json) {
        json_result(text, status, &value);
    } else if (status != PTXPACK_OK) {
        print_error(ptxpack_detail(NULL));
    } else {
        expr_print(stdout, &value);
        putchar('\n');
    }
    return status == PTXPACK_OK;
}

/* Copies a line to stdout, whatever its bytes are. */
static void pass_on(const char *line, size_t bytes)
{
    fwrite(line, 1, bytes, stdout);
    putchar('\n');
}

/* Each result is flushed before the next input is awaited: another program may wait for it. */
static int evaluate_lines(const settings *s)
{
    char   *line = NULL;
    size_t  cap = 0;
    ssize_t bytes = 0;
    bool    good = true, writable = true;
    if (s->json)
        json_open(NULL, '[');
    while (writable && (errno = 0, bytes = getline(&line, &cap, stdin)) >= 0) {
        if (bytes > 0 && line[bytes - 1] == '\n')
            line[--bytes] = '\0';
        size_t blanks = strspn(line, " \t\r");
        if (line[blanks] != '#' && blanks < (size_t)bytes)
            good = evaluate_line(s, line, (size_t)bytes) && good;
        else if (!s->json)
            pass_on(line, (size_t)bytes);
        writable = command_flush();
    }
    int error = errno, status = good ? COMMAND_OK : COMMAND_FAILED;
    if (s->json)
        json_close();
    if (bytes < 0 && !feof(stdin))
        status = command_fail("layout", "cannot read the expressions: %s", strerror(error));
    free(line);
    return status;
}

/* Returns COMMAND_OK, or COMMAND_USAGE after a line on stderr. */
static int check_settings(settings *s, bool lines)
{
    const char *wrong = NULL;
    if (s->grid + s->latex + s->svg + s->json > 1)
        wrong = "--grid, --latex, --svg and --json exclude each other";
    else if (lines && (s->grid || s->latex || s->svg))
        wrong = "--grid, --latex and --svg draw one EXPR, not lines";
    else if (s->tv != NULL && !s->latex && !s->svg)
        wrong = "--tv goes with --latex or --svg";
    if (wrong != NULL)
        return command_fail("layout", "%s", wrong), COMMAND_USAGE;
    if (s->tv == NULL)
        return COMMAND_OK;
    s->tile = ptxpack_tuple_parse(s->tv);
    if (s->tile.status == PTXPACK_OK)
        return COMMAND_OK;
    return command_fail("layout", "--tv %s: %s", s->tv, ptxpack_detail(NULL)), COMMAND_USAGE;
}

int cmd_layout(int argc, char **argv)
{
    settings     s = {.tv = NULL};
    int          words;
    const option rows[] = {
        {"grid", OPTION_FLAG, &s.grid, "draw the offsets as a grid of text, as print_layout does"},
        {"latex", OPTION_FLAG, &s.latex, "draw with TikZ, as print_latex does"},
        {"svg", OPTION_FLAG, &s.svg, "draw for a browser"},
        {"tv", OPTION_TEXT, &s.tv,
         "TILE  EXPR maps (thread,value) into a tile such as (16,8): name and colour both"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, synopsis, rows, &words);
    if (status >= 0)
        return status;
    if (words != 1)
        return command_fail("layout", "expected one EXPR, or - for stdin (try --help)"), COMMAND_USAGE;
    bool lines = strcmp(argv[1], "-") == 0;
    status = check_settings(&s, lines);
    if (status != COMMAND_OK)
        return status;
    return lines ? evaluate_lines(&s) : evaluate_word(&s, argv[1]);
}
