/* bad.c - tests/bad: kernels that are broken in one way each must be found, with the right kind and line, and
 * their repaired versions must have no finding, whenever asynchronous operations complete.
 *
 *   // expect: race: nothing orders them    kind and a part of the message; several such lines are alternatives
 *   // run: block 64 grid 2 cluster 2 sm 80 shape; the default is one block of 32 threads, sm by .target
 *   ...  // here                            the line of the finding (any of several)
 *   ...  // fixed: bar.sync 0;              this line in the repaired version
 *
 * A kernel gets `data`, 64 KiB of zeros, and `blank`, 4 KiB of undefined bytes. */
#include <dirent.h>
#include "tests/support/emu_test.h"
#define BEFORE_EACH NULL
#define AFTER_EACH  NULL

enum { TEXT = 1 << 16, LINES = 512, EXPECTS = 4, EXPECT = 160, FILES_LEAST = 57 };
enum { DATA = 65536, BLANK = 4096, SEEDS = 3 };
static const char folder[] = "tests/bad";

struct broken {
    const char  *name;
    char         text[TEXT], twin[TEXT];
    char         expects[EXPECTS][EXPECT];
    unsigned int expect_count, block, grid, cluster, sm;
    bool         here[LINES];
};

/* ---- reading one ---------------------------------------------------------------------------------- */
static void read_shape(struct broken *b, const char *words)
{
    const struct {
        const char   *name;
        unsigned int *at;
    } all[] = {{"block ", &b->block}, {"grid ", &b->grid}, {"cluster ", &b->cluster}, {"sm ", &b->sm}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *at = strstr(words, all[i].name);
        if (at != NULL)
            *all[i].at = (unsigned int)strtoul(at + strlen(all[i].name), NULL, 10);
    }
}

static void read_line(struct broken *b, const char *line, unsigned int number)
{
    static const char expect[] = "// expect: ", run[] = "// run: ";
    static const char fixed[] = "// fixed:", target[] = ".target sm_";
    const char       *fix = strstr(line, fixed);
    b->here[number] = strstr(line, "// here") != NULL;
    if (strncmp(line, expect, strlen(expect)) == 0 && b->expect_count < EXPECTS)
        snprintf(b->expects[b->expect_count++], EXPECT, "%.*s", EXPECT - 1, line + strlen(expect));
    if (strncmp(line, run, strlen(run)) == 0)
        read_shape(b, line + strlen(run));
    if (strncmp(line, target, strlen(target)) == 0 && !b->sm)
        b->sm = (unsigned int)strtoul(line + strlen(target), NULL, 10);
    snprintf(b->twin + strlen(b->twin), TEXT - strlen(b->twin), "%s\n",
             fix != NULL ? fix + strlen(fixed) : line);
}

static void read_broken(struct broken *b, const char *name)
{
    char         path[512], line[1024];
    unsigned int number = 0;
    FILE        *f;
    memset(b, 0, sizeof *b);
    b->name = name;
    b->block = 32;
    b->grid = b->cluster = 1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "r");
    if (f == NULL)
        fail_msg("%s cannot be read", path);
    while (fgets(line, sizeof line, f) != NULL && ++number < LINES) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(b->text + strlen(b->text), TEXT - strlen(b->text), "%s\n", line);
        read_line(b, line, number);
    }
    fclose(f);
    if (!b->expect_count || !b->sm || strcmp(b->text, b->twin) == 0)
        fail_msg("%s: what is expected, for which GPU, how is it fixed?", path);
}

/* ---- running one ---------------------------------------------------------------------------------- */
static unsigned int run(const struct broken *b, const char *text, enum emu_async_policy policy, unsigned int sd)
{
    static unsigned char zeros[DATA];
    uint64_t             words[2];
    struct emu_launch    launch = {.grid = {b->grid, 1, 1},
                                   .block = {b->block, 1, 1},
                                   .cluster = {b->cluster, 1, 1},
                                   .parameters = words};
    emu_machine((int)b->sm);
    emu_test_settings.async_policy = policy;
    emu_test_settings.seed = sd;
    words[0] = emu_buffer(DATA);
    words[1] = emu_buffer(BLANK);
    emu_write(words[0], zeros, DATA);
    return emu_run_shape(text, &launch, "broken");
}

/* Whether a line of the log reports what is expected, at one of the allowed lines. */
static bool said(const struct broken *b, const char *expect)
{
    const char *middle = strstr(expect, ": "), *fragment = middle != NULL ? middle + 2 : "";
    const int   kind = middle != NULL ? (int)(middle - expect) : (int)strcspn(expect, ":");
    char        wanted[256];
    for (unsigned int i = 0; i < LINES; i++) {
        const char *at = emu_log();
        if (!b->here[i])
            continue;
        snprintf(wanted, sizeof wanted, "ptxpack-emu: %.*s: line %u of the PTX: ", kind, expect, i);
        while ((at = strstr(at, wanted)) != NULL) {
            const char *end = strchr(at, '\n'), *found = strstr(at, fragment);
            if (found != NULL && (end == NULL || found < end))
                return true;
            at++;
        }
    }
    return false;
}

static void check(const struct broken *b, enum emu_async_policy policy, unsigned int sd)
{
    static const char *const names[] = {"earliest", "latest", "random"};
    unsigned int             result = run(b, b->text, policy, sd);
    bool                     found = false;
    for (unsigned int i = 0; i < b->expect_count; i++)
        found |= said(b, b->expects[i]);
    if (!found || !result)
        fail_msg("%s (%s, seed %u): expected \"%s\" at a line with \"here\"; result %u, was told:\n%s", b->name,
                 names[policy], sd, b->expects[0], result, emu_log());
    result = run(b, b->twin, policy, sd);
    if (result || *emu_log())
        fail_msg("%s, repaired (%s, seed %u): result %u, was told:\n%s", b->name, names[policy], sd, result,
                 emu_log());
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

TEST(test_all)
{
    static struct broken b;
    static char         *names[LINES];
    const char          *only = getenv("PTXPACK_TEST_BAD"); /* the name of one kernel to run */
    unsigned int         count = 0, runs = 0;
    DIR                 *d = opendir(folder);
    if (d == NULL)
        fail_msg("%s cannot be read", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL && count < LINES;)
        if (strlen(e->d_name) > 4 && strcmp(e->d_name + strlen(e->d_name) - 4, ".ptx") == 0)
            names[count++] = strdup(e->d_name);
    closedir(d);
    qsort(names, count, sizeof names[0], by_name);
    for (unsigned int i = 0; i < count; i++) {
        if (only == NULL || strcmp(only, names[i]) == 0) {
            read_broken(&b, names[i]);
            for (int policy = EMU_ASYNC_EARLIEST; policy <= EMU_ASYNC_RANDOM; policy++)
                for (unsigned int sd = 1; sd <= SEEDS; sd++, runs++)
                    check(&b, (enum emu_async_policy)policy, sd);
        }
        free(names[i]);
    }
    printf("%u kernels, each broken and repaired: %u runs\n", count, 2 * runs);
    assert_true(count >= FILES_LEAST);
}

RUN_TESTS(NULL, NULL)
