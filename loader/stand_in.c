/* stand_in.c - handles without a context that choose and compile as a handle on a device would. */
#include <stdio.h>
#include <string.h>
#include "internal.h"

ptxpack_status ptxpack_open_stand_in(const ptxpack_options *options, const char *arch, int sm_count,
                                     ptxpack **out)
{
    ptxpack_options offline = {.size = sizeof offline};
    if (options != NULL)
        memcpy(&offline, options, options->size < sizeof offline ? options->size : sizeof offline);
    offline.size = sizeof offline;
    offline.offline = true;
    offline.arch = arch;
    ptxpack_status status = ptxpack_open(&offline, out);
    if (status != PTXPACK_OK)
        return status;
    ptxpack *h = *out;
    h->stand_in = true;
    h->info.caps.portable = false;
    if (sm_count > 0)
        h->info.sm_count = sm_count;
    snprintf(h->info.target, sizeof h->info.target, "sm_%d", h->info.caps.arch);
    return PTXPACK_OK;
}

/* ---- asking the driver ---------------------------------------------------------------------------- */

static ptxpack_status refused(const struct ptxpack_driver *driver, ptxpack_cu_result result, const char *what)
{
    char text[512];
    return ptxpack_fail(NULL, ptxpack_driver_status(result), "%s: %s", what,
                        ptxpack_driver_error(driver, result, text, sizeof text));
}

static ptxpack_status ask_driver(const struct ptxpack_driver *driver, int ordinal, ptxpack_device_info *facts)
{
    int               device = 0, count = 0;
    ptxpack_cu_result r = driver->cuDeviceGetCount(&count);
    if (r == PTXPACK_CU_SUCCESS && count == 0)
        return ptxpack_fail(NULL, PTXPACK_E_NO_DEVICE, "the driver sees no device");
    if (r == PTXPACK_CU_SUCCESS && (ordinal < 0 || ordinal >= count))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "device %d: the driver sees %d, numbered from 0", ordinal,
                            count);
    if (r == PTXPACK_CU_SUCCESS)
        r = driver->cuDeviceGet(&device, ordinal);
    if (r == PTXPACK_CU_SUCCESS)
        r = ptxpack_read_attributes(driver, device, facts);
    return r == PTXPACK_CU_SUCCESS ? PTXPACK_OK : refused(driver, r, "asking for the device's attributes");
}

/* Take the device's attributes in place of the usual ones of its architecture, then PTXPACK_ARCH as when a
 * handle on the device is opened. */
static ptxpack_status take_facts(ptxpack *h, const struct ptxpack_driver *driver,
                                 const ptxpack_device_info *facts, const char *arch)
{
    ptxpack_device_caps *caps = &h->info.caps;
    int                  isa = ptxpack_isa_of_cuda(driver->version);
    caps->shared_per_block = facts->caps.shared_per_block;
    caps->shared_per_sm = facts->caps.shared_per_sm;
    caps->isa = caps->isa && caps->isa < isa ? caps->isa : isa;
    return ptxpack_apply_arch(h, ptxpack_chosen(arch, "PTXPACK_ARCH"), false);
}

ptxpack_status ptxpack_open_stand_in_for_device(const ptxpack_options *options, ptxpack **out)
{
    const struct ptxpack_driver *driver;
    ptxpack_device_info          facts = {.sm_count = 0};
    char                         line[PTXPACK_DETAIL_BYTES], arch[16], emulator[PTXPACK_EMULATOR_PATH];
    ptxpack_options              all = *options;
    *out = NULL;
    ptxpack_status status = ptxpack_take_emulator(&all, emulator);
    if (status != PTXPACK_OK)
        return status;
    status = ptxpack_driver_open(all.driver, &driver, line, sizeof line);
    if (status != PTXPACK_OK)
        return ptxpack_fail(NULL, status, "%s", line);
    status = ask_driver(driver, all.device, &facts);
    if (status != PTXPACK_OK)
        return status;
    snprintf(arch, sizeof arch, "sm_%d", facts.caps.arch);
    status = ptxpack_open_stand_in(&all, arch, facts.sm_count, out);
    if (status == PTXPACK_OK && (status = take_facts(*out, driver, &facts, all.arch)) != PTXPACK_OK) {
        ptxpack_close(*out);
        *out = NULL;
    }
    return status;
}
