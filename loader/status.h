/* status.h - every outcome that a call can have, and the sentence for it.  C11 and C++; it needs no CUDA
 * header. */
#ifndef PTXPACK_STATUS_H
#define PTXPACK_STATUS_H

#if defined(__GNUC__)
#define PTXPACK_API __attribute__((visibility("default")))
#else
#define PTXPACK_API
#endif

/* One row for each status: name, value, sentence.  Released values never change, and new rows go last. */
#define PTXPACK_STATUS_MAP(X)                                                                \
    X(OK, 0, "success")                                                                      \
    X(E_ARG, 1, "an argument is out of its stated range")                                    \
    X(E_UNSUPPORTED, 2, "the request is valid, but no kernel covers it")                     \
    X(E_NO_DRIVER, 3, "no CUDA driver library could be loaded")                              \
    X(E_STUB_DRIVER, 4, "the CUDA library that was found is a link-time stub, not a driver") \
    X(E_NO_DEVICE, 5, "the driver sees no usable device")                                    \
    X(E_DRIVER, 6, "the driver refused a call")                                              \
    X(E_ISA, 7, "the driver is too old for the PTX ISA version that the kernel needs")       \
    X(E_NO_JIT, 8, "no PTX compiler could be loaded")                                        \
    X(E_COMPILE, 9, "the PTX compiler refused the kernel")                                   \
    X(E_CUBIN, 10, "the driver rejected the machine code")                                   \
    X(E_EXPAND, 11, "macro expansion of a .ptx file failed")                                 \
    X(E_FORKED, 12, "the handle was opened before a fork and cannot be used after it")       \
    X(E_MEMORY, 13, "out of host memory")                                                    \
    X(E_IO, 14, "a file could not be read or written")                                       \
    X(E_LAUNCH, 15, "the kernel launch was refused")                                         \
    X(E_FORBIDDEN, 16, "the kernel would have to be compiled, and that is forbidden")        \
    X(E_NO_NVRTC, 17, "no NVRTC library could be loaded")                                    \
    X(E_PREBUILT, 18, "prebuilt machine code cannot be used")                                \
    X(E_NO_NCCL, 19, "no NCCL library could be loaded")                                      \
    X(E_PEER, 20, "another rank failed, disagreed, or did not answer in time")

typedef enum ptxpack_status {
#define PTXPACK_STATUS_ENUM(name, value, sentence) PTXPACK_##name = value,
    PTXPACK_STATUS_MAP(PTXPACK_STATUS_ENUM)
#undef PTXPACK_STATUS_ENUM
        PTXPACK_STATUS_COUNT
} ptxpack_status;

#ifdef __cplusplus
extern "C" {
#endif
/* The sentence of a status, and its name ("PTXPACK_E_ARG"); "unknown status" for any other value.  The strings
 * are static. */
PTXPACK_API const char *ptxpack_status_string(ptxpack_status status);
PTXPACK_API const char *ptxpack_status_name(ptxpack_status status);
#ifdef __cplusplus
}
#endif
#endif
