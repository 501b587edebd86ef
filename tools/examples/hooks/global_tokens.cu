// A window of 32 keys to either side, and 4 keys at the beginning that all rows see
__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux)
{
    return kv < 4 || abs(q - kv) <= 32;
}
