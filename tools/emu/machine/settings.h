/* settings.h - the settings of the emulated GPU, from the environment.
 *
 *   PTXPACK_EMU_SM=90            75 80 86 89 90 100 120 121: which GPU it is
 *   PTXPACK_EMU_SMS=4            multiprocessors that it reports
 *   PTXPACK_EMU_MEMORY=4G        device memory (K M G)
 *   PTXPACK_EMU_SHARED=N         bytes of shared memory that a block may have, opt-in (default: the GPU's)
 *   PTXPACK_EMU_DRIVER=13000     version that cuDriverGetVersion reports
 *   PTXPACK_EMU_DEVICES=1        number of devices
 *   PTXPACK_EMU_THREADS=N        host threads (default: one per processor)
 *   PTXPACK_EMU_SEED=1           seed of schedules and completions
 *   PTXPACK_EMU_ASYNC=random     earliest, latest, random: when asynchronous operations complete
 *   PTXPACK_EMU_JUDGE=all        all, none, report, or words separated by commas, of which a minus removes one:
 *                                uninitialised, race, proxy, async, mbarrier, and conflict and overread, which
 *                                are not part of all.  `report`: findings do not make the launch fail
 *   PTXPACK_EMU_ERRORS=sticky    sticky: an error of a kernel, or a finding, breaks its context, as on a GPU; launch:
 *                                the launch returns it, and the context lives on
 *   PTXPACK_EMU_BUDGET=N         warp-instructions a launch may execute
 *   PTXPACK_EMU_PATIENCE=10      seconds that a kernel may poll what other streams, devices or the host write, while no
 *                                other work begins or ends
 *   PTXPACK_EMU_FAULT=WORD[,..]  see faults.h
 *   PTXPACK_EMU_LOG=FILE         where reports go (default: standard error)
 *
 * A value that cannot be understood makes cuInit fail, with one line on standard error that names it. */
#ifndef EMU_SETTINGS_H
#define EMU_SETTINGS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum emu_async_policy { EMU_ASYNC_EARLIEST, EMU_ASYNC_LATEST, EMU_ASYNC_RANDOM };
enum { /* judge */
       EMU_JUDGE_UNINITIALISED = 1,
       EMU_JUDGE_RACE = 2,
       EMU_JUDGE_PROXY = 4,
       EMU_JUDGE_ASYNC = 8, /* registers and memory of operations in flight */
       EMU_JUDGE_MBARRIER = 16,
       EMU_JUDGE_ALL = 31,      /* everything that is wrong           */
       EMU_JUDGE_CONFLICT = 64, /* bank conflicts, which are only slow */
       EMU_JUDGE_OVERREAD = 128 /* notes about loads that end beyond an allocation, within 16 bytes */
};

struct emu_settings {
    int                   sm;
    int                   sm_count;
    uint64_t              memory_bytes;
    uint32_t              shared_default; /* a block's without opting in: 48 KiB   */
    uint32_t              shared_opt_in;  /* a block's at most                     */
    uint32_t              shared_per_sm;
    uint32_t              shared_reserved; /* per block, at address 0: 1 KiB from sm_80 on */
    uint32_t              threads_per_sm, blocks_per_sm;
    int                   driver_version;
    int                   device_count;
    int                   host_threads;
    uint64_t              seed;
    enum emu_async_policy async_policy;
    unsigned int          judge; /* EMU_JUDGE_*                            */
    bool                  judge_reports_only;
    bool                  errors_of_launches; /* they do not break the context            */
    uint64_t              budget;
    uint64_t              patience; /* seconds                                */
    const char           *log_path; /* NULL: standard error                   */
    const char           *faults;   /* NULL: none                             */
};

/* The settings of this process, read once; NULL: the environment is invalid (a line was printed). */
const struct emu_settings *emu_settings(void);
/* Read them from the environment, for tests.  False: `line` has the error. */
bool emu_settings_read(struct emu_settings *out, char *line, size_t cap);
/* Change `settings` to those of another GPU: its number, shared memory, threads and blocks.  False: the GPU is
 * unknown. */
bool emu_settings_gpu(struct emu_settings *settings, int sm);
#endif
