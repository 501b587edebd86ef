/* handle.h - the 64 bytes by which a process names memory or an event to others: CUipcMemHandle, CUipcEventHandle.
 *
 * They name a file without a name (machine/file.h) by the descriptor that its process has for it, so that there is
 * nothing to find any more when the process has closed it, or has ended in whatever way. */
#ifndef EMU_IPC_HANDLE_H
#define EMU_IPC_HANDLE_H
#include <stdbool.h>
#include <stdint.h>

enum { IPC_HANDLE_BYTES = 64 };
enum ipc_kind { IPC_MEMORY = 0x4d435049, IPC_EVENT = 0x45435049 };

struct ipc_handle {
    uint32_t kind;
    int32_t  process, file, device;
    uint64_t id;    /* of the allocation or event; never used twice in its process */
    uint64_t bytes; /* of the allocation */
    uint64_t volume, inode;
    uint64_t unused, check; /* check: of all bytes before it */
};

/* False: errno says why the file cannot be named. */
bool ipc_handle_make(struct ipc_handle *handle, enum ipc_kind kind, int file, int device, uint64_t id,
                     uint64_t bytes);
/* False: these bytes are no handle of this kind. */
bool ipc_handle_read(struct ipc_handle *handle, enum ipc_kind kind, const char bytes[IPC_HANDLE_BYTES]);
/* A descriptor of the file, of this size; -1: it is gone, or errno says why this process may not open it. */
int ipc_handle_open(const struct ipc_handle *handle, uint64_t file_bytes);
/* Has this process made it? */
bool ipc_handle_is_own(const struct ipc_handle *handle);
/* Do they name the same? */
bool ipc_handle_same(const struct ipc_handle *a, const struct ipc_handle *b);
#endif
