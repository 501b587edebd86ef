// integers.cu - divisions, remainders, 64- and 128-bit arithmetic, bit operations, byte permutations, dot products.
#define ROW(n, expression) out[(n) * count + i] = (unsigned long long)(expression)

extern "C" __global__ void integers(const unsigned long long *in, const unsigned long long *other,
                                    unsigned long long *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    unsigned long long a = in[i], b = other[i];
    unsigned int x = (unsigned int)a, y = (unsigned int)b;
    int s = (int)x, t = (int)y;
    long long sa = (long long)a, sb = (long long)b;
    ROW(0, a / b);
    ROW(1, a % b);
    ROW(2, sa / (sb | 1));
    ROW(3, sa % (sb | 1));
    ROW(4, x / (y | 1));
    ROW(5, x % (y | 1));
    ROW(6, t == -1 ? 0 : s / (t | 1));
    ROW(7, s % 1000003);
    ROW(8, a / 10 + x / 7 + s / -13);
    ROW(9, __umul64hi(a, b));
    ROW(10, __mul64hi(sa, sb));
    ROW(11, __umulhi(x, y) + (unsigned int)__mulhi(s, t));
    ROW(12, __clz(s) + __clzll(sa) * 100 + __ffs(s) * 10000);
    ROW(13, __popc(x) + __popcll(a) * 100);
    ROW(14, __brevll(a));
    ROW(15, __byte_perm(x, y, 0x5214));
    ROW(16, __funnelshift_l(x, y, 11) + __funnelshift_rc(x, y, 40));
    ROW(17, a << (b & 63) | a >> (b & 31));
    ROW(18, sa >> (b & 63));
    ROW(19, __sad(s, t, 5u));
    ROW(20, __vadd4(x, y));
    ROW(21, __dp4a(s, t, 17));
    ROW(22, (unsigned long long)((unsigned __int128)a * b >> 64) + (unsigned long long)((__int128)sa * sb >> 32));
    ROW(23, (unsigned long long)(((unsigned __int128)a << 17 | b) / (b | 1)));
    ROW(24, (unsigned long long)(((unsigned __int128)a + b) >> 1));
    ROW(25, min(s, t) + max(x, y) + (unsigned int)abs(s >> 1));
    ROW(26, (short)x * (short)y + (signed char)x / ((signed char)y | 1));
    ROW(27, __vmaxs2(x, y) ^ __vcmpgtu4(x, y));
    ROW(28, __uhadd(x, y) + __rhadd(s, t));
    ROW(29, __mul24(s, t) + __umul24(x, y));
}
