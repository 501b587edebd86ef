/* target.c - names of architectures, the shared memory that each has, and its usual multiprocessors. */
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* From NVIDIA's table of compute capabilities: the opt-in limit of a block and the total of a
 * multiprocessor, in KiB. */
static const struct {
    int arch, per_block, per_sm;
} shared_memory[] = {
    {75, 64, 64},    {80, 163, 164},  {86, 99, 100},   {87, 163, 164}, {89, 99, 100},  {90, 227, 228},
    {100, 227, 228}, {103, 227, 228}, {110, 227, 228}, {120, 99, 100}, {121, 99, 100},
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

int ptxpack_arch_at(size_t index)
{
    return index < sizeof shared_memory / sizeof shared_memory[0] ? shared_memory[index].arch : 0;
}

/* The best-known GPU of each: T4, A100, RTX 3090, Orin, RTX 4090, H100, B200, B300, Thor, RTX 5090, GB10. */
int ptxpack_arch_usual_sms(int arch)
{
    static const struct {
        int arch, sms;
    } usual[] = {
        {75, 40},   {80, 108},  {86, 82},  {87, 16},   {89, 128}, {90, 132},
        {100, 148}, {103, 148}, {110, 20}, {120, 170}, {121, 48},
    };
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (usual[i].arch == arch)
            return usual[i].sms;
    return 0;
}

bool ptxpack_arch_shared(int arch, ptxpack_device_caps *caps)
{
    for (size_t i = 0; i < sizeof shared_memory / sizeof shared_memory[0]; i++)
        if (shared_memory[i].arch == arch) {
            caps->shared_per_block = shared_memory[i].per_block << 10;
            caps->shared_per_sm = shared_memory[i].per_sm << 10;
            return true;
        }
    return false;
}
