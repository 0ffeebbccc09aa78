/* headrace plan: pipeline schedules compared, drawn and checked; nothing is run. */
#include "app_try.h"
#include "commands.h"
#include "headrace/schedule.h"
#include "nearest.h"
#include "picture_schedule.h"
#include "plan_lanes.h"
#include "plan_optimise.h"
#include "plan_read.h"
#include "profile.h"
#include "schedule_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    MOST_NAMES = 64,
    LABEL = 8, /* columns of a lane beside the time */
    NO_TERMINAL = 160
};

/* ---- one schedule ------------------------------------------------------------------------ */
static hr_status find_name(const char *wanted, const char **out)
{
    const char *names[MOST_NAMES] = {"auto"};
    int n = 1;
    for (; n < MOST_NAMES && (names[n] = hr_schedule_name(n - 1)); n++)
        if (strcmp(names[n], wanted) == 0) {
            *out = names[n];
            return HR_OK;
        }
    return hr_fail(HR_ERR_INVALID, "schedule_name",
                   "--schedule '%s': there is no such schedule; the nearest is '%s'",
                   wanted, names[hr_app_nearest(wanted, names, n)]);
}

/* A text of the library's, consumed, as a file. */
static hr_status write_text(char *text, const char *path)
{
    hr_file *f = NULL;
    hr_status st = hr_file_begin(path, &f);
    if (st >= 0) {
        fputs(text, hr_file_stream(f)); /* the commit knows what a write met */
        st = hr_file_commit(f);
    }
    free(text);
    return st;
}

/* The text first, which holds every schedule. */
static hr_status write_files(const plan_options *o, const hr_schedule *s)
{
    char *text = NULL;
    if (o->text[0]) {
        APP_TRY(hr_schedule_print(s, &text));
        APP_TRY(write_text(text, o->text));
    }
    if (o->csv[0]) {
        APP_TRY(hr_schedule_print_csv(s, &text));
        APP_TRY(write_text(text, o->csv));
    }
    return HR_OK;
}

static int terminal_columns(void)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 4 * LABEL)
        return size.ws_col - LABEL;
    return NO_TERMINAL;
}

static double units(int64_t ticks)
{
    return (double)ticks / (double)HR_TICKS;
}

/* What is shown of a schedule, from the table's or from a file. */
typedef struct shown {
    const hr_schedule *s;
    const char *name;
    int parts; /* activations that make up a rank's share of a microbatch */
    bool queue;
    hr_figures *figures; /* with times and the critical path */
} shown;

static void say_figures(const shown *w, char *out, size_t room)
{
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_schedule_get_shape(w->s, &shape);
    const hr_figures *f = w->figures;
    int peak = 0, chunks = shape.stages / shape.ranks;
    double busy = 0;
    for (int k = 0; k < f->ranks; k++) {
        peak = f->rank[k].peak_act > peak ? f->rank[k].peak_act : peak;
        busy += (double)f->rank[k].busy;
    }
    double all = (double)f->makespan * f->ranks;
    snprintf(out, room,
             "%d ranks, %d microbatches, %d chunk%s a rank; makespan %.10g, bubble "
             "%.1f%%, peak %.4g activations, span %.10g",
             shape.ranks, shape.microbatches, chunks, chunks == 1 ? "" : "s",
             units(f->makespan), all > 0 ? 100 * (1 - busy / all) : 0,
             (double)peak / w->parts, units(f->span));
}

/* As a picture, or in lanes on standard output. */
static hr_status show(const shown *w, const char *path)
{
    char figures[256];
    slot_times t;
    hr_status st = HR_OK;
    say_figures(w, figures, sizeof figures);
    APP_TRY(hr_app_slot_times_make(w->s, w->figures, &t));
    printf("%s: %s\n", w->name, figures);
    printf("critical path: %zu slots, %.10g of work and %.10g of transfers\n",
           w->figures->path_steps, units(w->figures->path_compute),
           units(w->figures->path_transfer));
    if (path[0]) {
        picture_schedule p = {w->s, &t, w->figures, w->parts, w->name, figures};
        st = hr_app_picture_schedule(&p, path);
    } else {
        putchar('\n');
        st = hr_app_plan_lanes(&t, terminal_columns(), stdout);
    }
    hr_app_slot_times_fini(&t);
    return st;
}

static hr_status simulate_and_show(shown *w, const char *path)
{
    hr_simulate_opts opts = {HR_INIT(hr_simulate_opts), .times = true, .path = true,
                             .queue = w->queue};
    APP_TRY(hr_schedule_simulate(w->s, &opts, &w->figures));
    hr_status st = show(w, path);
    hr_figures_destroy(w->figures);
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
    shown w = {r->s, r->name, r->chunks * r->pieces, o->queue, NULL};
    APP_TRY(write_files(o, r->s));
    return simulate_and_show(&w, o->out);
}

/* What a search finds: above the table, unless it alone was asked for. */
static hr_status show_best(const plan_options *o, const plan_found *f)
{
    bool alone = strcmp(o->schedule, "auto") == 0;
    if (!alone) {
        APP_TRY(hr_app_plan_compare(o, &f->row));
        putchar('\n');
    }
    hr_app_plan_found_say(f, stdout);
    if (alone || o->out[0])
        return show_one(o, &f->row);
    return write_files(o, f->row.s);
}

/* ---- somebody else's ----------------------------------------------------------------------- */
static hr_status say_sound(const plan_options *o, const hr_schedule *s)
{
    hr_figures *f = NULL;
    hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
    hr_simulate_opts opts = {HR_INIT(hr_simulate_opts), .queue = o->queue};
    APP_TRY(hr_schedule_simulate(s, &opts, &f));
    hr_schedule_get_shape(s, &shape);
    int peak = 0;
    for (int k = 0; k < f->ranks; k++)
        peak = f->rank[k].peak_act > peak ? f->rank[k].peak_act : peak;
    printf("%s is sound: %d ranks, %d stages, %d microbatches, %zu actions%s\n"
           "makespan %.10g, peak %d activations of a stage\n",
           o->check, shape.ranks, shape.stages, shape.microbatches,
           hr_schedule_actions(s),
           hr_schedule_is_lowered(s) ? " with communication" : "", units(f->makespan),
           peak);
    hr_figures_destroy(f);
    return HR_OK;
}

static hr_status check_file(plan_options *o)
{
    hr_schedule *s = NULL;
    hr_status st;
    const char *slash = strrchr(o->check, '/');
    APP_TRY(hr_app_plan_read(o, &s));
    APP_TRY_GOTO(
        st, hr_app_schedule_at("--check", o->check, hr_schedule_check(s, NULL, NULL)),
        done);
    APP_TRY_GOTO(st, say_sound(o, s), done);
    APP_TRY_GOTO(st, write_files(o, s), done);
    if (o->out[0]) {
        hr_schedule_shape shape = {HR_INIT(hr_schedule_shape)};
        hr_schedule_get_shape(s, &shape);
        shown w = {s, slash ? slash + 1 : o->check,
                   (shape.stages - 1) / shape.ranks + 1, o->queue, NULL};
        st = simulate_and_show(&w, o->out);
    }
done:
    hr_schedule_destroy(s);
    return st;
}

/* The table, or one of it. */
static int plan(const plan_options *o)
{
    plan_row r = {0};
    if (!o->schedule[0])
        return hr_app_finish("plan", hr_app_plan_compare(o, NULL));
    hr_status st = make(o, &r);
    if (st == HR_ERR_INVALID)
        return hr_app_usage("plan", st);
    if (st >= 0)
        st = show_one(o, &r);
    hr_app_plan_row_fini(&r);
    return hr_app_finish("plan", st);
}

static int search(const plan_options *o)
{
    plan_found f;
    hr_status st = hr_app_plan_optimise(o, &f);
    if (st == HR_ERR_INVALID)
        return hr_app_usage("plan", st);
    if (st >= 0)
        st = show_best(o, &f);
    hr_app_plan_found_fini(&f);
    return hr_app_finish("plan", st);
}

int hr_app_cmd_plan(int argc, char *const *argv)
{
    static plan_options o; /* holds several paths: too large for a stack */
    profile *measured = NULL;
    hr_status st = hr_app_options_plan(argc, argv, &o);
    if (st != HR_OK)
        return hr_app_usage("plan", st);
    if (o.profile[0] && (st = hr_app_profile_read(o.profile, &measured)) < 0)
        return hr_app_finish("plan", st);
    o.measured = measured;
    int status = o.check[0]                 ? hr_app_finish("plan", check_file(&o))
                 : hr_app_plan_searches(&o) ? search(&o)
                                            : plan(&o);
    hr_app_profile_destroy(measured);
    return status;
}
