/* heads.c - what cases of attention have for each query head. */
#include "heads.h"

#include <math.h>

void check_fill_sinks(float *sinks, int32_t heads, int32_t turn)
{
    static const float values[] = {4, 200, 0.5f, -INFINITY, 48, 2.5f, -4, -1000};
    enum { VALUES = sizeof values / sizeof values[0] };
    for (int32_t h = 0; h < heads; h++)
        sinks[h] = values[(h + turn) % VALUES];
}
