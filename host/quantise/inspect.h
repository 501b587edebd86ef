/* inspect.h - private: what tests may see of roundings to e4m3, beside quantise.h. */
#ifndef PTXPACK_QUANTISE_INSPECT_H
#define PTXPACK_QUANTISE_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
