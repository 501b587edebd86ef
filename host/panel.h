/* panel.h - private: a product of references, of four rows and a panel of eight columns. */
#ifndef PTXPACK_PANEL_H
#define PTXPACK_PANEL_H
#include <stddef.h>

enum { PANEL = 8, GROUP = 4 };

/* out[r][8] = a[r][0..n) * b[0..n)[8], for GROUP rows of a, `a_step` apart; rows of out `out_step` apart.  Sums go from 0 to n,
 * whatever the processor: the result is always the same. */
void panel_multiply(const double *a, size_t a_step, const float *b, size_t n, double *out, size_t out_step);
#endif
