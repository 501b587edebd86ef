/* event.h - what the processes that use an event share: a page with its records.
 *
 * A record has a ticket, which is larger than those of all earlier ones, and has the process that made it.  A process
 * that waits for a record looks at the page now and then; it is told when the record was reached, and when it never will
 * be, because the process that made it has ended or has closed the event.  For that, each process holds a lock on a byte
 * of the file, which the system releases when the process ends, or, if it has children by fork, with the last of them. */
#ifndef EMU_IPC_EVENT_H
#define EMU_IPC_EVENT_H
#include "handle.h"

struct ipc_event;
enum ipc_record { IPC_PENDING, IPC_REACHED, IPC_LOST };

struct ipc_event *ipc_event_new(void); /* NULL: errno says why */
/* The event of another process; NULL: see ipc_handle_open. */
struct ipc_event *ipc_event_open(const struct ipc_handle *handle);
void              ipc_event_free(struct ipc_event *event); /* NULL is allowed */
bool ipc_event_name(const struct ipc_event *event, int device, uint64_t id, struct ipc_handle *handle);

/* A new record, which is the last one now. */
uint64_t ipc_event_record(struct ipc_event *event);
/* It was reached, or (`lost`) never will be. */
void ipc_event_end(struct ipc_event *event, uint64_t ticket, bool lost);
/* The last record that any process has made; 0: none. */
uint64_t        ipc_event_last(const struct ipc_event *event);
enum ipc_record ipc_event_state(const struct ipc_event *event, uint64_t ticket);
int             ipc_event_process(uint64_t ticket);
#endif
