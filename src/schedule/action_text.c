/* Actions in text. Strict: every character of a field means something, or the field is refused. */
#include "schedule/action_text.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
#define X(name, word) word,
    HR_ACTION_MAP(X)
#undef X
};
enum { KINDS = sizeof words / sizeof words[0] };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool hr__number_read(const char *at, const char *end, int64_t most, int64_t *out)
{
    int64_t v = 0;
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (!is_digit(*at))
            return false;
        v = 10 * v + (*at - '0');
        if (v > most)
            return false;
    }
    *out = v;
    return true;
}

/* Which word is [at, end)? -1 none. */
static int kind_of(const char *at, const char *end)
{
    size_t n = (size_t)(end - at);
    for (int k = 0; k < KINDS; k++)
        if (strlen(words[k]) == n && memcmp(words[k], at, n) == 0)
            return k;
    return -1;
}

static const char *action_read(const char *at, const char *end, hr_action *out)
{
    const char *word = at;
    while (word < end && is_digit(*word))
        word++;
    int64_t stage;
    int64_t microbatch = -1;
    if (word == at)
        return "it does not start with the number of a stage";
    if (!hr__number_read(at, word, HR__MAX_STAGES - 1, &stage))
        return "the stage is above 65534";
    const char *number = word;
    while (number < end && !is_digit(*number))
        number++;
    int kind = kind_of(word, number);
    if (kind < 0) {
        size_t n = (size_t)(number - word);
        if (n == 2 && memcmp(word, "BW", 2) == 0)
            return "BW is the old word for what is now B (and the old B is now I)";
        return "no such action";
    }
    if (!hr__has_microbatch(kind)) {
        if (number < end)
            return "this action has no microbatch";
    } else if (number == end) {
        return "the microbatch is missing";
    } else if (!hr__number_read(number, end, INT32_MAX - 1, &microbatch)) {
        return "the microbatch is not a number, or too large";
    }
    *out = (hr_action){.microbatch = (int32_t)microbatch,
                       .stage = (uint16_t)stage,
                       .kind = (uint8_t)kind};
    return NULL;
}

static void trim(const char **at, const char **end)
{
    while (*at < *end && **at == ' ')
        (*at)++;
    while (*at < *end && (*end)[-1] == ' ')
        (*end)--;
}

/* The inside of the parentheses. */
static const char *pair_read(const char *at, const char *end, hr__slot_text *out)
{
    for (;;) {
        const char *stop = memchr(at, ';', (size_t)(end - at));
        const char *from = at;
        const char *to = stop ? stop : end;
        trim(&from, &to);
        if (from == to)
            return "an action of the pair is missing";
        if (out->n == HR__MAX_PAIR)
            return "more than 255 actions in one pair";
        const char *why = action_read(from, to, &out->a[out->n]);
        if (why != NULL)
            return why;
        if (!hr__computes(out->a[out->n++].kind))
            return "only F, B, I and W can stand in a pair";
        if (stop == NULL)
            return NULL;
        at = stop + 1;
    }
}

const char *hr__slot_read(const char *at, const char *end, const char *suffix,
                          hr__slot_text *out)
{
    out->n = 0;
    out->pair = *at == '(';
    if (!out->pair) {
        out->n = 1;
        return action_read(at, end, &out->a[0]);
    }
    const char *close = memchr(at, ')', (size_t)(end - at));
    if (close == NULL)
        return "the parenthesis of the pair is not closed";
    size_t n = strlen(suffix);
    if ((size_t)(end - close - 1) != n || memcmp(close + 1, suffix, n) != 0)
        return n ? "a pair must end with OVERLAP_F_B" : "text after the pair";
    return pair_read(at + 1, close, out);
}

const char *hr__action_print(const hr_action *a, char *buf)
{
    if (hr__has_microbatch(a->kind))
        snprintf(buf, HR__ACTION_TEXT, "%d%s%d", a->stage, words[a->kind],
                 (int)a->microbatch);
    else
        snprintf(buf, HR__ACTION_TEXT, "%d%s", a->stage, words[a->kind]);
    return buf;
}

void hr__slot_print(FILE *f, const hr_action *a, const char *suffix)
{
    char buf[HR__ACTION_TEXT];
    if (a->pair == 0) {
        fputs(hr__action_print(a, buf), f);
        return;
    }
    for (int k = 0; k < a->pair; k++)
        fprintf(f, "%c%s", k ? ';' : '(', hr__action_print(&a[k], buf));
    fprintf(f, ")%s", suffix);
}

bool hr__ticks_read(const char *at, const char *end, int64_t *out)
{
    const char *dot = memchr(at, '.', (size_t)(end - at));
    int64_t units;
    int64_t part = 0;
    if (!hr__number_read(at, dot ? dot : end, HR__MAX_COST / HR_TICKS, &units))
        return false;
    if (dot != NULL) {
        ptrdiff_t places = end - dot - 1;
        if (places < 1 || places > 6 || !hr__number_read(dot + 1, end, HR_TICKS, &part))
            return false;
        for (; places < 6; places++)
            part *= 10;
    }
    *out = units * HR_TICKS + part;
    return *out <= HR__MAX_COST;
}

void hr__ticks_print(FILE *f, int64_t ticks)
{
    char part[16];
    fprintf(f, "%lld", (long long)(ticks / HR_TICKS));
    if (ticks % HR_TICKS == 0)
        return;
    int n = snprintf(part, sizeof part, "%06lld", (long long)(ticks % HR_TICKS));
    while (n > 0 && part[n - 1] == '0')
        part[--n] = '\0';
    fprintf(f, ".%s", part);
}
