/* container.h - the emulated driver's "machine code": an ELF file of the GPU's machine type that holds PTX.
 *
 *   offset 0   ELF64 header, e_machine 190; bytes 8..15 of its identification hold a checksum of the rest of
 *              the header, so that its sizes can be trusted before anything after it is read
 *   offset 64  4 section headers: none, .shstrtab, .ptxpack.emu.info, .ptxpack.emu.ptx
 *   then       the contents of the sections, padded with zeros to multiples of 8
 *
 * .info holds "sm_90a" and a checksum of the whole file (with zeros in place of the checksum), so that any
 * changed byte is detected. */
#ifndef EMU_CONTAINER_H
#define EMU_CONTAINER_H
#include <stdbool.h>
#include <stddef.h>

enum container_state {
    CONTAINER_GOOD,
    CONTAINER_NONE,    /* not an ELF file            */
    CONTAINER_FOREIGN, /* an ELF file of another kind: a real cubin */
    CONTAINER_DAMAGED
};
struct container {
    const char *ptx;        /* NUL-terminated, within the image */
    size_t      bytes;      /* of the text without the NUL      */
    char        target[16]; /* "sm_90a"                          */
    size_t      size;       /* of the file                       */
};
/* malloc'ed, *size bytes; NULL: out of memory, or the text is beyond 1 GiB. The same input makes the same
 * bytes. */
void *container_make(const char *ptx, size_t bytes, const char *target, size_t *size);
/* `bytes` 0: unknown; an image that begins like a container must then have the size in its header. */
enum container_state container_open(const void *image, size_t bytes, struct container *out);
#endif
