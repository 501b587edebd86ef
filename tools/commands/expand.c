/* expand.c - "ptxpack expand": a .ptx file, or a variant of kernels.def, with its macros expanded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "host/plan/instance.h"
#include "loader/loader.h"
#include "loader/inspect.h"
#include "tools/workbench/symbols.h"

static const char synopsis[] =
    "ptxpack expand FILE|VARIANT [-D SYMBOL=INTEGER]... [options]\n"
    "  FILE is sought on disk, what it includes beside it and in -I, and both in the pack\n"
    "  ARCH and ISA of a FILE, which `ptxpack ptx` has from the device, are given by -D as well";

typedef struct settings {
    const char     *word;
    int64_t         instance;
    bool            line_info, map, json;
    option_list     defines, includes;
    program_names   names;
    program_symbols symbols;
} settings;

/* ---- reading --------------------------------------------------------------------------------------- */

/* A file on disk and its neighbours, what the include folders hold, then the pack. */
typedef struct source {
    const char         *path;
    size_t              folder; /* of path: so many of its first bytes */
    const option_list  *includes;
    struct ptxpack_pack disk; /* dir is set for each look-up */
    struct ptxpack_pack includes_disk[OPTION_LIST_MAX];
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
    for (size_t i = 0; i < s->includes->count && text == NULL; i++)
        text = ptxpack_pack_read(&s->includes_disk[i], path, bytes);
    return text != NULL ? text : ptxpack_pack_read(&s->pack, path, bytes);
}

/* For .file: the folder that a file was found in, and its name there. */
static const char *locate_source(void *context, const char *path, char *buf, size_t cap)
{
    source *s = (source *)context;
    size_t  bytes, found = OPTION_LIST_MAX;
    if (strcmp(path, s->path) == 0)
        return path;
    bool beside = read_disk(s, path, &bytes) != NULL;
    for (size_t i = 0; i < s->includes->count && !beside && found == OPTION_LIST_MAX; i++)
        if (ptxpack_pack_read(&s->includes_disk[i], path, &bytes) != NULL)
            found = i;
    const char *folder = beside ? s->path : found < OPTION_LIST_MAX ? s->includes->words[found] : "ptx";
    snprintf(buf, cap, "%.*s%s%s", beside ? (int)s->folder : (int)strlen(folder), folder, beside ? "" : "/",
             path);
    return buf;
}

static void source_open(source *s, const char *path, const option_list *includes)
{
    const char *slash = strrchr(path, '/');
    memset(s, 0, sizeof *s);
    s->path = path;
    s->includes = includes;
    for (size_t i = 0; i < includes->count; i++)
        s->includes_disk[i].dir = includes->words[i];
    s->folder = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    s->pack.dir = secure_getenv("PTXPACK_PTX_DIR");
}

static void source_close(source *s)
{
    ptxpack_pack_free(&s->disk);
    for (size_t i = 0; i < s->includes->count; i++)
        ptxpack_pack_free(&s->includes_disk[i]);
    ptxpack_pack_free(&s->pack);
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
    for (size_t i = 0; i < s->symbols.count; i++)
        json_int(s->symbols.list[i].name, s->symbols.list[i].value);
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
    char                   arch[16], line[PROGRAM_LINE];
    settings               all = {.map = s->map, .json = s->json};
    const ptxpack_instance build = ptxpack_instance_get(v, (size_t)s->instance);
    ptxpack_options        options = {.size = sizeof options,
                                      .offline = true,
                                      .arch = arch,
                                      .line_info = s->line_info};
    options.no_cache = true;
    for (size_t i = 0; i < build.symbol_count + s->symbols.count; i++) {
        const ptxpack_symbol *from = i < build.symbol_count ? &build.symbols[i]
                                                            : &s->symbols.list[i - build.symbol_count];
        if (!program_symbols_set(&all.symbols, from->name, from->value, line))
            return command_fail("expand", "%s", line), COMMAND_USAGE;
    }
    snprintf(arch, sizeof arch, "sm_%d%s", v->arch, v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC ? "a" : "");
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        return command_fail("expand", "%s", ptxpack_detail(NULL));
    ptxpack_status status = ptxpack_kernel_expand(handle, v, all.symbols.list, all.symbols.count, &e);
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
    ptxpack_expand_options options = {.size = sizeof options,
                                      .read = read_source,
                                      .context = &from,
                                      .locate = locate_source};
    options.symbols = s->symbols.list;
    options.symbol_count = s->symbols.count;
    options.line_info = s->line_info;
    source_open(&from, s->word, &s->includes);
    ptxpack_status status = ptxpack_expand(s->word, &options, &e);
    if (status == PTXPACK_OK)
        print(s, s->word, e);
    else
        command_fail("expand", "%s", e != NULL ? ptxpack_expansion_error(e) : ptxpack_status_string(status));
    ptxpack_expansion_free(e);
    source_close(&from);
    return status == PTXPACK_OK ? COMMAND_OK : status == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
}

static int expand(settings *s)
{
    const ptxpack_variant *v = ptxpack_variant_find(s->word);
    size_t                 count = v != NULL ? ptxpack_instance_count(v) : 0;
    if (v == NULL && s->instance != OPTION_NOT_GIVEN)
        return command_fail("expand", "--instance goes with a variant, and %s is none", s->word), COMMAND_USAGE;
    if (v == NULL)
        return expand_file(s);
    if (s->includes.count > 0)
        return command_fail("expand", "-I goes with a file, and %s is a variant", s->word), COMMAND_USAGE;
    if (s->instance == OPTION_NOT_GIVEN)
        s->instance = 0;
    if ((uint64_t)s->instance >= count)
        return command_fail("expand", "--instance: %s has %zu builds, from 0 on", v->id, count), COMMAND_USAGE;
    return expand_variant(s, v);
}

int cmd_expand(int argc, char **argv)
{
    settings     s = {.instance = OPTION_NOT_GIVEN};
    int          words;
    char         line[PROGRAM_LINE];
    const option rows[] = {
        {"D", OPTION_LIST, &s.defines, "SYMBOL=INTEGER  define a symbol as .set does (without =INTEGER: as 1)"},
        {"I", OPTION_LIST, &s.includes, "DIR  look there, too, for what a FILE includes"},
        {"instance", OPTION_INT, &s.instance,
         "N  which build of the variant, as `list --resources` has them in order (0)"},
        {"line-info", OPTION_FLAG, &s.line_info, "with .file and .loc, for profilers"},
        {"map", OPTION_FLAG, &s.map, "say of each line where it came from"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, synopsis, rows, &words);
    if (status >= 0)
        return status;
    if (!program_symbols_define(&s.symbols, &s.defines, &s.names, line))
        return command_fail("expand", "%s", line), COMMAND_USAGE;
    if (words != 1)
        return command_fail("expand", "expected one FILE or VARIANT (try --help)"), COMMAND_USAGE;
    s.word = argv[1];
    return expand(&s);
}
