/* expand.c - "ptxpack expand": a .ptx file, or a variant of kernels.def, with its macros expanded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "host/plan/instance.h"
#include "loader/loader.h"
#include "loader/inspect.h"
#include "tools/workbench/symbols.h"

static const char synopsis[] =
    "ptxpack expand FILE|VARIANT [-D SYMBOL=INTEGER]... [options]\n"
    "  FILE is looked for on disk, then in the pack; what it includes as by `ptxpack ptx`, beside it and in "
    "-I\n"
    "  ARCH and ISA of a FILE, which `ptxpack ptx` has from the device, are given by -D as well";

typedef struct settings {
    const char     *word;
    int64_t         instance;
    bool            line_info, map, json;
    option_list     defines, includes;
    program_names   names;
    program_symbols symbols;
} settings;

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

/* Whether a file of the embedded pack has the word; of another pack nothing is said. */
static bool pack_uses(const char *word)
{
    const char         *folder = getenv("PTXPACK_PTX_DIR");
    bool                used = folder != NULL && *folder != '\0';
    struct ptxpack_pack pack = {.dir = NULL};
    size_t              bytes;
    for (const struct ptxpack_pack_file *f = ptxpack_pack_files; f->path != NULL && !used; f++) {
        const char *text = ptxpack_pack_read(&pack, f->path, &bytes);
        used = text == NULL || ptxpack_text_uses(text, word);
    }
    ptxpack_pack_free(&pack);
    return used;
}

/* Expands as the loader does: the symbols of the row, then those of the build, then -D. */
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
    options.readonly_dirs = "";
    for (size_t i = 0; i < build.symbol_count + s->symbols.count; i++) {
        const ptxpack_symbol *from = i < build.symbol_count ? &build.symbols[i]
                                                            : &s->symbols.list[i - build.symbol_count];
        if (!program_symbols_set(&all.symbols, from->name, from->value, line))
            return command_fail("expand", "%s", line), COMMAND_USAGE;
    }
    for (size_t i = 0; i < s->symbols.count; i++)
        if (!pack_uses(s->symbols.list[i].name))
            return command_fail("expand", "-D %s: no file of the pack uses it", s->symbols.list[i].name),
                   COMMAND_USAGE;
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

/* FILE itself may be one of the pack, too.  Its text is the reader's. */
static void take_from_pack(const settings *s, struct ptxpack_pack *pack, ptxpack_source *source)
{
    size_t bytes;
    pack->dir = secure_getenv("PTXPACK_PTX_DIR");
    if (access(s->word, F_OK) == 0 || errno != ENOENT)
        return;
    source->text = ptxpack_pack_read(pack, s->word, &bytes);
    source->bytes = source->text != NULL ? bytes : 0;
}

/* As `ptxpack ptx` reads and expands it, but for ARCH and ISA. */
static int expand_file(const settings *s)
{
    ptxpack            *handle;
    ptxpack_expansion  *e = NULL;
    struct ptxpack_pack pack = {.dir = NULL};
    ptxpack_options     options = {.size = sizeof options, .offline = true, .arch = "sm_80", .ptxjit = "none"};
    ptxpack_source      source = {.size = sizeof source, .language = PTXPACK_LANGUAGE_PTX, .path = s->word};
    options.no_cache = true;
    options.readonly_dirs = "";
    options.line_info = s->line_info;
    source.symbols = s->symbols.list;
    source.symbol_count = s->symbols.count;
    source.include_dirs = s->includes.words;
    source.include_count = s->includes.count;
    if (ptxpack_open(&options, &handle) != PTXPACK_OK)
        return command_fail("expand", "%s", ptxpack_detail(NULL));
    take_from_pack(s, &pack, &source);
    ptxpack_status status = ptxpack_source_expand(handle, &source, &e);
    bool           unused[PROGRAM_SYMBOLS];
    if (status == PTXPACK_OK)
        status = ptxpack_program_unused(handle, &source, unused);
    for (size_t i = 0; status == PTXPACK_OK && i < s->symbols.count; i++)
        if (unused[i])
            status = ptxpack_fail(handle, PTXPACK_E_ARG, "-D %s: %s does not use it", s->symbols.list[i].name,
                                  s->word);
    if (status == PTXPACK_OK)
        print(s, s->word, e);
    else
        command_fail("expand", "%s", ptxpack_detail(handle));
    ptxpack_expansion_free(e);
    ptxpack_close(handle);
    ptxpack_pack_free(&pack);
    return status == PTXPACK_OK ? COMMAND_OK : status == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
}

static int expand(settings *s)
{
    const ptxpack_variant *v = ptxpack_variant_find(s->word);
    size_t                 count = v != NULL ? ptxpack_instance_count(v) : 0;
    if (v == NULL && s->instance != OPTION_NOT_GIVEN)
        return command_fail("expand", "--instance goes with a variant, but %s is not a variant", s->word),
               COMMAND_USAGE;
    if (v == NULL)
        return expand_file(s);
    if (s->includes.count > 0)
        return command_fail("expand", "-I goes with a file, but %s is a variant", s->word), COMMAND_USAGE;
    if (s->instance == OPTION_NOT_GIVEN)
        s->instance = 0;
    if ((uint64_t)s->instance >= count)
        return command_fail("expand", "--instance: %s has %zu builds, counted from 0", v->id, count),
               COMMAND_USAGE;
    return expand_variant(s, v);
}

int cmd_expand(int argc, char **argv)
{
    settings     s = {.instance = OPTION_NOT_GIVEN};
    int          words;
    char         line[PROGRAM_LINE];
    const option rows[] = {
        {"D", OPTION_LIST, &s.defines, "SYMBOL=INTEGER  define a symbol as .set does (without =INTEGER: as 1)"},
        {"I", OPTION_LIST, &s.includes, "DIR  also look there for what a FILE includes"},
        {"instance", OPTION_INT, &s.instance,
         "N  which build of the variant, counted as `list --resources` shows them (0)"},
        {"line-info", OPTION_FLAG, &s.line_info, "with .file and .loc, for profilers"},
        {"map", OPTION_FLAG, &s.map, "show where each line came from"},
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
