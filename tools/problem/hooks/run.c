/* run.c - hooks on the device: their arrays, and a kernel that applies them to rows of scores. */
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool attention_hooks_upload(device *gpu, const attention_hook_files *files, uint64_t aux[HOOK_ARRAYS])
{
    bool ok = true;
    for (int i = 0; i < files->count && ok; i++) {
        size_t bytes = files->aux[i].count * npy_element_bytes(files->aux[i].type);
        ok = bytes == 0 ||
             (device_alloc(gpu, &aux[i], bytes) && device_upload(gpu, aux[i], files->aux[i].data, bytes));
    }
    return ok;
}

/* ---- a kernel for rows of scores -------------------------------------------------------------------------- */
/* A thread for each score, whose key is the first one of its block. */
static const char before[] = ".version \\[ISA/10].\\[ISA%10]\n"
                             ".target sm_\\[ARCH]\n"
                             ".address_size 64\n"
                             ".set ARG_AUX, 0\n"
                             ".include \"attention/hooks/arrays.ptx\"\n";
static const char after[] =
    "\n.visible .entry hook_row (.param .u64 scores, .param .u32 batch, .param .u32 head, .param .u32 "
    "position,\n"
    "                          .param .u32 first, .param .u32 count, .param .align 8 .b8 arg[64])\n"
    "{\n"
    "        .reg .b32 %b, %h, %q, %kv, %x, %y;\n"
    "        .reg .b64 %at;\n"
    "        .reg .f32 %s, %one, %unit, %shift;\n"
    "        .reg .pred %keep;\n"
    " .if HOOK_SCORE & HAS_REGISTERS\n"
    "        SCORE_MOD_REGISTERS 1\n"
    " .endif\n"
    " .if HOOK_MASK & HAS_REGISTERS\n"
    "        MASK_MOD_REGISTERS 1\n"
    " .endif\n"
    "        mov.u32 %x, %ctaid.x;\n"
    "        mov.u32 %y, %ntid.x;\n"
    "        mul.lo.u32 %x, %x, %y;\n"
    "        mov.u32 %y, %tid.x;\n"
    "        add.u32 %x, %x, %y;\n"
    "        ld.param.u32 %y, [count];\n"
    "        setp.ge.u32 %keep, %x, %y;\n"
    "        @%keep ret;\n"
    "        ld.param.u64 %at, [scores];\n"
    "        mad.wide.u32 %at, %x, 4, %at;\n"
    "        ld.global.f32 %s, [%at];\n"
    "        ld.param.u32 %b, [batch];\n"
    "        ld.param.u32 %h, [head];\n"
    "        ld.param.u32 %q, [position];\n"
    "        ld.param.u32 %kv, [first];\n"
    "        add.u32 %kv, %kv, %x;\n"
    " .if HOOK_SCORE & HAS_UNIT\n"
    "        mov.f32 %one, 0f3F800000;\n"
    "        mov.f32 %unit, %one;\n"
    "        {\n"
    "        SCORE_MOD_UNIT %one, %unit\n"
    "        }\n"
    " .endif\n"
    " .irp name, SCORE, MASK\n"
    "  .if HOOK_\\name & HAS_ROW\n"
    "        {\n"
    "        \\name\\()_MOD_ROW 0, %b, %h, %q\n"
    "        }\n"
    "  .endif\n"
    "  .if HOOK_\\name & HAS_BLOCK\n"
    "        {\n"
    "        \\name\\()_MOD_BLOCK 0, %b, %h, %q, %kv\n"
    "        }\n"
    "  .endif\n"
    " .endr\n"
    " .if HOOK_SCORE & HAS_SHIFT\n"
    "        {\n"
    "        SCORE_MOD_SHIFT %shift, 0, %b, %h, %q, %kv\n"
    "        }\n"
    " .endif\n"
    " .if HOOK_SCORE\n"
    "        {\n"
    "        SCORE_MOD %s, 0, %b, %h, %q, %kv, 0, 0.0\n"
    "        }\n"
    "  .if HOOK_SCORE & HAS_SHIFT\n"
    "        add.f32 %s, %s, %shift;\n"
    "  .endif\n"
    "  .if HOOK_SCORE & HAS_UNIT\n"
    "        mul.f32 %s, %s, %unit;\n"
    "  .endif\n"
    " .endif\n"
    " .if HOOK_MASK\n"
    "        {\n"
    "        MASK_MOD %keep, 0, %b, %h, %q, %kv, 0, 0.0\n"
    "        }\n"
    "        selp.f32 %s, %s, 0fFF800000, %keep;\n"
    " .endif\n"
    "        st.global.f32 [%at], %s;\n"
    "        ret;\n"
    "}\n";

/* Scores of one row; the reference's threads take turns. */
static void run_row(void *context, int32_t batch, int32_t head, int32_t q, int32_t kv, int32_t count, double *s)
{
    enum { THREADS = 128 };
    attention_hook_runner *r = (attention_hook_runner *)context;
    pthread_mutex_lock(&r->lock);
    const uint32_t grid[3] = {((uint32_t)count + THREADS - 1) / THREADS, 1, 1}, block[3] = {THREADS, 1, 1};
    void *const    arguments[] = {&r->scores, &batch, &head, &q, &kv, &count, r->aux};
    for (int32_t j = 0; j < count; j++)
        r->row[j] = (float)s[j];
    r->failed = r->failed || !device_attach(r->gpu) ||
                !device_upload(r->gpu, r->scores, r->row, (size_t)count * sizeof(float)) ||
                !device_status(r->gpu, ptxpack_function_launch(r->function, grid, block, 0, arguments,
                                                               r->gpu->stream)) ||
                !device_download(r->gpu, r->row, r->scores, (size_t)count * sizeof(float));
    for (int32_t j = 0; j < count; j++)
        s[j] = r->failed ? (double)NAN : (double)r->row[j];
    pthread_mutex_unlock(&r->lock);
}

static bool load_program(attention_hook_runner *r, const attention_hook_files *files)
{
    int                    parts[HOOK_COUNT];
    char                   line[PLAN_LINE];
    char                  *text = NULL;
    attention_translated   translated;
    ptxpack_attention_desc d = {.score_mod = files->text[HOOK_SCORE], .mask_mod = files->text[HOOK_MASK]};
    bool good = device_status(r->gpu, attention_translate_hooks(r->gpu->handle, &d, &translated));
    for (int i = 0; i < HOOK_COUNT && good; i++)
        if (attention_check_hook(attention_hook(&d, i), i, &parts[i], line) != PTXPACK_OK)
            good = (snprintf(r->gpu->line, sizeof r->gpu->line, "%s", line), false);
    const int written = good ? asprintf(&text, "%s%s\n%s%s", before, d.score_mod != NULL ? d.score_mod : "",
                                        d.mask_mod != NULL ? d.mask_mod : "", after)
                             : 0;
    attention_translated_free(&translated);
    if (!good)
        return false;
    if (written < 0)
        return snprintf(r->gpu->line, sizeof r->gpu->line, "no memory for a kernel"), false;
    const ptxpack_symbol symbols[] = {{"HOOK_SCORE", parts[HOOK_SCORE]}, {"HOOK_MASK", parts[HOOK_MASK]},
                                      {"HAS_REGISTERS", HOOK_REGISTERS}, {"HAS_ROW", HOOK_ROW},
                                      {"HAS_BLOCK", HOOK_BLOCK},         {"HAS_UNIT", HOOK_UNIT},
                                      {"HAS_SHIFT", HOOK_SHIFT}};
    const ptxpack_source source = {.size = sizeof source,
                                   .path = "hooks.ptx",
                                   .text = text,
                                   .symbols = symbols,
                                   .symbol_count = sizeof symbols / sizeof symbols[0]};
    bool ok = device_status(r->gpu, ptxpack_program_load(r->gpu->handle, &source, &r->program)) &&
              device_status(r->gpu, ptxpack_program_function(r->program, "hook_row", &r->function));
    free(text);
    return ok;
}

bool attention_hooks_open(attention_hook_runner *r, device *gpu, const attention_hook_files *files,
                          int32_t keys)
{
    *r = (attention_hook_runner){.gpu = gpu, .most = keys};
    r->functions = (ptxpack_attention_hooks){.row = run_row, .context = r};
    pthread_mutex_init(&r->lock, NULL);
    r->row = (float *)calloc((size_t)keys, sizeof *r->row);
    if (r->row == NULL)
        return snprintf(gpu->line, sizeof gpu->line, "no memory for %d scores", (int)keys), false;
    return load_program(r, files) && attention_hooks_upload(gpu, files, r->aux) &&
           device_alloc(gpu, &r->scores, (size_t)keys * sizeof(float));
}

void attention_hooks_close(attention_hook_runner *r)
{
    for (int i = 0; i < HOOK_ARRAYS; i++)
        device_free(r->gpu, r->aux[i]);
    device_free(r->gpu, r->scores);
    ptxpack_program_free(r->program);
    pthread_mutex_destroy(&r->lock);
    free(r->row);
}
