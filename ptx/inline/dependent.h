// dependent.h - programmatic dependents: a grid that may begin before the grid before it in the stream has ended.
//
// needs    sm_90
// grid_wait      waits until the grids that this one depends on have ended; what they wrote is visible then.  Call it
//                before the first access, reads and writes alike, to memory that they may access, and in each block before
//                its end.  Such memory must not be read through pointers to const __restrict__ or __ldg.
// grid_release   this block lets dependent grids begin; they wait for this grid's end all the same.
#ifndef PTXPACK_INLINE_DEPENDENT_H
#define PTXPACK_INLINE_DEPENDENT_H
#include <ptxpack/inline/types.h>

#if PTXPACK_HAS(90)
namespace ptxpack {
PTXPACK_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
PTXPACK_DEVICE void grid_release() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
} // namespace ptxpack
#endif
#endif
