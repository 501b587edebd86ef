/* lengths_image.h - what a case of lengths.c has in memory: rows among NaNs, arrays, outputs among guard bytes. */
#ifndef PTXPACK_CHECK_LENGTHS_IMAGE_H
#define PTXPACK_CHECK_LENGTHS_IMAGE_H
#include "host/attention/inspect.h"
#include "check.h"
#include "tools/problem/random.h"

/* How the rows of a case are stored. */
typedef struct lengths_storage {
    const char  *name;
    ptxpack_rows q_rows, kv_rows;
    int32_t      page_rows;
    uint32_t     options;
    bool         heads_first; /* a head's rows are neighbours */
    bool         one_tensor;  /* pages of K and V in turn */
} lengths_storage;

typedef struct lengths_image {
    ptxpack_attention_desc desc; /* with rows and strides */
    attention_geometry     geometry;
    bool                   one_tensor;
    uint8_t               *host[TENSOR_COUNT]; /* with CHECK_GUARD bytes before and after */
    size_t                 bytes[TENSOR_COUNT];
    float                 *lse;
    size_t                 lse_bytes;
    int32_t               *arrays[ARRAY_COUNT]; /* NULL: not asked for */
    char                   line[PLAN_LINE];
} lengths_image;

/* Complete `desc`, and allocate; false with image->line.  Close it in either case. */
bool lengths_image_open(lengths_image *image, const ptxpack_attention_desc *desc,
                        const lengths_storage *storage);
void lengths_image_close(lengths_image *image);
/* Draw lengths, starts, pages and rows; all the rest is NaN.  `steep`: with scores that rise so much, and V so large, that
 * wgmma.ptx computes tiles a second time (bf16). */
void lengths_image_fill(lengths_image *image, random_state *random, bool steep);

const void               *lengths_image_tensor(const lengths_image *image, int tensor);
ptxpack_attention_lengths lengths_image_arrays(const lengths_image *image);
/* A row of the output after a run. */
const void  *lengths_image_o_row(const lengths_image *image, const attention_row *row);
const float *lengths_image_lse(const lengths_image *image, const attention_row *row);
/* Whether all bytes that are not a row of a sequence still hold what they held; destroys the rows. */
bool lengths_image_untouched(lengths_image *image, char *what, size_t cap);

/* For each row of kernels.def its plan, device memory and graph, which all rounds use. */
typedef struct lengths_run_state lengths_run_state;
typedef struct lengths_runs {
    lengths_run_state *of_row; /* [count] */
    size_t             count;
} lengths_runs;
bool lengths_runs_open(lengths_runs *runs);
void lengths_runs_close(check *c, lengths_runs *runs);
/* Run on row `index`, twice; what is wrong beside the values is in `what`, else "".  False when the device or the
 * library failed, with a line in `what`. */
bool lengths_run(check *c, lengths_image *image, lengths_runs *runs, size_t index, const ptxpack_variant *row,
                 char *what, size_t cap);
#endif
