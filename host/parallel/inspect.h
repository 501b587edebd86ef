/* inspect.h - private: what tests and tools may see of parallel attention, beside parallel.h. */
#ifndef PTXPACK_PARALLEL_INSPECT_H
#define PTXPACK_PARALLEL_INSPECT_H
#include "host/plan/inspect.h"
#include "arrive.h"
#include "heads.h"
#endif
