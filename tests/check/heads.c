/* heads.c - what cases of attention have for each query head. */
#include "heads.h"

#include <math.h>

enum { VALUES = 7 }; /* so that rows 8 apart, with as many heads, differ */

static void fill(float *out, int32_t heads, int32_t turn, const float values[VALUES])
{
    for (int32_t h = 0; h < heads; h++)
        out[h] = values[(h + turn) % VALUES];
}

void check_fill_sinks(float *sinks, int32_t heads, int32_t turn)
{
    static const float values[VALUES] = {4, 200, 0.5f, -INFINITY, 48, 2.5f, -1000};
    fill(sinks, heads, turn, values);
}

void check_fill_slopes(float *slopes, int32_t heads, int32_t turn)
{
    static const float values[VALUES] = {0.0625f, 0.5f, 0.0039f, 0.25f, 0, 0.03125f, 0.7f};
    fill(slopes, heads, turn, values);
}
