// Additive bias.  aux 0: f32 [heads][rows][keys];  aux 1: s32 [3], rows, keys and the position of the first row
__device__ float score_mod(float score, int b, int h, int q, int kv, const void *const *aux)
{
    const float *bias = (const float *)aux[0];
    const int   *shape = (const int *)aux[1];
    return score + bias[(h * shape[0] + q - shape[2]) * shape[1] + kv];
}
