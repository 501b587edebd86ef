// A soft cap of 30: s becomes 30 tanh(s / 30)
__device__ float score_mod(float score, int b, int h, int q, int kv, const void *const *aux)
{
    return 30 * tanhf(score / 30);
}
