/* inspect.h - private: what tests may see of merging, beside merge.h. */
#ifndef PTXPACK_ATTENTION_MERGE_INSPECT_H
#define PTXPACK_ATTENTION_MERGE_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
