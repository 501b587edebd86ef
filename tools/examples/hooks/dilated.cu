// A dilated window: every fourth key of the last 64, the row's own among them
__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux)
{
    return kv <= q && q - kv < 64 && (q - kv) % 4 == 0;
}
