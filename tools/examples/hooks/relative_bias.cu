// Relative bias: a number for each head and distance.  aux 0: f32 [heads][257], of q - kv from -128 to 128, clamped
__device__ float score_mod(float score, int b, int h, int q, int kv, const void *const *aux)
{
    const float *table = (const float *)aux[0];
    return score + table[h * 257 + min(max(q - kv, -128), 128) + 128];
}
