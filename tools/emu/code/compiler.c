/* compiler.c - nvPTXCompiler on the emulated driver: its "machine code" is a container.
 *
 * It needs neither cuInit nor a context, like the real PTX compiler library. */
#include <stdio.h>
#include <stdlib.h>
#include "compile.h"
#include "spare.h"
#include "tools/emu/machine/faults.h"
#include "tools/emu/machine/settings.h"

enum { /* nvPTXCompileResult */
       COMPILED,
       INVALID_HANDLE,
       INVALID_INPUT,
       COMPILATION_FAILURE,
       INTERNAL,
       OUT_OF_MEMORY,
       INCOMPLETE,
       UNSUPPORTED_VERSION
};
enum { MAGIC = 0x50747843 };

struct nvPTXCompiler {
    unsigned int        magic;
    char               *text;
    size_t              bytes;
    void               *program;
    size_t              program_bytes;
    struct compile_logs logs;
};

#define NVPTX(name) API_EXPORT int nvPTXCompiler##name
#define WANT(compiler)                                 \
    do {                                               \
        if (!(compiler) || (compiler)->magic != MAGIC) \
            return INVALID_HANDLE;                     \
    } while (0)

NVPTX(GetVersion)(unsigned int *major, unsigned int *minor);
NVPTX(Create)(struct nvPTXCompiler **compiler, size_t bytes, const char *ptx);
NVPTX(Destroy)(struct nvPTXCompiler **compiler);
NVPTX(Compile)(struct nvPTXCompiler *compiler, int count, const char *const *options);
NVPTX(GetCompiledProgramSize)(struct nvPTXCompiler *compiler, size_t *bytes);
NVPTX(GetCompiledProgram)(struct nvPTXCompiler *compiler, void *program);
NVPTX(GetErrorLogSize)(struct nvPTXCompiler *compiler, size_t *bytes);
NVPTX(GetErrorLog)(struct nvPTXCompiler *compiler, char *log);
NVPTX(GetInfoLogSize)(struct nvPTXCompiler *compiler, size_t *bytes);
NVPTX(GetInfoLog)(struct nvPTXCompiler *compiler, char *log);

/* ---- life ---------------------------------------------------------------------------------------------- */
NVPTX(GetVersion)(unsigned int *major, unsigned int *minor)
{
    const struct emu_settings *s = emu_settings();
    if (major == NULL || minor == NULL)
        return INVALID_INPUT;
    if (s == NULL || faults_now(s->faults, FAULT_NO_JIT))
        return INTERNAL;
    *major = (unsigned int)s->driver_version / 1000;
    *minor = (unsigned int)s->driver_version % 1000 / 10;
    return COMPILED;
}

NVPTX(Create)(struct nvPTXCompiler **out, size_t bytes, const char *ptx)
{
    if (out == NULL || ptx == NULL)
        return INVALID_INPUT;
    struct nvPTXCompiler *c = (struct nvPTXCompiler *)calloc(1, sizeof *c);
    if (c != NULL)
        c->text = strndup(ptx, bytes); /* a NUL byte ends the text */
    if (c == NULL || c->text == NULL) {
        free(c);
        return OUT_OF_MEMORY;
    }
    c->bytes = strlen(c->text);
    c->magic = MAGIC;
    *out = c;
    return COMPILED;
}

NVPTX(Destroy)(struct nvPTXCompiler **compiler)
{
    if (compiler == NULL)
        return INVALID_HANDLE;
    WANT(*compiler);
    struct nvPTXCompiler *c = *compiler;
    c->magic = 0;
    compile_logs_free(&c->logs);
    free(c->program);
    free(c->text);
    free(c);
    *compiler = NULL;
    return COMPILED;
}

/* ---- options ------------------------------------------------------------------------------------------- */
/* Options of ptxas without effect here; "=": a value follows, in the same word or in the next one. */
/* clang-format off */
static const char *const accepted[] = {
    "--verbose", "-v", "--generate-line-info", "-lineinfo", "--device-debug", "-g", "--compile-only", "-c",
    "--warn-on-spills", "-warn-spills", "--warning-as-error", "-Werror", "--disable-warnings", "-w",
    "--warn-on-local-memory-usage", "-warn-lmem-usage", "--position-independent-code", "-pic",
    "--suppress-stack-size-warning", "--suppress-async-bulk-multicast-advisory-warning", "--return-at-end",
    "--preserve-relocs", "--extensible-whole-program", "-ewp", "--sp-bounds-check",
    "--suppress-double-demote-warning", "-O0", "-O1", "-O2", "-O3",
    "--opt-level=", "-O=", "--maxrregcount=", "-maxrregcount=", "--fmad=", "-fmad=",
    "--def-load-cache=", "-dlcm=", "--def-store-cache=", "-dscm=", "--force-load-cache=",
    "--force-store-cache=", "--entry=", "-e=", "--allow-expensive-optimizations=", "--minnctapersm=",
    "--maxntid=", "--override-directive-values=", "--split-compile=", "--jump-table-density=",
    "--device-function-maxrregcount=", "--register-usage-level=",
};
/* clang-format on */

/* The value that follows `name` in the word, or "" if there is none; NULL: another option. */
static const char *value_after(const char *word, const char *name, size_t bytes)
{
    if (strncmp(word, name, bytes) != 0 || (word[bytes] != '\0' && word[bytes] != '='))
        return NULL;
    return word[bytes] ? word + bytes + 1 : word + bytes;
}

/* Is the option accepted?  *skip: its value is the next word. */
static bool is_accepted(const char *word, bool *skip)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        size_t      bytes = strlen(accepted[i]);
        bool        valued = accepted[i][bytes - 1] == '=';
        const char *value = value_after(word, accepted[i], bytes - valued);
        if (value != NULL && (valued || word[bytes] == '\0')) {
            *skip = valued && *value == '\0';
            return true;
        }
    }
    return false;
}

static const char *gpu_in(const char *word)
{
    const char *value = value_after(word, "--gpu-name", strlen("--gpu-name"));
    return value != NULL ? value : value_after(word, "-arch", strlen("-arch"));
}

static int fatal(struct nvPTXCompiler *c, const char *what, const char *word)
{
    if (asprintf(&c->logs.error, "ptxas fatal   : %s '%.100s'\n", what, word) < 0)
        c->logs.error = NULL;
    return COMPILATION_FAILURE;
}

/* *target: the requested GPU; sm_75 by default. */
static int read_options(struct nvPTXCompiler *c, int count, const char *const *options, const char **target)
{
    *target = "sm_75";
    if (count < 0 || (count > 0 && options == NULL))
        return INVALID_INPUT;
    for (int i = 0; i < count; i++) {
        bool        skip = false;
        const char *word = options[i], *gpu;
        if (word == NULL)
            return INVALID_INPUT;
        gpu = gpu_in(word);
        if (gpu != NULL) {
            skip = *gpu == '\0';
            *target = !skip ? gpu : i + 1 < count && options[i + 1] != NULL ? options[i + 1] : "";
        } else if (!is_accepted(word, &skip)) {
            return fatal(c, "Unknown option", word);
        }
        i += skip;
    }
    return COMPILED;
}

/* ---- compiling ----------------------------------------------------------------------------------------- */
static int result_of(unsigned int result)
{
    return result == API_UNSUPPORTED_PTX_VERSION ? UNSUPPORTED_VERSION
           : result == API_OUT_OF_MEMORY         ? OUT_OF_MEMORY
                                                 : COMPILATION_FAILURE;
}

static int compile(struct nvPTXCompiler *c, struct emu_settings *s, const char *target)
{
    int          sm = 0;
    char         suffix = 0;
    unsigned int result = API_OK;
    if (!compile_parse_target(target, &sm, &suffix) || !emu_settings_gpu(s, sm))
        return fatal(c, "No such GPU for option gpu-name:", target);
    struct emu_module *m = compile_ptx(s, target, c->text, c->bytes, false, NULL, &result, &c->logs);
    if (m == NULL)
        return result_of(result);
    spare_give(m);
    c->program = compile_container(s, target, c->text, c->bytes, &c->program_bytes);
    return c->program != NULL ? COMPILED : OUT_OF_MEMORY;
}

NVPTX(Compile)(struct nvPTXCompiler *c, int count, const char *const *options)
{
    const struct emu_settings *ours = emu_settings();
    const char                *target = NULL;
    WANT(c);
    if (ours == NULL)
        return INTERNAL;
    struct emu_settings settings = *ours;
    compile_logs_free(&c->logs);
    free(c->program);
    c->program = NULL;
    int result = read_options(c, count, options, &target);
    return result == COMPILED ? compile(c, &settings, target) : result;
}

/* ---- results ------------------------------------------------------------------------------------------- */
NVPTX(GetCompiledProgramSize)(struct nvPTXCompiler *c, size_t *bytes)
{
    WANT(c);
    if (bytes == NULL)
        return INVALID_INPUT;
    *bytes = c->program != NULL ? c->program_bytes : 0;
    return c->program != NULL ? COMPILED : INCOMPLETE;
}

NVPTX(GetCompiledProgram)(struct nvPTXCompiler *c, void *program)
{
    WANT(c);
    if (program == NULL)
        return INVALID_INPUT;
    if (c->program == NULL)
        return INCOMPLETE;
    memcpy(program, c->program, c->program_bytes);
    return COMPILED;
}

static int log_size(const char *log, size_t *bytes)
{
    if (bytes == NULL)
        return INVALID_INPUT;
    *bytes = log != NULL ? strlen(log) : 0;
    return COMPILED;
}

/* The reported size has no room for a NUL byte, so none is written. */
static int copy_log(const char *log, char *to)
{
    if (to == NULL)
        return INVALID_INPUT;
    if (log != NULL)
        memcpy(to, log, strlen(log));
    return COMPILED;
}

NVPTX(GetErrorLogSize)(struct nvPTXCompiler *c, size_t *bytes)
{
    WANT(c);
    return log_size(c->logs.error, bytes);
}
NVPTX(GetErrorLog)(struct nvPTXCompiler *c, char *log)
{
    WANT(c);
    return copy_log(c->logs.error, log);
}
NVPTX(GetInfoLogSize)(struct nvPTXCompiler *c, size_t *bytes)
{
    WANT(c);
    return log_size(c->logs.info, bytes);
}
NVPTX(GetInfoLog)(struct nvPTXCompiler *c, char *log)
{
    WANT(c);
    return copy_log(c->logs.info, log);
}
