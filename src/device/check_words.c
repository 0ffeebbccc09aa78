/* See check_words.h. A sentence has to fit the last error, so it says each thing once. */
#include "device/check_words.h"

typedef struct words {
    char text[HR__USE_TEXT];
} words;

void hr__words_use(const hr__use *use, char text[HR__USE_TEXT])
{
    static const char *const dirs[] = {"", " forward", " backward", " wgrad"};
    char at[48] = "", launch[56] = "";
    const hr_mark *m = &use->mark;
    if (use->launch)
        snprintf(launch, sizeof launch, "%slaunch '%.31s'", m->name ? ", " : "",
                 use->launch);
    if (m->name == NULL) {
        snprintf(text, HR__USE_TEXT, "%s on '%.31s'", use->launch ? launch : "work",
                 use->stream);
        return;
    }
    if (m->layer >= 0 && m->microbatch >= 0)
        snprintf(at, sizeof at, " (layer %d, microbatch %d)", m->layer, m->microbatch);
    else if (m->layer >= 0)
        snprintf(at, sizeof at, " (layer %d)", m->layer);
    else if (m->microbatch >= 0)
        snprintf(at, sizeof at, " (microbatch %d)", m->microbatch);
    snprintf(text, HR__USE_TEXT, "%s'%.31s'%s%s%s on '%.31s'",
             use->behind ? "what follows " : "", m->name, dirs[m->dir & 3], at, launch,
             use->stream);
}

static words use_words(const hr__use *use)
{
    words w = {""};
    hr__words_use(use, w.text);
    return w;
}

/* The name of a tensor; without one, whose block it is. */
static words memory_words(const hr__region *r, const char *p)
{
    const char *name = hr__label_get(r, p);
    words w;
    if (name)
        snprintf(w.text, sizeof w.text, "'%s'", name);
    else if (r->begin == NULL)
        snprintf(w.text, sizeof w.text, "memory at %p", (const void *)p);
    else if (r->born.mark.name)
        snprintf(w.text, sizeof w.text, "memory of '%.31s' at %p", r->born.mark.name,
                 (const void *)p);
    else
        snprintf(w.text, sizeof w.text, "memory of '%s' at %p", r->born.stream,
                 (const void *)p);
    return w;
}

static const char *verb(const hr__use *use)
{
    return use->kind & HR_WRITE ? "writes" : "reads";
}

static const char *bare_verb(const hr__use *use)
{
    return use->kind & HR_WRITE ? "write" : "read";
}

hr_status hr__words_unordered(int rank, const hr__region *r, const char *p,
                              const hr__use *use, const hr__use *old,
                              const hr__lost_record *stale)
{
    words mine = use_words(use), theirs = use_words(old), what = memory_words(r, p);
    if (stale)
        return hr_fail(
            HR_ERR_STATE, "stale_event",
            "rank %d: %s %s %s, which %s may still %s: '%s' did wait for an event "
            "recorded "
            "after that, but %s had recorded it again: the wait took the newer record. "
            "Wait before it is recorded again, or give each its own event",
            rank, mine.text, verb(use), what.text, theirs.text, bare_verb(old),
            use->stream, use_words(&stale->again).text);
    return hr_fail(HR_ERR_STATE, "unordered",
                   "rank %d: %s %s %s, which %s may still %s: no event orders the two. "
                   "Record one on "
                   "'%s' after the %s, and let '%s' wait for it before the %s",
                   rank, mine.text, verb(use), what.text, theirs.text, bare_verb(old),
                   old->stream, bare_verb(old), use->stream, bare_verb(use));
}

hr_status hr__words_early(int rank, const hr__region *r, const char *p,
                          const hr__use *use)
{
    const hr__use *born = &r->born;
    return hr_fail(
        HR_ERR_STATE, "unordered_alloc",
        "rank %d: %s %s %s, which %s allocated: no event orders the two, so that "
        "earlier "
        "users of the block may still be at work. Record one on '%s' after the "
        "allocation, and let '%s' wait for it before the %s",
        rank, use_words(use).text, verb(use), memory_words(r, p).text,
        use_words(born).text, born->stream, use->stream, bare_verb(use));
}

hr_status hr__words_freed(int rank, const hr__region *r, const char *p,
                          const hr__use *use)
{
    return hr_fail(
        HR_ERR_STATE, "use_after_free",
        "rank %d: %s %s %s, which %s freed: its claim must last until this is "
        "issued",
        rank, use_words(use).text, verb(use), memory_words(r, p).text,
        use_words(&r->died).text);
}

hr_status hr__words_unguarded(int rank, const hr__region *r, const char *p,
                              const hr__use *old)
{
    return hr_fail(
        HR_ERR_STATE, "unguarded_free",
        "rank %d: %s frees %s, which %s may still %s: no event orders the two, and the "
        "memory was not marked. Record the stream '%s' on it (record_stream) before it "
        "is freed",
        rank, use_words(&r->died).text, memory_words(r, p).text, use_words(old).text,
        bare_verb(old), old->stream);
}
