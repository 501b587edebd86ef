/* figures.c - what the library tells of a program and its entries. */
#include "figures.h"

#include <stdio.h>
#include <string.h>

void program_figures_program(program_result *result, const ptxpack_program_info *info, double ready_ms)
{
    snprintf(result->program.target, sizeof result->program.target, "%s", info->target);
    snprintf(result->program.compiler, sizeof result->program.compiler, "%s", info->compiler);
    result->program.from_cache = info->from_cache;
    result->program.front_ms = info->front_ms;
    result->program.compile_ms = info->compile_ms;
    result->program.cache_ms = info->cache_ms;
    result->program.load_ms = info->load_ms;
    result->program.cubin_bytes = info->cubin_bytes;
    result->program.ready_ms = ready_ms;
}

void program_figures_warnings(program_result *result, const char *log)
{
    char  *out = result->program.warnings;
    size_t used = 0, cap = sizeof result->program.warnings;
    for (const char *at = log != NULL ? log : ""; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        if (memmem(at, bytes, "warning", 7) != NULL && used + bytes + 2 < cap) {
            memcpy(out + used, at, bytes);
            used += bytes;
            out[used++] = '\n';
        }
        at += bytes + (at[bytes] == '\n');
    }
    out[used] = '\0';
}

/* What is not among the program's warnings already. */
static void keep_remarks(const program_result *result, const char *remarks, program_figures *f)
{
    size_t used = 0;
    for (const char *at = remarks; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        if (memmem(result->program.warnings, strlen(result->program.warnings), at, bytes) == NULL)
            used += (size_t)snprintf(f->remarks + used, sizeof f->remarks - used, "%.*s\n", (int)bytes, at);
        if (used >= sizeof f->remarks)
            return;
        at += bytes + (at[bytes] == '\n');
    }
}

void program_figures_add(program_result *result, const ptxpack_function_info *info)
{
    program_figures         *f = &result->entries[result->entry_count++];
    const ptxpack_resources *r = &info->resources;
    snprintf(f->name, sizeof f->name, "%s", info->name);
    keep_remarks(result, r->remarks, f);
    f->registers = info->registers;
    f->shared_bytes = info->shared_bytes;
    f->local_bytes = info->local_bytes;
    f->constant_bytes = info->constant_bytes;
    f->spill_bytes = r->spill_store_bytes < 0 ? -1 : r->spill_store_bytes + r->spill_load_bytes;
    f->instructions = -1;
}
