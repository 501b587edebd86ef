/* wgmma_descriptor.c - the addresses of the elements of a matrix that a descriptor names.
 *
 *      63  62 | 51     49 | 45          32 | 29          16 | 13           0
 *      swizzle|base offset|  stride        |  leading       |    address        in units of 16 bytes
 *
 * Rows of the swizzle pattern are S = 16, 32, 64 or 128 bytes long:
 *   K-major   line r, byte b along k:  none      r % 8 * 16 + r / 8 * stride + b / 16 * leading + b % 16
 *                                      swizzled  r % 8 * S  + r / 8 * stride + b
 *   MN-major  line k, chunk c:         none      k % 8 * 16 + k / 8 * leading + c * stride
 *                                      swizzled  k % 8 * S  + k / 8 * stride + c % w * 16 + c / w * leading
 *                                                 w = S / 16
 * The swizzle then XORs bits 4 to 6 of the address (fewer for a smaller S) with the bits three places
 * higher. */
#include "wgmma_descriptor.h"

struct wgmma_matrix wgmma_descriptor(uint64_t word, bool mn_major)
{
    static const uint32_t spans[] = {16, 128, 64, 32};
    struct wgmma_matrix   x = {.mn_major = mn_major};
    x.start = (uint32_t)(word & 0x3fff) << 4;
    x.leading = (uint32_t)(word >> 16 & 0x3fff) << 4;
    x.stride = (uint32_t)(word >> 32 & 0x3fff) << 4;
    x.base = (uint32_t)(word >> 49 & 7);
    x.swizzle = spans[word >> 62];
    return x;
}

uint32_t wgmma_chunk(const struct wgmma_matrix *x, uint32_t line, uint32_t chunk)
{
    const uint32_t wide = x->swizzle / WGMMA_CHUNK;
    uint32_t       address = x->start + line % 8 * x->swizzle;
    if (x->swizzle == WGMMA_CHUNK && !x->mn_major)
        address += line / 8 * x->stride + chunk * x->leading;
    else if (!x->mn_major)
        address += line / 8 * x->stride + chunk * WGMMA_CHUNK;
    else if (x->swizzle == WGMMA_CHUNK)
        address += line / 8 * x->leading + chunk * x->stride;
    else
        address += line / 8 * x->stride + chunk % wide * WGMMA_CHUNK + chunk / wide * x->leading;
    const uint32_t row = (address >> 7) - x->base;
    return (address ^ (row & (wide - 1)) << 4) & (WGMMA_SPAN - 1);
}
