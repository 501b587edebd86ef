/* inspect.h - private: what tests may see of vector_add, beside vector.h. */
#ifndef PTXPACK_VECTOR_INSPECT_H
#define PTXPACK_VECTOR_INSPECT_H
#include "args.h"
#include "host/plan/inspect.h"
#include "op.h"
#endif
