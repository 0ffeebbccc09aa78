/* headrace train --dry-run: everything that can be found out without training, and nothing written. */
#include "app_try.h"
#include "checkpoint.h"
#include "commands.h"
#include "data.h"
#include "run_pipeline.h"

static void put_summary(const train_options *o, const pipeline *p, const data_set *d)
{
    static const char *const names[DATA_PARTS] = {"training", "validation"};
    const model_shape *m = &o->model;
    for (data_part part = DATA_TRAIN; part < DATA_PARTS; part++) {
        size_t bytes = 0;
        (void)hr_app_data_text(d, part, &bytes);
        printf("%-12s%zu bytes of %d file%s\n", names[part], bytes,
               hr_app_data_files(d, part), hr_app_data_files(d, part) == 1 ? "" : "s");
    }
    printf("%-12s%d layers (%d dense), width %d, %d heads, %d experts, top-%d%s\n",
           "model", m->layers, m->dense_layers, m->width, m->heads, m->experts,
           m->top_k, m->mtp ? ", multi-token prediction" : "");
    printf("%-12s%d, %d experts of a layer each\n", "ranks", o->pp * o->dp,
           m->experts / o->ep);
    if (p->stages > 1)
        printf("%-12s%d on %d pipeline ranks, schedule %s, %d pairs\n", "stages",
               p->stages, o->pp, p->name, p->pairs);
    printf(
        "%-12s%lld, %d microbatches of %d x %d bytes on each rank: %lld bytes each\n",
        "steps", (long long)o->steps, o->microbatches, o->micro_batch_size, m->seq,
        (long long)o->global_batch_size * m->seq);
    if (o->link_gbps > 0 || o->link_us > 0)
        printf("%-12simitated, %g Gbit/s and %g us\n", "link", o->link_gbps,
               o->link_us);
}

hr_status hr_app_dry_run(const train_options *o)
{
    data_set *d = NULL;
    checkpoint *former = NULL;
    checkpoint_info info;
    pipeline p;
    APP_TRY(hr_app_data_open(o->data, DATA_CAP, &d));
    hr_status st = hr_app_data_check(d, o->model.seq);
    if (st == HR_OK && o->resume)
        st = hr_app_checkpoint_resume(o, &info, &former);
    if (st == HR_OK)
        st = hr_app_pipeline_make(o, &p);
    if (st == HR_OK) {
        put_summary(o, &p, d);
        hr_app_pipeline_fini(&p);
    }
    hr_app_checkpoint_close(former);
    hr_app_data_close(d);
    return st;
}
