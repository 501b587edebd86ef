/* heads.c - what cases of attention have for each query head. */
#include "heads.h"

#include <math.h>

void check_fill_sinks(float *sinks, int32_t heads, int32_t turn)
{
    static const float values[] = {4, 0.5f, 48, -INFINITY, 2.5f, 200, -4, -1000};
    enum { VALUES = sizeof values / sizeof values[0] };
    for (int32_t h = 0; h < heads; h++)
        sinks[h] = values[(h + turn) % VALUES];
}
