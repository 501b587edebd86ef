/* registry.c - ptx/kernels.def as a C table, and the choice among its rows. */
#include "registry.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "driver.h"
#include "isa.h"

#define NO_SPILLS          PTXPACK_VARIANT_NO_SPILLS
#define WHOLE_PROGRAM      PTXPACK_VARIANT_WHOLE_PROGRAM
#define ARCH_SPECIFIC      PTXPACK_VARIANT_ARCH_SPECIFIC
#define NO_BF16            PTXPACK_VARIANT_NO_BF16
#define OVERLAPS           PTXPACK_VARIANT_OVERLAPS
#define RELOCATABLE_SPILLS PTXPACK_VARIANT_RELOCATABLE_SPILLS

/* ---- the rows ----------------------------------------------------------------------------------------- */
/* The library's file holds the numbers of a row, and one text for all names in it, which rows of one shape share: half as much as
 * ptxpack_variant, whose pointers would have to be relocated besides.  The first call makes the table of these. */
typedef struct row_numbers {
    char     id[56];
    int32_t  arch, isa, threads, shared_bytes, blocks_per_sm;
    uint32_t flags;
    int32_t  parameters[PTXPACK_MAX_PARAMETERS], parameter_count;
} row_numbers;

/* The number of parameters of a row is that of its P()s, counted by the compiler. */
#define P(symbol, number) number
#define PARAMETERS(...)   {__VA_ARGS__}, (int32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#define KERNEL(id, op, file, entry, arch, isa, threads, shared_bytes, blocks_per_sm, flags, ...) \
    {#id, arch, isa, threads, shared_bytes, blocks_per_sm, flags, __VA_ARGS__},
static const row_numbers numbers[] = {
#include "ptx/kernels.def"
};
#undef KERNEL
#undef PARAMETERS
#undef P

/* The op, the file, the entry and the names of the parameters, with a 0 behind each. */
#define P(symbol, number) #symbol "\0"
#define JOIN(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, ...) \
    a b c d e f g h i j k l m n o p q r s t
#define PARAMETERS(...) JOIN(__VA_ARGS__, , , , , , , , , , , , , , , , , , , , )
#define KERNEL(id, op, file, entry, arch, isa, threads, shared_bytes, blocks_per_sm, flags, ...) \
#op "\0" file "\0" entry "\0" __VA_ARGS__,
static const char *const names[] = {
#include "ptx/kernels.def"
};
#undef KERNEL
#undef PARAMETERS
#undef JOIN
#undef P

enum { ROWS = sizeof numbers / sizeof numbers[0] };
static ptxpack_variant variants[ROWS];

static const char *next_name(const char **at)
{
    const char *name = *at;
    *at += strlen(name) + 1;
    return name;
}

static void unpack(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        const row_numbers *n = &numbers[i];
        const char        *at = names[i], *op = next_name(&at), *file = next_name(&at);
        variants[i] = (ptxpack_variant){.id = n->id,
                                        .op = op,
                                        .file = file,
                                        .entry = next_name(&at),
                                        .arch = n->arch,
                                        .isa = n->isa,
                                        .threads = n->threads,
                                        .shared_bytes = n->shared_bytes,
                                        .blocks_per_sm = n->blocks_per_sm,
                                        .flags = n->flags,
                                        .parameter_count = n->parameter_count};
        for (int32_t k = 0; k < n->parameter_count; k++)
            variants[i].parameters[k] = (ptxpack_symbol){next_name(&at), n->parameters[k]};
    }
}

const ptxpack_variant *ptxpack_variants(size_t *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, unpack);
    if (count != NULL)
        *count = ROWS;
    return variants;
}

const ptxpack_variant *ptxpack_variant_find(const char *id)
{
    const ptxpack_variant *row = ptxpack_variants(NULL);
    if (id == NULL)
        return NULL;
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(row[i].id, id) == 0)
            return &row[i];
    return NULL;
}

int64_t ptxpack_variant_parameter(const ptxpack_variant *v, const char *name, int64_t otherwise)
{
    if (v == NULL || name == NULL)
        return otherwise;
    for (int i = 0; i < v->parameter_count; i++)
        if (strcmp(v->parameters[i].name, name) == 0)
            return v->parameters[i].value;
    return otherwise;
}

/* ---- the choice --------------------------------------------------------------------------------------- */
enum { RESERVED_SHARED = 1024 }; /* bytes of each block's shared memory that sm_80 and later keep */

const char *ptxpack_isa_text(int isa, char *buf, size_t cap)
{
    int branch = 0, cuda = ptxpack_cuda_of_isa(isa, &branch);
    if (cuda)
        snprintf(buf, cap, "PTX ISA %d.%d (CUDA %d.%d, driver branch %d)", isa / 10, isa % 10, cuda / 1000,
                 cuda % 1000 / 10, branch);
    else
        snprintf(buf, cap, "PTX ISA %d.%d", isa / 10, isa % 10);
    return buf;
}

static const char *refuse_isa(const ptxpack_variant *v, const ptxpack_device_caps *caps, char *buf, size_t cap)
{
    char needs[64];
    int  written = snprintf(buf, cap, "needs %s", ptxpack_isa_text(v->isa, needs, sizeof needs));
    if (written >= 0 && (size_t)written < cap && caps->isa)
        snprintf(buf + written, cap - (size_t)written, ", the compiler takes %d.%d", caps->isa / 10,
                 caps->isa % 10);
    else if (written >= 0 && (size_t)written < cap)
        snprintf(buf + written, cap - (size_t)written, ", and no compiler is known to take it");
    return buf;
}

const char *ptxpack_variant_refusal(const ptxpack_variant *v, const ptxpack_device_caps *caps, char *buf,
                                    size_t cap)
{
    char none[16];
    if (buf == NULL || cap == 0)
        return ptxpack_variant_refusal(v, caps, none, sizeof none) == NULL ? NULL : "no room for the reason";
    if (v == NULL || caps == NULL) {
        snprintf(buf, cap, "%s is NULL", v == NULL ? "v" : "caps");
        return buf;
    }
    bool exact = (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC) != 0;
    if (exact ? caps->arch != v->arch : caps->arch < v->arch) {
        snprintf(buf, cap, "needs %ssm_%d%s, the device is sm_%d", exact ? "exactly " : "", v->arch,
                 exact ? "a" : "", caps->arch);
        return buf;
    }
    if (exact && caps->portable) {
        snprintf(buf, cap, "needs exactly sm_%da, the target is sm_%d", v->arch, caps->arch);
        return buf;
    }
    if (caps->isa < v->isa)
        return refuse_isa(v, caps, buf, cap);
    if (v->shared_bytes > caps->shared_per_block) {
        snprintf(buf, cap, "needs %d bytes of shared memory per block, the device allows %d", v->shared_bytes,
                 caps->shared_per_block);
        return buf;
    }
    int64_t reserved = v->shared_bytes && caps->arch >= 80 ? RESERVED_SHARED : 0;
    int64_t wanted = v->blocks_per_sm * (v->shared_bytes + reserved);
    if (wanted > caps->shared_per_sm) {
        snprintf(buf, cap,
                 "needs %d blocks per multiprocessor (%lld bytes of shared memory), the device has %d",
                 v->blocks_per_sm, (long long)wanted, caps->shared_per_sm);
        return buf;
    }
    return NULL;
}

/* How far a row is from running on the device: fewer obstacles of the harder kind are nearer. */
static int distance(const ptxpack_variant *v, const ptxpack_device_caps *caps)
{
    int far = 0;
    if (v->flags & PTXPACK_VARIANT_ARCH_SPECIFIC ? caps->arch != v->arch : caps->arch < v->arch)
        far += 1000 + (v->arch > caps->arch ? v->arch - caps->arch : caps->arch - v->arch);
    if (caps->isa < v->isa)
        far += 500;
    return far;
}

const ptxpack_variant *ptxpack_variant_choose(const char *op, const ptxpack_device_caps *caps,
                                              ptxpack_variant_filter filter, const void *context, char *buf,
                                              size_t cap)
{
    char none[16];
    if (buf == NULL) {
        buf = none;
        cap = sizeof none;
    }
    if (op == NULL || caps == NULL) {
        snprintf(buf, cap, "%s is NULL", op == NULL ? "op" : "caps");
        return NULL;
    }
    const ptxpack_variant *row = ptxpack_variants(NULL), *nearest = NULL;
    bool                   any = false;
    for (size_t i = 0; i < ROWS; i++) {
        const ptxpack_variant *v = &row[i];
        if (strcmp(v->op, op) != 0)
            continue;
        any = true;
        if (filter != NULL && !filter(v, context))
            continue;
        if (ptxpack_variant_refusal(v, caps, buf, cap) == NULL)
            return v;
        if (nearest == NULL || distance(v, caps) < distance(nearest, caps))
            nearest = v;
    }
    if (nearest == NULL) {
        snprintf(buf, cap, any ? "no kernel of %s covers this" : "there is no kernel for %s", op);
        return NULL;
    }
    char why[256];
    ptxpack_variant_refusal(nearest, caps, why, sizeof why);
    snprintf(buf, cap, "%s %s", nearest->id, why);
    return NULL;
}
