/* function.c - functions: attributes, names, parameters, occupancy. */
#include "api.h"

enum { /* CUfunction_attribute */
       MAX_THREADS,
       STATIC_SHARED,
       CONST_SIZE,
       LOCAL_SIZE,
       REGISTERS,
       PTX_VERSION,
       BINARY_VERSION,
       CACHE_CA,
       DYNAMIC_SHARED,
       CARVEOUT,
       CLUSTER_MUST_BE_SET,
       CLUSTER_WIDTH,
       CLUSTER_HEIGHT,
       CLUSTER_DEPTH,
       NON_PORTABLE,
       CLUSTER_POLICY
};

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
    API_WANT(value, API_INVALID_VALUE);
    switch (attribute) {
    case MAX_THREADS:
        *value = emu_function_max_threads(code);
        return API_OK;
    case STATIC_SHARED:
        *value = (int)code->shared_static;
        return API_OK;
    case CONST_SIZE:
        *value = constant_bytes(code->module);
        return API_OK;
    case LOCAL_SIZE:
        *value = (int)code->local_bytes;
        return API_OK;
    case REGISTERS:
        *value = emu_function_registers(code);
        return API_OK;
    case PTX_VERSION:
        *value = code->module->text->target;
        return API_OK;
    case BINARY_VERSION:
        *value = api_settings()->sm;
        return API_OK;
    case CACHE_CA:
        *value = 0;
        return API_OK;
    case DYNAMIC_SHARED:
        *value = dynamic_limit(code);
        return API_OK;
    case CARVEOUT:
        *value = code->carveout;
        return API_OK;
    case CLUSTER_MUST_BE_SET:
        *value = text->explicit_cluster && !text->required_cluster[0];
        return API_OK;
    case CLUSTER_WIDTH:
    case CLUSTER_HEIGHT:
    case CLUSTER_DEPTH:
        *value = (int)(text->required_cluster[0] ? text->required_cluster
                                                 : f->cluster)[attribute - CLUSTER_WIDTH];
        return API_OK;
    case NON_PORTABLE:
        *value = code->nonportable_cluster;
        return API_OK;
    case CLUSTER_POLICY:
        *value = 0;
        return API_OK;
    default:
        return API_INVALID_VALUE;
    }
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

static api_result get_attribute(struct api_context *context, int *value, unsigned int attribute,
                                struct CUfunc_st *handle)
{
    struct api_function *f = NULL;
    API_TRY(api_function_get(context, handle, &f));
    return api_function_attribute(f, attribute, value);
}

static api_result set_attribute(struct api_context *context, struct CUfunc_st *handle, unsigned int attribute,
                                int value)
{
    struct api_function *f = NULL;
    API_TRY(api_function_get(context, handle, &f));
    return api_function_set_attribute(f, attribute, value);
}

static api_result set_cache(struct api_context *context, struct CUfunc_st *handle, unsigned int config)
{
    struct api_function *f = NULL;
    API_WANT(config <= 3, API_INVALID_VALUE);
    API_TRY(api_function_get(context, handle, &f));
    f->cache_config = config;
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

static api_result parameter(struct api_context *context, struct CUfunc_st *handle, size_t index, size_t *offset,
                            size_t *bytes)
{
    struct api_function *f = NULL;
    API_TRY(api_function_get(context, handle, &f));
    return api_function_parameter(f->code, index, offset, bytes);
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
    API_CALL(API_CONTEXT, get_attribute(call.context, value, attribute, function));
}
api_result cuFuncSetAttribute(struct CUfunc_st *function, unsigned int attribute, int value)
{
    API_CALL(API_CONTEXT, set_attribute(call.context, function, attribute, value));
}
api_result cuFuncSetCacheConfig(struct CUfunc_st *function, unsigned int config)
{
    API_CALL(API_CONTEXT, set_cache(call.context, function, config));
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
    API_CALL(API_CONTEXT, parameter(call.context, function, index, offset, bytes));
}
api_result cuFuncIsLoaded(unsigned int *state, struct CUfunc_st *function)
{
    API_CALL(API_CONTEXT, state ? loaded(call.context, function, state) : API_INVALID_VALUE);
}
api_result cuFuncLoad(struct CUfunc_st *function)
{
    API_CALL(API_CONTEXT, loaded(call.context, function, NULL));
}
