// ALiBi with a causal mask: scores lose slope (q - kv).  aux 0: f32 [heads], the slopes
__device__ float score_mod(float score, int b, int h, int q, int kv, const void *const *aux)
{
    const float *slopes = (const float *)aux[0];
    return score - slopes[h] * (q - kv);
}
