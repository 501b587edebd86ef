/* npy.h - NumPy's .npy files, format 1.0, 2.0 and 3.0: floats of 16, 32 and 64 bits and integers of 8 to
 * 64, little-endian in C order.
 *
 * Reading is strict: a header that is not exactly what the format says, a size that does not match the
 * file, another type or Fortran order is refused with one line that names the file and the reason.
 * Writing replaces the target as a whole: a reader sees all or nothing. */
#ifndef PTXPACK_NPY_H
#define PTXPACK_NPY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum npy_type {
    NPY_F16,
    NPY_F32,
    NPY_U16,
    NPY_U8,
    NPY_F64,
    NPY_S8,
    NPY_S16,
    NPY_S32,
    NPY_S64,
    NPY_U32,
    NPY_U64,
    NPY_TYPE_COUNT
} npy_type;

enum { NPY_MAX_RANK = 32, NPY_LINE = 512 };

typedef struct npy_array {
    npy_type type;
    int      rank;
    int64_t  shape[NPY_MAX_RANK]; /* slowest to fastest */
    size_t   count;               /* elements */
    void    *data;                /* malloc'ed by npy_read; free with npy_free */
} npy_array;

size_t      npy_element_bytes(npy_type type);
const char *npy_type_name(npy_type type); /* "float16", ... */

/* Both return false after writing one line to `line`. */
bool npy_read(const char *path, npy_array *out, char line[NPY_LINE]);
bool npy_write(const char *path, const npy_array *array, char line[NPY_LINE]);
void npy_free(npy_array *array);
#endif
