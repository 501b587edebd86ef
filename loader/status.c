/* status.c - names and sentences of the status codes. */
#include "status.h"

const char *ptxpack_status_string(ptxpack_status status)
{
    switch (status) {
#define STATUS_SENTENCE(name, value, sentence) \
    case PTXPACK_##name:                       \
        return sentence;
        PTXPACK_STATUS_MAP(STATUS_SENTENCE)
#undef STATUS_SENTENCE
    case PTXPACK_STATUS_COUNT:
        break;
    }
    return "unknown status";
}

const char *ptxpack_status_name(ptxpack_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, sentence) \
    case PTXPACK_##name:                   \
        return "PTXPACK_" #name;
        PTXPACK_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    case PTXPACK_STATUS_COUNT:
        break;
    }
    return "unknown status";
}
