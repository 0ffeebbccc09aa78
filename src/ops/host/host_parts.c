/* What the host kernels share: parts, checking of indices, scratch, rotary tables. */
#include "ops/host/host_parts.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

hr_status hr__parts_run(hr_team *team, int64_t n, hr_team_part part, void *arg)
{
    if (n <= 0)
        return HR_OK;
    return n == 1 ? part(arg, 0) : hr_team_run(team, (int)n, part, arg);
}

hr_status hr__indices_check(const char *op, const char *what, const int32_t *index,
                            int64_t count, int64_t limit, bool or_none)
{
    int32_t least = or_none ? -1 : 0;
    bool bad = false;
    for (int64_t i = 0; i < count; i++)
        bad |= index[i] < least || index[i] >= limit;
    if (!bad)
        return HR_OK;
    int64_t i = 0;
    while (index[i] >= least && index[i] < limit)
        i++;
    return hr_fail(HR_ERR_INVALID, "index_range", "%s: %s[%lld] is %d, not %d..%lld",
                   op, what, (long long)i, (int)index[i], (int)least,
                   (long long)limit - 1);
}

/* ---- scratch ---- */
struct scratch {
    size_t bytes;
    void *memory;
};

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static int scratch_error;

static void scratch_free(void *p)
{
    struct scratch *s = p;
    free(s->memory);
    free(s);
}

static void scratch_make_key(void)
{
    scratch_error = pthread_key_create(&scratch_key, scratch_free);
}

static struct scratch *scratch_of_thread(void)
{
    pthread_once(&scratch_once, scratch_make_key);
    if (scratch_error)
        return NULL;
    struct scratch *s = pthread_getspecific(scratch_key);
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (s && pthread_setspecific(scratch_key, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void *hr__scratch(size_t bytes)
{
    struct scratch *s = scratch_of_thread();
    if (!s)
        return NULL;
    if (s->bytes < bytes) {
        free(s->memory);
        s->bytes = (bytes + 4095) / 4096 * 4096;
        s->memory = aligned_alloc(64, s->bytes);
        if (!s->memory)
            s->bytes = 0;
    }
    return s->memory;
}

/* ---- rotary tables ---- */
/* Tables never change and never go, so that kernels may read them without a lock; a longer one is
 * twice as long at least, so that all together are at most twice the longest. */
struct rotary {
    struct rotary *next;
    int64_t positions, width;
    float base;
    float table[];
};

static pthread_mutex_t rotary_mu = PTHREAD_MUTEX_INITIALIZER;
static struct rotary *rotary_all; /* rotary_mu; newest first */

static struct rotary *rotary_make(int64_t positions, int64_t width, float base)
{
    int64_t half = width / 2;
    struct rotary *r = malloc(sizeof *r + (size_t)(positions * width) * sizeof(float));
    if (!r)
        return NULL;
    *r = (struct rotary){.positions = positions, .width = width, .base = base};
    for (int64_t i = 0; i < half; i++) {
        double turn = pow(base, -2.0 * (double)i / (double)width);
        for (int64_t t = 0; t < positions; t++) {
            r->table[t * width + i] = (float)cos((double)t * turn);
            r->table[t * width + half + i] = (float)sin((double)t * turn);
        }
    }
    return r;
}

hr_status hr__rotary_table(int64_t seq_len, int64_t width, float base,
                           const float **out)
{
    int64_t positions = 64;
    *out = NULL;
    pthread_mutex_lock(&rotary_mu);
    for (struct rotary *r = rotary_all; r && !*out; r = r->next)
        if (r->width == width && r->base == base) {
            if (r->positions >= seq_len)
                *out = r->table;
            else if (positions < 2 * r->positions)
                positions = 2 * r->positions;
        }
    if (!*out) {
        while (positions < seq_len)
            positions *= 2;
        struct rotary *r = rotary_make(positions, width, base);
        if (r) {
            r->next = rotary_all;
            rotary_all = r;
            *out = r->table;
        }
    }
    pthread_mutex_unlock(&rotary_mu);
    if (!*out)
        return hr_fail(HR_ERR_NOMEM, NULL,
                       "attention: no memory for the rotary table of %lld positions",
                       (long long)seq_len);
    return HR_OK;
}
