/* heads.h - what cases of attention have for each query head. */
#ifndef PTXPACK_CHECK_HEADS_H
#define PTXPACK_CHECK_HEADS_H
#include <stdint.h>

/* Sinks among the scores of random cases, far above them, far below them, and none (-inf): in turn, from `turn` on. */
void check_fill_sinks(float *sinks, int32_t heads, int32_t turn);
/* Slopes of ALiBi from 0 to steep ones, in turn. */
void check_fill_slopes(float *slopes, int32_t heads, int32_t turn);
#endif
