/* draw.h - pictures of layouts: a grid of text, LaTeX (TikZ), SVG.
 *
 * The grid and the LaTeX are CuTe's print_layout and print_latex byte for byte, without the `_` of its static
 * integers; the SVG follows its print_svg.  Row m counts downwards, column n to the right.
 *
 * Every call checks the whole picture before it writes anything.  On an error it returns PTXPACK_E_ARG, or the status
 * of its argument, with a line in ptxpack_detail(NULL).  A failed write is seen in ferror(f). */
#ifndef PTXPACK_DRAW_H
#define PTXPACK_DRAW_H
#include <stdio.h>
#include "host/layout/layout.h"
#include "host/layout/tensor.h"

enum { DRAW_CELLS = 65536 }; /* the largest matrix of a picture */

typedef enum draw_format { DRAW_LATEX, DRAW_SVG } draw_format;

/* Rank 2 only.  Cells hold offsets or, where strides are basis paths, coordinates. */
ptxpack_status draw_grid(FILE *f, const ptxpack_layout *l);
/* The same of a tensor, under its line: how many elements from the engine's base on each one lies, or its coordinate. */
ptxpack_status draw_tensor_grid(FILE *f, const ptxpack_tensor *t, const ptxpack_engine *engine);

/* Rank 1 (one column) or 2; cells are coloured by offset % 8. */
ptxpack_status draw_layout(FILE *f, draw_format format, const ptxpack_layout *l);

/* A layout (thread, value) -> index in an M x N tile, column major, or -> coordinate (m,n) where its strides
 * are basis paths.  Cells hold "T3" over "V1", coloured by thread % 8, in an SVG of more than 32 threads by warp; of several threads that share a cell
 * the first is shown.  A tile of rank 1 is one column. */
ptxpack_status draw_tv(FILE *f, draw_format format, const ptxpack_layout *tv, const ptxpack_tuple *tile);

/* A is left of C, B above it; each layout maps (thread, value) to an index in MK, NK or MN.  With thr_id, the map from
 * threads to lanes, these are the layouts of an atom, and lanes are shown.  Without, they are those of a tiled MMA. */
ptxpack_status draw_mma(FILE *f, draw_format format, const ptxpack_layout *a_tv, const ptxpack_layout *b_tv,
                        const ptxpack_layout *c_tv, int m, int n, int k, const ptxpack_layout *thr_id);

/* The source is left, the destination right; both map (thread, value) to an index in the tile. */
ptxpack_status draw_copy(FILE *f, draw_format format, const ptxpack_layout *src_tv,
                         const ptxpack_layout *dst_tv, const ptxpack_tuple *tile);
#endif
