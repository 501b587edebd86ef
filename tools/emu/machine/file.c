/* file.c - files without a name, that processes share. */
#include "file.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_IS_FIXED = F_SEAL_SHRINK | F_SEAL_GROW };

int emu_file_make(uint64_t bytes)
{
    const int file = memfd_create("ptxpack-emu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 ||
        (ftruncate(file, (off_t)bytes) == 0 && fcntl(file, F_ADD_SEALS, SIZE_IS_FIXED | F_SEAL_SEAL) == 0))
        return file;
    const int why = errno;
    close(file);
    errno = why;
    return -1;
}

bool emu_file_fits(int file, uint64_t bytes)
{
    struct stat now;
    const int   seals = fcntl(file, F_GET_SEALS);
    return seals >= 0 && (seals & SIZE_IS_FIXED) == SIZE_IS_FIXED && fstat(file, &now) == 0 &&
           (uint64_t)now.st_size == bytes;
}
