// Documents one after another: a row sees its own.  aux 0: s32 [positions], the document of each position
__device__ bool mask_mod(int b, int h, int q, int kv, const void *const *aux)
{
    const int *document = (const int *)aux[0];
    return document[q] == document[kv];
}
