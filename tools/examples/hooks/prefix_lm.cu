// Prefix LM: all rows see the prefix, and what is not behind them.  aux 0: s32 [batch], the lengths of the prefixes
__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux)
{
    const int *prefix = (const int *)aux[0];
    return kv < prefix[b] || kv <= q;
}
