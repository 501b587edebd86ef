/* fuzz.c - expressions of layouts on hostile text: no crash, no hang, no broken guarantee.
 *
 * With libFuzzer (clang -DLIBFUZZER -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -I.):
 * tests/host/layout/fuzz.c, tools/notation/layout_calls.c and layout_expr.c, and build/libptxpack.a make the
 * fuzzer.  Without it this is a program that runs the files that it is given.  If none is given, it runs
 * expressions that are cut out of, or grown from, those of tests/golden/layout_values.txt
 * (tests/support/fuzz.h). */
#include <string.h>
#include <time.h>

#include "tests/support/fuzz.h"
#include "tools/notation/layout_expr.h"
#include "loader/loader.h"

/* A guarantee is broken: the line says which one, and for which input. */
static char input[8192];
#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is false of\n%s\n", __FILE__, __LINE__, #condition, input); \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- what every value guarantees ----------------------------------------------------------------------- */
/* Checks that a tuple is nested as its flat form says, within the limits. */
static void check_tuple(const ptxpack_tuple *t)
{
    char text[PTXPACK_LAYOUT_TEXT], again[PTXPACK_LAYOUT_TEXT];
    DEMAND(t->status == PTXPACK_OK && t->items >= 1 && t->items <= PTXPACK_TUPLE_ITEMS);
    for (int i = 0; i < t->items; i++) {
        DEMAND(t->depth[i] <= PTXPACK_TUPLE_DEPTH && t->shared[i] <= t->depth[i]);
        DEMAND(i + 1 == t->items ? t->shared[i] == 0 : t->shared[i] >= 1 && t->shared[i] <= t->depth[i + 1]);
    }
    DEMAND(ptxpack_tuple_print(t, text, sizeof text) < sizeof text);
    ptxpack_tuple back = ptxpack_tuple_parse(text);
    DEMAND(back.status == PTXPACK_OK && ptxpack_tuple_print(&back, again, sizeof again) < sizeof again);
    DEMAND(strcmp(text, again) == 0);
    DEMAND(ptxpack_tuple_equal(t, &back));
}

static bool counts_elements(const ptxpack_layout *l)
{
    for (int i = 0; i < l->stride.items; i++)
        if (l->stride.kind[i] != 0 && l->stride.kind[i] != PTXPACK_EMPTY)
            return false;
    return true;
}

/* Checks that the offsets of the first indices are those of crd2idx, and lie within the cosize. */
static void check_offsets(const ptxpack_layout *l)
{
    int64_t size = ptxpack_size(l), cosize = ptxpack_cosize(l), least = INT64_MAX, most = INT64_MIN;
    DEMAND(size > 0 && cosize > 0);
    for (int64_t i = 0; i < size && i < 100; i++) {
        int64_t       at = ptxpack_at(l, i);
        ptxpack_tuple index = ptxpack_int(i), offset = ptxpack_layout_crd2idx(l, &index);
        DEMAND(offset.status == PTXPACK_OK && !ptxpack_is_tuple(&offset) && offset.value[0] == at);
        least = at < least ? at : least;
        most = at > most ? at : most;
    }
    DEMAND(l->composed || most - least < cosize);
}

static void check_layout(const ptxpack_layout *l)
{
    char text[PTXPACK_LAYOUT_TEXT];
    DEMAND(l->shape.status == PTXPACK_OK && l->stride.status == PTXPACK_OK);
    DEMAND(ptxpack_layout_print(l, text, sizeof text) < sizeof text);
    ptxpack_layout back = ptxpack_layout_parse(text);
    DEMAND(ptxpack_layout_equal(l, &back));
    if (ptxpack_is_tiler(l))
        return;
    check_tuple(&l->shape);
    check_tuple(&l->stride);
    DEMAND(ptxpack_congruent(&l->shape, &l->stride));
    if (counts_elements(l))
        check_offsets(l);
}

/* Its texts have the lengths that they are said to have. */
static void check_tensor(const expr_tensor *t)
{
    static char text[1 << 16];
    size_t      length;
    check_layout(&t->tensor.layout);
    length = ptxpack_tensor_text(&t->tensor, &t->engine, text, sizeof text);
    DEMAND(length < sizeof text && strlen(text) == length && strcmp(text, "error") != 0);
    if (ptxpack_size(&t->tensor.layout) <= 256 &&
        ptxpack_print_tensor_text(&t->tensor, &t->engine, text, sizeof text, &length) == PTXPACK_OK)
        DEMAND(strlen(text) == (length < sizeof text ? length : sizeof text - 1));
}

static void check_value(const expr_value *v)
{
    if (v->kind == EXPR_TUPLE)
        check_tuple(&v->as.tuple);
    else if (v->kind == EXPR_LAYOUT)
        check_layout(&v->as.layout);
    else if (v->kind == EXPR_TENSOR || v->kind == EXPR_POINTER || v->kind == EXPR_VALUES)
        check_tensor(&v->as.tensor);
    else if (v->kind == EXPR_SLICE)
        check_layout(&v->as.slice.layout), check_tuple(&v->as.slice.offset);
    else
        DEMAND(v->kind == EXPR_SWIZZLE || v->kind == EXPR_TEXT);
}

/* ---- one expression --------------------------------------------------------------------------------- */
static FILE *nowhere;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    expr_value    value;
    bool          assigned;
    double        start = seconds();
    expr_session *session = expr_open();
    char         *text = (char *)malloc(size + 1); /* a sanitizer sees reads beyond its end */
    if (text == NULL || session == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    snprintf(input, sizeof input, "%.*s", (int)size, (const char *)data);
    ptxpack_status status = expr_evaluate(session, text, 0, size, &value, &assigned);
    DEMAND(status == PTXPACK_OK || status == PTXPACK_E_ARG);
    if (status == PTXPACK_OK) {
        check_value(&value);
        if (value.kind != EXPR_VALUES || ptxpack_size(&value.as.tensor.tensor.layout) < 10000)
            expr_print(nowhere, &value);
    } else {
        const char *line = ptxpack_detail(NULL);
        DEMAND(line[0] != '\0' && strchr(line, '\n') == NULL);
        DEMAND(strncmp(line, "column ", 7) == 0 || strncmp(line, "LayoutLeft", 10) == 0);
    }
    free(text);
    expr_close(session);
    DEMAND(seconds() - start < 2);
    return 0;
}

#ifdef LIBFUZZER
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    nowhere = fopen("/dev/null", "w");
    return 0;
}
#else

/* The expressions of the transcript: the text in quotes after a command. */
static char     transcript[1 << 16];
static char    *cases[1000];
static uint32_t case_count;

static int read_cases(void)
{
    FILE *file = fopen("tests/golden/layout_values.txt", "r");
    if (file == NULL || fread(transcript, 1, sizeof transcript - 1, file) == 0)
        return -1;
    fclose(file);
    for (char *at = strstr(transcript, "  $ "); at != NULL && case_count < 1000; at = strchr(at + 1, '\'')) {
        char *end;
        at = strchr(at, '\'');
        end = at != NULL ? strchr(at + 1, '\'') : NULL;
        if (end == NULL)
            break;
        *end = '\0';
        cases[case_count++] = at + 1;
        at = end;
    }
    return case_count > 250 ? 0 : -1;
}

/* clang-format off */
static const char *const pieces[] = {
    "(",  ")",  "<",  ">",  ",",  ":",  "_",  "o",  "@",  "-",  " ",  "0",  "1",  "2",  "3",  "4",  "5",  "7",
    "8",  "64", "()", "_4", "-1", "1@0", "2@1", "1@0@1", "Sw<3,4,3>", "Sw<2,0,-2>", "Sw<3,3,3> o 0 o ",
    " o 7 o ", "9223372036854775807", "-9223372036854775808", "4294967296", "99999999999999999999",
    "LayoutLeft", "LayoutRight", "(2,3)", "(8,8):(8,1)", "(4,8):(1,4)", "((2,2),4):((1,8),2)", "2:0", "4:-1",
    "(2,2):(1@0,1@1)", "<2,4>", "<4:2,_>", "(_,1)", "(1,_)", "values(", "size(", "\xff", "{}", "\t",
    "Shape<", "Layout<", "Int<4>{}", "Step<_1,X>{}", "Tile<_2,_>",
#define FUNCTION(name, letter, numbers, takes, gives, how) #name "(", #name "<1>(", #name "<0,2>(",
#include "tools/notation/layout_functions.def"
#undef FUNCTION
};
/* clang-format on */
enum { PIECES = sizeof pieces / sizeof *pieces, MAX_TEXT = 1000 };

typedef struct text {
    char   bytes[MAX_TEXT];
    size_t size;
} text;

/* Replaces bytes [at, at + cut) by `with`. */
static void replace(text *t, size_t at, size_t cut, const char *with, size_t bytes)
{
    if (t->size - cut + bytes > MAX_TEXT)
        return;
    memmove(t->bytes + at + bytes, t->bytes + at + cut, t->size - at - cut);
    memcpy(t->bytes + at, with, bytes);
    t->size += bytes - cut;
}

/* The end of the value that begins at `at`: a word, or brackets with their contents. */
static size_t value_end(const text *t, size_t at)
{
    int level = 0;
    for (; at < t->size; at++) {
        char c = t->bytes[at];
        level += (c == '(' || c == '<') - (c == ')' || c == '>');
        if (level < 0 || (level == 0 && (c == ',' || c == ':')))
            return at;
    }
    return at;
}

/* Replaces a value by another case or by a piece of one; now and then only a byte or a bracket. */
static void mutate(text *t)
{
    size_t      at = t->size > 0 ? draw((uint32_t)t->size) : 0;
    const char *piece = draw(3) == 0 ? cases[draw(case_count)] : pieces[draw(PIECES)];
    while (at > 0 && draw(8) != 0 && strchr("(<,:", t->bytes[at - 1]) == NULL)
        at--;
    size_t end = value_end(t, at);
    switch (draw(6)) {
    case 0:
        replace(t, at, 0, piece, strlen(piece));
        break;
    case 1:
        replace(t, at, end - at, "", 0);
        break;
    case 2: { /* a function around it */
        char whole[MAX_TEXT + 200];
        int  bytes = snprintf(whole, sizeof whole, "%s%.*s)", piece, (int)(end - at), t->bytes + at);
        replace(t, at, end - at, whole, (size_t)bytes);
        break;
    }
    case 3:
        if (draw(6) == 0 && t->size > 0)
            t->bytes[at % t->size] = (char)draw(256);
        break;
    default:
        replace(t, at, end - at, piece, strlen(piece));
    }
}

/* ---- calls whose arguments are of the right kinds ---------------------------------------------------- */
static const struct {
    const char *name, *takes, *gives;
    char        numbers;
} functions[] = {
#define FUNCTION(name, letter, numbers, takes, gives, how) {#name, takes, #gives, numbers},
#include "tools/notation/layout_functions.def"
#undef FUNCTION
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static void append(text *t, const char *what) { replace(t, t->size, 0, what, strlen(what)); }

static void append_integer(text *t, int least, uint32_t count)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%d", least + (int)draw(count));
    append(t, digits);
}

/* Appends mostly powers of two, so that extents divide. */
static void append_extent(text *t) { append_integer(t, draw(4) == 0 ? 1 + (int)draw(12) : 1 << draw(6), 1); }

/* Appends an extent, a coordinate or a stride. */
static void append_leaf(text *t, char what)
{
    uint32_t kind = draw(24);
    if (what == 'c' && kind < 8)
        append(t, "_");
    else if (what == 'c')
        append_integer(t, 0, 5);
    else if (what == 'd' && kind < 5)
        append(t, kind < 2 ? "-4" : "0");
    else if (what == 'd' && kind < 7)
        append(t, kind == 5 ? "1@0" : "1@1");
    else
        append_extent(t);
}

/* Appends a tuple nested like `profile`, in which each 4 is a leaf. */
static void append_like(text *t, const char *profile, char what)
{
    for (; *profile != '\0'; profile++) {
        if (*profile == '4')
            append_leaf(t, what);
        else
            replace(t, t->size, 0, profile, 1);
    }
}

static void append_call(text *t, char wanted, int depth);

static void append_argument(text *t, char wanted, int depth)
{
    static const char *const profiles[] = {"4",         "(4)",       "(4,4)",         "(4,4)", "(4,4,4)",
                                           "(4,(4,4))", "((4,4),4)", "((4,4),(4,4))", "((4))"};
    static const char *const tilers[] = {"<2,4>", "4",     "<4:2,2>", "8:1",
                                         "(2,2)", "<_,4>", "_",       "<2:1,(2,2):(1,4)>"};
    static const char *const tensors[] = {"gmem_ptr[32b](0x1000) o (4,8):(8,1)",
                                          "counting_iter(3) o ((2,2),4)",
                                          "ArithTuple(0,1) o (4,4):(1@0,1@1)",
                                          "subptr[4b](0x10.4) o (8,2)",
                                          "Sw<1,4,3>_smem_ptr[16b](0x0) o (8,8)",
                                          "ptr[8b](7) o Sw<2,0,3> o 0 o (8,8)",
                                          "smem_ptr[16b](0x80)"};
    static const char *const swizzles[] = {"Sw<2,0,3>", "Sw<3,3,3>", "Sw<3,0,-3>", "Sw<1,1,-2>",
                                           "Sw<0,4,3>", "Sw<2,1,2>", "Sw<3,4,3>"};
    const char              *profile = profiles[draw(sizeof profiles / sizeof *profiles)];
    if (depth > 0 && draw(3) == 0 && strchr("lLTt", wanted) != NULL) {
        append_call(t, wanted == 't' ? 't' : 'l', depth - 1);
    } else if (strchr("xXp", wanted) != NULL && draw(4) != 0) {
        append(t, tensors[draw(sizeof tensors / sizeof *tensors)]);
    } else if (wanted == 'q') {
        append(t, "\"none.npy\"");
    } else if (wanted == 's') {
        append(t, swizzles[draw(sizeof swizzles / sizeof *swizzles)]);
    } else if (wanted == 'i') {
        append_integer(t, -1, 20);
    } else if (wanted == 'o') {
        append(t, draw(2) ? "LayoutLeft" : "LayoutRight");
    } else if (wanted == 'T' && draw(2)) {
        append(t, tilers[draw(sizeof tilers / sizeof *tilers)]);
    } else if (wanted == 't') {
        append_like(t, profile, draw(2) ? 's' : 'c');
    } else {
        if (draw(4) == 0) {
            append(t, swizzles[draw(sizeof swizzles / sizeof *swizzles)]);
            append(t, " o ");
            append_integer(t, 0, draw(2) ? 1 : 70);
            append(t, " o ");
        }
        append_like(t, profile, 's');
        if (draw(3) != 0) {
            append(t, ":");
            append_like(t, profile, 'd');
        }
    }
}

static void append_numbers(text *t, char numbers)
{
    int count = numbers >= '0' && numbers <= '2' ? numbers - '0' : (int)draw(3) + (numbers == '+');
    for (int i = 0; i < count; i++) {
        append(t, i == 0 ? "<" : ",");
        append_integer(t, i, 3);
    }
    append(t, count > 0 ? ">" : "");
}

static void append_call(text *t, char wanted, int depth)
{
    uint32_t row = draw(FUNCTIONS);
    while (wanted != 'v' && functions[row].gives[0] != wanted)
        row = draw(FUNCTIONS);
    append(t, functions[row].name);
    append_numbers(t, functions[row].numbers);
    append(t, "(");
    for (const char *p = functions[row].takes; *p != '\0'; p++) {
        if (*p == '?') {
            if (draw(2) == 0)
                break;
            continue;
        }
        bool several = p[1] == '+' || p[1] == '*';
        for (uint32_t n = several ? 1 + draw(3) : 1; n > 0; n--) {
            append(t, t->bytes[t->size - 1] != '(' ? "," : "");
            append_argument(t, *p, depth);
        }
        p += several;
    }
    append(t, ")");
}

int main(int argc, char **argv)
{
    long count = fuzz_begin(argc, argv, "fuzz", 300000), values = 0;
    nowhere = fopen("/dev/null", "w");
    if (nowhere == NULL || read_cases() != 0)
        return 1;
    for (long i = 0; i < count; i++) {
        text       t = {.size = 0};
        expr_value value;
        bool       call = draw(2) == 0;
        if (call)
            append_call(&t, 'v', 2);
        else
            append(&t, cases[draw(case_count)]);
        for (uint32_t n = call ? draw(8) == 0 : draw(4); n > 0; n--)
            mutate(&t);
        LLVMFuzzerTestOneInput((const uint8_t *)t.bytes, t.size);
        expr_session *session = expr_open();
        bool          assigned;
        values += session != NULL &&
                  expr_evaluate(session, t.bytes, 0, t.size, &value, &assigned) == PTXPACK_OK;
        expr_close(session);
    }
    printf("fuzz: %ld of them had a value\n", values);
    fclose(nowhere);
    return values > count / 10 ? 0 : 1;
}
#endif
