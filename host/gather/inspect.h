/* inspect.h - private: what tests may see of gathers, beside gather.h. */
#ifndef PTXPACK_GATHER_INSPECT_H
#define PTXPACK_GATHER_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
