/* container.h - the emulated driver's "machine code": an ELF file of the GPU's machine type that holds PTX.
 *
 * Offset 0   ELF64 header, e_machine 190; bytes 8..15 of its identification hold a checksum of the rest of
 * the header, so that its sizes can be believed before anything behind it is read 64         4 section
 * headers: none, .shstrtab, .ptxpack.emu.info, .ptxpack.emu.ptx then       their contents, zeros between them
 * up to multiples of 8
 *
 * .info holds "sm_90a" and a checksum of the whole file with that checksum as zeros: any changed byte is
 * found. */
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
    size_t      size;       /* of the whole                      */
};
/* malloc'ed, *size bytes; NULL: out of memory, or the text is beyond 1 GiB. The same input makes the same
 * bytes. */
void *container_make(const char *ptx, size_t bytes, const char *target, size_t *size);
/* `bytes` 0: unknown; then an image that begins like a container must be as long as it says. */
enum container_state container_open(const void *image, size_t bytes, struct container *out);
#endif
