/* Names for ever: a table of chains that only grows. Names are few (a model's nodes), so the
 * number of chains is fixed; spans then compare and copy names as addresses. */
#include "headrace/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct name {
    struct name *next;
    char text[];
};

enum { CHAINS = 256 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct name *chains[CHAINS]; /* mu */

static unsigned chain_of(const char *text)
{
    unsigned hash = 2166136261u; /* FNV-1a */
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return (hash ^ hash >> 16) % CHAINS;
}

static const char *find_or_add_locked(struct name **chain, const char *text)
{
    for (const struct name *n = *chain; n; n = n->next)
        if (strcmp(n->text, text) == 0)
            return n->text;
    size_t bytes = strlen(text) + 1;
    struct name *n = malloc(sizeof *n + bytes);
    if (!n)
        return "?"; /* a timeline without a name is better than none */
    memcpy(n->text, text, bytes);
    n->next = *chain;
    *chain = n;
    return n->text;
}

const char *hr_intern(const char *text)
{
    if (!text)
        return "";
    pthread_mutex_lock(&mu);
    const char *kept = find_or_add_locked(&chains[chain_of(text)], text);
    pthread_mutex_unlock(&mu);
    return kept;
}
