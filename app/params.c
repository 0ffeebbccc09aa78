/* params.c: see params.h. */
#include "params.h"
#include "app_try.h"
#include "counter.h"
#include "headrace/ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t hr_app_param_count(const hr_app_param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->ndim; i++)
        n *= p->shape[i];
    return n;
}

int hr_app_params_add(hr_app_params *p, const hr_app_spec *whole, int rank, int ranks)
{
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 32;
        hr_app_param *list = realloc(p->list, (size_t)cap * sizeof *list);
        if (!list)
            return -1;
        p->list = list;
        p->cap = cap;
    }
    hr_app_param *q = &p->list[p->n];
    hr_app_region region = whole->region;
    *q = (hr_app_param){.region = region, .ndim = whole->ndim, .std = whole->std};
    memcpy(q->name, whole->name, sizeof q->name);
    memcpy(q->shape, whole->shape, sizeof q->shape);
    if (region == EXPERT)
        q->shape[0] /= ranks;
    int64_t count = hr_app_param_count(q);
    q->offset = p->count[region];
    q->first = region == EXPERT ? rank * count : 0;
    p->count[region] += (count + 15) / 16 * 16; /* each starts on a cache line */
    return p->n++;
}

static uint64_t name_key(uint64_t seed, const char *name)
{
    uint64_t h = hr_app_mix(seed);
    for (; *name; name++)
        h = hr_app_mix(h ^ (unsigned char)*name);
    return h;
}

static void start_values(const hr_app_param *q, uint64_t seed, float *out)
{
    uint64_t key = name_key(seed, q->name);
    int64_t n = hr_app_param_count(q);
    for (int64_t i = 0; i < n; i++)
        out[i] =
            q->std > 0 ? q->std * hr_app_normal(key, (uint64_t)(q->first + i)) : 1.0f;
}

/* A tensor over elements of `flat`, with a claim of its own. */
static hr_status part(hr_tensor *flat, const hr_app_param *q, hr_tensor **out)
{
    hr_dtype type = hr_tensor_dtype(flat);
    return hr_tensor_over(hr_tensor_storage(flat),
                          (size_t)q->offset * hr_dtype_bytes(type), type, q->ndim,
                          q->shape, out);
}

static hr_status build_leaf(hr_app_params *p, hr_app_param *q, int train)
{
    hr_app_region r = q->region;
    APP_TRY(part(p->rounded[r] ? p->rounded[r] : p->w[r], q, &q->w));
    hr_tensor_set_name(q->w, q->name);
    if (!train)
        return HR_OK;
    APP_TRY(hr_tensor_set_requires_grad(q->w, true));
    hr_tensor *g;
    APP_TRY(part(p->g[r], q, &g));
    hr_status st = hr_tensor_set_grad(q->w, g);
    hr_tensor_release(g);
    return st;
}

static hr_status build_region(hr_app_params *p, hr_app_region r, uint64_t seed,
                              int train, hr_dtype type)
{
    int64_t n = p->count[r];
    APP_TRY(hr_tensor_zeros(HR_F32, 1, &n, &p->w[r]));
    if (type != HR_F32)
        APP_TRY(hr_tensor_zeros(type, 1, &n, &p->rounded[r]));
    if (train)
        APP_TRY(hr_tensor_zeros(HR_F32, 1, &n, &p->g[r]));
    float *host = calloc((size_t)n + 1, sizeof *host);
    if (!host)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory for %lld parameters",
                       (long long)n);
    for (int i = 0; i < p->n; i++)
        if (p->list[i].region == r)
            start_values(&p->list[i], seed, host + p->list[i].offset);
    hr_status st = hr_tensor_write(p->w[r], host, (size_t)n * sizeof *host);
    free(host);
    return st;
}

hr_status hr_app_params_round(const hr_app_params *p)
{
    for (int r = 0; r < REGIONS; r++)
        if (p->rounded[r])
            APP_TRY(hr_op_convert(p->w[r], p->rounded[r]));
    return HR_OK;
}

hr_status hr_app_params_build(hr_app_params *p, uint64_t seed, int train, hr_dtype type)
{
    for (int r = 0; r < REGIONS; r++)
        APP_TRY(build_region(p, (hr_app_region)r, seed, train, type));
    APP_TRY(hr_app_params_round(p));
    for (int i = 0; i < p->n; i++)
        APP_TRY(build_leaf(p, &p->list[i], train));
    return hr_stream_synchronize(hr_stream_current());
}

hr_status hr_app_params_zero_grad(hr_app_params *p)
{
    for (int r = 0; r < REGIONS; r++)
        if (p->count[r])
            APP_TRY(hr_fill(hr_stream_current(), hr_tensor_data(p->g[r]), 0,
                            hr_tensor_bytes(p->g[r])));
    return HR_OK;
}

void hr_app_params_fini(hr_app_params *p)
{
    for (int i = 0; i < p->n; i++)
        hr_tensor_release(p->list[i].w);
    for (int r = 0; r < REGIONS; r++) {
        hr_tensor_release(p->w[r]);
        hr_tensor_release(p->g[r]);
        hr_tensor_release(p->rounded[r]);
    }
    free(p->list);
    *p = (hr_app_params){0};
}

hr_status hr_app_flat_part(hr_tensor *flat, int64_t at, int64_t count, hr_tensor **out)
{
    return hr_tensor_over(hr_tensor_storage(flat), (size_t)at * sizeof(float), HR_F32,
                          1, &count, out);
}
