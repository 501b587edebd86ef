/* command.c - the command: exit statuses, usage errors, JSON, and attention on .npy files.
 *
 * Runs build/ptxpack ($PTXPACK_BINARY names another), always without a GPU. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/attention/attention.h"
#include "tools/command.h"
#include "tools/problem/npy.h"
#include "tools/problem/random.h"
#include "tests/support/scratch.h"

enum { SEED = 20240607, OUTPUT = 1 << 20 };
static const char NO_DRIVER[] = "/no/such/driver.so";
static char       output[OUTPUT], errors[OUTPUT]; /* of the last run */

static void read_output(const char *name, char *to)
{
    FILE *file = fopen(scratch_path(name), "rb");
    assert_non_null(file);
    to[fread(to, 1, OUTPUT - 1, file)] = '\0';
    fclose(file);
}

/* Run "ptxpack ARGUMENTS" through the shell; its exit status. */
static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...)
{
    char        arguments[16384], line[40960];
    const char *binary = getenv("PTXPACK_BINARY");
    va_list     list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(line, sizeof line, "%s %s >%s 2>%s", binary != NULL ? binary : "build/ptxpack", arguments,
             scratch_path("out"), scratch_path("err"));
    int status = system(line);
    read_output("out", output);
    read_output("err", errors);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

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

/* ---- exit statuses ------------------------------------------------------------------------------ */
static const struct {
    const char *arguments;
    int         status;
    const char *line; /* on stderr */
} usages[] = {
    {"", 2, "usage"},
    {"nonsense", 2, "unknown subcommand \"nonsense\""},
    {"'two\nlines'", 2, "unknown subcommand \"two?lines\""},
    {"list --op 'two\nlines'", 2, "\"two?lines\""},
    {"attention --bogus", 2, "unknown option --bogus"},
    {"attention -batch 1", 2, "unknown option -batch"},
    {"attention --batch", 2, "--batch needs a value"},
    {"attention --batch x", 2, "\"x\" is not an integer"},
    {"attention --batch 99999999999999999999", 2, "is not an integer"},
    {"attention --batch 3000000000", 2, "--batch: 3000000000"},
    {"attention --batch 0", 2, "--batch: 0"},
    {"attention --head-dim 20", 2, "head_dim 20"},
    {"attention --heads-q 6 --heads-kv 4", 2, "heads_q 6 is not a multiple of heads_kv 4"},
    {"attention --scale -1", 2, "--scale: -1"},
    {"attention --scale 1e-300", 2, "--scale: 1e-300"},
    {"attention --scale 1e39", 2, "--scale: 1e+39"},
    {"attention --batch -1", 2, "--batch: -1"},
    {"attention --seqlen-kv -1", 2, "--seqlen-kv: -1"},
    {"attention --batch -9223372036854775808", 2, "is not an integer"},
    {"attention --seed -5", 2, "--seed: -5"},
    {"attention -o ''", 2, "-o: the value is empty"},
    {"attention -o a.npy --lse a.npy", 2, "both name a.npy"},
    {"attention --scale nan", 2, "\"nan\" is not a number"},
    {"attention --causal sideways", 2, "\"sideways\""},
    {"attention --window 5", 2, "--window: \"5\" is not LEFT,RIGHT"},
    {"attention --window 5,0x", 2, "\"5,0x\" is not LEFT,RIGHT"},
    {"attention --window -2,0", 2, "\"-2,0\" is not LEFT,RIGHT"},
    {"attention --window 1,2147483648", 2, "each a whole number up to 2147483647 or none"},
    {"attention --window 5,0 --align middle", 2, "--align: \"middle\" is neither"},
    {"attention --window 5,0 --causal", 2, "a causal window is --window LEFT,0"},
    {"attention --align top-left", 2, "--align goes with --window"},
    {"attention --softcap -1", 2, "--softcap: -1"},
    {"attention --softcap 1e-37 --scale 1e9", 2, "softcap 1e-37 is too small"},
    {"attention --softcap 1e-300", 2, "--softcap: 1e-300 is neither 0 (off) nor"},
    {"attention --softcap 1e39", 2, "--softcap: 1e+39 is neither 0 (off) nor"},
    {"attention --layout sbhd", 2, "\"sbhd\""},
    {"attention --dtype f64", 2, "\"f64\""},
    {"attention --cpu=never", 2, "\"never\""},
    {"attention --json=1", 2, "takes no value"},
    {"attention --repeat 0", 2, "--repeat: 0"},
    {"attention --q a.npy", 2, "go together"},
    {"attention --q a.npy --k b.npy --v c.npy --batch 2", 2, "either files or sizes"},
    {"attention word", 2, "unexpected word \"word\""},
    {"attention --cpu --q a.npy --k b.npy --v c.npy", 1, "a.npy: No such file"},
    {"attention", 1, "no CUDA driver"},
    {"vector-add --n 0", 2, "--n: 0"},
    {"vector-add --dtype f8", 2, "\"f8\""},
    {"vector-add --a 1e39", 2, "--a 1e+39"},
    {"vector-add --seed -1", 2, "--seed: -1"},
    {"vector-add", 1, "no CUDA driver"},
    {"info --device -1", 2, "--device -1"},
    {"info --arch foo", 2, "\"foo\""},
    {"list --op nothing", 2, "\"nothing\""},
    {"list --resources --arch sm_5", 2, "\"sm_5\""},
    {"expand vector_add_sm80 -D =1", 2, "\"\" is no name"},
    {"expand vector_add_sm80 -D 'a b=1'", 2, "\"a b\" is no name"},
    {"expand vector_add_sm80 -D 9=1", 2, "\"9\" is no name"},
    {"cache trim --older 0", 2, "--older 0"},
    {"cache path --json --dir /dev/null", 1, "/dev/null: Not a directory"},
    {"bench", 2, "say which"},
    {"bench nothing", 2, "\"nothing\""},
    {"bench attention --head-dim 64,x", 2, "no list"},
    {"bench attention --causal maybe", 2, "\"maybe\""},
    {"bench attention --window 9", 2, "\"9\" is not LEFT,RIGHT"},
    {"bench attention --window 9,0 --causal yes", 2, "--window and --causal"},
    {"bench attention --softcap -1", 2, "--softcap: -1"},
    {"bench attention --softcap 1e-300", 2, "--softcap: 1e-300"},
    {"bench attention --seqlen 1000", 2, "must divide"},
    {"bench attention --rounds 0", 2, "--rounds: 0"},
    {"bench attention", 1, "no CUDA driver"},
    {"bench vector-add --json", 1, "no CUDA driver"},
    {"bench start-up", 1, "no CUDA driver"},
};

static void errors_have_a_status_and_a_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++) {
        int status = run("%s", usages[i].arguments);
        if (status != usages[i].status || strstr(errors, usages[i].line) == NULL)
            fail_msg("ptxpack %s: status %d: %s", usages[i].arguments, status, errors);
        if (usages[i].arguments[0] != '\0') {
            assert_ptr_equal(strchr(errors, '\n') + 1, errors + strlen(errors)); /* one line */
            assert_true(strncmp(errors, "ptxpack", 7) == 0);
        }
    }
}

static void help_is_not_an_error(void **state)
{
    (void)state;
    static const char *const words[] = {
#define WORD(word, function, summary) word,
        COMMAND_MAP(WORD)
#undef WORD
    };
    assert_int_equal(run("--help"), 0);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(strstr(output, words[i]));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(run("%s --help", words[i]), 0);
        assert_non_null(strstr(output, "usage: ptxpack"));
        assert_string_equal(errors, "");
    }
}

/* Run a line of shell in which $0 is the command and $1 the scratch folder; its exit status. */
static int shell(const char *script)
{
    char        line[20000];
    const char *binary = getenv("PTXPACK_BINARY");
    snprintf(line, sizeof line, "sh -c '%s' %s %s 2>%s", script, binary != NULL ? binary : "build/ptxpack",
             scratch_folder, scratch_path("err"));
    int status = system(line);
    read_output("err", errors);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_closed_or_full_output_is_an_error(void **state)
{
    (void)state;
    /* clang-format off */
    static const char *const scripts[] = {
        "\"$0\" list >&-", "\"$0-check\" --help >&-", "\"$0\" cache path >&- <&-",
        "\"$0\" list --json >/dev/full", "\"$0-check\" --help >/dev/full", "\"$0-check\" >/dev/full",
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        if (shell(scripts[i]) != 1 || strstr(errors, "cannot write the output") == NULL)
            fail_msg("%s: %s", scripts[i], errors);
}

/* With the standard streams closed, what is opened next must not take their numbers. */
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

/* A file size limit ends the writing, not the command, and leaves nothing behind. */
static void a_file_that_may_not_grow_is_an_error(void **state)
{
    (void)state;
    int status = shell("ulimit -f 8; \"$0\" attention --cpu=always --batch 1 --heads-q 1 --seqlen-q 512 "
                       "--head-dim 64 -o \"$1/limited.npy\" >/dev/null");
    if (status != 1 || strstr(errors, "limited.npy: File too large") == NULL)
        fail_msg("status %d: %s", status, errors);
    assert_int_equal(shell("ls \"$1\" | grep limited"), 1);
}

static void without_a_compiler_nothing_is_listed(void **state)
{
    (void)state;
    setenv("PTXPACK_PTXJIT", "none", 1);
    setenv("PTXPACK_PTXAS", "none", 1);
    int  status = run("list --resources --arch sm_80");
    bool said = strstr(errors, "nothing to compile with") != NULL;
    int  informed = run("info --arch sm_80");
    unsetenv("PTXPACK_PTXJIT");
    unsetenv("PTXPACK_PTXAS");
    assert_true(status == 1 && said);
    assert_int_equal(informed, 0);
    assert_non_null(strstr(output, "no compiler is known"));
}

static void the_environment_is_heard(void **state)
{
    (void)state;
    setenv("PTXPACK_ARCH", "sm_75", 1);
    assert_int_equal(run("info"), 0);
    assert_non_null(strstr(output, "chosen for sm_75"));
    setenv("PTXPACK_ARCH", "nonsense", 1);
    assert_int_equal(run("info"), 2);
    assert_non_null(strstr(errors, "\"nonsense\""));
    unsetenv("PTXPACK_ARCH");
    setenv("PTXPACK_PTX_DIR", "/no/such/pack", 1);
    assert_int_equal(run("expand vector_add_sm80"), 1);
    unsetenv("PTXPACK_PTX_DIR");
    assert_non_null(strstr(errors, "/no/such/pack: No such file"));
    setenv("PTXPACK_CACHE_DISABLE", "1", 1);
    assert_int_equal(run("info"), 0);
    unsetenv("PTXPACK_CACHE_DISABLE");
    assert_non_null(strstr(output, "\ncache disabled: PTXPACK_CACHE_DISABLE is set\n"));
    setenv("PTXPACK_CACHE_MAX_SIZE", "abc", 1);
    assert_int_equal(run("info"), 0);
    unsetenv("PTXPACK_CACHE_MAX_SIZE");
    assert_non_null(strstr(output, "PTXPACK_CACHE_MAX_SIZE=abc is no size"));
}

/* --cpu stands in for a GPU that is not there, not for one that does not work.  The drivers are fakes. */
static void only_a_missing_gpu_is_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *cuda, *name, *value; /* FAKE_CUDA, and one more variable */
        int         status;
        const char *said;
    } machines[] = {
        {"devices=0", "PTXPACK_NONE", "", 0, "no GPU: the driver sees no"},
        {"init=100", "PTXPACK_NONE", "", 0, "no GPU: the driver sees no"},
        {"stub", "PTXPACK_NONE", "", 0, "no GPU: the CUDA library that was found is a link-time stub"},
        {"init=999", "PTXPACK_NONE", "", 1, "(999)"},
        {"", "PTXPACK_ARCH", "foo", 1, "\"foo\""},
        {"", "PTXPACK_PTXJIT", "/no/such/ptxjit.so", 1, "/no/such/ptxjit.so"},
    };
    char driver[PATH_MAX];
    assert_non_null(realpath("/proc/self/exe", driver));
    snprintf(strrchr(driver, '/'), sizeof "/fake_driver.so", "/fake_driver.so");
    setenv("PTXPACK_DRIVER", driver, 1);
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        setenv("FAKE_CUDA", machines[i].cuda, 1);
        setenv(machines[i].name, machines[i].value, 1);
        int status = run("attention --cpu --batch 1 --seqlen-q 8 --heads-q 1 --head-dim 8 --verify");
        unsetenv(machines[i].name);
        if (status != machines[i].status || strstr(status == 0 ? output : errors, machines[i].said) == NULL)
            fail_msg("%s %s: status %d, said \"%s\"", machines[i].cuda, machines[i].name, status, errors);
    }
    unsetenv("FAKE_CUDA");
    setenv("PTXPACK_DRIVER", NO_DRIVER, 1);
}

static void json_is_well_formed(void **state)
{
    (void)state;
    assert_int_equal(run("attention --cpu --batch 1 --seqlen-q 40 --heads-q 2 --head-dim 16 --verify --json"),
                     0);
    assert_json(output);
    assert_non_null(strstr(output, "\"pass\": true"));
    assert_non_null(strstr(output, "\"no_gpu\": \"no CUDA driver"));
    assert_int_equal(run("list --json"), 0);
    assert_json(output);
    assert_non_null(strstr(output, "attention_mma"));
    assert_int_equal(run("list --resources --json"), 1);
    assert_json(output);
    assert_int_equal(run("expand vector_add_sm80 --map --json"), 0);
    assert_json(output);
    run("info --json");
    assert_json(output);
    assert_int_equal(run("cache stats --json"), 0);
    assert_json(output);
}

/* ---- attention on files ------------------------------------------------------------------------- */
enum { BATCH = 2, ROWS = 9, KEYS = 13, HEADS = 4, KEY_HEADS = 2, DIM = 32 };

/* [batch][rows][heads][dim] to [batch][heads][rows][dim]. */
static void swap_axes(const void *data, char *to, int rows, int heads, size_t element)
{
    const char *from = (const char *)data;
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < heads; h++, from += DIM * element)
                memcpy(to + ((size_t)(b * heads + h) * (size_t)rows + (size_t)i) * DIM * element, from,
                       DIM * element);
}

/* Write a tensor as name.npy in one of the types. */
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

/* The output of the command for these files, as doubles [batch][rows][heads][dim]. */
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

/* Options, and the descriptor's fields that they stand for. */
static const struct {
    const char  *options;
    ptxpack_mask mask;
    int32_t      left, right;
    float        softcap;
} maskings[] = {
    {"", PTXPACK_MASK_NONE, 0, 0, 0},
    {"--causal top-left", PTXPACK_MASK_CAUSAL_TOP_LEFT, 0, 0, 0},
    {"--causal", PTXPACK_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 0},
    {"--window 2,1 --align top-left", PTXPACK_MASK_WINDOW_TOP_LEFT, 2, 1, 0},
    {"--window 3,none --softcap 2.5", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, 3, -1, 2.5f},
    {"--window=-1,0 --align bottom-right", PTXPACK_MASK_WINDOW_BOTTOM_RIGHT, -1, 0, 0},
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
                    int status = run("attention --q %s --k %s --v %s -o %s --lse %s --cpu --verify --layout "
                                     "%s --dtype %s %s",
                                     scratch_path("q.npy"), scratch_path("k.npy"), scratch_path("v.npy"),
                                     scratch_path("o.npy"), scratch_path("lse.npy"), bhsd ? "bhsd" : "bshd",
                                     ptxpack_dtype_name(dtype), maskings[mask].options);
                    if (status != 0)
                        fail_msg("%s", errors);
                    assert_non_null(strstr(output, "no GPU: no CUDA driver"));
                    compare_with_reference(dtype, mask, q, k, v, bhsd);
                }
}

static void shapes_are_compared(void **state)
{
    (void)state;
    static uint16_t q[BATCH * KEYS * HEADS * DIM];
    write_tensor("q.npy", q, ROWS, HEADS, PTXPACK_F16, false, NPY_F16);
    write_tensor("k.npy", q, KEYS, KEY_HEADS, PTXPACK_F16, false, NPY_F16);
    write_tensor("short.npy", q, KEYS - 1, KEY_HEADS, PTXPACK_F16, false, NPY_F16);
    write_tensor("three.npy", q, KEYS, 3, PTXPACK_F16, false, NPY_F16);
    write_tensor("bytes.npy", q, ROWS, HEADS, PTXPACK_E4M3, false, NPY_U8);
    write_tensor("bits.npy", q, KEYS, KEY_HEADS, PTXPACK_BF16, false, NPY_U16);
    npy_array flat = {.type = NPY_F16, .rank = 3, .shape = {2, 2, 8}, .count = 32, .data = q};
    npy_array wide = {.type = NPY_F16, .rank = 4, .shape = {BATCH, KEYS, KEY_HEADS, 8}, .data = q};
    wide.count = BATCH * KEYS * KEY_HEADS * 8;
    npy_array    empty = {.type = NPY_F16, .rank = 4, .shape = {0, KEYS, KEY_HEADS, 8}, .count = 0, .data = q};
    static float wild[BATCH * ROWS * HEADS * DIM] = {[5] = 65536};
    static float unknown[BATCH * ROWS * HEADS * DIM] = {[7] = NAN};
    npy_array    large = {.type = NPY_F32, .rank = 4, .shape = {BATCH, ROWS, HEADS, DIM}, .data = wild};
    large.count = BATCH * ROWS * HEADS * DIM;
    npy_array nan = large;
    nan.data = unknown;
    char line[NPY_LINE];
    assert_true(
        npy_write(scratch_path("large.npy"), &large, line) && npy_write(scratch_path("nan.npy"), &nan, line) &&
        npy_write(scratch_path("flat.npy"), &flat, line) && npy_write(scratch_path("wide.npy"), &wide, line) &&
        npy_write(scratch_path("empty.npy"), &empty, line));
    const struct {
        const char *q, *k, *v, *more, *line;
    } cases[] = {
        {"q.npy", "k.npy", "short.npy", "", "differ in dimension 1"},
        {"q.npy", "wide.npy", "wide.npy", "", "differ in head_dim: 32 and 8"},
        {"q.npy", "three.npy", "three.npy", "", "heads_q 4 is not a multiple of heads_kv 3"},
        {"flat.npy", "k.npy", "k.npy", "", "3 dimensions"},
        {"empty.npy", "k.npy", "k.npy", "", "extent 0"},
        {"q.npy", "bits.npy", "bits.npy", "", "uint16 is read as bfloat16"},
        {"q.npy", "k.npy", "k.npy", "--dtype bf16", "float16, but --dtype is bf16"},
        {"q.npy", "k.npy", "k.npy", "--dtype e4m3", "float16, but --dtype is e4m3"},
        {"bytes.npy", "k.npy", "k.npy", "", "uint8 is read as e4m3; say so with --dtype e4m3"},
        {"large.npy", "k.npy", "k.npy", "--dtype e4m3", "element 5, 65536, is beyond the range of e4m3"},
        {"large.npy", "k.npy", "k.npy", "", "element 5, 65536, is beyond the range of f16"},
        {"nan.npy", "k.npy", "k.npy", "--verify", "nan.npy is not finite"},
        {"q.npy", "k.npy", "k.npy", "-o /no/such/folder/o.npy", "No such file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = run("attention --cpu --q %s --k %s --v %s %s", scratch_path(cases[i].q),
                         scratch_path(cases[i].k), scratch_path(cases[i].v), cases[i].more);
        if (status != 1 || strstr(errors, cases[i].line) == NULL)
            fail_msg("case %zu: status %d: %s", i, status, errors);
    }
}

/* The same seed, the same output; another one, another. */
static void seeds_decide(void **state)
{
    (void)state;
    npy_array a[3];
    char      line[NPY_LINE];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            run("attention --cpu=always --batch 1 --seqlen-q 20 --heads-q 2 --head-dim 8 --seed %d -o %s",
                i == 2 ? 8 : 7, scratch_path("o.npy")),
            0);
        assert_true(npy_read(scratch_path("o.npy"), &a[i], line));
    }
    assert_int_equal(a[0].count, 20 * 2 * 8);
    assert_memory_equal(a[0].data, a[1].data, a[0].count * 2);
    assert_memory_not_equal(a[0].data, a[2].data, a[0].count * 2);
    for (int i = 0; i < 3; i++)
        npy_free(&a[i]);
}

/* Neither the machine's GPU nor its user's cache takes part. */
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
        cmocka_unit_test(the_reader_of_json_is_strict),
        cmocka_unit_test(options_are_parsed),
        cmocka_unit_test(strings_become_json),
        cmocka_unit_test(errors_have_a_status_and_a_line),
        cmocka_unit_test(help_is_not_an_error),
        cmocka_unit_test(a_closed_or_full_output_is_an_error),
        cmocka_unit_test(no_file_takes_the_place_of_a_stream),
        cmocka_unit_test(a_file_that_may_not_grow_is_an_error),
        cmocka_unit_test(without_a_compiler_nothing_is_listed),
        cmocka_unit_test(the_environment_is_heard),
        cmocka_unit_test(only_a_missing_gpu_is_replaced),
        cmocka_unit_test(json_is_well_formed),
        cmocka_unit_test(files_give_the_reference),
        cmocka_unit_test(shapes_are_compared),
        cmocka_unit_test(seeds_decide),
    };
    return cmocka_run_group_tests(tests, open_without_gpu, scratch_close);
}
