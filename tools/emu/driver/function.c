/* function.c - functions: attributes, names, parameters, occupancy. */
#include "api.h"

/* clang-format off */
enum { /* CUfunction_attribute */
    MAX_THREADS, STATIC_SHARED, CONST_SIZE, LOCAL_SIZE, REGISTERS, PTX_VERSION, BINARY_VERSION, CACHE_CA,
    DYNAMIC_SHARED, CARVEOUT, CLUSTER_MUST_BE_SET, CLUSTER_WIDTH, CLUSTER_HEIGHT, CLUSTER_DEPTH,
    NON_PORTABLE, CLUSTER_POLICY
};
/* clang-format on */

api_result api_function_get(struct api_context *context, struct CUfunc_st *handle, struct api_function **out)
{
    *out = (struct api_function *)api_handle_get(API_KIND_FUNCTION, handle);
    if (*out == NULL)
        return api_kernel_function(context, (struct CUkern_st *)handle, out);
    return (*out)->handle.context == context ? API_OK : API_INVALID_HANDLE;
}

/* ---- attributes ---------------------------------------------------------------------------------------- */
/* The shared memory that a block may have in addition to the static one. */
static int dynamic_limit(const struct emu_function *code)
{
    return code->max_dynamic_shared >= 0 ? code->max_dynamic_shared
                                         : (int)api_settings()->shared_default - (int)code->shared_static;
}

static int constant_bytes(const struct emu_module *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->global_count; i++)
        bytes += m->globals[i].constant ? m->globals[i].bytes : 0;
    return (int)bytes;
}

api_result api_function_attribute(const struct api_function *f, unsigned int attribute, int *value)
{
    const struct emu_function *code = f->code;
    const struct ptx_function *text = code->text;
    const uint32_t            *cluster = text->required_cluster[0] ? text->required_cluster : f->cluster;
    const int                  values[] = {
                         [MAX_THREADS] = emu_function_max_threads(code),
                         [STATIC_SHARED] = (int)code->shared_static,
                         [CONST_SIZE] = constant_bytes(code->module),
                         [LOCAL_SIZE] = (int)code->local_bytes,
                         [REGISTERS] = emu_function_registers(code),
                         [PTX_VERSION] = code->module->text->target,
                         [BINARY_VERSION] = api_settings()->sm,
                         [DYNAMIC_SHARED] = dynamic_limit(code),
                         [CARVEOUT] = code->carveout,
                         [CLUSTER_MUST_BE_SET] = text->explicit_cluster && !text->required_cluster[0],
                         [CLUSTER_WIDTH] = (int)cluster[0],
                         [CLUSTER_HEIGHT] = (int)cluster[1],
                         [CLUSTER_DEPTH] = (int)cluster[2],
                         [NON_PORTABLE] = code->nonportable_cluster,
                         [CLUSTER_POLICY] = 0,
    };
    API_WANT(value && attribute < sizeof values / sizeof values[0], API_INVALID_VALUE);
    *value = values[attribute];
    return API_OK;
}

api_result api_function_set_attribute(struct api_function *f, unsigned int attribute, int value)
{
    struct emu_function *code = f->code;
    switch (attribute) {
    case DYNAMIC_SHARED:
        API_WANT(value >= 0 && (uint64_t)value + code->shared_static <= api_settings()->shared_opt_in,
                 API_INVALID_VALUE);
        code->max_dynamic_shared = value;
        return API_OK;
    case CARVEOUT:
        API_WANT(value >= -1 && value <= 100, API_INVALID_VALUE);
        code->carveout = value;
        return API_OK;
    case NON_PORTABLE:
        code->nonportable_cluster = value != 0;
        return API_OK;
    case CLUSTER_WIDTH:
    case CLUSTER_HEIGHT:
    case CLUSTER_DEPTH:
        API_WANT(value >= 0, API_INVALID_VALUE);
        API_WANT(!code->text->required_cluster[0], API_NOT_PERMITTED); /* the PTX defines it */
        f->cluster[attribute - CLUSTER_WIDTH] = (unsigned int)value;
        return API_OK;
    case CLUSTER_POLICY:
        return value >= 0 && value <= 2 ? API_OK : API_INVALID_VALUE;
    default:
        return API_INVALID_VALUE;
    }
}

api_result api_function_parameter(const struct emu_function *code, size_t index, size_t *offset, size_t *bytes)
{
    API_WANT(offset && index < code->parameter_count, API_INVALID_VALUE);
    *offset = code->parameters[index].offset;
    if (bytes != NULL)
        *bytes = code->parameters[index].bytes;
    return API_OK;
}

static api_result describe(struct api_context *context, struct CUfunc_st *handle, struct CUmod_st **module,
                           const char **name)
{
    struct api_function *f = NULL;
    API_WANT(module || name, API_INVALID_VALUE);
    API_TRY(api_function_get(context, handle, &f));
    if (module != NULL)
        *module = (struct CUmod_st *)f->module;
    if (name != NULL)
        *name = f->code->name;
    return API_OK;
}

static api_result loaded(struct api_context *context, struct CUfunc_st *handle, unsigned int *state)
{
    enum { LOADED = 1 };
    struct api_function *f = NULL;
    API_TRY(api_function_get(context, handle, &f));
    if (state != NULL)
        *state = LOADED;
    return API_OK;
}

api_result cuFuncGetAttribute(int *value, unsigned int attribute, struct CUfunc_st *function)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    API_TRY(api_function_get(call.context, function, &f));
    return api_function_attribute(f, attribute, value);
}

api_result cuFuncSetAttribute(struct CUfunc_st *function, unsigned int attribute, int value)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    API_TRY(api_function_get(call.context, function, &f));
    return api_function_set_attribute(f, attribute, value);
}

api_result cuFuncSetCacheConfig(struct CUfunc_st *function, unsigned int config)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    API_WANT(config <= 3, API_INVALID_VALUE);
    API_TRY(api_function_get(call.context, function, &f));
    f->cache_config = config;
    return API_OK;
}

api_result cuFuncGetModule(struct CUmod_st **module, struct CUfunc_st *function)
{
    API_CALL(API_CONTEXT, describe(call.context, function, module, NULL));
}
api_result cuFuncGetName(const char **name, struct CUfunc_st *function)
{
    API_CALL(API_CONTEXT, describe(call.context, function, NULL, name));
}

api_result cuFuncGetParamInfo(struct CUfunc_st *function, size_t index, size_t *offset, size_t *bytes)
{
    API_ENTER(API_CONTEXT);
    struct api_function *f = NULL;
    API_TRY(api_function_get(call.context, function, &f));
    return api_function_parameter(f->code, index, offset, bytes);
}

api_result cuFuncIsLoaded(unsigned int *state, struct CUfunc_st *function)
{
    API_CALL(API_CONTEXT, state ? loaded(call.context, function, state) : API_INVALID_VALUE);
}
api_result cuFuncLoad(struct CUfunc_st *function)
{
    API_CALL(API_CONTEXT, loaded(call.context, function, NULL));
}
