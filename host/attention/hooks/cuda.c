/* cuda.c - hooks in CUDA C++, by NVRTC.
 *
 *   the caller's function -> a kernel that calls it -> NVRTC's PTX, in which it is inlined -> a macro (body.c)
 *
 * NVRTC runs once for a text in a process (11 to 32 ms); the machine code of the kernel with the macro comes from the cache. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"
#include "host/attention/check.h"
#include "hooks.h"
#include "loader/compile/log.h"
#include "loader/compile/nvrtc.h"
#include "loader/compile/ptx_text.h"
#include "loader/context.h"
#include "loader/files.h"

enum { LINE = 640 };

bool attention_hook_is_cuda(const char *text) { return text != NULL && ptxpack_text_uses(text, "__device__"); }

/* The caller's text, whose lines keep their numbers, and the kernel that body.c expects. */
static char *write_source(const char *text, int hook)
{
    static const char *const kernels[HOOK_COUNT] = {"float s, int b, int h, int q, int kv, " BODY_ADDRESSES
                                                    ", float *to)\n"
                                                    "{\n const void *const aux[8] = " BODY_AUX
                                                    ";\n *to = score_mod(s, b, h, q, kv, aux);\n}\n",
                                                    "int b, int h, int q, int kv, " BODY_ADDRESSES
                                                    ", int *to)\n"
                                                    "{\n const void *const aux[8] = " BODY_AUX
                                                    ";\n *to = mask_mod(b, h, q, kv, aux) ? 1 : 0;\n}\n"};
    char                    *source = NULL;
    return asprintf(&source,
                    "#line 1 \"%s\"\n%s\n#line 1 \"ptxpack\"\nextern \"C\" __global__ void " BODY_KERNEL "(%s",
                    attention_hook_names[hook], text, kernels[hook]) < 0
               ? NULL
               : source;
}

/* For the lowest architecture, whose instructions all kernels may have. */
static ptxpack_status compile(const ptxpack *handle, const struct ptxpack_nvrtc *nvrtc, const char *source,
                              int hook, struct ptxpack_nvrtc_output *out)
{
    char                           arch[48], answer[LINE / 2], said[LINE];
    const char *const              options[] = {arch, "--use_fast_math", "--generate-line-info"};
    const struct ptxpack_nvrtc_job job = {.text = source,
                                          .name = "ptxpack",
                                          .options = options,
                                          .option_count = sizeof options / sizeof options[0]};
    snprintf(arch, sizeof arch, "--gpu-architecture=compute_%d", nvrtc->archs[0] > 75 ? nvrtc->archs[0] : 75);
    ptxpack_status status = ptxpack_nvrtc_compile(nvrtc, &job, out, answer, sizeof answer);
    if (status == PTXPACK_OK && out->ptx != NULL)
        return PTXPACK_OK;
    if (out->log == NULL || !ptxpack_log_cuda_errors(out->log, said, sizeof said))
        snprintf(said, sizeof said, "%s: NVRTC: %s", attention_hook_names[hook], answer);
    return ptxpack_fail(handle, status == PTXPACK_OK ? PTXPACK_E_COMPILE : status, "%s", said);
}

/* ---- the texts of this process ------------------------------------------------------------------------- */
typedef struct known_text {
    int   hook;
    char *text, *macros; /* NULL: nothing yet */
} known_text;

enum { KNOWN = 16 };
static known_text   known[KNOWN]; /* guarded by the lock of ptxpack_linker_enter */
static unsigned int known_next;   /* which one is replaced next */

/* A copy of the macros of a text that was compiled before; NULL: there are none, or no memory. */
static char *recall(const char *text, int hook)
{
    char *macros = NULL;
    ptxpack_linker_enter();
    for (int i = 0; i < KNOWN && macros == NULL; i++)
        if (known[i].text != NULL && known[i].hook == hook && strcmp(known[i].text, text) == 0)
            macros = strdup(known[i].macros);
    ptxpack_linker_leave();
    return macros;
}

/* Without memory it is compiled again. */
static void keep(const char *text, int hook, const char *macros)
{
    known_text made = {hook, strdup(text), strdup(macros)};
    if (made.text != NULL && made.macros != NULL) {
        ptxpack_linker_enter();
        known_text *place = &known[known_next++ % KNOWN], before = *place;
        *place = made;
        ptxpack_linker_leave();
        made = before;
    }
    free(made.text);
    free(made.macros);
}

/* ---- NVRTC --------------------------------------------------------------------------------------------- */
static ptxpack_status translate(const ptxpack *handle, const char *text, int hook, char **macros)
{
    struct ptxpack_nvrtc_place  place;
    struct ptxpack_nvrtc_output out = {.ptx = NULL};
    const struct ptxpack_nvrtc *nvrtc = NULL;
    char                        why[LINE], line[PLAN_LINE];
    if (!ptxpack_text_uses(text, attention_hook_names[hook]))
        return ptxpack_fail(handle, PTXPACK_E_ARG, "%s has no function of that name",
                            attention_hook_names[hook]);
    if (ptxpack_nvrtc_find(&place, why, sizeof why))
        nvrtc = ptxpack_nvrtc_load(&place, why, sizeof why);
    if (nvrtc == NULL)
        return ptxpack_fail(handle, PTXPACK_E_UNSUPPORTED, "%s is CUDA C++, which needs NVRTC: %s",
                            attention_hook_names[hook], why);
    char          *source = write_source(text, hook);
    ptxpack_status status = source != NULL ? compile(handle, nvrtc, source, hook, &out)
                                           : ptxpack_fail(handle, PTXPACK_E_MEMORY, "no memory for %s",
                                                          attention_hook_names[hook]);
    if (status == PTXPACK_OK) {
        status = attention_hook_body(out.ptx, hook, macros, line);
        if (status != PTXPACK_OK)
            status = ptxpack_fail(handle, status, "%s", line);
    }
    ptxpack_nvrtc_output_free(&out);
    free(source);
    return status;
}

ptxpack_status attention_hook_from_cuda(const ptxpack *handle, const char *text, int hook, char **macros)
{
    *macros = recall(text, hook);
    if (*macros != NULL)
        return PTXPACK_OK;
    ptxpack_status status = translate(handle, text, hook, macros);
    if (status == PTXPACK_OK)
        keep(text, hook, *macros);
    return status;
}

ptxpack_status attention_translate_hooks(const ptxpack *handle, ptxpack_attention_desc *desc,
                                         attention_translated *translated)
{
    const char   **fields[HOOK_COUNT] = {&desc->score_mod, &desc->mask_mod};
    ptxpack_status status = PTXPACK_OK;
    *translated = (attention_translated){{NULL}};
    for (int i = 0; i < HOOK_COUNT && status == PTXPACK_OK; i++)
        if (attention_hook_is_cuda(*fields[i])) {
            status = attention_hook_from_cuda(handle, *fields[i], i, &translated->text[i]);
            *fields[i] = translated->text[i];
        }
    return status;
}

ptxpack_status attention_take_desc(const ptxpack *handle, const ptxpack_attention_desc *given,
                                   ptxpack_attention_desc *whole, attention_translated *translated)
{
    char line[PLAN_LINE];
    *translated = (attention_translated){{NULL}};
    ptxpack_status status = attention_whole_desc(given, whole, line);
    return status != PTXPACK_OK ? ptxpack_fail(handle, status, "%s", line)
                                : attention_translate_hooks(handle, whole, translated);
}

void attention_translated_free(attention_translated *translated)
{
    for (int i = 0; i < HOOK_COUNT; i++)
        free(translated->text[i]);
}
