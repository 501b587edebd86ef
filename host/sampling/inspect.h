/* inspect.h - private: what tests may see of sampling, beside sampling.h. */
#ifndef PTXPACK_SAMPLING_INSPECT_H
#define PTXPACK_SAMPLING_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
