/* peer.c - devices that access each other's memory.
 *
 * Every device can access every other one's.  A kernel may do so where its context has enabled it; copies always may.
 * Access is kept by device, not by context: a program uses one context of each device. */
#include "api.h"
#include "tools/emu/machine/faults.h"

static bool can_access(const struct api_device *device, const struct api_device *peer)
{
    return device != peer && !faults_now(api_settings()->faults, FAULT_NO_PEERS);
}

api_result cuDeviceCanAccessPeer(int *can, int device, int peer)
{
    API_ENTER(API_INIT);
    API_WANT(can, API_INVALID_VALUE);
    API_WANT(api_device(device) && api_device(peer), API_INVALID_DEVICE);
    *can = can_access(api_device(device), api_device(peer));
    return API_OK;
}

/* All links are equal, and carry every atomic operation. */
api_result cuDeviceGetP2PAttribute(int *value, unsigned int attribute, int device, int peer)
{
    API_ENTER(API_INIT);
    enum { PERFORMANCE_RANK = 1, ACCESS, NATIVE_ATOMICS, ARRAYS, PARTIAL_ATOMICS };
    API_WANT(value && attribute >= PERFORMANCE_RANK && attribute <= PARTIAL_ATOMICS, API_INVALID_VALUE);
    API_WANT(api_device(device) && api_device(peer) && device != peer, API_INVALID_DEVICE);
    const bool linked = attribute == ACCESS || attribute == NATIVE_ATOMICS;
    *value = linked && can_access(api_device(device), api_device(peer));
    return API_OK;
}

/* The device of the context to which access is asked for. */
static api_result peer_of(const struct api_context *context, struct CUctx_st *handle, uint32_t *bit)
{
    const struct api_context *peer = (const struct api_context *)api_handle_get(API_KIND_CONTEXT, handle);
    API_WANT(peer && peer != context, API_INVALID_CONTEXT);
    API_WANT(can_access(context->device, peer->device), API_PEER_ACCESS_UNSUPPORTED);
    *bit = api_device_bit(peer->device);
    return API_OK;
}

api_result cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
    API_ENTER(API_CONTEXT);
    uint32_t bit = 0;
    API_WANT(flags == 0, API_INVALID_VALUE);
    API_TRY(peer_of(call.context, peer, &bit));
    API_WANT(!(call.context->peers & bit), API_PEER_ACCESS_ALREADY_ENABLED);
    call.context->peers |= bit;
    return API_OK;
}

api_result cuCtxDisablePeerAccess(struct CUctx_st *peer)
{
    API_ENTER(API_CONTEXT);
    uint32_t bit = 0;
    API_TRY(peer_of(call.context, peer, &bit));
    API_WANT(call.context->peers & bit, API_PEER_ACCESS_NOT_ENABLED);
    call.context->peers &= ~bit;
    return API_OK;
}

void api_peer_forget(const struct api_context *context)
{
    for (struct api_handle *h = api_handle_next(API_KIND_CONTEXT, NULL); h != NULL;
         h = api_handle_next(API_KIND_CONTEXT, h))
        ((struct api_context *)h)->peers &= ~api_device_bit(context->device);
}
