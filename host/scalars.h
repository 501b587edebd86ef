/* scalars.h - private: the mathematical functions that the references need, because the library links only libc
 * and not libm. */
#ifndef PTXPACK_SCALARS_H
#define PTXPACK_SCALARS_H
#include "dtype.h"

double reference_exp(double x);  /* e^x for x <= 0, within 2 ulp; 0 below 2^-1021 */
double reference_tanh(double x); /* with a relative error of about 1e-15 */
double reference_log(double x);  /* ln x for finite x >= 1 */
double reference_root(double x); /* the square root of x > 0, within 1e-15 */
/* A double, rounded to the element type in one step. */
uint16_t reference_round(ptxpack_dtype type, double value);
#endif
