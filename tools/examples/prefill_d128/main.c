/* main.c - attention of prompts at head dimension 128; with more shared memory than a block has unasked.
 *
 *   prefill_d128 prefill.ptx [BATCH [HEADS [SEQLEN_Q [SEQLEN_KV [BLOCK_M [BLOCK_N [WARPS_M [WARPS_N]]]]]]]] */
#include "../example.h"

#include <math.h>
#include <stdlib.h>

enum { DIM = 128, RUNS = 10, MOST = 65535 };

int main(int argc, char **argv)
{
    const char *usage = "KERNEL.ptx|KERNEL.cu [BATCH [HEADS [SEQLEN_Q [SEQLEN_KV [BLOCK_M [BLOCK_N [WARPS_M [WARPS_N]]]]]]]]";
    example     e = {0};
    uint32_t    heads = example_number(argc, argv, 2, 1, 256) * example_number(argc, argv, 3, 2, 256);
    uint32_t    seqlen_q = example_number(argc, argv, 4, 150, MOST);
    uint32_t    seqlen_kv = example_number(argc, argv, 5, seqlen_q, MOST);
    uint32_t    block_m = example_number(argc, argv, 6, 64, 512), block_n = example_number(argc, argv, 7, 64, 512);
    uint32_t    warps_m = example_number(argc, argv, 8, 2, 32), warps_n = example_number(argc, argv, 9, 4, 4);
    ptxpack_symbol symbols[] = {
        {"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"WARPS_M", warps_m}, {"WARPS_N", warps_n}};
    ptxpack_source source = {.size = sizeof source, .language = example_language(argc, argv, usage),
                             .path = argv[1], .symbols = symbols, .symbol_count = 4};

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
    uint32_t grid[3] = {heads, (seqlen_q - 1) / block_m + 1, 1}, block[3] = {32 * warps_m * warps_n, 1, 1};
    uint32_t q_k_v = 2 * DIM * (block_m + 2 * block_n), p = block_m * (2 * block_n + 16);
    uint32_t stats = 4 * warps_n * (block_m + 8); /* bytes of shared memory, all three */
    for (int run = -1; run < RUNS; run++) {       /* the first one is not timed */
        if (run == 0)
            example_start(&e);
        example_try(&e, ptxpack_function_launch(kernel, grid, block, q_k_v + p + stats, arguments, NULL));
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
