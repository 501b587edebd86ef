/* fatbin.c - the PTX of a fat binary. */
#include "fatbin.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTAINER_VERSION = 1, CONTAINER_HEADER = 16, WRAPPER_BYTES = 16 };
enum { KIND_PTX = 1, KIND_MACHINE_CODE = 2, IMAGE_HEADER = 64 };
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000, FLAG_ONE_GPU = 0x100000, FLAG_FAMILY = 0x200000 }; /* 'a', 'f' */
enum { MOST = 1 << 30 };

struct image {
    unsigned int         kind, sm;
    uint64_t             flags, packed, bytes; /* packed: bytes of compressed data, 0: not compressed */
    const unsigned char *data;
};

/* ---- numbers at any address ---------------------------------------------------------------------------- */
static uint64_t number(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* The image begins with these four bytes; a text may be shorter than they are. */
static bool begins(const unsigned char *at, size_t bytes, const char *magic)
{
    return (bytes == 0 || bytes >= 4) && strncmp((const char *)at, magic, 4) == 0;
}

/* ---- containers and images ----------------------------------------------------------------------------- */
/* The images of a container. */
static enum fatbin_state open_container(const unsigned char *at, size_t bytes, const unsigned char **images,
                                        const unsigned char **end)
{
    if (!begins(at, bytes, "\x50\xed\x55\xba"))
        return FATBIN_NONE;
    if ((bytes && bytes < CONTAINER_HEADER) || number(at + 4, 2) != CONTAINER_VERSION ||
        number(at + 6, 2) < CONTAINER_HEADER)
        return FATBIN_DAMAGED;
    uint64_t header = number(at + 6, 2), size = number(at + 8, 8);
    if (size > MOST || (bytes && header + size > bytes))
        return FATBIN_DAMAGED;
    *images = at + header;
    *end = at + header + size;
    return FATBIN_GOOD;
}

/* The image at *at, which moves behind it. */
static bool next_image(const unsigned char **at, const unsigned char *end, struct image *out)
{
    const unsigned char *p = *at;
    size_t               left = (size_t)(end - p);
    if (left < IMAGE_HEADER)
        return false;
    uint64_t header = number(p + 4, 4), size = number(p + 8, 8);
    if (header < IMAGE_HEADER || header > left || size > left - header)
        return false;
    out->kind = (unsigned int)number(p, 2);
    out->packed = number(p + 16, 4);
    out->sm = (unsigned int)number(p + 28, 4);
    out->flags = number(p + 40, 8);
    out->bytes = out->packed ? number(p + 56, 8) : size;
    out->data = p + header;
    *at = p + header + size;
    return out->packed <= size && out->bytes <= MOST;
}

static char suffix_of(const struct image *image)
{
    return image->flags & FLAG_ONE_GPU ? 'a' : image->flags & FLAG_FAMILY ? 'f' : '\0';
}

static bool fits(const struct image *image, int sm)
{
    unsigned int ours = (unsigned int)sm;
    if (image->kind != KIND_PTX || image->sm > ours)
        return false;
    if (image->flags & FLAG_ONE_GPU)
        return image->sm == ours;
    return image->flags & FLAG_FAMILY ? image->sm / 10 == ours / 10 : true;
}

/* Of two that fit, the newer one; for the same GPU, the one with more features. */
static bool is_better(const struct image *image, const struct image *than)
{
    if (than->data == NULL || image->sm != than->sm)
        return than->data == NULL || image->sm > than->sm;
    return suffix_of(image) != '\0' && suffix_of(than) == '\0';
}

static void note(const struct image *image, char *holds, size_t cap)
{
    size_t     used = strlen(holds);
    const char suffix[2] = {suffix_of(image), '\0'};
    if (image->kind == KIND_PTX || image->kind == KIND_MACHINE_CODE)
        snprintf(holds + used, cap - used, "%s%s of sm_%u%s", used ? ", " : "",
                 image->kind == KIND_PTX ? "PTX" : "machine code", image->sm, suffix);
}

/* ---- decompression ------------------------------------------------------------------------------------- */
/* A length whose first 4 bits were 15 goes on in bytes, up to one that is not 255. */
static bool long_length(const unsigned char **at, const unsigned char *end, size_t *length)
{
    unsigned int byte = 255;
    while (byte == 255) {
        if (*at == end || *length > MOST)
            return false;
        byte = *(*at)++;
        *length += byte;
    }
    return true;
}

/* One block of LZ4: literals and matches in turn, the last one without a match. */
static bool unpack_lz4(const unsigned char *at, size_t packed, char *to, size_t bytes)
{
    const unsigned char *end = at + packed;
    size_t               made = 0;
    while (at < end) {
        size_t literals = *at >> 4, match = *at & 15;
        at++;
        if (literals == 15 && !long_length(&at, end, &literals))
            return false;
        if (literals > (size_t)(end - at) || literals > bytes - made)
            return false;
        memcpy(to + made, at, literals);
        made += literals;
        at += literals;
        if (at == end)
            break;
        if (end - at < 2)
            return false;
        size_t back = (size_t)number(at, 2);
        at += 2;
        if (match == 15 && !long_length(&at, end, &match))
            return false;
        match += 4;
        if (back == 0 || back > made || match > bytes - made)
            return false;
        for (size_t i = 0; i < match; i++, made++) /* it may overlap itself */
            to[made] = to[made - back];
    }
    return made == bytes;
}

static enum fatbin_state unpack_zstd(const struct image *image, char *to)
{
    typedef size_t decompress(void *to, size_t room, const void *from, size_t bytes);
    void          *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void          *symbol = library != NULL ? dlsym(library, "ZSTD_decompress") : NULL;
    decompress    *unpack;
    if (symbol == NULL)
        return FATBIN_PACKED;
    memcpy(&unpack, &symbol, sizeof unpack); /* ISO C has no such cast */
    size_t made = unpack(to, image->bytes, image->data, image->packed);
    dlclose(library);
    return made == image->bytes ? FATBIN_GOOD : FATBIN_DAMAGED;
}

static enum fatbin_state unpack(const struct image *image, char *to)
{
    if (image->packed == 0)
        memcpy(to, image->data, image->bytes);
    else if (image->flags & FLAG_ZSTD)
        return unpack_zstd(image, to);
    else if (!(image->flags & FLAG_LZ4) || !unpack_lz4(image->data, image->packed, to, image->bytes))
        return FATBIN_DAMAGED;
    return FATBIN_GOOD;
}

static enum fatbin_state take(const struct image *image, struct fatbin *out)
{
    out->ptx = (char *)calloc(1, image->bytes + 1);
    if (out->ptx == NULL)
        return FATBIN_NO_MEMORY;
    enum fatbin_state state = unpack(image, out->ptx);
    if (state == FATBIN_GOOD) {
        out->bytes = strlen(out->ptx); /* zeros fill it up */
        return state;
    }
    free(out->ptx);
    out->ptx = NULL;
    return state;
}

enum fatbin_state fatbin_open(const void *data, size_t bytes, int sm, struct fatbin *out)
{
    const unsigned char *at = (const unsigned char *)data, *end = NULL;
    struct image         image, best = {.data = NULL};
    memset(out, 0, sizeof *out);
    if (begins(at, bytes, "\xb1\x43\x62\x46") && (bytes == 0 || bytes >= WRAPPER_BYTES)) {
        at = (const unsigned char *)(uintptr_t)number(at + 8, 8);
        bytes = 0;
    }
    enum fatbin_state state = open_container(at, bytes, &at, &end);
    if (state != FATBIN_GOOD)
        return state;
    while (at < end) {
        if (!next_image(&at, end, &image))
            return FATBIN_DAMAGED;
        note(&image, out->holds, sizeof out->holds);
        if (fits(&image, sm) && is_better(&image, &best))
            best = image;
    }
    return best.data != NULL ? take(&best, out) : FATBIN_NO_PTX;
}
