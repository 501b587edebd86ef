/* self_test.c - tests the tester: kernels are broken on purpose, one line at a time.  The cases must notice
 * every break, and must find nothing without one. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "breakages.h"
#include "tests/check/check.h"
#include "tools/command.h"

enum { DRAWS = 3 }; /* of random numbers, one of which must notice a break */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* The length of `pattern` at `text`, or 0 when `text` does not begin with it. */
static size_t match(const char *text, const char *pattern)
{
    const char *at = text;
    while (*pattern != '\0') {
        if (is_blank(*pattern)) {
            if (!is_blank(*at))
                return 0;
            while (is_blank(*pattern))
                pattern++;
            while (is_blank(*at))
                at++;
        } else if (*at++ != *pattern++) {
            return 0;
        }
    }
    return (size_t)(at - text);
}

/* Writes `text` with the break in it; returns how often it was made, or -1. */
static int write_broken(FILE *out, const char *text, const breakage *b)
{
    int made = 0;
    while (*text != '\0') {
        size_t length = b->from != NULL ? match(text, b->from) : 0;
        if (length > 0) {
            fputs(b->to, out);
            text += length;
            made++;
        } else {
            fputc(*text++, out);
        }
    }
    return ferror(out) ? -1 : made;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long  bytes;
    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (text = (char *)calloc((size_t)bytes + 1, 1)) != NULL &&
        fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* Whether `name` is the file `wanted`, or includes it. */
static bool includes(const char *ptx_dir, const char *name, const char *wanted)
{
    char path[PATH_MAX], *text = NULL;
    bool found = strcmp(name, wanted) == 0;
    if (!found && snprintf(path, sizeof path, "%s/%s", ptx_dir, name) < (int)sizeof path)
        text = read_text(path);
    for (const char *at = text; !found && at != NULL && (at = strstr(at, ".include \"")) != NULL;) {
        char   inner[256];
        size_t length = strcspn(at += strlen(".include \""), "\"\n");
        if (length < sizeof inner) {
            memcpy(inner, at, length);
            inner[length] = '\0';
            found = includes(ptx_dir, inner, wanted);
        }
    }
    free(text);
    return found;
}

/* The rows that a break in `file` reaches, by their place in kernels.def; the caller frees them. */
static bool *reached_rows(const char *ptx_dir, const char *file)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    bool                  *reached = (bool *)calloc(count, sizeof *reached);
    for (size_t i = 0; i < count && reached != NULL; i++)
        reached[i] = i > 0 && strcmp(rows[i].file, rows[i - 1].file) == 0
                         ? reached[i - 1]
                         : includes(ptx_dir, rows[i].file, file);
    return reached;
}

/* Copies one file, with the break if it belongs to the file; adds to *made.  Returns false when it cannot be
 * copied. */
static bool copy_file(const char *from_dir, const char *to_dir, const char *name, const breakage *b, int *made)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (snprintf(from, sizeof from, "%s/%s", from_dir, name) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s/%s", to_dir, name) >= (int)sizeof to)
        return false;
    breakage none = *b;
    none.from = NULL;
    char *text = read_text(from);
    FILE *out = text != NULL ? fopen(to, "wb") : NULL;
    int   count = out != NULL ? write_broken(out, text, strcmp(name, b->file) == 0 ? b : &none) : -1;
    if (out != NULL && fclose(out) != 0)
        count = -1;
    free(text);
    if (count > 0)
        *made += count;
    return count >= 0;
}

/* Copies every .ptx file of the folders that kernels include from. */
static bool copy_pack(const char *from, const char *to, const breakage *b, int *made)
{
    static const char *const folders[] = {"atom",
                                          "shared",
                                          "attention",
                                          "attention/decode",
                                          "attention/wgmma",
                                          "attention/hooks",
                                          "attention/bytes",
                                          "attention/bias",
                                          "attention/blocks",
                                          "kv_cache",
                                          "gemm",
                                          "vector",
                                          "norm",
                                          "quantise",
                                          "gather",
                                          "sampling",
                                          "experts"};
    bool                     ok = true;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && ok; i++) {
        char           path[PATH_MAX];
        struct dirent *entry;
        ok = snprintf(path, sizeof path, "%s/%s", to, folders[i]) < (int)sizeof path &&
             mkdir(path, 0700) == 0 &&
             snprintf(path, sizeof path, "%s/%s", from, folders[i]) < (int)sizeof path;
        DIR *folder = ok ? opendir(path) : NULL;
        ok = folder != NULL;
        while (ok && (entry = readdir(folder)) != NULL) {
            size_t length = strlen(entry->d_name);
            char   name[300];
            if (length < 4 || strcmp(entry->d_name + length - 4, ".ptx") != 0)
                continue;
            snprintf(name, sizeof name, "%s/%s", folders[i], entry->d_name);
            ok = copy_file(from, to, name, b, made);
        }
        if (folder != NULL)
            closedir(folder);
    }
    return ok;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

/* Whether any of these rows, or of all if they are NULL, is of the operation. */
static bool has_op(const bool *rows, const char *op)
{
    size_t                 count;
    const ptxpack_variant *all = ptxpack_variants(&count);
    for (size_t i = 0; i < count; i++)
        if ((rows == NULL || rows[i]) && strcmp(all[i].op, op) == 0)
            return true;
    return false;
}

/* Runs the cases of `rows` on the pack in `folder` with random numbers of `seed`; `run` holds the counts. */
static void run_broken(const check *c, const breakage *b, const char *folder, const bool *rows, uint64_t seed,
                       check *run)
{
    const ptxpack_options options = {.size = sizeof options, .ptx_dir = folder, .no_cache = true};
    const char           *mask = strchr(b->filter, '|');
    char                  cases[128];
    snprintf(cases, sizeof cases, "%.*s", (int)strcspn(b->filter, "|"), b->filter);
    *run = (check){.quick = true, .quiet = true, .filter = cases, .threads = c->threads, .seed = seed};
    pthread_mutex_init(&run->gpu_lock, NULL);
    pthread_mutex_init(&run->print_lock, NULL);
    run->brief = c->brief;
    run->rows = rows;
    run->mask = mask != NULL ? mask + 1 : NULL;
    run->first = c->gpu.emulated && b->from != NULL; /* one case that notices is enough */
    if (device_open_as(&run->gpu, c->gpu.emulated ? "emu" : "gpu", &options) != PTXPACK_OK) {
        check_broken(run, b->what, run->gpu.line);
        return;
    }
    check_vector(run);
    if (has_op(rows, "gemm")) { /* these have so many cases that their names alone take a while */
        check_gemm(run);
        check_gemm_groups(run);
    }
    if (has_op(rows, "attention")) {
        check_attention(run);
        check_lengths(run);
        check_arrivals(run);
    }
    check_blocks(run);
    check_merge(run);
    check_norm(run);
    check_quantise(run);
    check_sampling(run);
    check_experts(run);
    check_gather(run);
    check_append(run);
    check_chain(run);
    check_split(run);
    device_close(&run->gpu);
    run->filter = NULL;
}

/* Whether the cases noticed the break, or found nothing if there is none. */
static bool try_breakage(const check *c, const breakage *b, const char *ptx_dir, const char *base)
{
    char folder[PATH_MAX];
    int  made = 0;
    bool ok = false;
    if (snprintf(folder, sizeof folder, "%s/ptxpack-self-test-XXXXXX", base) >= (int)sizeof folder ||
        mkdtemp(folder) == NULL) {
        printf("FAIL %s: no temporary folder: %s\n", b->what, strerror(errno));
        return false;
    }
    if (!copy_pack(ptx_dir, folder, b, &made)) {
        printf("FAIL %s: cannot copy the .ptx files of %s (--ptx-dir)\n", b->what, ptx_dir);
    } else if (b->from != NULL && made == 0) {
        printf("FAIL %s: %s has no \"%s\" to break\n", b->what, b->file, b->from);
    } else {
        check run = {.seed = 0};
        int   passed = 0, failed = 0;
        /* Appends run before rows of attention, and chains have several kernels: rows that do not include the file. */
        const bool everywhere = b->from == NULL || strncmp(b->file, "kv_cache/", strlen("kv_cache/")) == 0 ||
                                strncmp(b->filter, "chain", strlen("chain")) == 0;
        bool *rows = everywhere ? NULL : reached_rows(ptx_dir, b->file);
        /* Some breaks need lengths that not every draw has. */
        const int draws = b->from != NULL ? DRAWS : 1;
        for (int draw = 0; draw < draws && failed == 0 && !atomic_load(&run.broken); draw++) {
            run_broken(c, b, folder, rows, c->seed + (uint64_t)draw, &run);
            passed += atomic_load(&run.passed);
            failed += atomic_load(&run.failed);
        }
        free(rows);
        bool judged = c->gpu.emulated && b->from != NULL; /* the judge may stop a broken kernel first */
        ok = (!atomic_load(&run.broken) || judged) &&
             (b->from == NULL ? failed == 0 && passed > 0 : failed > 0);
        printf("%s  %s: %d of %d runs failed%s%s\n", ok ? "ok  " : "FAIL", b->what, failed, passed + failed,
               atomic_load(&run.broken) && run.gpu.line[0] != '\0' ? "; the GPU or the compiler: " : "",
               atomic_load(&run.broken) ? run.gpu.line : "");
    }
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return ok;
}

int check_self_test_texts(const char *ptx_dir, char *line, size_t cap)
{
    int missing = 0;
    for (int i = 0; i < breakage_count(true); i++) {
        const breakage *b = breakage_at(i);
        char            path[PATH_MAX], *text = NULL;
        FILE           *nowhere = fopen("/dev/null", "w");
        if (snprintf(path, sizeof path, "%s/%s", ptx_dir, b->file) < (int)sizeof path)
            text = read_text(path);
        if (text == NULL || nowhere == NULL || (b->from != NULL && write_broken(nowhere, text, b) < 1)) {
            snprintf(line, cap, "%s: %s has no \"%s\" to break", b->what, b->file,
                     b->from != NULL ? b->from : "");
            missing++;
        }
        free(text);
        if (nowhere != NULL)
            fclose(nowhere);
    }
    return missing;
}

int check_self_test(check *c, const char *ptx_dir)
{
    const char *base = getenv("TMPDIR");
    bool        hopper = ptxpack_device(c->gpu.handle)->caps.arch == 90;
    int         missed = 0, tried = 0, count = breakage_count(hopper);
    for (int i = 0; i < count; i++) {
        const breakage *b = breakage_at(i);
        if (c->filter != NULL && strstr(b->what, c->filter) == NULL)
            continue;
        tried++;
        missed += !try_breakage(c, b, ptx_dir, base != NULL && *base != '\0' ? base : "/tmp");
    }
    printf("self-test: %d of %d breaks were treated as they must be\n", tried - missed, tried);
    return missed == 0 && tried > 0 ? COMMAND_OK : COMMAND_FAILED;
}
