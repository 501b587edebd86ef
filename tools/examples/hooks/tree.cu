// A tree of 8 drafted tokens at the end: a row sees the keys before the tree, and its ancestors.
// aux 0: s32 [batch], the first position of the tree;  aux 1: u8 [batch][8], a bit for each token that a token sees
__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux)
{
    const int            first = ((const int *)aux[0])[b];
    const unsigned char *bits = (const unsigned char *)aux[1];
    return kv < first || (bits[b * 8 + q - first] >> (kv - first) & 1);
}
