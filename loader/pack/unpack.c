/* unpack.c - gzip files in memory, read by zlib, which is linked statically under hidden names. */
#define ZLIB_CONST
#include "unpack.h"
#include <zlib.h>

bool ptxpack_unpack(const unsigned char *begin, const unsigned char *end, char *text, unsigned bytes)
{
    enum { GZIP_ALONE = 15 + 16 }; /* the largest window, no other format */
    z_stream s = {.next_in = begin,
                  .avail_in = (uInt)(end - begin),
                  .next_out = (Bytef *)text,
                  .avail_out = bytes};
    if (inflateInit2(&s, GZIP_ALONE) != Z_OK)
        return false;
    const bool good = inflate(&s, Z_FINISH) == Z_STREAM_END && s.avail_out == 0;
    inflateEnd(&s);
    text[bytes] = '\0';
    return good;
}
