// Sigmoid attention, with PTXPACK_UNNORMALIZED: weights sigmoid(s + b), whose logarithms the scores become.  aux 0: f32, b
__device__ float score_mod(float score, int b, int h, int q, int kv, const void *const *aux)
{
    return -logf(1 + expf(-score - *(const float *)aux[0]));
}
