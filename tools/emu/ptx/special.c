/* special.c - the names of the special registers. */
#include "parse.h"

static const char *const vectors[] = {"tid",       "ntid",       "ctaid",         "nctaid",
                                      "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"};
/* clang-format off */
static const char *const scalars[] = {
    "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "is_explicit_cluster", "cluster_ctarank",
    "cluster_nctarank", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "clock",
    "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi", "reserved_smem_offset_begin",
    "reserved_smem_offset_end", "reserved_smem_offset_cap", "reserved_smem_offset_0",
    "reserved_smem_offset_1", "total_smem_size", "aggr_smem_size", "dynamic_smem_size",
    "current_graph_exec",
};
/* clang-format on */

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* prefix, a number below `count` without leading zeros, suffix */
static bool is_numbered(const char *name, const char *prefix, unsigned int count, const char *suffix)
{
    size_t       bytes = strlen(prefix);
    unsigned int number = 0;
    if (strncmp(name, prefix, bytes) != 0 || name[bytes] < '0' || name[bytes] > '9')
        return false;
    const char *at = name + bytes;
    for (; *at >= '0' && *at <= '9' && number < count; at++)
        number = number * 10 + (unsigned int)(*at - '0');
    return number < count && (name[bytes] != '0' || at == name + bytes + 1) && strcmp(at, suffix) == 0;
}

bool ptx_is_special(const char *name, bool *vector)
{
    *vector = is_one_of(name, vectors, sizeof vectors / sizeof *vectors);
    return *vector || is_one_of(name, scalars, sizeof scalars / sizeof *scalars) ||
           is_numbered(name, "envreg", 32, "") || is_numbered(name, "pm", 8, "") ||
           is_numbered(name, "pm", 8, "_64");
}
