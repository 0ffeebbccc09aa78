/* headrace plan: pipeline schedules compared, drawn and checked; nothing is run. */
#include "app_try.h"
#include "commands.h"
#include "headrace/schedule.h"
#include "nearest.h"
#include "picture_schedule.h"
#include "plan_lanes.h"
#include "plan_row.h"
#include "whole_text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    MOST_TEXT = 64 << 20, /* what the library reads */
    MOST_NAMES = 64,
    LABEL = 8, /* columns of a lane beside the time */
    NO_TERMINAL = 160
};

/* ---- one schedule ------------------------------------------------------------------------ */
static hr_status find_name(const char *wanted, const char **out)
{
    const char *names[MOST_NAMES];
    int n = 0;
    for (; n < MOST_NAMES && (names[n] = hr_schedule_name(n)); n++)
        if (strcmp(names[n], wanted) == 0) {
            *out = names[n];
            return HR_OK;
        }
    return hr_fail(HR_ERR_INVALID, "schedule_name",
                   "--schedule '%s': there is no such schedule; the nearest is '%s'",
                   wanted, names[hr_app_nearest(wanted, names, n)]);
}

static hr_status write_csv(const hr_schedule *s, const char *path)
{
    char *text = NULL;
    hr_file *f = NULL;
    APP_TRY(hr_schedule_print_csv(s, &text));
    hr_status st = hr_file_begin(path, &f);
    if (st >= 0) {
        fputs(text, hr_file_stream(f)); /* the commit knows what a write met */
        st = hr_file_commit(f);
    }
    free(text);
    return st;
}

static int terminal_columns(void)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 4 * LABEL)
        return size.ws_col - LABEL;
    return NO_TERMINAL;
}

static void say_figures(const plan_options *o, const plan_row *r, char *out,
                        size_t room)
{
    snprintf(out, room,
             "%d ranks, %d microbatches, %d chunk%s a rank; makespan %.10g, bubble "
             "%.1f%%, peak %.4g activations, span %.10g",
             o->pp, o->microbatches, r->chunks, r->chunks == 1 ? "" : "s",
             (double)r->figures->makespan / (double)HR_TICKS, 100 * r->bubble,
             r->peak_act, (double)r->figures->span / (double)HR_TICKS);
}

/* As a picture, or in lanes on standard output. */
static hr_status show(const plan_options *o, const plan_row *r)
{
    char figures[256];
    slot_times t;
    hr_status st;
    say_figures(o, r, figures, sizeof figures);
    APP_TRY(hr_app_slot_times_make(r->s, &t));
    printf("%s: %s\n", r->name, figures);
    if (o->out[0]) {
        picture_schedule p = {r->s,    &t,     r->figures, r->chunks * r->pieces,
                              r->name, figures};
        st = hr_app_picture_schedule(&p, o->out);
    } else {
        putchar('\n');
        st = hr_app_plan_lanes(&t, terminal_columns(), stdout);
    }
    hr_app_slot_times_fini(&t);
    return st;
}

/* The options do not allow it: as a usage error, for hr_app_usage(). */
static hr_status make(const plan_options *o, plan_row *r)
{
    const char *name = NULL;
    APP_TRY(find_name(o->schedule, &name));
    APP_TRY(hr_app_plan_row_make(o, name,
                                 o->vp > 0 ? o->vp : hr_app_plan_chunks(o, name), r));
    if (!r->why[0])
        return HR_OK;
    hr_status st = hr_fail(HR_ERR_INVALID, "schedule_refused", "%s", r->why);
    hr_app_plan_row_fini(r);
    return st;
}

static hr_status show_one(const plan_options *o, const plan_row *r)
{
    if (o->csv[0])
        APP_TRY(write_csv(r->s, o->csv));
    return show(o, r);
}

/* ---- somebody else's ----------------------------------------------------------------------- */
static hr_status read_schedule(const char *path, hr_schedule **out)
{
    char *text = NULL;
    size_t n = 0;
    const char *dot = strrchr(path, '.');
    APP_TRY(hr_app_read_file(path, MOST_TEXT, &text, &n));
    bool csv = dot && strcasecmp(dot, ".csv") == 0;
    hr_status st =
        csv ? hr_schedule_parse_csv(text, n, out) : hr_schedule_parse(text, n, out);
    free(text);
    return st;
}

static hr_status check_file(const char *path)
{
    hr_schedule *s = NULL;
    hr_figures *f = NULL;
    hr_status st;
    APP_TRY(read_schedule(path, &s));
    APP_TRY_GOTO(st, hr_schedule_check(s, NULL, NULL), done);
    APP_TRY_GOTO(st, hr_schedule_simulate(s, NULL, &f), done);
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_schedule_get_shape(s, &shape);
    int peak = 0;
    for (int k = 0; k < f->ranks; k++)
        peak = f->rank[k].peak_act > peak ? f->rank[k].peak_act : peak;
    printf("%s is sound: %d ranks, %d stages, %d microbatches, %zu actions%s\n"
           "makespan %.10g, peak %d activations\n",
           path, shape.ranks, shape.stages, shape.microbatches, hr_schedule_actions(s),
           hr_schedule_is_lowered(s) ? " with communication" : "",
           (double)f->makespan / (double)HR_TICKS, peak);
done:
    hr_figures_destroy(f);
    hr_schedule_destroy(s);
    return st;
}

int hr_app_cmd_plan(int argc, char *const *argv)
{
    static plan_options o; /* holds several paths: too large for a stack */
    hr_status st = hr_app_options_plan(argc, argv, &o);
    if (st != HR_OK)
        return hr_app_usage("plan", st);
    if (o.check[0])
        return hr_app_finish("plan", check_file(o.check));
    if (!o.schedule[0])
        return hr_app_finish("plan", hr_app_plan_compare(&o));
    plan_row r = {0};
    st = make(&o, &r);
    if (st == HR_ERR_INVALID)
        return hr_app_usage("plan", st);
    if (st >= 0)
        st = show_one(&o, &r);
    hr_app_plan_row_fini(&r);
    return hr_app_finish("plan", st);
}
