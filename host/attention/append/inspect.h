/* inspect.h - private: what tests may see of the append, beside append.h. */
#ifndef PTXPACK_ATTENTION_APPEND_INSPECT_H
#define PTXPACK_ATTENTION_APPEND_INSPECT_H
#include "attached.h"
#include "host/plan/inspect.h"
#include "op.h"
#endif
