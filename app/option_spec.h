/* One option as data, and the engine that reads tables of them. A table lists headings and options; the
 * engine neither knows what an option means nor which sub-command it belongs to. Tables:
 * option_table.c. Entrance for the sub-commands: options.h.
 */
#ifndef HR_APP_OPTION_SPEC_H
#define HR_APP_OPTION_SPEC_H
#include "headrace/base.h"

typedef enum option_kind {
    OPTION_HEADING, /* of --help; not an option */
    OPTION_INT,     /* int */
    OPTION_INT64,   /* int64_t */
    OPTION_REAL,    /* double */
    OPTION_CHOICE,  /* int: index into `words` */
    OPTION_FLAG,    /* int: 0 or 1; takes no value */
    OPTION_TEXT     /* char[room] */
} option_kind;

typedef struct option_spec {
    const char *name; /* without dashes; of a heading its text */
    option_kind kind;
    size_t offset, room;  /* in the struct; room of a text with its end */
    double min, max;      /* of numbers, both valid */
    const char *fallback; /* the default, as one would type it */
    const char *shown;    /* how --help tells the default, where it depends on others */
    const char *arg;      /* what --help calls the value: "N", "PATH" */
    const char *help;     /* one line, with the unit */
    const char *const
        *words; /* of a choice, ends with NULL; of a text: what it may be */
} option_spec;

typedef struct option_table {
    const char *command; /* "train" */
    const char *about;   /* first line of --help */
    const option_spec *spec;
    int n; /* at most 64 */
} option_table;

extern const option_table hr_app_train_table, hr_app_sample_table, hr_app_plan_table,
    hr_app_info_table;

/* Which options were given: bit i for spec[i]. */
typedef uint64_t option_set;

void hr_app_option_defaults(const option_table *t, void *target);

/* Index of the option called `name`, -1 if there is none. */
int hr_app_option_find(const option_table *t, const char *name);
/* The name that is nearest to one that does not exist. */
const char *hr_app_option_nearest(const option_table *t, const char *name);

/* Checks `value` and stores it in the struct `target` (NULL: only checks). `label` opens the
 * message: "--ep", or a key with its file. */
hr_status hr_app_option_set(const option_spec *spec, const char *label,
                            const char *value, void *target);

/* The command line. PENDING: --help is among it. */
hr_status hr_app_option_parse(const option_table *t, int argc, char *const *argv,
                              void *target, option_set *given);

void hr_app_option_help(const option_table *t, FILE *to);

#endif
