/* inspect.h - private: what tests and tools may see of attention, beside attention.h. */
#ifndef PTXPACK_ATTENTION_INSPECT_H
#define PTXPACK_ATTENTION_INSPECT_H
#include "arrivals/arrivals.h"
#include "check.h"
#include "cost.h"
#include "hooks/cuda.h"
#include "host/plan/inspect.h"
#include "mma_layout.h"
#include "mma_symbols.h"
#include "op.h"
#include "reference.h"
#include "wgmma_layout.h"
#include "wgmma_symbols.h"
#endif
