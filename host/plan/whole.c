/* whole.c - structs of the API that have grown: of any age from the caller, whole for the library. */
#include <string.h>

#include "plan.h"

#define refuse(line, ...) plan_refuse(line, PTXPACK_E_ARG, __VA_ARGS__)

ptxpack_status plan_whole(const plan_struct *type, const void *given, void *whole, char line[PLAN_LINE])
{
    enum { SIZES = sizeof type->older / sizeof type->older[0] };
    uint32_t stated = 0, full = (uint32_t)type->size;
    if (given == NULL)
        return refuse(line, "%s is NULL", type->name);
    memcpy(&stated, given, sizeof stated);
    bool known = stated == full;
    for (int i = 0; i < SIZES; i++)
        known |= type->older[i] != 0 && stated == type->older[i];
    if (!known)
        return refuse(line, "%s.size is %u; sizeof(%s) is %zu", type->name, (unsigned)stated, type->type,
                      type->size);
    memset(whole, 0, type->size);
    memcpy(whole, given, stated);
    memcpy(whole, &full, sizeof full);
    return PTXPACK_OK;
}

ptxpack_status plan_check_launch(const plan_struct *type, const void *whole, bool *overlap,
                                 char line[PLAN_LINE])
{
    uint32_t bits[2]; /* launch, reserved */
    uint32_t known = type->launch_bits != 0 ? type->launch_bits : PTXPACK_LAUNCH_OVERLAP;
    memcpy(bits, (const char *)whole + type->launch_at, sizeof bits);
    if ((bits[0] & ~known) != 0)
        return refuse(line, "%s.launch has the unknown bits 0x%x", type->name, (unsigned)(bits[0] & ~known));
    if (bits[1] != 0)
        return refuse(line, "%s.reserved is %u, not 0", type->name, (unsigned)bits[1]);
    *overlap = (bits[0] & PTXPACK_LAUNCH_OVERLAP) != 0;
    return PTXPACK_OK;
}
