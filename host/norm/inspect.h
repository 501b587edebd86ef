/* inspect.h - private: what tests may see of norms, beside norm.h. */
#ifndef PTXPACK_NORM_INSPECT_H
#define PTXPACK_NORM_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
