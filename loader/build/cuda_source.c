/* cuda_source.c - the input of NVRTC: options, target, headers, and the key of all of them. */
#include "cuda_source.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "loader/compile/log.h"
#include "loader/compile/ptx_text.h"
#include "notes.h"

enum { SCHEMA = 1 }; /* the version of the key, of the notes, and of the way NVRTC is called */

/* ---- the caller's options ------------------------------------------------------------------------- */

/* Whether a word is `name`, alone or with a value. */
static bool is_option(const char *word, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(word, name, bytes) == 0 && (word[bytes] == '\0' || word[bytes] == '=');
}

static bool is_one_of(const char *word, const char *const *names)
{
    for (; *names; names++)
        if (is_option(word, *names))
            return true;
    return false;
}

static ptxpack_status check_options(const struct ptxpack_text *t)
{
    static const char *const targets[] = {"--gpu-architecture", "-arch", NULL};
    static const char *const partial[] = {"--device-c",
                                          "-dc",
                                          "--dlink-time-opt",
                                          "-dlto",
                                          "--optix-ir",
                                          "-optix-ir",
                                          "--relocatable-device-code=true",
                                          "-rdc=true",
                                          NULL};
    static const char *const apart[] = {"--relocatable-device-code", "-rdc", NULL}; /* from its "true" */
    for (size_t i = 0; i < t->source.option_count; i++) {
        const char *word = t->source.options[i];
        bool        last = i + 1 == t->source.option_count;
        if (is_one_of(word, targets))
            return ptxpack_fail(t->handle, PTXPACK_E_ARG,
                                "source.options: %.100s: the target is the handle's (PTXPACK_ARCH)", word);
        if (is_one_of(word, partial) ||
            (is_one_of(word, apart) && !last && strcmp(t->source.options[i + 1], "true") == 0))
            return ptxpack_fail(t->handle, PTXPACK_E_ARG,
                                "source.options: %.100s: it does not make a whole program", word);
    }
    return PTXPACK_OK;
}

/* The folder that option `i` adds to the search; NULL if it adds none. */
static const char *folder_of(const ptxpack_source *s, size_t i)
{
    static const char *const names[] = {"--include-path", "-I"};
    const char              *word = s->options[i];
    for (size_t n = 0; n < 2; n++) {
        size_t bytes = strlen(names[n]);
        if (strncmp(word, names[n], bytes) != 0)
            continue;
        if (word[bytes] == '\0')
            return i + 1 < s->option_count ? s->options[i + 1] : NULL;
        if (word[bytes] == '=')
            return word + bytes + 1;
        if (n == 1) /* -Ifolder */
            return word + bytes;
    }
    return NULL;
}

/* Folders of the options are searched after the others, here and by NVRTC (gather_words). */
static bool extend_search(struct ptxpack_cuda *c)
{
    ptxpack_source *s = &c->text->source;
    c->dirs = (const char **)calloc(s->include_count + s->option_count + 1, sizeof *c->dirs);
    if (c->dirs == NULL)
        return false;
    if (s->include_count)
        memcpy(c->dirs, s->include_dirs, s->include_count * sizeof *c->dirs);
    for (size_t i = 0; i < s->option_count; i++) {
        const char *folder = folder_of(s, i);
        if (folder != NULL && *folder)
            c->dirs[s->include_count++] = folder;
    }
    s->include_dirs = c->dirs;
    return true;
}

/* ---- the target ----------------------------------------------------------------------------------- */

/* From sm_90 on a device has an exact target with instructions of its own.  PTXPACK_ARCH asks for a target
 * that later devices run, too. */
static void choose_target(struct ptxpack_cuda *c)
{
    const ptxpack *h = c->text->handle;
    int            arch = h->info.caps.arch;
    bool           exact = arch >= 90 && arch == ptxpack_parse_arch(h->info.target);
    if (h->driver != NULL || h->stand_in)
        snprintf(c->target, sizeof c->target, "sm_%d%s", arch, exact ? "a" : "");
    else
        snprintf(c->target, sizeof c->target, "%s", h->info.target);
}

/* Machine code must be for the device itself, and NVRTC must not be of a later major version than the
 * driver. Line information needs PTX, because the folder of the source must not matter. */
static bool makes_cubin(const struct ptxpack_cuda *c, const struct ptxpack_nvrtc *n)
{
    const ptxpack *h = c->text->handle;
    return !c->wants_ptx && !h->line_info && n->version && n->GetCUBINSize != NULL && n->GetCUBIN != NULL &&
           ptxpack_parse_arch(c->target) == ptxpack_parse_arch(h->info.target) &&
           (h->driver == NULL || n->version / 1000 <= h->info.driver_version / 1000);
}

/* The target stays "sm_90a", or becomes "compute_90a".  For a device that NVRTC does not know it becomes
 * the highest architecture below it. */
static void set_output(struct ptxpack_cuda *c, const struct ptxpack_nvrtc *n, bool *cubin)
{
    choose_target(c); /* an earlier attempt may have changed it */
    int arch = ptxpack_parse_arch(c->target), best = 0;
    for (int i = 0; i < PTXPACK_NVRTC_ARCHS && n->archs[i]; i++)
        if (n->archs[i] <= arch && n->archs[i] > best)
            best = n->archs[i];
    bool known = best == arch || !best;
    *cubin = known && makes_cubin(c, n);
    if (!known)
        snprintf(c->target, sizeof c->target, "sm_%d", best);
    if (!*cubin) {
        char kind[24];
        snprintf(kind, sizeof kind, "compute_%s", c->target + strlen("sm_"));
        memcpy(c->target, kind, sizeof kind);
    }
}

/* ---- the words that NVRTC gets -------------------------------------------------------------------- */

struct words {
    char **word;
    size_t count;
    bool   failed;
};

static void add_word(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_word(struct words *w, const char *format, ...)
{
    va_list arguments;
    char  **more = (char **)realloc(w->word, (w->count + 1) * sizeof *more);
    w->failed |= (more == NULL);
    if (more == NULL)
        return;
    w->word = more;
    va_start(arguments, format);
    bool written = vasprintf(&more[w->count], format, arguments) >= 0;
    va_end(arguments);
    w->count += written;
    w->failed |= !written;
}

static void free_words(struct words *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->word[i]);
    free(w->word);
}

/* PTX always carries line information, so that errors and profilers can name the source.  The compiler of
 * the PTX drops it from the machine code unless it is asked for. */
static void gather_words(const struct ptxpack_cuda *c, bool cubin, bool lines, int version, struct words *w)
{
    const ptxpack_source *s = &c->text->source;
    const char           *slash = strrchr(c->text->path, '/');
    memset(w, 0, sizeof *w);
    add_word(w, "--gpu-architecture=%s", c->target);
    for (size_t i = 0; i < s->symbol_count; i++)
        add_word(w, "-D%s=%lld", s->symbols[i].name, (long long)s->symbols[i].value);
    if (lines)
        add_word(w, "--generate-line-info");
    if (cubin && version >= 12000)
        add_word(w, "--ptxas-options=--verbose");
    /* these are for includes whose names only the preprocessor knows; the folders of the options come last */
    add_word(w, "--include-path=%.*s",
             slash != NULL ? (int)(slash - c->text->path) + (slash == c->text->path) : 1,
             slash != NULL ? c->text->path : ".");
    for (size_t i = 0; i < s->include_count; i++)
        add_word(w, "--include-path=%s", s->include_dirs[i]);
    for (size_t i = 0; i < s->option_count; i++)
        add_word(w, "%s", s->options[i]);
}

/* ---- the key -------------------------------------------------------------------------------------- */

/* Names what may influence the result but is not in the key; NULL: nothing. */
static const char *unknown_text(const struct ptxpack_cuda *c)
{
    static const char *const readers[] = {"--pre-include", "-include",  "--pch",    "-pch", "--create-pch",
                                          "-create-pch",   "--use-pch", "-use-pch", NULL};
    const ptxpack_source    *s = &c->text->source;
    for (size_t i = 0; i < s->option_count; i++)
        if (is_one_of(s->options[i], readers) || strstr(s->options[i], "options-file") != NULL ||
            strstr(s->options[i], "-optf") != NULL) /* the latter two of ptxas */
            return "an option makes NVRTC read a file";
    return c->includes.open ? "only the preprocessor knows the name of an #include" : NULL;
}

/* Debugging information names folders. */
static void add_folder(ptxpack_cache_key *key, const ptxpack_source *s)
{
    static const char *const debugs[] = {"-G", "--device-debug", "-lineinfo", "--generate-line-info", NULL};
    char                     folder[4096] = "";
    for (size_t i = 0; i < s->option_count; i++)
        if (is_one_of(s->options[i], debugs) && !folder[0] && getcwd(folder, sizeof folder) != NULL)
            ptxpack_cache_key_add_text(key, "folder", folder);
}

static ptxpack_status make_key(struct ptxpack_cuda *c)
{
    const ptxpack        *h = c->text->handle;
    const ptxpack_source *s = &c->text->source;
    ptxpack_cache_key    *key = c->step.key = ptxpack_cache_key_create();
    ptxpack_cache_key_add_u64(key, "cuda schema", SCHEMA);
    for (size_t i = 0; i < c->includes.count; i++) {
        ptxpack_cache_key_add_text(key, "file", c->includes.headers[i].name);
        ptxpack_cache_key_add(key, "text", c->includes.headers[i].text, c->includes.headers[i].bytes);
    }
    ptxpack_cache_key_add_u64(key, "symbols",
                              s->symbol_count); /* their names may equal those of other fields */
    for (size_t i = 0; i < s->symbol_count; i++)
        ptxpack_cache_key_add_u64(key, s->symbols[i].name, (uint64_t)s->symbols[i].value);
    for (size_t i = 0; i < s->option_count; i++)
        ptxpack_cache_key_add_text(key, "option", s->options[i]);
    for (size_t i = 0; i < s->expression_count; i++)
        ptxpack_cache_key_add_text(key, "expression", s->expressions[i]);
    add_folder(key, s);
    ptxpack_cache_key_add_text(key, "target", c->target);
    ptxpack_cache_key_add_text(key, "device", h->info.target);
    ptxpack_cache_key_add_u64(key, "line info", h->line_info);
    ptxpack_cache_key_add_u64(key, "PTX", c->wants_ptx);
    ptxpack_cache_key_add_u64(key, "driver", h->driver != NULL ? (uint64_t)h->info.driver_version : 0);
    ptxpack_cache_key_add_text(key, *c->place.identity ? "NVRTC build" : "NVRTC path",
                               *c->place.identity ? c->place.identity : c->place.path);
    const char *unknown = unknown_text(c);
    if (unknown != NULL) /* two different programs may have this key, so none may be taken for another */
        ptxpack_cache_key_add_u64(key, "program", ptxpack_new_id());
    else if (!c->place.identity[0])
        unknown = "the build of NVRTC is unknown";
    return ptxpack_step_seal(&c->step, unknown);
}

/* ---- compiling ------------------------------------------------------------------------------------ */

static const char *version_name(const struct ptxpack_nvrtc *n, char *buf, size_t cap)
{
    snprintf(buf, cap, n->version ? "NVRTC %d.%d" : "NVRTC", n->version / 1000, n->version % 1000 / 10);
    return buf;
}

static ptxpack_status call(const struct ptxpack_cuda *c, const struct ptxpack_nvrtc *n, bool cubin, bool lines,
                           struct ptxpack_nvrtc_output *out, char *line, size_t cap)
{
    const ptxpack_source        *s = &c->text->source;
    const struct ptxpack_header *all = c->includes.headers;
    size_t first = c->includes.itself ? 0 : 1, count = c->includes.count - first; /* the source is number 0 */
    const char **names = (const char **)calloc(2 * count + 1, sizeof *names);
    struct words words;
    gather_words(c, cubin, lines, n->version, &words);
    ptxpack_status status = PTXPACK_E_MEMORY;
    memset(out, 0, sizeof *out);
    if (names != NULL && !words.failed) {
        const char **texts = names + count;
        for (size_t i = 0; i < count; i++) {
            names[i] = all[first + i].name;
            texts[i] = all[first + i].text;
        }
        struct ptxpack_nvrtc_job job = {.text = all[0].text,
                                        .name = all[0].name,
                                        .headers = texts,
                                        .header_names = names,
                                        .header_count = count,
                                        .options = (const char *const *)words.word,
                                        .option_count = words.count,
                                        .expressions = s->expressions,
                                        .expression_count = s->expression_count};
        status = ptxpack_nvrtc_compile(n, &job, out, line, cap);
    }
    free_words(&words);
    free(names);
    return status;
}

/* The messages of ptxas with the lines of the source.  To find those lines, the text is compiled once more with
 * line information. */
static void explain_ptxas(const struct ptxpack_cuda *c, const struct ptxpack_nvrtc *n, const char *log,
                          char *said, size_t cap)
{
    struct ptxpack_nvrtc_output again;
    char                        ignored[128];
    call(c, n, true, true, &again, ignored, sizeof ignored);
    bool lines = again.ptx != NULL && again.log != NULL;
    if (lines)
        ptxpack_ptx_strip_folder(again.ptx);
    ptxpack_log_errors_of(lines ? again.log : log, lines ? ptxpack_ptx_origin : NULL, again.ptx, said, cap);
    ptxpack_nvrtc_output_free(&again);
}

/* Write the detail line for a failure. */
static void explain(const struct ptxpack_cuda *c, const struct ptxpack_nvrtc *n, bool cubin, const char *answer,
                    const char *log, char *detail, size_t cap)
{
    char said[640], version[32];
    if (log == NULL || !*log)
        snprintf(said, sizeof said, "%s", answer);
    else if (!ptxpack_log_cuda_errors(log, said, sizeof said)) {
        if (cubin)
            explain_ptxas(c, n, log, said, sizeof said);
        else
            ptxpack_log_errors_of(log, NULL, NULL, said, sizeof said);
    }
    bool missing = strstr(said, "cannot open source file") != NULL;
    snprintf(detail, cap, "%s for %s, %s: %s%s", c->text->path, c->target,
             version_name(n, version, sizeof version), said,
             missing ? " (neither beside the source nor in an include folder)" : "");
}

/* Write the notes of the result. */
static bool take_notes(const struct ptxpack_nvrtc_output *out, int version, bool cubin,
                       struct ptxpack_code *code)
{
    struct ptxpack_notes notes = {.nvrtc = version ? version : 1, .is_ptx = !cubin};
    bool                 good = ptxpack_notes_add_entries(&notes, out->ptx, cubin ? out->log : NULL);
    for (size_t i = 0; i < out->name_count && good; i++)
        good = ptxpack_notes_add_name(&notes, out->names[i]);
    good = good && ptxpack_notes_write(&notes, &code->notes, &code->notes_bytes);
    ptxpack_notes_free(&notes);
    return good;
}

/* Make machine code if the caller wants it and NVRTC also returns the PTX, which lists the entries; otherwise
 * make PTX. */
static ptxpack_status run(struct ptxpack_cuda *c, const struct ptxpack_nvrtc *n, bool *cubin,
                          struct ptxpack_nvrtc_output *out, char *answer, size_t cap)
{
    set_output(c, n, cubin);
    ptxpack_status status = call(c, n, *cubin, !*cubin, out, answer, cap);
    if (status == PTXPACK_OK && *cubin && (out->cubin == NULL || out->ptx == NULL)) {
        ptxpack_nvrtc_output_free(out);
        c->wants_ptx = true;
        set_output(c, n, cubin);
        status = call(c, n, false, true, out, answer, cap);
    }
    return status == PTXPACK_OK && out->ptx == NULL ? PTXPACK_E_COMPILE : status;
}

/* A ptxpack_code_maker. */
static ptxpack_status compile(void *context, struct ptxpack_code *code, char *detail, size_t cap)
{
    struct ptxpack_cuda        *c = (struct ptxpack_cuda *)context;
    struct ptxpack_nvrtc_output out;
    bool                        cubin = false;
    char                        answer[128] = "out of memory";
    const struct ptxpack_nvrtc *n = ptxpack_nvrtc_load(&c->place, detail, cap);
    if (n == NULL)
        return PTXPACK_E_NO_NVRTC;
    if (!n->version) /* then it is also unknown how it was called */
        ptxpack_cache_key_poison(c->step.key, "the version of NVRTC is unknown");
    ptxpack_status status = run(c, n, &cubin, &out, answer, sizeof answer);
    if (status != PTXPACK_OK) {
        explain(c, n, cubin, answer, out.log, detail, cap);
    } else {
        ptxpack_ptx_strip_folder(out.ptx);
        if (!take_notes(&out, n->version, cubin, code)) {
            snprintf(detail, cap, "out of memory for the entries of %s", c->text->path);
            status = PTXPACK_E_MEMORY;
        }
        code->bytes = cubin ? out.cubin : out.ptx;
        code->size = cubin ? out.cubin_bytes : strlen(out.ptx);
        *(cubin ? (void **)&out.cubin : (void **)&out.ptx) = NULL;
    }
    code->log = out.log;
    out.log = NULL;
    ptxpack_nvrtc_output_free(&out);
    return status;
}

/* ---- begin and end -------------------------------------------------------------------------------- */

ptxpack_status ptxpack_cuda_begin(struct ptxpack_cuda *c, struct ptxpack_text *t, bool wants_ptx)
{
    ptxpack *h = t->handle;
    char     why[512];
    memset(c, 0, sizeof *c);
    c->text = t;
    c->wants_ptx = wants_ptx || ptxpack_jit_is_driver(&h->jit);
    c->step = (struct ptxpack_step){.handle = h,
                                    .name = t->path,
                                    .target = c->target,
                                    .make = compile,
                                    .context = c,
                                    .accept = ptxpack_notes_good};
    if (memchr(t->files->text, '\0', t->files->bytes) != NULL)
        return ptxpack_fail(h, PTXPACK_E_ARG, "%s: there is a NUL byte in it", t->path);
    ptxpack_status status = check_options(t);
    if (status != PTXPACK_OK)
        return status;
    if (!ptxpack_nvrtc_find(&c->place, why, sizeof why))
        return ptxpack_fail(h, PTXPACK_E_NO_NVRTC, "%s", why);
    choose_target(c);
    if (!extend_search(c) || !ptxpack_includes_gather(&c->includes, t))
        return ptxpack_fail(h, PTXPACK_E_MEMORY, "out of memory for what %s includes", t->path);
    return make_key(c);
}

void ptxpack_cuda_end(struct ptxpack_cuda *c)
{
    ptxpack_cache_key_free(c->step.key);
    ptxpack_includes_free(&c->includes);
    free(c->dirs);
}
