/* main.c - attention by a minimal FlashAttention-2; symbols choose what the kernel is made for.
 *
 *   flash_attention_2 flash.ptx [HEADS [SEQLEN_Q [SEQLEN_KV [HEAD_DIM [causal]]]]]
 *
 * HEADS counts those of all batches.  HEAD_DIM and CAUSAL go to the macro expander, or to NVRTC as -D. */
#include "../example.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, THREADS = 128, RUNS = 10, MOST = 65535 };

int main(int argc, char **argv)
{
    const char    *usage = "KERNEL.ptx|KERNEL.cu [HEADS [SEQLEN_Q [SEQLEN_KV [HEAD_DIM [causal]]]]]";
    example        e = {0};
    uint32_t       heads = example_number(argc, argv, 2, 2, MOST);
    uint32_t       seqlen_q = example_number(argc, argv, 3, 150, MOST);
    uint32_t       seqlen_kv = example_number(argc, argv, 4, seqlen_q, MOST);
    uint32_t       dim = example_number(argc, argv, 5, 128, 128);
    int            causal = argc > 6 && strcmp(argv[6], "causal") == 0;
    ptxpack_symbol symbols[] = {{"HEAD_DIM", dim}, {"CAUSAL", causal}};
    ptxpack_source source = {.size = sizeof source, .language = example_language(argc, argv, usage),
                             .path = argv[1], .symbols = symbols, .symbol_count = 2};

    ptxpack_program        *program;
    const ptxpack_function *kernel;
    example_try(&e, ptxpack_open(NULL, &e.pack));
    example_try(&e, ptxpack_program_load(e.pack, &source, &program));
    example_try(&e, ptxpack_program_function(program, "flash", &kernel));

    size_t    q_count = (size_t)heads * seqlen_q * dim, kv_count = (size_t)heads * seqlen_kv * dim;
    uint16_t *q = example_random(q_count, 1, 8), *k = example_random(kv_count, 2, 1);
    uint16_t *v = example_random(kv_count, 3, 1);
    uint64_t  at_q = example_upload(&e, q, 2 * q_count), at_k = example_upload(&e, k, 2 * kv_count);
    uint64_t  at_v = example_upload(&e, v, 2 * kv_count), at_o = example_upload(&e, NULL, 2 * q_count);

    float    scale_log2e = (float)(1 / sqrt(dim) * 1.4426950408889634); /* exp(x) = 2^(x log2(e)) */
    void    *arguments[] = {&at_o, &at_q, &at_k, &at_v, &seqlen_q, &seqlen_kv, &scale_log2e};
    uint32_t grid[3] = {(seqlen_q - 1) / BLOCK + 1, heads, 1}, block[3] = {THREADS, 1, 1};
    for (int run = -1; run < RUNS; run++) { /* the first one is not timed */
        if (run == 0)
            example_start(&e);
        example_try(&e, ptxpack_function_launch(kernel, grid, block, 0, arguments, NULL));
    }
    double ms = example_stop(&e) / RUNS;

    uint16_t *o = (uint16_t *)example_download(&e, at_o, 2 * q_count);
    double    pairs = example_compare_attention(&e, o, q, k, v, heads, seqlen_q, seqlen_kv, dim, causal);
    int status = example_report(&e, ms, 4e-12 * pairs * dim, "TFLOP/s", "%s: %u heads, %u x %u, d = %u%s",
                                argv[1], heads, seqlen_q, seqlen_kv, dim, causal ? ", causal" : "");
    free(q), free(k), free(v), free(o);
    ptxpack_program_free(program);
    example_close(&e);
    return status;
}
