/* inspect.h - private: what tests may see of lists of blocks, beside blocks.h. */
#ifndef PTXPACK_ATTENTION_BLOCKS_INSPECT_H
#define PTXPACK_ATTENTION_BLOCKS_INSPECT_H
#include "host/plan/inspect.h"
#include "op.h"
#endif
