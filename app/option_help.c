/* The text of --help, from a table of options: never out of step with what is parsed. */
#include "option_spec.h"

#include <string.h>

enum { HELP_COLUMN = 34 };

/* "--overlap on|off", "--steps N" */
static void name_and_value(const option_spec *s, char *out, size_t room)
{
    snprintf(out, room, "--%s", s->name);
    if (s->kind == OPTION_FLAG)
        return;
    if (s->kind != OPTION_CHOICE) {
        snprintf(out + strlen(out), room - strlen(out), " %s", s->arg);
        return;
    }
    for (int i = 0; s->words[i]; i++)
        snprintf(out + strlen(out), room - strlen(out), "%c%s", i ? '|' : ' ',
                 s->words[i]);
}

static void put_option(const option_spec *s, FILE *to)
{
    char left[128];
    name_and_value(s, left, sizeof left);
    int width = HELP_COLUMN - 2;
    if ((int)strlen(left) >= width)
        fprintf(to, "  %s\n%*s", left, HELP_COLUMN, "");
    else
        fprintf(to, "  %-*s", width, left);
    fprintf(to, "%s", s->help);
    const char *fallback = s->shown ? s->shown : s->fallback;
    if (s->kind != OPTION_FLAG && *fallback)
        fprintf(to, " (default: %s)", fallback);
    fputc('\n', to);
}

void hr_app_option_help(const option_table *t, FILE *to)
{
    fprintf(to, "usage: headrace %s [--option value | --option=value]...\n\n%s\n",
            t->command, t->about);
    for (int i = 0; i < t->n; i++) {
        if (t->spec[i].kind == OPTION_HEADING)
            fprintf(to, "\n%s\n", t->spec[i].name);
        else
            put_option(&t->spec[i], to);
    }
    fprintf(to, "  %-*s%s\n", HELP_COLUMN - 2, "--help", "this text");
}
