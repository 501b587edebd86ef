/* main.c - attention of prompts at head dimension 128; with more shared memory than a block has unasked.
 *
 *   prefill_d128 prefill.ptx [BATCH [HEADS [SEQLEN_Q [SEQLEN_KV]]]] */
#include "../example.h"

#include <math.h>
#include <stdlib.h>

enum { DIM = 128, BLOCK = 64, THREADS = 256, RUNS = 10, MOST = 65535 };
/* Q, K, V and P, and four f32 a row. */
enum { SHARED_BYTES = 2 * (3 * BLOCK * DIM + BLOCK * BLOCK) + 4 * 4 * (BLOCK + 8) };

int main(int argc, char **argv)
{
    const char    *usage = "KERNEL.ptx|KERNEL.cu [BATCH [HEADS [SEQLEN_Q [SEQLEN_KV]]]]";
    example        e = {0};
    ptxpack_source source = {.size = sizeof source, .language = example_language(argc, argv, usage),
                             .path = argv[1]};
    uint32_t heads = example_number(argc, argv, 2, 1, 256) * example_number(argc, argv, 3, 2, 256);
    uint32_t seqlen_q = example_number(argc, argv, 4, 150, MOST);
    uint32_t seqlen_kv = example_number(argc, argv, 5, seqlen_q, MOST);

    ptxpack_program        *program;
    const ptxpack_function *kernel;
    example_try(&e, ptxpack_open(NULL, &e.pack));
    example_try(&e, ptxpack_program_load(e.pack, &source, &program));
    example_try(&e, ptxpack_program_function(program, "prefill", &kernel));

    size_t    q_count = (size_t)heads * seqlen_q * DIM, kv_count = (size_t)heads * seqlen_kv * DIM;
    uint16_t *q = example_random(q_count, 1, 8), *k = example_random(kv_count, 2, 1);
    uint16_t *v = example_random(kv_count, 3, 1);
    uint64_t  at_q = example_upload(&e, q, 2 * q_count), at_k = example_upload(&e, k, 2 * kv_count);
    uint64_t  at_v = example_upload(&e, v, 2 * kv_count), at_o = example_upload(&e, NULL, 2 * q_count);

    float    scale_log2e = (float)(1 / sqrt(DIM) * 1.4426950408889634); /* exp(x) = 2^(x log2(e)) */
    void    *arguments[] = {&at_o, &at_q, &at_k, &at_v, &seqlen_q, &seqlen_kv, &scale_log2e};
    uint32_t grid[3] = {heads, (seqlen_q - 1) / BLOCK + 1, 1}, block[3] = {THREADS, 1, 1};
    for (int run = -1; run < RUNS; run++) { /* the first one is not timed */
        if (run == 0)
            example_start(&e);
        example_try(&e, ptxpack_function_launch(kernel, grid, block, SHARED_BYTES, arguments, NULL));
    }
    double ms = example_stop(&e) / RUNS;

    uint16_t *o = (uint16_t *)example_download(&e, at_o, 2 * q_count);
    double    pairs = example_compare_attention(&e, o, q, k, v, heads, seqlen_q, seqlen_kv, DIM, 0);
    int       status = example_report(&e, ms, 4e-12 * pairs * DIM, "TFLOP/s", "%s: %u heads, %u x %u",
                                      argv[1], heads, seqlen_q, seqlen_kv);
    free(q), free(k), free(v), free(o);
    ptxpack_program_free(program);
    example_close(&e);
    return status;
}
