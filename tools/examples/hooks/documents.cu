// Documents one after another: a row sees its own.  aux 0: s32 [positions], where the document of each position begins;
// aux 1: s32 [positions], where the next one does
__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux)
{
    const int *first = (const int *)aux[0], *end = (const int *)aux[1];
    return kv >= first[q] && kv < end[q];
}
