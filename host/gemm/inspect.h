/* inspect.h - private: what tests and tools may see of GEMM, beside gemm.h. */
#ifndef PTXPACK_GEMM_INSPECT_H
#define PTXPACK_GEMM_INSPECT_H
#include "check.h"
#include "host/plan/inspect.h"
#include "mma_layout.h"
#include "mma_symbols.h"
#include "op.h"
#include "reference.h"
#include "wgmma_layout.h"
#include "wgmma_symbols.h"
#endif
