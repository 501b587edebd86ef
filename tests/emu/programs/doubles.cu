// doubles.cu - the maths library in f64 and f32: one row of results a function.
#define ROW(n, expression) out[(n) * count + i] = (expression)

extern "C" __global__ void doubles(const double *in, const double *other, double *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    double x = in[i], y = other[i];
    ROW(0, sin(x));
    ROW(1, cos(x));
    ROW(2, tan(x));
    ROW(3, exp(x));
    ROW(4, log(fabs(x)));
    ROW(5, sqrt(fabs(x)));
    ROW(6, x / y);
    ROW(7, pow(fabs(x), y));
    ROW(8, atan2(x, y));
    ROW(9, tanh(x));
    ROW(10, erf(x));
    ROW(11, cbrt(x));
    ROW(12, fma(x, y, x));
    ROW(13, floor(x) + ceil(y) + rint(x) + trunc(y));
    ROW(14, fmod(x, y));
    ROW(15, hypot(x, y));
    ROW(16, log1p(fabs(x)));
    ROW(17, exp2(x));
    ROW(18, tgamma(fabs(x) / 8 + 0.5));
    ROW(19, remainder(x, y));
    ROW(20, (double)(float)x + (double)(long long)(y * 1000) + (double)(unsigned int)fabs(x));
    ROW(21, __ddiv_rd(x, y));
    ROW(22, __dadd_ru(x, y));
    ROW(23, __dmul_rz(x, y));
    ROW(24, rsqrt(fabs(x)));
    ROW(25, sinpi(x));
    ROW(26, lgamma(fabs(x) + 1));
    ROW(27, asin(x / 1e3) + acos(y / 1e3));
    ROW(28, ldexp(x, (int)y) + logb(fabs(x)));
    ROW(29, fmin(x, y) - fmax(x, y) + copysign(x, y));
}

extern "C" __global__ void floats(const float *in, const float *other, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = in[i], y = other[i];
    ROW(0, sinf(x));
    ROW(1, cosf(x));
    ROW(2, tanf(x));
    ROW(3, expf(x));
    ROW(4, logf(fabsf(x)));
    ROW(5, sqrtf(fabsf(x)));
    ROW(6, x / y);
    ROW(7, powf(fabsf(x), y));
    ROW(8, atan2f(x, y));
    ROW(9, tanhf(x));
    ROW(10, erff(x));
    ROW(11, cbrtf(x));
    ROW(12, fmaf(x, y, x));
    ROW(13, floorf(x) + ceilf(y) + rintf(x) + truncf(y));
    ROW(14, fmodf(x, y));
    ROW(15, hypotf(x, y));
    ROW(16, log1pf(fabsf(x)));
    ROW(17, exp2f(x));
    ROW(18, rsqrtf(fabsf(x)));
    ROW(19, roundf(x) + (float)(int)y);
}
