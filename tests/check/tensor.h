/* tensor.h - attention tensors on the device, in three layouts, with NaNs around inputs and guard bytes around
 * outputs. */
#ifndef PTXPACK_CHECK_TENSOR_H
#define PTXPACK_CHECK_TENSOR_H
#include "host/attention/attention.h"
#include "host/attention/inspect.h"
#include "check.h"

typedef enum check_layout { COMPACT, GAPPED_BSHD, GAPPED_BHSD, CHECK_LAYOUTS } check_layout;
extern const char *const check_layout_names[CHECK_LAYOUTS];

/* What each thread has: host images of whole regions, and their device buffers. */
typedef struct check_images {
    ptxpack_attention_desc  desc; /* with the layout's strides */
    attention_geometry      geometry;
    uint8_t                *host[TENSOR_COUNT];
    size_t                  capacity[TENSOR_COUNT], bytes[TENSOR_COUNT]; /* of host and device regions */
    float                  *lse;
    size_t                  lse_capacity, lse_bytes;
    check_buffer            device[TENSOR_COUNT], lse_device, workspace;
    const ptxpack_descales *descales;       /* for fp8, [batch][heads_kv] in host memory, never NULL */
    check_buffer            descale_device; /* of q, k and v, one after the other                   */
    const float            *sinks, *slopes; /* [heads_q] in host memory                             */
    check_buffer            sinks_device, slopes_device;
    bool                    uploaded; /* the inputs are on the device since they were filled */
    char                    line[512];
} check_images;

/* The results that were copied back; they point into the images. */
typedef struct check_output {
    check_images *images;
    bool          repeats;     /* a second run gave the same bits, where there is one (check_repeats) */
    bool          clean;       /* the workspace is zero again     */
    bool          speculative; /* weights may have another reference than the row's maximum:
                                  ptx/attention/wgmma_softmax.ptx */
} check_output;

/* Lays out compact tensors [batch][row][head][dim]; `repeated`: k and v with a batch stride of 0.  The descales,
 * which are used with fp8, sinks and slopes must outlive the runs. */
bool check_images_fill(check_images *images, const ptxpack_attention_desc *compact, check_layout layout,
                       bool repeated, void *const tensor[TENSOR_COUNT], const ptxpack_descales *descales,
                       const float *sinks, const float *slopes);
/* Launches twice on `row` with the mask, the softcap and the options of `masked`; returns false after setting
 * images->line. */
bool check_images_run(check *c, check_images *images, const ptxpack_attention_desc *masked,
                      const ptxpack_variant *row, check_output *out);
void check_images_free(check *c, check_images *images);

const uint16_t *check_output_row(const check_output *out, int64_t batch, int64_t row, int64_t head);
const float    *check_output_lse(const check_output *out, int64_t batch, int64_t head);
/* Whether the bytes around the output are unchanged.  It destroys the output. */
bool check_output_guards(const check_output *out, char *what, size_t cap);
#endif
