/* faults.h - errors that the emulated driver makes on request, so that callers can test what they do then.
 *
 * PTXPACK_EMU_FAULT=word[=n][,word[=n]...]:
 *
 *   no-device        cuInit answers 100
 *   stub             cuInit and cuGetProcAddress answer 34, as the toolkit's stub library does
 *   old-driver[=V]   cuDriverGetVersion says V (11040), what came later is absent, newer PTX is answered 222
 *   no-jit           PTX is answered 221, and there is no nvPTXCompiler
 *   jit-disabled     PTX is answered 223
 *   no-memory[=N]    allocating device memory answers 2: always, or the Nth time only
 *   cubin-rejected[=N]  loading machine code answers 209
 *   cubin-invalid[=N]   loading machine code answers 200
 *   launch-refused[=N]  launching answers 701
 *   launch-failure[=N]  the launch fails on the device: 719 from the next call on
 *   device-lost[=N]  the launch loses the device: 999 from the next call on, and no context can be made any
 *                    more (46) */
#ifndef EMU_FAULTS_H
#define EMU_FAULTS_H
#include <stdbool.h>
#include <stddef.h>

#define FAULT_MAP(X)                                                                                    \
    X(NO_DEVICE, "no-device")                                                                           \
    X(STUB, "stub") X(OLD_DRIVER, "old-driver") X(NO_JIT, "no-jit") X(JIT_DISABLED, "jit-disabled")     \
        X(NO_MEMORY, "no-memory") X(CUBIN_REJECTED, "cubin-rejected") X(CUBIN_INVALID, "cubin-invalid") \
            X(LAUNCH_REFUSED, "launch-refused") X(LAUNCH_FAILURE, "launch-failure")                     \
                X(DEVICE_LOST, "device-lost")
enum fault {
#define FAULT_ENUM(name, word) FAULT_##name,
    FAULT_MAP(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
};

/* Is the list well formed?  NULL is.  False: `line` says what is wrong. */
bool faults_check(const char *list, char *line, size_t cap);
/* Is the fault in the list?  Its number is in *value, 0 when it has none. */
bool faults_value(const char *list, enum fault fault, long *value);
/* Does it happen now?  Each question counts, for faults that come the Nth time. Thread-safe. */
bool faults_now(const char *list, enum fault fault);
#endif
