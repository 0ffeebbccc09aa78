/* headrace: the entrance. Finds the sub-command and gives it the rest of the line. */
#include "commands.h"
#include "nearest.h"
#include "picture_canvas.h"

#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char *const *argv);
    const char *help;
} command;

static const command commands[] = {
    {"train", hr_app_cmd_train, "train a mixture-of-experts GPT over several ranks"},
    {"sample", hr_app_cmd_sample, "generate text with the model of a checkpoint"},
    {"plan", hr_app_cmd_plan, "compare, draw and check pipeline schedules"},
    {"info", hr_app_cmd_info, "what this build and this machine offer"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void put_help(FILE *to)
{
    fputs("usage: headrace COMMAND [--option value]...\n\n", to);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s%s\n", commands[i].name, commands[i].help);
    fputs("\n  --help    this text; after a command its options\n"
          "  --version the version\n\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n",
          to);
}

static int refuse(const char *name)
{
    const char *words[COMMANDS + 2];
    for (int i = 0; i < COMMANDS; i++)
        words[i] = commands[i].name;
    words[COMMANDS] = "--help";
    words[COMMANDS + 1] = "--version";
    fprintf(stderr, "headrace: there is no command '%s'; the nearest is '%s'\n", name,
            words[hr_app_nearest(name, words, COMMANDS + 2)]);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        put_help(stderr);
        fputs("headrace: a command is wanted, for instance 'train'\n", stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        strcmp(name, "help") == 0) {
        put_help(stdout);
        return hr_app_finish(name, HR_OK);
    }
    if (strcmp(name, "--version") == 0) {
        printf("headrace %s\n", hr_version());
        return hr_app_finish(name, HR_OK);
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) {
            int status = commands[i].run(argc - 2, argv + 2);
            hr_app_canvas_fini();
            return status;
        }
    return refuse(name);
}
