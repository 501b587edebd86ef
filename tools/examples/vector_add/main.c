/* main.c - z = a x + b y + c on half precision, by the kernel of this folder that is named.
 *
 *   vector_add packed_fma.ptx [N]        N elements, 1,000,003 by default
 *
 * Every program with its own kernels does the same: it opens the pack, loads a program, takes an entry and
 * launches it. */
#include "../example.h"

#include <math.h>
#include <stdlib.h>

enum { THREADS = 256, ELEMENTS = 8 * THREADS, RUNS = 10 }; /* of a block; RUNS launches are timed */

int main(int argc, char **argv)
{
    example        e = {0};
    ptxpack_source source = {.size = sizeof source,
                             .language = example_language(argc, argv, "KERNEL.ptx|KERNEL.cu [N]"),
                             .path = argv[1]};
    uint32_t       n = example_number(argc, argv, 2, 1000003, UINT32_C(1) << 31);
    float          factors[3] = {1.7f, -0.6f, 0.3f}; /* a, b, c */

    ptxpack_program        *program;
    const ptxpack_function *kernel;
    example_try(&e, ptxpack_open(NULL, &e.pack));
    example_try(&e, ptxpack_program_load(e.pack, &source, &program));
    example_try(&e, ptxpack_program_function(program, "vector_add", &kernel));

    uint16_t *x = example_random(n, 1, 1), *y = example_random(n, 2, 1), halves[3];
    size_t    bytes = sizeof *x * n;
    uint64_t  at_x = example_upload(&e, x, bytes), at_y = example_upload(&e, y, bytes);
    uint64_t  at_z = example_upload(&e, NULL, bytes);
    for (int i = 0; i < 3; i++) /* the bits that the kernel gets, and their value */
        factors[i] = ptxpack_to_float(PTXPACK_F16, halves[i] = ptxpack_from_float(PTXPACK_F16, factors[i]));

    void    *arguments[] = {&at_z, &at_x, &at_y, &n, &halves[0], &halves[1], &halves[2]};
    uint32_t grid[3] = {(n - 1) / ELEMENTS + 1, 1, 1}, block[3] = {THREADS, 1, 1};
    for (int run = -1; run < RUNS; run++) { /* the first one is not timed */
        if (run == 0)
            example_start(&e);
        example_try(&e, ptxpack_function_launch(kernel, grid, block, 0, arguments, NULL));
    }
    double ms = example_stop(&e) / RUNS;

    uint16_t *z = (uint16_t *)example_download(&e, at_z, bytes);
    for (uint32_t i = 0; i < n; i++) {
        double ax = (double)(factors[0] * ptxpack_to_float(PTXPACK_F16, x[i]));
        double by = (double)(factors[1] * ptxpack_to_float(PTXPACK_F16, y[i])), c = (double)factors[2];
        double allowed = 0x1p-11 * 4 * (fabs(ax) + fabs(by) + fabs(c)); /* four roundings of half an ulp */
        example_compare(&e, i, (double)ptxpack_to_float(PTXPACK_F16, z[i]), ax + by + c, allowed);
    }
    int status = example_report(&e, ms, 3e-9 * (double)bytes, "GB/s", "%s: n = %u", argv[1], n);
    free(x), free(y), free(z);
    ptxpack_program_free(program);
    example_close(&e);
    return status;
}
