/* target.c - names of architectures, the shared memory that each has, and its usual multiprocessors. */
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* From NVIDIA's table of compute capabilities: the shared memory that a block may opt in to and that of a
 * multiprocessor, in KiB.  The multiprocessors are those of the best-known GPU: T4, A100, RTX 3090, Orin, RTX
 * 4090, H100, B200, B300, Thor, RTX 5090, GB10. */
static const struct arch {
    int arch, per_block, per_sm, sms;
} archs[] = {
    {75, 64, 64, 40},    {80, 163, 164, 108}, {86, 99, 100, 82},    {87, 163, 164, 16},
    {89, 99, 100, 128},  {90, 227, 228, 132}, {100, 227, 228, 148}, {103, 227, 228, 148},
    {110, 227, 228, 20}, {120, 99, 100, 170}, {121, 99, 100, 48},
};

int ptxpack_parse_arch(const char *text)
{
    char *end = NULL;
    if (strncmp(text, "sm_", 3) != 0 || text[3] < '1' || text[3] > '9')
        return -1;
    long arch = strtol(text + 3, &end, 10);
    if (*end == 'a' || *end == 'f')
        end++;
    return *end == '\0' && arch >= 10 && arch <= 999 ? (int)arch : -1;
}

int ptxpack_arch_at(size_t index) { return index < sizeof archs / sizeof *archs ? archs[index].arch : 0; }

static const struct arch *find(int arch)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (archs[i].arch == arch)
            return &archs[i];
    return NULL;
}

int ptxpack_arch_usual_sms(int arch)
{
    const struct arch *a = find(arch);
    return a != NULL ? a->sms : 0;
}

bool ptxpack_arch_shared(int arch, ptxpack_device_caps *caps)
{
    const struct arch *a = find(arch);
    if (a == NULL)
        return false;
    caps->shared_per_block = a->per_block << 10;
    caps->shared_per_sm = a->per_sm << 10;
    return true;
}
