/* null_arguments.h - what null_arguments.sh builds its program from: an example of each type that a public function
 * takes, and the judgement of a call.  The calls themselves are made from the headers. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ptxpack/ptxpack.h>

/* ---- examples ------------------------------------------------------------------------------------- */
/* Members have the names of their types, by which the script finds them. */
static struct {
    ptxpack_tuple                      ptxpack_tuple;
    ptxpack_layout                     ptxpack_layout;
    ptxpack_tensor                     ptxpack_tensor;
    ptxpack_engine                     ptxpack_engine;
    ptxpack_mma_atom                   ptxpack_mma_atom;
    ptxpack_copy_atom                  ptxpack_copy_atom;
    ptxpack_tiled_mma                  ptxpack_tiled_mma;
    ptxpack_tiled_copy                 ptxpack_tiled_copy;
    ptxpack_variant                    ptxpack_variant;
    ptxpack_symbol                     ptxpack_symbol;
    ptxpack_options                    ptxpack_options;
    ptxpack_source                     ptxpack_source;
    ptxpack_device_caps                ptxpack_device_caps;
    ptxpack_cache_options              ptxpack_cache_options;
    ptxpack_expand_options             ptxpack_expand_options;
    ptxpack_preload_options            ptxpack_preload_options;
    ptxpack_bank_access                ptxpack_bank_access;
    ptxpack_wgmma_fields               ptxpack_wgmma_fields;
    ptxpack_tma_desc                   ptxpack_tma_desc;
    ptxpack_attention_desc             ptxpack_attention_desc;
    ptxpack_attention_buffers          ptxpack_attention_buffers;
    ptxpack_attention_append_desc      ptxpack_attention_append_desc;
    ptxpack_attention_append_buffers   ptxpack_attention_append_buffers;
    ptxpack_attention_append_inputs    ptxpack_attention_append_inputs;
    ptxpack_attention_blocks_buffers   ptxpack_attention_blocks_buffers;
    ptxpack_attention_hooks            ptxpack_attention_hooks;
    ptxpack_attention_merge_desc       ptxpack_attention_merge_desc;
    ptxpack_attention_merge_buffers    ptxpack_attention_merge_buffers;
    ptxpack_attention_parallel_desc    ptxpack_attention_parallel_desc;
    ptxpack_attention_parallel_buffers ptxpack_attention_parallel_buffers;
    ptxpack_parallel_decode_buffers    ptxpack_parallel_decode_buffers;
    struct CUstream_st                *streams[1];
    ptxpack_gemm_desc                  ptxpack_gemm_desc;
    ptxpack_gemm_buffers               ptxpack_gemm_buffers;
    ptxpack_norm_desc                  ptxpack_norm_desc;
    ptxpack_norm_buffers               ptxpack_norm_buffers;
    ptxpack_quantise_desc              ptxpack_quantise_desc;
    ptxpack_quantise_buffers           ptxpack_quantise_buffers;
    ptxpack_gather_desc                ptxpack_gather_desc;
    ptxpack_gather_buffers             ptxpack_gather_buffers;
    ptxpack_sampling_desc              ptxpack_sampling_desc;
    ptxpack_sampling_buffers           ptxpack_sampling_buffers;
    ptxpack_sampling_row               ptxpack_sampling_row;
    ptxpack_experts_route_desc         ptxpack_experts_route_desc;
    ptxpack_experts_route_buffers      ptxpack_experts_route_buffers;
    ptxpack_experts_combine_desc       ptxpack_experts_combine_desc;
    ptxpack_experts_combine_buffers    ptxpack_experts_combine_buffers;
    ptxpack_descales                   ptxpack_descales;
    ptxpack_attention_lengths          ptxpack_attention_lengths;
    ptxpack_swizzle                    ptxpack_swizzle;
    ptxpack_kernel_info                ptxpack_kernel_info;
    ptxpack_program_info               ptxpack_program_info;
    ptxpack_cache_entry                ptxpack_cache_entry;
    ptxpack_cache_info                 ptxpack_cache_info;
    ptxpack_cache_stats                ptxpack_cache_stats;
    ptxpack_cache_swept                ptxpack_cache_swept;
    ptxpack_prebuilt_info              ptxpack_prebuilt_info;
    ptxpack                           *ptxpack, *out_ptxpack;
    const ptxpack_kernel              *ptxpack_kernel, *out_ptxpack_kernel;
    ptxpack_program                   *ptxpack_program, *out_ptxpack_program;
    const ptxpack_function            *ptxpack_function, *out_ptxpack_function;
    ptxpack_expansion                 *ptxpack_expansion, *out_ptxpack_expansion;
    ptxpack_preloading                *ptxpack_preloading, *out_ptxpack_preloading;
    ptxpack_cache                     *ptxpack_cache;
    ptxpack_cache_key                 *ptxpack_cache_key;
    ptxpack_attention_plan            *ptxpack_attention_plan, *out_ptxpack_attention_plan;
    ptxpack_attention_append_plan     *ptxpack_attention_append_plan, *out_ptxpack_attention_append_plan;
    ptxpack_attention_blocks_plan     *ptxpack_attention_blocks_plan, *out_ptxpack_attention_blocks_plan;
    ptxpack_attention_merge_plan      *ptxpack_attention_merge_plan, *out_ptxpack_attention_merge_plan;
    ptxpack_sampling_plan             *ptxpack_sampling_plan, *out_ptxpack_sampling_plan;
    ptxpack_experts_route_plan        *ptxpack_experts_route_plan, *out_ptxpack_experts_route_plan;
    ptxpack_experts_combine_plan      *ptxpack_experts_combine_plan, *out_ptxpack_experts_combine_plan;
    ptxpack_parallel_group            *ptxpack_parallel_group, *out_ptxpack_parallel_group;
    ptxpack_attention_parallel_plan   *ptxpack_attention_parallel_plan, *out_ptxpack_attention_parallel_plan;
    ptxpack_parallel_decode_plan      *ptxpack_parallel_decode_plan, *out_ptxpack_parallel_decode_plan;
    ptxpack_quantise_plan             *ptxpack_quantise_plan, *out_ptxpack_quantise_plan;
    ptxpack_dequantise_plan           *ptxpack_dequantise_plan, *out_ptxpack_dequantise_plan;
    ptxpack_gather_plan               *ptxpack_gather_plan, *out_ptxpack_gather_plan;
    ptxpack_norm_plan                 *ptxpack_norm_plan, *out_ptxpack_norm_plan;
    ptxpack_gemm_plan                 *ptxpack_gemm_plan, *out_ptxpack_gemm_plan;
    ptxpack_vector_plan               *ptxpack_vector_plan, *out_ptxpack_vector_plan;
    const struct ptxpack_driver       *driver, *out_driver;
    int                                an_int;
    int32_t                            integers[64];
    FILE                              *file;
    int64_t                            int64_t;
    uint32_t                           uint32_t[3];
    uint64_t                           uint64_t;
    size_t                             size_t;
    float                              floats[4096];
    double                             doubles[4096];
    bool                               booleans[4096];
    void                              *pointers[4], *out_bytes;
    char                               text[4096], *out_text;
    unsigned char                      bytes[1 << 20];
    ptxpack_map                        map;
    ptxpack_folder                     fold;
    ptxpack_variant_filter             filter;
    ptxpack_cache_step (*visit)(const ptxpack_cache_info *info, void *user);
} the;

static ptxpack_tuple same(void *user, const ptxpack_tuple *mode) { return *mode; }
static ptxpack_tuple first(void *user, const ptxpack_tuple *so_far, const ptxpack_tuple *mode)
{
    return *so_far;
}
static bool               any(const ptxpack_variant *row, const void *context) { return true; }
static ptxpack_cache_step next(const ptxpack_cache_info *info, void *user) { return PTXPACK_CACHE_NEXT; }
static const char        *read_nothing(void *context, const char *path, size_t *bytes) { return NULL; }

static void must(ptxpack_status status, const char *what)
{
    if (status == PTXPACK_OK)
        return;
    printf("%s: %s\n", what, ptxpack_detail(the.ptxpack));
    exit(1);
}

static void make_layouts(void)
{
    the.ptxpack_tuple = ptxpack_tuple_parse("(4,8)");
    the.ptxpack_layout = ptxpack_layout_parse("(4,8):(1,4)");
    the.ptxpack_tensor = ptxpack_make_tensor(0, 16, &the.ptxpack_layout);
    the.ptxpack_engine.size = sizeof the.ptxpack_engine;
    the.file = fopen("/dev/null", "w");
    must(ptxpack_mma_atom_find("SM80_16x8x16_F32F16F16F32_TN", &the.ptxpack_mma_atom), "an atom");
    must(ptxpack_copy_atom_find("UniversalCopy<uint128_t>", &the.ptxpack_copy_atom), "an atom");
    the.ptxpack_tiled_mma = ptxpack_make_tiled_mma(&the.ptxpack_mma_atom, NULL, NULL);
    ptxpack_layout threads = ptxpack_layout_parse("32:1"), values = ptxpack_layout_parse("8:1");
    the.ptxpack_tiled_copy = ptxpack_make_tiled_copy(&the.ptxpack_copy_atom, 16, &threads, &values);
    must(the.ptxpack_tiled_mma.status, "a tiled MMA");
    must(the.ptxpack_tiled_copy.status, "a tiled copy");
    the.ptxpack_bank_access = (ptxpack_bank_access){&the.ptxpack_layout, 2};
    the.map = same;
    the.fold = first;
    the.filter = any;
    the.visit = next;
}

static void make_handles(void)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    must(ptxpack_open(NULL, &the.ptxpack), "a handle");
    the.driver = ptxpack_driver_table(the.ptxpack);
    the.ptxpack_cache = ptxpack_cache_of(the.ptxpack);
    the.ptxpack_cache_key = ptxpack_cache_key_create();
    the.ptxpack_source = (ptxpack_source){.size = sizeof the.ptxpack_source, .text = text};
    must(ptxpack_program_load(the.ptxpack, &the.ptxpack_source, &the.ptxpack_program), "a program");
    must(ptxpack_program_function(the.ptxpack_program, NULL, &the.ptxpack_function), "a function");
    the.ptxpack_preload_options = (ptxpack_preload_options){.size = sizeof the.ptxpack_preload_options,
                                                            .arch = "sm_90a"};
    must(ptxpack_preload(&the.ptxpack_preload_options, &the.ptxpack_preloading), "a preloading");
    the.ptxpack_options = (ptxpack_options){.size = sizeof the.ptxpack_options};
    the.ptxpack_cache_stats.size = sizeof the.ptxpack_cache_stats;
    the.ptxpack_expand_options = (ptxpack_expand_options){.size = sizeof the.ptxpack_expand_options,
                                                          .read = read_nothing};
    ptxpack_expand("nothing", &the.ptxpack_expand_options, &the.ptxpack_expansion);
}

static void make_decoder_plans(void)
{
    the.ptxpack_norm_desc = (ptxpack_norm_desc){.size = sizeof the.ptxpack_norm_desc,
                                                .dtype = PTXPACK_F16,
                                                .rows = 1,
                                                .heads = 1,
                                                .columns = 64,
                                                .eps = 1e-5f};
    the.ptxpack_norm_buffers.size = sizeof the.ptxpack_norm_buffers;
    must(ptxpack_norm_plan_create(the.ptxpack, &the.ptxpack_norm_desc, &the.ptxpack_norm_plan), "a norm plan");
    the.ptxpack_quantise_desc = (ptxpack_quantise_desc){.size = sizeof the.ptxpack_quantise_desc,
                                                        .dtype = PTXPACK_F16,
                                                        .rows = 1,
                                                        .columns = 64};
    the.ptxpack_quantise_buffers.size = sizeof the.ptxpack_quantise_buffers;
    must(ptxpack_quantise_plan_create(the.ptxpack, &the.ptxpack_quantise_desc, &the.ptxpack_quantise_plan),
         "a quantise plan");
    must(ptxpack_dequantise_plan_create(the.ptxpack, &the.ptxpack_quantise_desc, &the.ptxpack_dequantise_plan),
         "a dequantise plan");
    the.ptxpack_gather_desc = (ptxpack_gather_desc){.size = sizeof the.ptxpack_gather_desc,
                                                    .dtype = PTXPACK_F16,
                                                    .rows = 1,
                                                    .table_rows = 1,
                                                    .columns = 64};
    the.ptxpack_gather_buffers.size = sizeof the.ptxpack_gather_buffers;
    must(ptxpack_gather_plan_create(the.ptxpack, &the.ptxpack_gather_desc, &the.ptxpack_gather_plan),
         "a gather plan");
    the.ptxpack_sampling_desc = (ptxpack_sampling_desc){.size = sizeof the.ptxpack_sampling_desc,
                                                        .dtype = PTXPACK_F16,
                                                        .rows = 1,
                                                        .vocabulary = 64};
    the.ptxpack_sampling_buffers.size = sizeof the.ptxpack_sampling_buffers;
    must(ptxpack_sampling_plan_create(the.ptxpack, &the.ptxpack_sampling_desc, &the.ptxpack_sampling_plan),
         "a sampling plan");
}

static void make_expert_plans(void)
{
    the.ptxpack_experts_route_desc = (ptxpack_experts_route_desc){.size = sizeof the.ptxpack_experts_route_desc,
                                                                  .dtype = PTXPACK_F16,
                                                                  .rows = 1,
                                                                  .experts = 8,
                                                                  .top_k = 2};
    the.ptxpack_experts_route_buffers.size = sizeof the.ptxpack_experts_route_buffers;
    must(ptxpack_experts_route_plan_create(the.ptxpack, &the.ptxpack_experts_route_desc,
                                           &the.ptxpack_experts_route_plan),
         "a plan of routes");
    the.ptxpack_experts_combine_desc =
        (ptxpack_experts_combine_desc){.size = sizeof the.ptxpack_experts_combine_desc,
                                       .dtype = PTXPACK_F16,
                                       .rows = 1,
                                       .top_k = 2,
                                       .columns = 64};
    the.ptxpack_experts_combine_buffers.size = sizeof the.ptxpack_experts_combine_buffers;
    must(ptxpack_experts_combine_plan_create(the.ptxpack, &the.ptxpack_experts_combine_desc,
                                             &the.ptxpack_experts_combine_plan),
         "a plan of combinations");
}

static void make_plans(void)
{
    the.ptxpack_attention_desc = (ptxpack_attention_desc){.size = sizeof the.ptxpack_attention_desc,
                                                          .dtype = PTXPACK_F16,
                                                          .batch = 1,
                                                          .seqlen_q = 16,
                                                          .seqlen_kv = 16,
                                                          .heads_q = 1,
                                                          .heads_kv = 1,
                                                          .head_dim = 64};
    the.ptxpack_attention_buffers.size = sizeof the.ptxpack_attention_buffers;
    the.ptxpack_attention_append_desc =
        (ptxpack_attention_append_desc){.size = sizeof the.ptxpack_attention_append_desc,
                                        .dtype = PTXPACK_F16,
                                        .batch = 1,
                                        .seqlen_new = 1,
                                        .seqlen_kv = 16,
                                        .heads_kv = 1,
                                        .head_dim = 64};
    the.ptxpack_attention_append_buffers.size = sizeof the.ptxpack_attention_append_buffers;
    the.ptxpack_attention_append_inputs = (ptxpack_attention_append_inputs){.k_new = the.bytes,
                                                                            .v_new = the.bytes,
                                                                            .lengths_kv = &the.an_int};
    the.ptxpack_attention_merge_desc =
        (ptxpack_attention_merge_desc){.size = sizeof the.ptxpack_attention_merge_desc,
                                       .dtype = PTXPACK_F16,
                                       .batch = 1,
                                       .seqlen_q = 16,
                                       .heads_q = 1,
                                       .head_dim = 64};
    the.ptxpack_attention_blocks_buffers.size = sizeof the.ptxpack_attention_blocks_buffers;
    the.ptxpack_attention_merge_buffers.size = sizeof the.ptxpack_attention_merge_buffers;
    the.ptxpack_gemm_desc = (ptxpack_gemm_desc){.size = sizeof the.ptxpack_gemm_desc,
                                                .dtype = PTXPACK_F16,
                                                .m = 64,
                                                .n = 64,
                                                .k = 64,
                                                .batch = 1};
    the.ptxpack_gemm_buffers.size = sizeof the.ptxpack_gemm_buffers;
    must(ptxpack_vector_plan_create(the.ptxpack, PTXPACK_F16, &the.ptxpack_vector_plan), "a vector plan");
    must(ptxpack_attention_plan_create(the.ptxpack, &the.ptxpack_attention_desc, &the.ptxpack_attention_plan),
         "an attention plan");
    must(ptxpack_attention_append_plan_create(the.ptxpack, &the.ptxpack_attention_append_desc,
                                              &the.ptxpack_attention_append_plan),
         "an append plan");
    ptxpack_attention_desc blocks = the.ptxpack_attention_desc;
    blocks.block_rows = blocks.block_keys = 64;
    must(ptxpack_attention_blocks_plan_create(the.ptxpack, &blocks, &the.ptxpack_attention_blocks_plan),
         "a plan of lists of blocks");
    must(ptxpack_attention_merge_plan_create(the.ptxpack, &the.ptxpack_attention_merge_desc,
                                             &the.ptxpack_attention_merge_plan),
         "a merge plan");
    must(ptxpack_gemm_plan_create(the.ptxpack, &the.ptxpack_gemm_desc, &the.ptxpack_gemm_plan), "a gemm plan");
    the.ptxpack_kernel = ptxpack_vector_kernel(the.ptxpack_vector_plan);
    the.ptxpack_variant = *ptxpack_kernel_describe(the.ptxpack_kernel)->variant;
    the.ptxpack_symbol = (ptxpack_symbol){"SYMBOL", 1};
    the.ptxpack_device_caps = ptxpack_device(the.ptxpack)->caps;
    the.uint32_t[0] = the.uint32_t[1] = the.uint32_t[2] = 1;
}

/* After the other plans. */
static void make_parallel_plans(void)
{
    must(ptxpack_parallel_devices(&the.ptxpack, 1, &the.ptxpack_parallel_group), "a group");
    the.ptxpack_attention_parallel_desc =
        (ptxpack_attention_parallel_desc){.size = sizeof the.ptxpack_attention_parallel_desc,
                                          .attention = &the.ptxpack_attention_desc};
    the.ptxpack_attention_parallel_buffers.size = sizeof the.ptxpack_attention_parallel_buffers;
    must(ptxpack_attention_parallel_plan_create(the.ptxpack_parallel_group,
                                                &the.ptxpack_attention_parallel_desc,
                                                &the.ptxpack_attention_parallel_plan),
         "a parallel plan");
    the.ptxpack_parallel_decode_buffers.size = sizeof the.ptxpack_parallel_decode_buffers;
    must(ptxpack_parallel_decode_plan_create(the.ptxpack_parallel_group, &the.ptxpack_attention_desc,
                                             &the.ptxpack_parallel_decode_plan),
         "a parallel plan of decoding");
}

/* ---- judgement ------------------------------------------------------------------------------------ */
static const char *function, *parameter; /* of the call that is being made */
static int         calls, failures;
static sigjmp_buf  back;

static void crashed(int number) { siglongjmp(back, number); }

static void complain(const char *what, const char *more)
{
    failures++;
    printf("%s, %s NULL: %s%s\n", function, parameter, what, more);
}

static void begin(const char *name, const char *missing)
{
    function = name;
    parameter = missing;
    calls++;
    strcpy(the.text, "-");
    ptxpack_fail(NULL, PTXPACK_E_ARG, "no line");
    ptxpack_fail(the.ptxpack, PTXPACK_E_ARG, "no line");
}

/* "CALL: PARAMETER is NULL"; a longer name may be spoken of otherwise. */
static bool names_it(const char *line)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s is NULL", parameter);
    const char *at = strstr(line, wanted);
    return (at != NULL && (at == line || at[-1] == ' ')) ||
           (strlen(parameter) > 1 && strstr(line, parameter) != NULL);
}

static void refused(ptxpack_status status)
{
    const char *error = ptxpack_expansion_error(the.out_ptxpack_expansion);
    if (status != PTXPACK_E_ARG)
        complain("not refused: ", ptxpack_status_name(status));
    else if (!names_it(ptxpack_detail(NULL)) && !names_it(ptxpack_detail(the.ptxpack)) && !names_it(the.text) &&
             !names_it(error))
        complain("the line does not name it: ", ptxpack_detail(NULL));
}

static void nothing(bool empty)
{
    if (!empty)
        complain("something was returned", "");
}

#define CALL(kind, name, missing, ...) \
    begin(name, missing);              \
    if (sigsetjmp(back, 1) == 0)       \
        kind(__VA_ARGS__);             \
    else                               \
        complain("it crashes", "");
#define VOID(...)                  __VA_ARGS__
#define MAY(...)                   __VA_ARGS__
#define ANY(...)                   (void)(__VA_ARGS__)
#define STATUS(...)                refused(__VA_ARGS__)
#define NUMBER(...)                nothing((__VA_ARGS__) == 0)
#define POINTER(...)               pointer(__VA_ARGS__)
#define ptxpack_tuple(...)         refused((__VA_ARGS__).status)
#define ptxpack_layout(...)        refused((__VA_ARGS__).shape.status)
#define ptxpack_slice(...)         refused((__VA_ARGS__).layout.shape.status)
#define ptxpack_tensor(...)        refused((__VA_ARGS__).layout.shape.status)
#define ptxpack_tiled_mma(...)     refused((__VA_ARGS__).status)
#define ptxpack_tiled_copy(...)    refused((__VA_ARGS__).status)
#define ptxpack_banks(...)         refused((__VA_ARGS__).status)
#define ptxpack_wgmma_operand(...) refused((__VA_ARGS__).status)
#define ptxpack_tma_box(...)       refused((__VA_ARGS__).status)
#define ptxpack_instance(...)      nothing((__VA_ARGS__).symbol_count == 0)

static void pointer(const void *result) { nothing(result == NULL || *(const char *)result == '\0'); }

static void all_calls(void);

int main(void)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
    make_layouts();
    make_handles();
    make_decoder_plans();
    make_expert_plans();
    make_plans();
    make_parallel_plans();
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], crashed);
    all_calls();
    printf("%d calls, %d failures\n", calls, failures);
    return failures > 0;
}
