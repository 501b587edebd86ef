/* faults.h - errors that the emulated driver makes on request, so that callers can test what they do then.
 *
 * PTXPACK_EMU_FAULT=word[=n][,word[=n]...]:
 *
 *   no-device           cuInit returns 100
 *   stub                cuInit and cuGetProcAddress return 34, as the stub library of the toolkit does
 *   old-driver[=V]      the driver has version V (11040): later functions are absent, loading newer PTX
 *                       returns 222
 *   no-jit              loading PTX returns 221, and there is no nvPTXCompiler
 *   jit-disabled        loading PTX returns 223
 *   no-memory[=N]       allocating device memory returns 2: always, or only the Nth time
 *   cubin-rejected[=N]  loading machine code returns 209
 *   cubin-invalid[=N]   loading machine code returns 200
 *   launch-refused[=N]  launching returns 701
 *   launch-failure[=N]  the launch fails on the device: 719 from the next call on
 *   device-lost[=N]     the launch loses the device: 999 from the next call on, and creating a context
 *                       returns 46
 *   no-peers            no device can access another one's memory */
#ifndef EMU_FAULTS_H
#define EMU_FAULTS_H
#include <stdbool.h>
#include <stddef.h>

/* clang-format off */
#define FAULT_MAP(X)                                                                              \
    X(NO_DEVICE, "no-device") X(STUB, "stub") X(OLD_DRIVER, "old-driver") X(NO_JIT, "no-jit")     \
    X(JIT_DISABLED, "jit-disabled") X(NO_MEMORY, "no-memory") X(CUBIN_REJECTED, "cubin-rejected") \
    X(CUBIN_INVALID, "cubin-invalid") X(LAUNCH_REFUSED, "launch-refused")                         \
    X(LAUNCH_FAILURE, "launch-failure") X(DEVICE_LOST, "device-lost") X(NO_PEERS, "no-peers")
/* clang-format on */
enum fault {
#define FAULT_ENUM(name, word) FAULT_##name,
    FAULT_MAP(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
};

/* Is the list well formed?  NULL is.  False: `line` has the error. */
bool faults_check(const char *list, char *line, size_t cap);
/* Is the fault in the list?  *value is its number, or 0 if it has none. */
bool faults_value(const char *list, enum fault fault, long *value);
/* Does the fault happen now?  Each call counts, for faults that happen the Nth time.  Thread-safe. */
bool faults_now(const char *list, enum fault fault);
#endif
