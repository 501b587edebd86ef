/* inspect.h - private: what tests may see of experts, beside experts.h. */
#ifndef PTXPACK_EXPERTS_INSPECT_H
#define PTXPACK_EXPERTS_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
