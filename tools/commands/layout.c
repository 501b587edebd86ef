/* layout.c - `ptxpack layout`: evaluates expressions of CuTe's layout algebra, and draws layouts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/notation/draw.h"
#include "tools/notation/layout_expr.h"
#include "tools/notation/layout_script.h"
#include "loader/loader.h"

static const char synopsis[] =
    "ptxpack layout EXPR [--grid|--latex|--svg [--tv TILE]|--json]\n"
    "       ptxpack layout - [--json]\n"
    "  EXPR is a layout, (4,8):(8,1) or Sw<3,4,3> o 0 o (8,64):(64,1), a tuple, or one of CuTe's calls,\n"
    "  nested freely: composition((6,2):(8,2),(4,3):(3,1)), size<0>(L), values(L), (4,8):(8,1)(1,_)\n"
    "  as a tiler, (4,2) acts mode by mode, as <4,2> does\n"
    "  a tensor is POINTER o LAYOUT: counting_iter(0), gmem_ptr[32b](0x1000), make_gmem_ptr<float>(4096), "
    "whose memory\n"
    "  holds 0, 1, 2, ...; npy(\"q.npy\"), with the file's elements; make_identity_tensor((4,8)).  "
    "print_tensor(T)\n"
    "  prints its elements; local_tile(T,<2,2>,(0,1)), local_partition and T(1,_) keep where they start\n"
    "  NAME = EXPR; keeps a value, and several statements stand in lines or behind ';', with C++'s comments\n"
    "  -  reads statements from stdin, and prints the result of each line, `error: reason` for a bad one;\n"
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

static void json_tensor(const expr_value *value)
{
    expr_value pointer = *value;
    pointer.kind = EXPR_POINTER;
    json_print("pointer", print_value, &pointer);
    json_layout(&value->as.tensor.tensor.layout);
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
        else if (value->kind == EXPR_TENSOR)
            json_tensor(value);
    }
    json_close();
}

static ptxpack_status draw(const settings *s, const expr_value *value)
{
    if (s->grid && (value->kind == EXPR_TENSOR || value->kind == EXPR_SLICE || value->kind == EXPR_VALUES)) {
        expr_tensor t = expr_as_tensor(value);
        return t.tensor.layout.shape.status == PTXPACK_OK ? draw_tensor_grid(stdout, &t.tensor, &t.engine)
                                                          : t.tensor.layout.shape.status;
    }
    ptxpack_layout l = expr_layout(value);
    if (l.shape.status != PTXPACK_OK)
        return l.shape.status;
    draw_format format = s->svg ? DRAW_SVG : DRAW_LATEX;
    int64_t     start = expr_start(value);
    if (start != 0) /* an offset without a swizzle */
        l = ptxpack_make_composed((ptxpack_swizzle){0, 0, 0}, start, &l);
    if (l.shape.status != PTXPACK_OK)
        return l.shape.status;
    if (s->tv != NULL)
        return draw_tv(stdout, format, &l, &s->tile);
    return s->grid ? draw_grid(stdout, &l) : draw_layout(stdout, format, &l);
}

/* A text brings its own newlines, except for a last one, perhaps. */
static void print_line(const expr_value *value)
{
    size_t bytes = value->kind == EXPR_TEXT ? strlen(value->as.text) : 0;
    expr_print(stdout, value);
    if (bytes == 0 || value->as.text[bytes - 1] != '\n')
        putchar('\n');
}

/* Draws the last value, which all statements before it lead to; prints every value if nothing is drawn. */
static ptxpack_status run_statements(const settings *s, expr_session *session, const char *text,
                                     expr_value *value, bool *assigned)
{
    bool           draws = s->grid || s->latex || s->svg;
    size_t         bytes = strlen(text), at = 0, end = 0, next, next_end;
    ptxpack_status status = PTXPACK_OK;
    for (bool any = false; script_next(text, bytes, &at, &end) || !any; any = true, at = end) {
        status = expr_evaluate(session, text, at, end, value, assigned);
        next = end;
        bool last = !script_next(text, bytes, &next, &next_end);
        if (status == PTXPACK_OK && draws && last)
            status = draw(s, value);
        else if (status == PTXPACK_OK && !draws && !s->json && !*assigned)
            print_line(value);
        if (status != PTXPACK_OK || last)
            break;
    }
    return status;
}

static int evaluate_word(const settings *s, expr_session *session, const char *word)
{
    expr_value value;
    bool       assigned = false, inside = false;
    char      *text = strdup(word);
    if (text == NULL)
        return command_fail("layout", "out of memory");
    script_blank_comments(text, strlen(text), &inside);
    ptxpack_status status = run_statements(s, session, text, &value, &assigned);
    free(text);
    if (s->json)
        json_result(word, status, &value);
    else if (status != PTXPACK_OK)
        return command_fail("layout", "%s", ptxpack_detail(NULL));
    return status == PTXPACK_OK ? COMMAND_OK : COMMAND_FAILED;
}

/* ---- lines ------------------------------------------------------------------------------------------ */
/* Prints one line on stdout; characters quoted from the input must not break the line.  The columns of the reason count from
 * the begin of the text, which may have several lines. */
static void print_error(const char *text, size_t bytes, size_t line, const char *reason)
{
    size_t column, begin = 0;
    int    words = 0;
    if (sscanf(reason, "column %zu: %n", &column, &words) == 1 && words > 0) {
        for (size_t i = 0; i < bytes && i + 1 < column; i++)
            if (text[i] == '\n') {
                begin = i + 1;
                line++;
            }
        printf("error: line %zu, column %zu: ", line, column - begin);
    } else {
        printf("error: line %zu: ", line);
    }
    for (const char *p = reason + words; *p != '\0'; p++)
        putchar((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p);
    putchar('\n');
}

/* Evaluates the statements of a text, which begins with this line, and prints their results, or the first error. */
static bool evaluate_line(const settings *s, expr_session *session, const char *text, size_t bytes, size_t line)
{
    expr_value value;
    size_t     at = 0, end = 0;
    bool       assigned;
    for (; script_next(text, bytes, &at, &end); at = end) {
        ptxpack_status status = expr_evaluate(session, text, at, end, &value, &assigned);
        if (s->json && !(status == PTXPACK_OK && assigned))
            json_result(text, status, &value);
        else if (!s->json && status != PTXPACK_OK)
            print_error(text, bytes, line, ptxpack_detail(NULL));
        else if (!assigned)
            print_line(&value);
        if (status != PTXPACK_OK)
            return false;
    }
    return true;
}

/* Copies a line to stdout, whatever its bytes are. */
static void pass_on(const char *line, size_t bytes)
{
    fwrite(line, 1, bytes, stdout);
    putchar('\n');
}

/* The lines of stdin; an assignment with open brackets takes lines until they are closed. */
typedef struct line_reader {
    char   *text, *copy;   /* the statement; with blanks in the place of comments */
    size_t  bytes, number; /* of the line that it begins with */
    size_t  lines;         /* that were read */
    char   *line;          /* getline's */
    size_t  cap;
    bool    inside; /* of a comment */
    ssize_t got;
} line_reader;

static bool read_statement(line_reader *r)
{
    r->bytes = 0;
    r->number = r->lines + 1;
    do {
        errno = 0;
        r->lines++;
        r->got = getline(&r->line, &r->cap, stdin);
        if (r->got < 0)
            return r->bytes > 0;
        size_t bytes = (size_t)r->got - (r->line[r->got - 1] == '\n');
        char  *text = (char *)realloc(r->text, r->bytes + bytes + 2);
        char  *copy = text != NULL ? (char *)realloc(r->copy, r->bytes + bytes + 2) : NULL;
        r->text = text != NULL ? text : r->text;
        r->copy = copy != NULL ? copy : r->copy;
        if (copy == NULL)
            return false;
        if (r->bytes > 0)
            r->text[r->bytes] = r->copy[r->bytes] = '\n', r->bytes++;
        memcpy(r->text + r->bytes, r->line, bytes);
        memcpy(r->copy + r->bytes, r->line, bytes);
        script_blank_comments(r->copy + r->bytes, bytes, &r->inside);
        r->bytes += bytes;
        r->text[r->bytes] = r->copy[r->bytes] = '\0';
    } while (script_goes_on(r->copy, r->bytes));
    return true;
}

/* Each result is flushed before the next input is awaited: another program may wait for it. */
static int evaluate_lines(const settings *s, expr_session *session)
{
    line_reader r = {.text = NULL};
    bool        good = true, writable = true;
    if (s->json)
        json_open(NULL, '[');
    while (writable && read_statement(&r)) {
        size_t at = 0, end;
        if (script_next(r.copy, r.bytes, &at, &end))
            good = evaluate_line(s, session, r.copy, r.bytes, r.number) && good;
        else if (!s->json)
            pass_on(r.text, r.bytes);
        writable = command_flush();
    }
    int error = errno, status = good ? COMMAND_OK : COMMAND_FAILED;
    if (s->json)
        json_close();
    if (r.got < 0 && !feof(stdin))
        status = command_fail("layout", "cannot read the expressions: %s", strerror(error));
    free(r.line);
    free(r.text);
    free(r.copy);
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
    ptxpack_layout tile;
    if (expr_tiler(s->tv, &tile) == PTXPACK_OK) {
        s->tile = tile.shape;
        return COMMAND_OK;
    }
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
    expr_session *session = expr_open();
    if (session == NULL)
        return command_fail("layout", "out of memory");
    status = lines ? evaluate_lines(&s, session) : evaluate_word(&s, session, argv[1]);
    expr_close(session);
    return status;
}
