/* whole_state.c: see whole_state.h. */
#include "support/whole_state.h"
#include "app_try.h"
#include "catalog.h"
#include <stdlib.h>
#include <string.h>

static const char *const SUFFIX[] = {"", ".adam_m", ".adam_v"};
enum { KINDS = 3 };

static int64_t elements(const hr_app_spec *spec)
{
    int64_t n = 1;
    for (int d = 0; d < spec->ndim; d++)
        n *= spec->shape[d];
    return n;
}

static hr_status make_room(const hr_app_catalog *c, whole_state *s)
{
    s->n_bytes = sizeof s->info;
    for (int i = 0; i < c->n; i++)
        s->n_bytes += KINDS * (size_t)elements(&c->list[i].spec) * sizeof(float);
    s->bytes = calloc(1, s->n_bytes);
    s->list = calloc((size_t)c->n * KINDS + 1, sizeof *s->list);
    return s->bytes && s->list ? HR_OK : hr_fail(HR_ERR_NOMEM, NULL, "no memory");
}

static hr_status read_tensors(checkpoint *from, const hr_app_catalog *c, whole_state *s)
{
    float *to = (float *)(void *)(s->bytes + sizeof s->info);
    memcpy(s->bytes, &s->info, sizeof s->info);
    for (int i = 0; i < KINDS * c->n; i++) {
        const hr_app_spec *spec = &c->list[i % c->n].spec;
        whole_tensor *t = &s->list[s->n++];
        snprintf(t->name, sizeof t->name, "%s%s", spec->name, SUFFIX[i / c->n]);
        t->count = elements(spec);
        t->data = to;
        APP_TRY(hr_app_checkpoint_read(from, t->name, spec->ndim, spec->shape, 0,
                                       t->count, to));
        to += t->count;
    }
    return HR_OK;
}

hr_status whole_state_read(const char *path, whole_state *out)
{
    checkpoint *from;
    hr_app_catalog *c = NULL;
    *out = (whole_state){0};
    APP_TRY(hr_app_checkpoint_open(path, &out->info, &from));
    hr_status st = hr_app_catalog_create(&out->info.model, &c);
    if (st >= 0)
        st = make_room(c, out);
    if (st >= 0)
        st = read_tensors(from, c, out);
    hr_app_catalog_destroy(c);
    hr_app_checkpoint_close(from);
    if (st < 0)
        whole_state_fini(out);
    return st;
}

void whole_state_fini(whole_state *s)
{
    free(s->list);
    free(s->bytes);
    *s = (whole_state){0};
}

const whole_tensor *whole_state_find(const whole_state *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->list[i].name, name) == 0)
            return &s->list[i];
    return NULL;
}

char *whole_state_bytes(const char *out, size_t *n)
{
    whole_state s;
    *n = 0;
    if (whole_state_read(out, &s) < 0)
        return NULL;
    *n = s.n_bytes;
    free(s.list);
    return s.bytes;
}
