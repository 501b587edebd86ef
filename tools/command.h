/* command.h - what the files of the command share: the table of subcommands, options, JSON, exit codes. */
#ifndef PTXPACK_COMMAND_H
#define PTXPACK_COMMAND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. */
enum { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

/* One row per subcommand: word, function, one-line summary.  A file of tools/commands defines
 * `int cmd_<function>(int argc, char **argv)`, argv[0] being the word. */
#define COMMAND_MAP(X)                                                                                  \
    X("info", info, "devices, driver, and which kernel variant would run, and why")                     \
    X("list", list, "every kernel variant; --resources compiles them and shows what they use")          \
    X("expand", expand, "a .ptx file with its macros expanded")                                         \
    X("ptx", ptx, "compile, run and time a .ptx file of your own")                                      \
    X("nvrtc", nvrtc, "compile, run and time a CUDA C++ file of your own")                              \
    X("attention", attention, "attention on .npy or random inputs, timed and verified")                 \
    X("gemm", gemm, "D = activation(alpha A B + beta C + bias), timed and verified")                    \
    X("norm", norm, "RMSNorm of random rows, timed and verified")                                       \
    X("gather", gather, "rows of a random table, timed and verified")                                   \
    X("sampling", sampling, "tokens drawn from random logits, timed and verified")                      \
    X("experts", experts, "routes of rows to experts and the sum of their results, timed and verified") \
    X("quantise", quantise, "random rows to e4m3 with scales, or back, timed and verified")             \
    X("vector-add", vector_add, "z = a x + b y + c, timed and verified")                                \
    X("plan", plan, "what a kernel would do: tiles, layouts, shared memory, conflicts, roofline")       \
    X("profile", profile, "what a kernel executes, per source line and warp, on the emulated driver")   \
    X("bench", bench, "speed of the kernels on this device")                                            \
    X("cache", cache, "look at, check, trim or clear the kernel cache")                                 \
    X("layout", layout, "evaluate and draw CuTe's layouts")                                             \
    X("atom", atom, "every matrix multiply and copy instruction; tiled MMAs, wgmma descriptors")
#define COMMAND_DECLARE(word, function, summary) int cmd_##function(int argc, char **argv);
COMMAND_MAP(COMMAND_DECLARE)
#undef COMMAND_DECLARE

/* ---- options ------------------------------------------------------------------------------------ */
/* What an option holds at first whose absence must be told from every number that can be typed. */
#define OPTION_NOT_GIVEN INT64_MIN

/* One row per option of a subcommand.  Flags take no value; every other kind takes one, as
 * "--name value" or "--name=value".  A name of one letter is also taken as "-o value".  OPTION_MAYBE is a
 * text that may be left out: "--causal" alone sets "", a following word that starts with no '-' is
 * its value; of OPTION_INLINE only what follows a = is.  A following word that is itself an option is no value.  OPTION_LIST may be given many times, one of a letter
 * also as "-Ovalue".  Any other text must not be empty. */
typedef enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_MAYBE,
    OPTION_INLINE,
    OPTION_LIST,
    OPTION_INT,
    OPTION_REAL
} option_kind;
enum { OPTION_LIST_MAX = 256 };
typedef struct option_list {
    const char *words[OPTION_LIST_MAX];
    size_t      count;
} option_list;
typedef struct option {
    const char *name; /* without the leading "--" (or "-")                              */
    option_kind kind;
    void       *value; /* bool *, const char **, option_list *, int64_t * or double *; keeps its default */
    const char *help;  /* "N  query heads (default 16)"                                  */
} option;

/* Parse argv[1..]; rows end with a NULL name.  Words that are no options are moved to the front of
 * argv+1 and counted in *words (NULL: none are allowed).  -h and --help print usage made from `synopsis`
 * and the rows to stdout.  Returns -1 to go on, otherwise the exit status to return at once
 * (COMMAND_OK after help; COMMAND_USAGE after one line on stderr that names the culprit). */
int command_options(int argc, char **argv, const char *synopsis, const option *rows, int *words);

/* From now on (NULL: no longer) command_options shows its synopsis and its rows to `visit`, and returns COMMAND_OK. */
typedef void command_visit(const char *synopsis, const option *rows);
void         command_describe(command_visit *visit);

/* First and last in main.  Begin: no file that is opened later may land on a closed standard stream and take
 * in what is printed; and a file size limit is an error of the write.  End: COMMAND_FAILED after a line on
 * stderr when what was printed could not be written, otherwise `status`. */
void command_begin(void);
int  command_end(int status);
/* What was printed so far goes out; false when that failed, now or before. */
bool command_flush(void);

/* One line "ptxpack SUBCOMMAND: message" on stderr (SUBCOMMAND NULL: "ptxpack: message"), control characters
 * escaped; returns COMMAND_FAILED. */
int command_fail(const char *subcommand, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- JSON on stdout: commas, escapes and nesting are kept right by the writer ------------------------ */
/* `key` is NULL inside arrays and at the top. */
void json_open(const char *key, char bracket); /* '{' or '[' */
void json_close(void);                         /* the innermost; a newline after the outermost */
void json_text(const char *key, const char *value);
void json_int(const char *key, int64_t value);
void json_real(const char *key, double value); /* null when not finite */
void json_bool(const char *key, bool value);
#endif
