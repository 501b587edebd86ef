/* main.c - C = A B^T on tensor cores: one tile, then a matrix by tiles of one warp and of four: entries of one program.
 *
 *   mma_simple mma_simple.ptx [M [N [K / 2]]]        C is M x N, A is M x K, B is N x K */
#include "../example.h"

#include <stdlib.h>

enum { WARP = 32, RUNS = 10, MOST = 16384 };

/* `warps` warps compute a tile of C, tile[0] x tile[1], together. */
static int multiply(example *e, ptxpack_program *program, const char *entry, const uint32_t tile[2],
                    uint32_t warps, uint32_t m, uint32_t n, uint32_t k)
{
    const ptxpack_function *kernel;
    example_try(e, ptxpack_program_function(program, entry, &kernel));

    uint16_t *a = example_random((size_t)m * k, 1, 1), *b = example_random((size_t)n * k, 2, 1);
    uint64_t  at_a = example_upload(e, a, sizeof *a * m * k);
    uint64_t  at_b = example_upload(e, b, sizeof *b * n * k);
    uint64_t  at_c = example_upload(e, NULL, sizeof(float) * m * n);
    void     *arguments[] = {&at_c, &at_a, &at_b, &m, &n, &k}; /* mma_tile has the first three */
    uint32_t  grid[3] = {(n - 1) / tile[1] + 1, (m - 1) / tile[0] + 1, 1}, block[3] = {warps * WARP, 1, 1};
    for (int run = -1; run < RUNS; run++) { /* the first one is not timed */
        if (run == 0)
            example_start(e);
        example_try(e, ptxpack_function_launch(kernel, grid, block, 0, arguments, NULL));
    }
    double ms = example_stop(e) / RUNS;

    float   *c = (float *)example_download(e, at_c, sizeof *c * m * n);
    uint32_t step = (uint32_t)(1 + (uint64_t)m * n * k / 200000000); /* of a large matrix some rows */
    for (uint32_t i = 0; i < m; i += step)
        for (uint32_t j = 0; j < n; j++) {
            double magnitude, want = example_dot(a + (size_t)i * k, b + (size_t)j * k, k, &magnitude);
            example_compare(e, (size_t)i * n + j, (double)c[(size_t)i * n + j], want, 0x1p-22 * k * magnitude);
        }
    free(a), free(b), free(c);
    return example_report(e, ms, 2e-12 * m * n * k, "TFLOP/s", "%s: %u x %u x %u", entry, m, n, k);
}

int main(int argc, char **argv)
{
    example        e = {0};
    ptxpack_source source = {.size = sizeof source,
                             .language = example_language(argc, argv, "KERNEL.ptx|KERNEL.cu [M [N [K / 2]]]"),
                             .path = argv[1]};
    uint32_t m = example_number(argc, argv, 2, 100, MOST), n = example_number(argc, argv, 3, 61, MOST);
    uint32_t k = 2 * example_number(argc, argv, 4, 35, MOST / 2);

    ptxpack_program *program;
    example_try(&e, ptxpack_open(NULL, &e.pack));
    example_try(&e, ptxpack_program_load(e.pack, &source, &program));
    int status = multiply(&e, program, "mma_tile", (uint32_t[]){16, 8}, 1, 16, 8, 16);
    status |= multiply(&e, program, "mma_grid", (uint32_t[]){16, 8}, 1, m, n, k);
    status |= multiply(&e, program, "mma_block", (uint32_t[]){64, 64}, 4, m, n, k);
    ptxpack_program_free(program);
    example_close(&e);
    return status;
}
