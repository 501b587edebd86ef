/* cache.c - `ptxpack cache`: shows, checks, trims or clears the kernel cache, and fills a folder of machine
 * code that an application ships. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cache/cache.h"
#include "tools/command.h"
#include "prebuilt_report.h"
#include "cache/inspect.h"
#include "warm.h"

typedef struct settings {
    const char   *dir, *to; /* NULL: the environment's; the cache's own limit */
    int64_t       older_days;
    bool          remove_bad, json;
    warm_settings warm; /* the options of that action alone */
} settings;

/* Writes bytes as "12.3 MiB", into one of a few static buffers. */
static const char *human(uint64_t bytes)
{
    static char              buffers[4][32];
    static int               turn;
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char                    *text = buffers[turn++ % 4];
    double                   value = (double)bytes;
    int                      unit = 0;
    for (; value >= 1024; unit++)
        value /= 1024;
    snprintf(text, sizeof *buffers, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

/* How long ago `when` was, such as "3 days". */
static const char *ago(int64_t when)
{
    static char text[32];
    static const struct {
        int64_t     seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};
    int64_t age = (int64_t)time(NULL) - when;
    size_t  u = 0;
    age = age < 0 ? 0 : age;
    while (u < 3 && age < units[u].seconds)
        u++;
    snprintf(text, sizeof text, "%" PRId64 " %s%s", age / units[u].seconds, units[u].name,
             age / units[u].seconds == 1 ? "" : "s");
    return text;
}

/* Prints a label; bytes that could control a terminal are replaced. */
static void print_label(const char *label)
{
    for (; *label; label++)
        putchar((unsigned char)*label < 32 || *label == 127 ? '?' : *label);
}

static ptxpack_cache_stats stats_of(ptxpack_cache *cache)
{
    ptxpack_cache_stats stats = {.size = sizeof stats};
    ptxpack_cache_get_stats(cache, &stats);
    return stats;
}

static int no_directory(ptxpack_cache *cache)
{
    const char *detail = ptxpack_cache_detail(cache);
    return command_fail("cache", "%s", *detail ? detail : "the directory cannot be read");
}

/* ---- path, stats -------------------------------------------------------------------------------- */

static int show_path(ptxpack_cache *cache, const settings *s)
{
    if (s->json) {
        json_open(NULL, '{');
        json_text("path", ptxpack_cache_path(cache));
        json_bool("enabled", ptxpack_cache_enabled(cache));
        json_text("detail", ptxpack_cache_detail(cache));
        json_close();
    } else if (*ptxpack_cache_path(cache)) {
        puts(ptxpack_cache_path(cache));
    }
    return ptxpack_cache_enabled(cache) ? COMMAND_OK : no_directory(cache);
}

static int show_stats(ptxpack_cache *cache, const settings *s)
{
    const ptxpack_cache_stats stats = stats_of(cache);
    if (s->json) {
        json_open(NULL, '{');
        json_text("path", ptxpack_cache_path(cache));
        json_int("entries", (int64_t)stats.entries);
        json_int("bytes", (int64_t)stats.bytes);
        json_int("max_bytes", stats.max_bytes > INT64_MAX ? INT64_MAX : (int64_t)stats.max_bytes);
        json_int("max_age_s", stats.max_age_s > INT64_MAX ? INT64_MAX : (int64_t)stats.max_age_s);
        json_int("temporaries", (int64_t)stats.temporaries);
        json_int("oldest", stats.oldest);
        json_int("newest", stats.newest);
        prebuilt_report(cache, "", false, true);
        json_text("detail", ptxpack_cache_detail(cache));
        json_close();
        return COMMAND_OK;
    }
    printf("path         %s\n", ptxpack_cache_path(cache));
    printf("entries      %" PRIu64 "\n", stats.entries);
    printf("size         %s of %s\n", human(stats.bytes), human(stats.max_bytes));
    printf("age limit    %" PRIu64 " days since last use\n", stats.max_age_s / 86400);
    printf("temporaries  %" PRIu64 "\n", stats.temporaries);
    if (stats.entries) {
        printf("last used    %s ago\n", ago(stats.newest));
        printf("oldest       %s ago\n", ago(stats.oldest));
    }
    prebuilt_report(cache, "prebuilt     ", false, false);
    if (*ptxpack_cache_detail(cache))
        printf("note         %s\n", ptxpack_cache_detail(cache));
    return COMMAND_OK;
}

/* ---- list, verify ------------------------------------------------------------------------------- */

typedef struct row {
    char                name[33], *label;
    ptxpack_cache_state state;
    int                 error;
    uint64_t            file_bytes, payload_bytes;
    int64_t             last_used;
} row;

typedef struct table {
    row   *rows;
    size_t count, capacity;
    bool   no_memory, remove_bad;
} table;

static ptxpack_cache_step add_row(const ptxpack_cache_info *info, void *user)
{
    table *t = (table *)user;
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        row   *larger = (row *)realloc(t->rows, capacity * sizeof *larger);
        if (larger == NULL) {
            t->no_memory = true;
            return PTXPACK_CACHE_STOP;
        }
        t->rows = larger;
        t->capacity = capacity;
    }
    row *r = &t->rows[t->count];
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", info->name);
    r->label = strdup(info->label);
    r->state = info->state;
    r->error = info->error;
    r->file_bytes = info->file_bytes;
    r->payload_bytes = info->payload_bytes;
    r->last_used = info->last_used;
    t->no_memory |= (r->label == NULL);
    t->count += r->label != NULL;
    if (t->no_memory)
        return PTXPACK_CACHE_STOP;
    return info->state != PTXPACK_CACHE_GOOD && t->remove_bad ? PTXPACK_CACHE_REMOVE : PTXPACK_CACHE_NEXT;
}

static int latest_first(const void *a, const void *b)
{
    const row *x = (const row *)a, *y = (const row *)b;
    if (x->last_used != y->last_used)
        return x->last_used > y->last_used ? -1 : 1;
    return strcmp(x->name, y->name);
}

static const char *state_word(const row *r)
{
    switch (r->state) {
    case PTXPACK_CACHE_GOOD:
        return "good";
    case PTXPACK_CACHE_CORRUPT:
        return "corrupt";
    case PTXPACK_CACHE_FOREIGN:
        return "foreign version";
    case PTXPACK_CACHE_UNREADABLE:
        return strerror(r->error);
    }
    return "unknown";
}

static void json_row(const row *r)
{
    json_open(NULL, '{');
    json_text("name", r->name);
    json_text("state", state_word(r));
    json_text("label", r->label);
    json_int("file_bytes", (int64_t)r->file_bytes);
    json_int("payload_bytes", (int64_t)r->payload_bytes);
    json_int("last_used", r->last_used);
    json_close();
}

static void print_row(const row *r)
{
    printf("%s  %10s  %11s  ", r->name, human(r->file_bytes), ago(r->last_used));
    if (r->state == PTXPACK_CACHE_GOOD)
        print_label(r->label);
    else
        printf("(%s)", state_word(r));
    putchar('\n');
}

/* Returns how many entries of prebuilt folders are bad. */
static uint64_t show_rows(const ptxpack_cache *cache, const table *t, const settings *s, bool check)
{
    size_t   bad = 0;
    uint64_t bad_prebuilt = 0;
    if (s->json) {
        json_open(NULL, '{');
        json_open("entries", '[');
    } else if (!check) {
        if (t->count)
            printf("%-32s  %10s  %11s  %s\n", "name", "size", "last used", "label");
        else
            puts("no entries");
    }
    for (size_t i = 0; i < t->count; i++) {
        bool good = t->rows[i].state == PTXPACK_CACHE_GOOD;
        bad += !good;
        if (s->json)
            json_row(&t->rows[i]);
        else if (!check || !good)
            print_row(&t->rows[i]);
    }
    if (s->json) {
        json_close();
        json_int("good", (int64_t)(t->count - bad));
        json_int("bad", (int64_t)bad);
        if (check)
            bad_prebuilt = prebuilt_report(cache, "", true, true);
        json_close();
    } else if (check) {
        printf("%zu entries: %zu good, %zu bad%s\n", t->count, t->count - bad, bad,
               bad && t->remove_bad ? " (removed)"
               : bad                ? " (misses; --remove deletes them)"
                                    : "");
        bad_prebuilt = prebuilt_report(cache, "prebuilt ", true, false);
    }
    return bad_prebuilt;
}

static int show_entries(ptxpack_cache *cache, const settings *s, bool check)
{
    table t;
    int   status = COMMAND_OK;
    memset(&t, 0, sizeof t);
    t.remove_bad = s->remove_bad;
    bool listed = ptxpack_cache_each(cache, check, add_row, &t);
    if (!listed && *ptxpack_cache_detail(cache)) /* no line: the folder is not there, so it is empty */
        status = no_directory(cache);
    else if (t.no_memory)
        status = command_fail("cache", "out of memory");
    if (status == COMMAND_OK) {
        if (t.count)
            qsort(t.rows, t.count, sizeof *t.rows, latest_first);
        status = show_rows(cache, &t, s, check) != 0 ? COMMAND_FAILED : COMMAND_OK;
    }
    for (size_t i = 0; i < t.count; i++) {
        if (check && t.rows[i].state != PTXPACK_CACHE_GOOD && !t.remove_bad)
            status = COMMAND_FAILED;
        free(t.rows[i].label);
    }
    free(t.rows);
    return status;
}

/* ---- trim, clear -------------------------------------------------------------------------------- */

static int show_swept(const ptxpack_cache_swept *swept, const settings *s)
{
    if (s->json) {
        json_open(NULL, '{');
        json_int("removed", (int64_t)swept->removed);
        json_int("removed_bytes", (int64_t)swept->removed_bytes);
        json_int("temporaries", (int64_t)swept->temporaries);
        json_int("left", (int64_t)swept->left);
        json_int("left_bytes", (int64_t)swept->left_bytes);
        json_close();
    } else {
        printf("removed %" PRIu64 " entries (%s) and %" PRIu64 " temporaries; ", swept->removed,
               human(swept->removed_bytes), swept->temporaries);
        printf("%" PRIu64 " entries (%s) are left\n", swept->left, human(swept->left_bytes));
    }
    return COMMAND_OK;
}

static int trim(ptxpack_cache *cache, const settings *s)
{
    ptxpack_cache_swept swept;
    uint64_t            to_bytes = stats_of(cache).max_bytes;
    if (s->to != NULL && strcmp(s->to, "0") == 0)
        to_bytes = 0;
    else if (s->to != NULL && !ptxpack_cache_parse_size(s->to, &to_bytes)) {
        command_fail("cache", "--to %s is not a size such as 512M or 2G", s->to);
        return COMMAND_USAGE;
    }
    return ptxpack_cache_trim(cache, to_bytes, &swept) ? show_swept(&swept, s) : no_directory(cache);
}

static int clear(ptxpack_cache *cache, const settings *s)
{
    ptxpack_cache_swept swept;
    return ptxpack_cache_clear(cache, &swept) ? show_swept(&swept, s) : no_directory(cache);
}

/* ---- folders of prebuilt machine code ----------------------------------------------------------- */

/* Whether --dir is a folder of prebuilt machine code: it has a manifest then. */
static bool is_prebuilt(const char *dir)
{
    int  fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool is = fd >= 0 && ptxpack_prebuilt_is(fd);
    if (fd >= 0)
        close(fd);
    return is;
}

static int show_prebuilt(const settings *s, bool check)
{
    ptxpack_cache_options options;
    ptxpack_prebuilt_info folder;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.readonly = true;
    options.dir = options.readonly_dirs = s->dir;
    ptxpack_cache *cache = ptxpack_cache_open(&options);
    int            status = COMMAND_OK;
    if (cache == NULL || !ptxpack_cache_prebuilt(cache, 0, &folder)) {
        const char *why = ptxpack_cache_prebuilt_refusal(cache);
        status = command_fail("cache", "%s",
                              (cache == NULL) ? "out of memory"
                              : why != NULL   ? why
                                              : ptxpack_cache_detail(cache));
    } else {
        if (s->json)
            json_open(NULL, '{');
        if (prebuilt_report(cache, "", check, s->json) != 0)
            status = COMMAND_FAILED;
        if (s->json)
            json_close();
        else
            printf("pin: %s#%s\n", folder.path, folder.sha256);
    }
    ptxpack_cache_close(cache);
    return status;
}

/* ---- the subcommand ----------------------------------------------------------------------------- */

static int run(const char *action, const settings *s)
{
    const bool changes = !strcmp(action, "trim") || !strcmp(action, "clear") || s->remove_bad;
    if (is_prebuilt(s->dir) && (!strcmp(action, "stats") || !strcmp(action, "verify")) && !s->remove_bad)
        return show_prebuilt(s, *action == 'v');
    ptxpack_cache_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.dir = s->dir;
    options.readonly = !changes; /* an action that only reads makes no directory */
    if (s->older_days != OPTION_NOT_GIVEN)
        options.max_age_s = (uint64_t)s->older_days * 86400;
    ptxpack_cache *cache = ptxpack_cache_open(&options);
    int            status;
    if (cache == NULL)
        status = command_fail("cache", "out of memory");
    else if (ptxpack_cache_prebuilt_refusal(cache) != NULL)
        status = command_fail("cache", "%s", ptxpack_cache_prebuilt_refusal(cache));
    else if (!strcmp(action, "path"))
        status = show_path(cache, s);
    else if (!ptxpack_cache_enabled(cache))
        status = no_directory(cache);
    else if (!strcmp(action, "stats"))
        status = show_stats(cache, s);
    else if (!strcmp(action, "list") || !strcmp(action, "verify"))
        status = show_entries(cache, s, *action == 'v');
    else
        status = *action == 't' ? trim(cache, s) : clear(cache, s);
    ptxpack_cache_close(cache);
    return status;
}

static bool fits_warm(const settings *s)
{
    const warm_settings *w = &s->warm;
    if (s->dir == NULL)
        command_fail("cache", "warm: --dir names the folder to fill");
    else if (strchr(s->dir, ':') != NULL)
        command_fail("cache", "--dir %s: PTXPACK_CACHE_READONLY_DIRS cannot name a folder with ':'", s->dir);
    else if (w->archs == NULL)
        command_fail("cache", "warm: --arch names the GPUs, as in sm_80,sm_90a");
    else if (w->jobs != OPTION_NOT_GIVEN && (w->jobs < 1 || w->jobs > 64))
        command_fail("cache", "--jobs %" PRId64 " is not a number of threads from 1 to 64", w->jobs);
    else
        return true;
    return false;
}

/* Whether the options go with the action; if not, a line is on stderr. */
static bool fits(const char *action, const settings *s)
{
    const bool older = s->older_days != OPTION_NOT_GIVEN;
    if (older && (s->older_days < 1 || s->older_days > 36500))
        command_fail("cache", "--older %" PRId64 " is not a number of days from 1 to 36500", s->older_days);
    else if ((s->to != NULL || older) && strcmp(action, "trim") != 0)
        command_fail("cache", "--to and --older belong to trim");
    else if (s->remove_bad && strcmp(action, "verify") != 0)
        command_fail("cache", "--remove belongs to verify");
    else if (!strcmp(action, "warm"))
        return fits_warm(s);
    else if (s->warm.archs != NULL || s->warm.kernels != NULL || s->warm.ptxjit != NULL || s->warm.all_rows ||
             s->warm.prune || s->warm.jobs != OPTION_NOT_GIVEN)
        command_fail("cache", "--arch, --kernels, --all-rows, --prune, --jobs and --ptxjit belong to warm");
    else
        return true;
    return false;
}

int cmd_cache(int argc, char **argv)
{
    static const char *const actions[] = {"stats", "list", "verify", "trim", "clear", "path", "warm"};
    settings                 s;
    int                      words = 0;
    memset(&s, 0, sizeof s);
    s.older_days = s.warm.jobs = OPTION_NOT_GIVEN;
    const option rows[] = {
        {"dir", OPTION_TEXT, &s.dir, "DIR  the cache directory (default: PTXPACK_CACHE_DIR)"},
        {"to", OPTION_TEXT, &s.to, "SIZE  trim: down to SIZE, least recently used first"},
        {"older", OPTION_INT, &s.older_days, "DAYS  trim: remove what was not used for DAYS days (default 90)"},
        {"remove", OPTION_FLAG, &s.remove_bad, "verify: remove bad entries"},
        {"arch", OPTION_TEXT, &s.warm.archs, "LIST  warm: for these GPUs, as sm_80,sm_90a"},
        {"kernels", OPTION_TEXT, &s.warm.kernels,
         "LIST  warm: OP[/ROW[/BUILD]] with * and ?, as attention/d128*,vector_add (default: all)"},
        {"all-rows", OPTION_FLAG, &s.warm.all_rows, "warm: also rows that such a GPU never takes"},
        {"prune", OPTION_FLAG, &s.warm.prune, "warm: remove entries that this run does not make"},
        {"jobs", OPTION_INT, &s.warm.jobs, "N  warm: threads (default: one for each processor)"},
        {"ptxjit", OPTION_TEXT, &s.warm.ptxjit, "FILE  warm: in place of libnvidia-ptxjitcompiler.so.1"},
        {"json", OPTION_FLAG, &s.json, "JSON on standard output"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    static const char synopsis[] = "ptxpack cache [stats|list|verify|trim|clear|path|warm] [options]";
    int               status = command_options(argc, argv, synopsis, rows, &words);
    if (status >= 0)
        return status;
    const char *action = words > 0 ? argv[1] : "stats";
    size_t      known = 0;
    while (known < sizeof actions / sizeof *actions && strcmp(actions[known], action) != 0)
        known++;
    if (words > 1) {
        command_fail("cache", "'%s': give only one action", argv[2]);
        return COMMAND_USAGE;
    }
    if (known == sizeof actions / sizeof *actions) {
        command_fail("cache", "'%s' is not stats, list, verify, trim, clear, path or warm", action);
        return COMMAND_USAGE;
    }
    if (!fits(action, &s))
        return COMMAND_USAGE;
    s.warm.dir = s.dir;
    s.warm.json = s.json;
    return strcmp(action, "warm") == 0 ? warm(&s.warm) : run(action, &s);
}
