/* The way from a command line to a checked struct: defaults, the file that --config names, the command
 * line, then what all of them must agree on. */
#include "options.h"
#include "app_try.h"
#include "config_json.h"
#include "option_check.h"

/* `config` is the path in the struct, which the command line fills; NULL: no such option. */
static hr_status read_all(const option_table *t, int argc, char *const *argv,
                          void *target, const char *config, option_set *given)
{
    hr_app_option_defaults(t, target);
    hr_status st = hr_app_option_parse(t, argc, argv, target, given);
    if (st == HR_PENDING)
        hr_app_option_help(t, stdout);
    if (st != HR_OK || !config || !*config)
        return st;
    return hr_app_config_read(t, config, target, given);
}

hr_status hr_app_options_train(int argc, char *const *argv, train_options *o)
{
    option_set given = 0;
    *o = (train_options){0};
    hr_status st = read_all(&hr_app_train_table, argc, argv, o, o->config, &given);
    return st == HR_OK ? hr_app_check_train(o, given) : st;
}

hr_status hr_app_options_sample(int argc, char *const *argv, sample_options *o)
{
    option_set given = 0;
    *o = (sample_options){0};
    return read_all(&hr_app_sample_table, argc, argv, o, o->config, &given);
}

hr_status hr_app_options_plan(int argc, char *const *argv, plan_options *o)
{
    option_set given = 0;
    *o = (plan_options){0};
    hr_status st = read_all(&hr_app_plan_table, argc, argv, o, NULL, &given);
    return st == HR_OK ? hr_app_check_plan(o, given) : st;
}

hr_status hr_app_options_info(int argc, char *const *argv, info_options *o)
{
    option_set given = 0;
    *o = (info_options){0};
    return read_all(&hr_app_info_table, argc, argv, o, NULL, &given);
}

void hr_app_options_train_defaults(train_options *o)
{
    *o = (train_options){0};
    hr_app_option_defaults(&hr_app_train_table, o);
    hr_status st = hr_app_check_train(o, 0);
    (void)st; /* a test holds the defaults to the checks */
}
