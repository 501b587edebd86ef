/* cmd_expand.c - "ptxpack expand": a .ptx file, or a variant of kernels.def, with its macros expanded. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "instance.h"
#include "loader.h"
#include "pack.h"

enum { MAX_SYMBOLS = 256 };
static const char synopsis[] = "ptxpack expand FILE|VARIANT [-D SYMBOL=INTEGER]... [options]\n"
                               "  FILE is sought on disk, what it includes beside it, and both in the pack\n"
                               "  -D SYMBOL=INTEGER  define a symbol as .set does (without =INTEGER: as 1)";

typedef struct settings {
    const char    *word;
    int64_t        instance;
    bool           line_info, map, json;
    ptxpack_symbol symbols[MAX_SYMBOLS];
    size_t         symbol_count;
} settings;

/* ---- reading --------------------------------------------------------------------------------------- */

/* A file on disk and its neighbours, then the pack. */
typedef struct source {
    const char         *path;
    size_t              folder; /* of path: so many of its first bytes */
    struct ptxpack_pack disk;   /* dir is set for each look-up */
    struct ptxpack_pack pack;
} source;

static const char *read_disk(source *s, const char *path, size_t *bytes)
{
    char folder[4096];
    bool root = strcmp(path, s->path) == 0;
    if (s->folder >= sizeof folder)
        return NULL;
    snprintf(folder, sizeof folder, "%.*s", s->folder ? (int)s->folder : 1, s->folder ? s->path : ".");
    s->disk.dir = folder;
    const char *text = ptxpack_pack_read(&s->disk, root ? path + s->folder : path, bytes);
    s->disk.dir = NULL;
    return text;
}

static const char *read_source(void *context, const char *path, size_t *bytes)
{
    source     *s = (source *)context;
    const char *text = read_disk(s, path, bytes);
    return text ? text : ptxpack_pack_read(&s->pack, path, bytes);
}

static void source_open(source *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    memset(s, 0, sizeof *s);
    s->path = path;
    s->folder = slash ? (size_t)(slash + 1 - path) : 0;
    s->pack.dir = secure_getenv("PTXPACK_PTX_DIR");
}

static void source_close(source *s)
{
    ptxpack_pack_free(&s->disk);
    ptxpack_pack_free(&s->pack);
}

/* ---- symbols --------------------------------------------------------------------------------------- */

/* Add a symbol; one that is there already gets the new value. */
static bool add_symbol(settings *s, const char *name, int64_t value)
{
    for (size_t i = 0; i < s->symbol_count; i++)
        if (strcmp(s->symbols[i].name, name) == 0)
            return s->symbols[i].value = value, true;
    if (s->symbol_count == MAX_SYMBOLS)
        return command_fail("expand", "more than %d symbols", MAX_SYMBOLS), false;
    s->symbols[s->symbol_count++] = (ptxpack_symbol){name, value};
    return true;
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return *text == '\0';
}

/* "SYMBOL=INTEGER"; the = becomes the end of the name. */
static bool define(settings *s, char *text)
{
    char     *end, *equals = strchr(text, '=');
    long long value = 1;
    if (equals) {
        errno = 0;
        value = strtoll(equals + 1, &end, 0);
        if (end == equals + 1 || *end || errno)
            return command_fail("expand", "-D %s: what follows = is not an integer", text), false;
        *equals = 0;
    }
    if (!is_name(text))
        return command_fail("expand", "-D: \"%s\" is no name: a letter or _, then letters, digits, _", text),
               false;
    return add_symbol(s, text, value);
}

/* Take the -D options out of argv. */
static bool take_defines(settings *s, int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (i < *argc)
                argv[kept++] = argv[i++];
        } else if (strncmp(argv[i], "-D", 2) != 0) {
            argv[kept++] = argv[i];
        } else if (argv[i][2]) {
            if (!define(s, argv[i] + 2))
                return false;
        } else if (++i == *argc) {
            return command_fail("expand", "option -D needs a value"), false;
        } else if (!define(s, argv[i])) {
            return false;
        }
    }
    *argc = kept;
    return true;
}

/* ---- printing -------------------------------------------------------------------------------------- */

static void print_map(const ptxpack_expansion *e, const char *text, bool json)
{
    char where[4096];
    for (size_t line = 1; *text; line++) {
        size_t size = strcspn(text, "\n");
        ptxpack_expansion_where(e, line, where, sizeof where);
        if (json)
            json_text(NULL, where);
        else
            printf("%-72.*s // %s\n", (int)size, text, where);
        text += size + 1;
    }
}

static void print(const settings *s, const char *file, const ptxpack_expansion *e)
{
    size_t      bytes;
    const char *text = ptxpack_expansion_text(e, &bytes);
    fputs(ptxpack_expansion_warnings(e), stderr);
    if (!s->json) {
        if (s->map)
            print_map(e, text, false);
        else
            fwrite(text, 1, bytes, stdout);
        return;
    }
    json_open(NULL, '{');
    json_text("file", file);
    json_open("symbols", '{');
    for (size_t i = 0; i < s->symbol_count; i++)
        json_int(s->symbols[i].name, s->symbols[i].value);
    json_close();
    json_text("warnings", ptxpack_expansion_warnings(e));
    json_text("text", text);
    if (s->map) {
        json_open("map", '[');
        print_map(e, text, true);
        json_close();
    }
    json_close();
}

/* ---- the two kinds of input ------------------------------------------------------------------------ */

/* As the loader expands it: the symbols of the row, then those of the build, then -D. */
static int expand_variant(const settings *s, const ptxpack_variant *v)
{
    ptxpack               *handle;
    ptxpack_expansion     *e = NULL;
    char                   arch[16];
    settings               all = {.symbol_count = 0};
    const ptxpack_instance build = ptxpack_instance_get(v, (size_t)s->instance);
    ptxpack_options        options = {
               .size = sizeof options, .offline = true, .arch = arch, .line_info = s->line_info
    };
    options.no_cache = true;
    all.map = s->map;
    all.json = s->json;
    for (size_t i = 0; i < build.symbol_count; i++)
        if (!add_symbol(&all, build.symbols[i].name, build.symbols[i].value))
            return COMMAND_USAGE;
    for (size_t i = 0; i < s->symbol_count; i++)
        if (!add_symbol(&all, s->symbols[i].name, s->symbols[i].value))
            return COMMAND_USAGE;
    snprintf(arch, sizeof arch, "sm_%d%s", v->arch, v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC ? "a" : "");
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        return command_fail("expand", "%s", ptxpack_detail(NULL));
    ptxpack_status status = ptxpack_kernel_expand(handle, v, all.symbols, all.symbol_count, &e);
    if (status == PTXPACK_OK)
        print(&all, v->file, e);
    else
        command_fail("expand", "%s", ptxpack_detail(handle));
    ptxpack_expansion_free(e);
    ptxpack_close(handle);
    return status == PTXPACK_OK ? COMMAND_OK : COMMAND_FAILED;
}

static int expand_file(const settings *s)
{
    source                 from;
    ptxpack_expansion     *e = NULL;
    ptxpack_expand_options options = {.size = sizeof options, .read = read_source, .context = &from};
    options.symbols = s->symbols;
    options.symbol_count = s->symbol_count;
    options.line_info = s->line_info;
    source_open(&from, s->word);
    ptxpack_status status = ptxpack_expand(s->word, &options, &e);
    if (status == PTXPACK_OK)
        print(s, s->word, e);
    else
        command_fail("expand", "%s", e ? ptxpack_expansion_error(e) : ptxpack_status_string(status));
    ptxpack_expansion_free(e);
    source_close(&from);
    return status == PTXPACK_OK ? COMMAND_OK : status == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
}

static int expand(settings *s)
{
    const ptxpack_variant *v = ptxpack_variant_find(s->word);
    size_t                 count = v ? ptxpack_instance_count(v) : 0;
    if (!v && s->instance != OPTION_NOT_GIVEN)
        return command_fail("expand", "--instance goes with a variant, and %s is none", s->word),
               COMMAND_USAGE;
    if (!v)
        return expand_file(s);
    if (s->instance == OPTION_NOT_GIVEN)
        s->instance = 0;
    if ((uint64_t)s->instance >= count)
        return command_fail("expand", "--instance: %s has %zu builds, from 0 on", v->id, count),
               COMMAND_USAGE;
    return expand_variant(s, v);
}

int cmd_expand(int argc, char **argv)
{
    settings     s = {.instance = OPTION_NOT_GIVEN};
    int          words;
    const option rows[] = {
        { "instance", OPTION_INT, &s.instance,
          "N  which build of the variant, as `list --resources` has them in order (0)" },
        { "line-info", OPTION_FLAG, &s.line_info, "with .file and .loc, for profilers" },
        { "map", OPTION_FLAG, &s.map, "say of each line where it came from" },
        { "json", OPTION_FLAG, &s.json, "print JSON" },
        { NULL, OPTION_FLAG, NULL, NULL },
    };
    if (!take_defines(&s, &argc, argv))
        return COMMAND_USAGE;
    int status = command_options(argc, argv, synopsis, rows, &words);
    if (status >= 0)
        return status;
    if (words != 1)
        return command_fail("expand", "expected one FILE or VARIANT (try --help)"), COMMAND_USAGE;
    s.word = argv[1];
    return expand(&s);
}
