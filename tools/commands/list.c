/* list.c - "ptxpack list": the rows of kernels.def; with --resources, what each of their builds uses. */
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/progress.h"
#include "host/ptxpack.h"
#include "loader/inspect.h"

typedef struct settings {
    const char *arch, *op, *ptxjit;
    bool        resources, json;
} settings;

static const struct {
    unsigned    bit;
    const char *name;
} flags[] = {
    {PTXPACK_VARIANT_NO_SPILLS, "no spills"},
    {PTXPACK_VARIANT_WHOLE_PROGRAM, "whole program"},
    {PTXPACK_VARIANT_ARCH_SPECIFIC, "arch specific"},
    {PTXPACK_VARIANT_NO_BF16, "no bf16"},
    {PTXPACK_VARIANT_OVERLAPS, "overlaps"},
    {PTXPACK_VARIANT_RELOCATABLE_SPILLS, "relocatable code spills"},
};
enum { FLAGS = sizeof flags / sizeof flags[0] };

static bool wanted(const settings *s, const ptxpack_variant *v)
{
    return s->op == NULL || strcmp(s->op, v->op) == 0;
}

/* Whether the operation is in the table; if not, a line is on stderr. */
static bool op_is_known(const settings *s)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    bool                   known = s->op == NULL;
    for (size_t i = 0; i < count && !known; i++)
        known = wanted(s, &rows[i]);
    if (!known)
        command_fail("list", "--op: there is no kernel for \"%s\"", s->op);
    return known;
}

/* ---- rows ----------------------------------------------------------------------------------------- */
static void json_row(const ptxpack_variant *v)
{
    json_text("variant", v->id);
    json_text("op", v->op);
    json_text("file", v->file);
    json_int("arch", v->arch);
    json_int("isa", v->isa);
    json_int("threads", v->threads);
    json_int("shared_bytes", v->shared_bytes);
    json_int("blocks_per_sm", v->blocks_per_sm);
    json_open("flags", '[');
    for (int i = 0; i < FLAGS; i++)
        if (v->flags & flags[i].bit)
            json_text(NULL, flags[i].name);
    json_close();
    json_open("parameters", '{');
    for (int i = 0; i < v->parameter_count; i++)
        json_int(v->parameters[i].name, v->parameters[i].value);
    json_close();
}

static void print_row(const ptxpack_variant *v)
{
    printf("%-37s sm_%-3d %d.%d %8d %8d %7d  %s", v->id, v->arch, v->isa / 10, v->isa % 10, v->threads,
           v->shared_bytes, v->blocks_per_sm, v->file);
    for (int i = 0; i < FLAGS; i++)
        if (v->flags & flags[i].bit)
            printf(", %s", flags[i].name);
    putchar('\n');
}

static int list_rows(const settings *s)
{
    size_t                 count;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    if (!s->json)
        printf("%-37s %-6s %-3s %8s %8s %7s  %s\n", "variant", "from", "ISA", "threads", "shared", "blocks",
               "file");
    for (size_t i = 0; i < count; i++) {
        if (!wanted(s, &rows[i]))
            continue;
        if (s->json) {
            json_open(NULL, '{');
            json_row(&rows[i]);
            json_close();
        } else {
            print_row(&rows[i]);
        }
    }
    return COMMAND_OK;
}

/* ---- resources ------------------------------------------------------------------------------------ */
static void json_build(const char *name, const ptxpack_kernel_info *info)
{
    const ptxpack_resources *r = &info->resources;
    json_open(NULL, '{');
    json_text("build", name);
    json_int("registers", r->registers);
    json_int("static_shared_bytes", r->shared_bytes);
    json_int("stack_bytes", r->stack_bytes);
    json_int("spill_store_bytes", r->spill_store_bytes);
    json_int("spill_load_bytes", r->spill_load_bytes);
    json_int("cubin_bytes", (int64_t)info->cubin_bytes);
    json_bool("from_cache", info->from_cache);
    json_real("compile_ms", info->compile_ms);
    json_text("remarks", r->remarks);
    json_close();
}

static void print_build(const ptxpack_variant *v, const char *name, const ptxpack_kernel_info *info)
{
    const ptxpack_resources *r = &info->resources;
    printf("%-37s %-18s %9d %7d %6d %7d %7d %8zu  ", v->id, name, r->registers, r->shared_bytes, r->stack_bytes,
           r->spill_store_bytes, r->spill_load_bytes, info->cubin_bytes);
    if (info->from_cache)
        printf("cache\n");
    else
        printf("%.0f ms\n", info->compile_ms);
    if (r->remarks[0])
        printf("  %s\n", r->remarks);
}

static int failed_build(const settings *s, const ptxpack *handle, const ptxpack_variant *v, const char *name)
{
    if (s->json) {
        json_open(NULL, '{');
        json_text("build", name);
        json_text("error", ptxpack_detail(handle));
        json_close();
    }
    return command_fail("list", "%s, %s: %s", v->id, name, ptxpack_detail(handle));
}

static int compile_builds(const settings *s, ptxpack *handle, const ptxpack_variant *v)
{
    int result = COMMAND_OK;
    for (size_t i = 0; i < ptxpack_instance_count(v); i++) {
        ptxpack_instance    instance = ptxpack_instance_get(v, i);
        ptxpack_kernel_info info;
        progress_step(0, 0, "compiling %s %s", v->id, instance.name);
        ptxpack_status status = ptxpack_kernel_compile(handle, v, instance.symbols, instance.symbol_count,
                                                       &info, NULL, NULL);
        progress_clear();
        if (status != PTXPACK_OK)
            result = failed_build(s, handle, v, instance.name);
        else if (s->json)
            json_build(instance.name, &info);
        else
            print_build(v, instance.name, &info);
    }
    return result;
}

/* A row that this device or target cannot run is listed with the reason; that is not a failure. */
static int resources_of(const settings *s, ptxpack *handle, const ptxpack_variant *v)
{
    char        why[256];
    int         result = COMMAND_OK;
    const char *refusal = ptxpack_variant_refusal(v, &ptxpack_device(handle)->caps, why, sizeof why);
    if (s->json) {
        json_open(NULL, '{');
        json_row(v);
        if (refusal != NULL)
            json_text("refused", refusal);
        json_open("builds", '[');
    } else if (refusal != NULL) {
        printf("%-37s %s\n", v->id, refusal);
    }
    if (refusal == NULL)
        result = compile_builds(s, handle, v);
    if (s->json) {
        json_close();
        json_close();
    }
    return result;
}

/* One line on stderr before anything is compiled, where the compiler is older than the target. */
static bool targets_are_known(const settings *s, ptxpack *handle)
{
    char                         why[256];
    size_t                       count;
    const ptxpack_variant       *rows = ptxpack_variants(&count);
    struct ptxpack_known_targets known = {{false, false}};
    for (size_t i = 0; i < count; i++)
        if (wanted(s, &rows[i]) &&
            ptxpack_variant_refusal(&rows[i], &ptxpack_device(handle)->caps, why, sizeof why) == NULL &&
            ptxpack_know_target(handle, &rows[i], &known) != PTXPACK_OK)
            return command_fail("list", "%s", ptxpack_detail(handle)), false;
    return true;
}

static int list_resources(const settings *s)
{
    ptxpack               *handle;
    size_t                 count;
    int                    result = COMMAND_OK;
    const ptxpack_variant *rows = ptxpack_variants(&count);
    ptxpack_options        options = {.size = sizeof options, .offline = s->arch != NULL};
    options.arch = s->arch;
    options.ptxjit = s->ptxjit;
    ptxpack_status status = ptxpack_open(&options, &handle);
    if (status != PTXPACK_OK) {
        command_fail("list", "%s%s", ptxpack_detail(NULL),
                     s->arch != NULL ? "" : " (with --arch sm_NN no device is needed)");
        return s->arch != NULL && status == PTXPACK_E_ARG ? COMMAND_USAGE : COMMAND_FAILED;
    }
    if (ptxpack_device(handle)->caps.isa == 0) {
        command_fail("list", "nothing to compile with: %s", ptxpack_device(handle)->route);
        ptxpack_close(handle);
        return COMMAND_FAILED;
    }
    if (!targets_are_known(s, handle)) {
        ptxpack_close(handle);
        return COMMAND_FAILED;
    }
    if (!s->json) {
        printf("target %s, %s\n", ptxpack_device(handle)->target, ptxpack_device(handle)->route);
        printf("%-37s %-18s %9s %7s %6s %7s %7s %8s  %s\n", "variant", "build", "registers", "static", "stack",
               "stores", "loads", "bytes", "from");
    }
    progress_begin("list", "compiling");
    for (size_t i = 0; i < count; i++)
        if (wanted(s, &rows[i]) && resources_of(s, handle, &rows[i]) != COMMAND_OK)
            result = COMMAND_FAILED;
    progress_end();
    ptxpack_close(handle);
    return result;
}

int cmd_list(int argc, char **argv)
{
    settings     s = {.json = false};
    const option rows[] = {
        {"op", OPTION_TEXT, &s.op, "NAME  only the kernels of this operation"},
        {"resources", OPTION_FLAG, &s.resources,
         "compile every build; show registers, shared memory, spills, remarks"},
        {"arch", OPTION_TEXT, &s.arch, "sm_NN  compile for this target; needs no GPU, only a compiler"},
        {"ptxjit", OPTION_TEXT, &s.ptxjit, "FILE  in place of libnvidia-ptxjitcompiler.so.1"},
        {"json", OPTION_FLAG, &s.json, "print JSON"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int status = command_options(argc, argv, "ptxpack list [options]", rows, NULL);
    if (status >= 0)
        return status;
    if (!s.resources && (s.arch != NULL || s.ptxjit != NULL))
        return command_fail("list", "--arch and --ptxjit go with --resources"), COMMAND_USAGE;
    if (!op_is_known(&s))
        return COMMAND_USAGE;
    if (s.json)
        json_open(NULL, '[');
    status = s.resources ? list_resources(&s) : list_rows(&s);
    if (s.json)
        json_close();
    return status;
}
