/* command.c - what transcripts cannot show: options and JSON in this process, a strict check of JSON, and
 * attention on .npy files against the reference. */
#include <ctype.h>
#include <math.h>
#include <unistd.h>

#include "command_fixture.h"
#include "host/attention/attention.h"
#include "tools/command.h"
#include "tools/problem/npy.h"
#include "tools/problem/random.h"

enum { SEED = 20240607 };
static const char NO_DRIVER[] = "/no/such/driver.so";

/* ---- a strict reader of JSON -------------------------------------------------------------------- */
static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')
        p++;
    return p;
}

static const char *json_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p != '\\')
            continue;
        p++;
        if (*p == 'u')
            for (int i = 0; i < 4; i++)
                if (!isxdigit((unsigned char)*++p))
                    return NULL;
        if (*p == '\0' || (strchr("\"\\/bfnrtu", *p) == NULL && !isxdigit((unsigned char)*p)))
            return NULL;
    }
    return p + 1;
}

static const char *json_number(const char *p)
{
    const char *first;
    p += *p == '-';
    first = p;
    while (isdigit((unsigned char)*p))
        p++;
    if (p == first || (*first == '0' && p - first > 1))
        return NULL;
    if (*p == '.') {
        first = ++p;
        while (isdigit((unsigned char)*p))
            p++;
        if (p == first)
            return NULL;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        first = p;
        while (isdigit((unsigned char)*p))
            p++;
        if (p == first)
            return NULL;
    }
    return p;
}

/* The end of the value at p, NULL when it is malformed. */
static const char *json_value(const char *p)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0)
            return p + strlen(words[i]);
    if (*p == '"')
        return json_string(p);
    if (*p != '{' && *p != '[')
        return json_number(p);
    char closing = *p == '{' ? '}' : ']';
    p = skip_blanks(p + 1);
    if (*p == closing)
        return p + 1;
    for (;;) {
        if (closing == '}') {
            p = json_string(p);
            p = p != NULL ? skip_blanks(p) : NULL;
            if (p == NULL || *p++ != ':')
                return NULL;
            p = skip_blanks(p);
        }
        p = json_value(p);
        if (p == NULL)
            return NULL;
        p = skip_blanks(p);
        if (*p == closing)
            return p + 1;
        if (*p++ != ',')
            return NULL;
        p = skip_blanks(p);
    }
}

static void assert_json(const char *text)
{
    const char *end = json_value(skip_blanks(text));
    if (end == NULL || *skip_blanks(end) != '\0')
        fail_msg("this is not JSON:\n%s", text);
}

static void the_reader_of_json_is_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {"",        "{",     "{}}",       "[1,]",  "{\"a\" 1}",
                                      "{1: 2}",  "[01]",  "[1.]",      "[nan]", "\"\n\"",
                                      "\"\\x\"", "[1 2]", "{\"a\": }", "\"abc", "[1e]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *end = json_value(skip_blanks(bad[i]));
        assert_true(end == NULL || *skip_blanks(end) != '\0');
    }
    assert_json(" {\"a\": [1, -2.5e-3, true, null, \"x\\u00e9\\n\"], \"b\": {}} ");
}

/* ---- options and JSON, in this process ---------------------------------------------------------- */
static void options_are_parsed(void **state)
{
    (void)state;
    bool         flag = false;
    const char  *text = NULL, *maybe = NULL, *letter = NULL;
    int64_t      number = 7;
    double       real = 0;
    int          words = -1;
    const option rows[] = {
        {"flag", OPTION_FLAG, &flag, ""},    {"text", OPTION_TEXT, &text, ""},
        {"maybe", OPTION_MAYBE, &maybe, ""}, {"number", OPTION_INT, &number, ""},
        {"real", OPTION_REAL, &real, ""},    {"o", OPTION_TEXT, &letter, ""},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    char  copy[15][24] = {"test",    "one",         "--flag", "--text", "a=b",
                          "--maybe", "--number=-9", "-o",     "--file", "two",
                          "--real",  "2.5e1",       "--",     "--flag", "-"};
    char *argv[16];
    for (int i = 0; i < 15; i++)
        argv[i] = copy[i];
    argv[15] = NULL;
    assert_int_equal(command_options(15, argv, "test", rows, &words), -1);
    assert_true(flag && number == -9 && real == 25);
    assert_string_equal(text, "a=b");
    assert_string_equal(maybe, "");
    assert_string_equal(letter, "--file");
    assert_int_equal(words, 4);
    assert_string_equal(argv[1], "one");
    assert_string_equal(argv[2], "two");
    assert_string_equal(argv[3], "--flag");
    assert_string_equal(argv[4], "-");
}

static void strings_become_json(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const strings[] = {
        "plain", "\"quoted\" \\ / ", "line\nend\ttab\x01\x7f", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
        "\xff\xfe", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "",
    };
    /* clang-format on */
    int kept = dup(STDOUT_FILENO);
    fflush(stdout);
    assert_non_null(freopen(scratch_path("out"), "wb", stdout));
    json_open(NULL, '{');
    json_open("strings", '[');
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        json_text(NULL, strings[i]);
    json_text(NULL, NULL);
    json_close();
    json_open("empty", '{');
    json_close();
    json_real("nan", NAN);
    json_real("tiny", 1e-300);
    json_int("least", INT64_MIN);
    json_bool("true", true);
    json_close();
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    read_output("out", output);
    assert_json(output);
    assert_non_null(strstr(output, "\"\\ufffd\\ufffd\""));
    assert_non_null(strstr(output, "\xe2\x82\xac"));
    assert_non_null(strstr(output, "\"nan\": null"));
    assert_null(strstr(output, "\xed"));
}

/* ---- streams and JSON ---------------------------------------------------------------------------- */
/* When the standard streams are closed, files that are opened next must not get their numbers. */
static void no_file_takes_the_place_of_a_stream(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int fd = 0; fd <= STDERR_FILENO; fd++)
            close(fd);
        command_begin();
        int  file = dup(STDIN_FILENO);
        bool dead = write(STDOUT_FILENO, "x", 1) < 0 && write(STDERR_FILENO, "x", 1) < 0;
        _exit(file > STDERR_FILENO && dead ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void json_is_well_formed(void **state)
{
    (void)state;
    assert_int_equal(run_command("attention",
                                 "--cpu --batch 1 --seqlen-q 40 --heads-q 2 --head-dim 16 --verify --json"),
                     0);
    assert_json(output);
    assert_non_null(strstr(output, "\"pass\": true"));
    assert_non_null(strstr(output, "\"no_gpu\": \"no CUDA driver"));
    assert_int_equal(run_command("list", "--json"), 0);
    assert_json(output);
    assert_non_null(strstr(output, "attention_mma"));
    assert_int_equal(run_command("list", "--resources --json"), 1);
    assert_json(output);
    assert_int_equal(run_command("expand", "vector_add_sm80 --map --json"), 0);
    assert_json(output);
    run_command("info", "--json");
    assert_json(output);
    assert_int_equal(run_command("cache", "stats --json"), 0);
    assert_json(output);
}

/* ---- attention on files ------------------------------------------------------------------------- */
enum { BATCH = 2, ROWS = 9, KEYS = 13, HEADS = 4, KEY_HEADS = 2, DIM = 32 };

/* Copies [batch][rows][heads][dim] to [batch][heads][rows][dim]. */
static void swap_axes(const void *data, char *to, int rows, int heads, size_t element)
{
    const char *from = (const char *)data;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < heads; h++, from += DIM * element)
                memcpy(to + ((size_t)(b * heads + h) * (size_t)rows + (size_t)i) * DIM * element, from,
                       DIM * element);
}

/* Writes a tensor as name.npy in one of the types. */
static void write_tensor(const char *name, const void *data, int rows, int heads, ptxpack_dtype dtype,
                         bool bhsd, npy_type type)
{
    static char  swapped[BATCH * KEYS * HEADS * DIM * 2];
    static float wide[BATCH * KEYS * HEADS * DIM];
    char         line[NPY_LINE];
    npy_array    a = {.type = type, .rank = 4, .shape = {BATCH, rows, heads, DIM}};
    a.count = (size_t)BATCH * (size_t)rows * (size_t)heads * DIM;
    memcpy(swapped, data, a.count * ptxpack_dtype_bytes(dtype));
    if (bhsd) {
        swap_axes(data, swapped, rows, heads, ptxpack_dtype_bytes(dtype));
        a.shape[1] = heads;
        a.shape[2] = rows;
    }
    for (size_t i = 0; i < a.count; i++)
        wide[i] = ptxpack_element(dtype, swapped, i);
    a.data = type == NPY_F32 ? (void *)wide : (void *)swapped;
    if (!npy_write(scratch_path(name), &a, line))
        fail_msg("%s", line);
}

/* Runs the command for these files; returns its output as doubles [batch][rows][heads][dim]. */
static void read_results(ptxpack_dtype dtype, bool bhsd, double *o, double *lse)
{
    char      line[NPY_LINE];
    npy_array a, l;
    if (!npy_read(scratch_path("o.npy"), &a, line) || !npy_read(scratch_path("lse.npy"), &l, line))
        fail_msg("%s", line);
    dtype = dtype == PTXPACK_E4M3 ? PTXPACK_BF16 : dtype;
    assert_int_equal(a.type, dtype == PTXPACK_BF16 ? NPY_U16 : NPY_F16);
    assert_int_equal(a.rank, 4);
    assert_int_equal(a.shape[bhsd ? 2 : 1], ROWS);
    assert_int_equal(a.shape[bhsd ? 1 : 2], HEADS);
    assert_int_equal(l.rank, 3);
    assert_int_equal(l.count, BATCH * HEADS * ROWS);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < ROWS; i++)
            for (int h = 0; h < HEADS; h++)
                for (int c = 0; c < DIM; c++) {
                    int row = bhsd ? (b * HEADS + h) * ROWS + i : (b * ROWS + i) * HEADS + h;
                    *o++ = ptxpack_element(dtype, a.data, (size_t)(row * DIM + c));
                }
    for (size_t i = 0; i < l.count; i++)
        lse[i] = ((float *)l.data)[i];
    npy_free(&a);
    npy_free(&l);
}

/* Options, and the fields of the descriptor that they set. */
static const struct {
    const char  *options;
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
    int32_t      chunk;
} maskings[] = {
    {"", PTXPACK_MASK_NONE, 0, 0, 0, 0},
    {"--causal top-left", PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, 0},
    {"--causal", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 0},
    {"--causal --chunk 2", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0, 2},
    {"--window 2,1 --align top-left", PTXPACK_MASK_WINDOW_TOP_LEFT, 2, 1, 0, 0},
    {"--window 3,none --softcap 2.5", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 3, -1, 2.5f, 0},
    {"--window=-1,0 --align bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, -1, 0, 0, 0},
};
enum { MASKINGS = sizeof maskings / sizeof maskings[0] };

static void compare_with_reference(ptxpack_dtype dtype, int mask, const void *q, const void *k, const void *v,
                                   bool bhsd)
{
    static double                o[BATCH * ROWS * HEADS * DIM], want[BATCH * ROWS * HEADS * DIM];
    double                       lse[BATCH * HEADS * ROWS], want_lse[BATCH * HEADS * ROWS];
    const ptxpack_attention_desc d = {
        .size = sizeof d,
        .dtype = dtype,
        .batch = BATCH,
        .seqlen_q = ROWS,
        .seqlen_kv = KEYS,
        .heads_q = HEADS,
        .heads_kv = KEY_HEADS,
        .head_dim = DIM,
        .mask = maskings[mask].mask,
        .window_left = maskings[mask].left,
        .window_right = maskings[mask].right,
        .softcap = maskings[mask].softcap,
        .chunk = maskings[mask].chunk,
    };
    assert_int_equal(ptxpack_attention_reference(&d, q, k, v, NULL, want, want_lse), PTXPACK_OK);
    read_results(dtype, bhsd, o, lse);
    for (size_t i = 0; i < sizeof o / sizeof o[0]; i++)
        assert_true(fabs(o[i] - want[i]) <= fabs(want[i]) * (dtype == PTXPACK_F16 ? 0x1p-11 : 0x1p-8) + 1e-7);
    for (size_t i = 0; i < sizeof lse / sizeof lse[0]; i++)
        assert_true(fabs(lse[i] - want_lse[i]) <= 1e-6);
}

static void files_give_the_reference(void **state)
{
    (void)state;
    static uint16_t q[BATCH * ROWS * HEADS * DIM];
    static uint16_t k[BATCH * KEYS * KEY_HEADS * DIM], v[BATCH * KEYS * KEY_HEADS * DIM];
    random_state    random = random_start(SEED);
    print_message("seed %d\n", (int)SEED);
    for (int type = PTXPACK_F16; type <= PTXPACK_E4M3; type++)
        for (int bhsd = 0; bhsd < 2; bhsd++)
            for (int wide = 0; wide < 2; wide++)
                for (int mask = 0; mask < MASKINGS; mask++) {
                    ptxpack_dtype dtype = (ptxpack_dtype)type;
                    npy_type      stored = wide                    ? NPY_F32
                                           : dtype == PTXPACK_E4M3 ? NPY_U8
                                           : dtype == PTXPACK_BF16 ? NPY_U16
                                                                   : NPY_F16;
                    random_normal(&random, dtype, q, sizeof q / 2);
                    random_normal(&random, dtype, k, sizeof k / 2);
                    random_normal(&random, dtype, v, sizeof v / 2);
                    write_tensor("q.npy", q, ROWS, HEADS, dtype, bhsd, stored);
                    write_tensor("k.npy", k, KEYS, KEY_HEADS, dtype, bhsd, stored);
                    write_tensor("v.npy", v, KEYS, KEY_HEADS, dtype, bhsd, stored);
                    char line[32768];
                    snprintf(line, sizeof line,
                             "--q %s --k %s --v %s -o %s --lse %s --cpu --verify --layout %s --dtype %s %s",
                             scratch_path("q.npy"), scratch_path("k.npy"), scratch_path("v.npy"),
                             scratch_path("o.npy"), scratch_path("lse.npy"), bhsd ? "bhsd" : "bshd",
                             ptxpack_dtype_name(dtype), maskings[mask].options);
                    if (run_command("attention", line) != 0)
                        fail_msg("%s", errors);
                    assert_non_null(strstr(output, "no GPU: no CUDA driver"));
                    compare_with_reference(dtype, mask, q, k, v, bhsd);
                }
}

/* The tests use neither the machine's GPU nor the user's cache. */
static int open_without_gpu(void **state)
{
    int status = scratch_open(state);
    setenv("PTXPACK_DRIVER", NO_DRIVER, 1);
    setenv("PTXPACK_CACHE_DIR", scratch_path("cache"), 1);
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reader_of_json_is_strict), cmocka_unit_test(options_are_parsed),
        cmocka_unit_test(strings_become_json),          cmocka_unit_test(no_file_takes_the_place_of_a_stream),
        cmocka_unit_test(json_is_well_formed),          cmocka_unit_test(files_give_the_reference),
    };
    return cmocka_run_group_tests(tests, open_without_gpu, scratch_close);
}
