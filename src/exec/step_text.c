/* What went wrong where, in words. */
#include "exec/exec_impl.h"

typedef struct place {
    char text[120];
} place;

/* "stage 2 (chunk 0), microbatch 3, backward" */
static place place_of(const hr__step *x, int mine, int microbatch, const char *deed)
{
    place p;
    snprintf(p.text, sizeof p.text, "stage %d (chunk %d), microbatch %d, %s",
             x->e->stage[mine].stage, mine, microbatch, deed);
    return p;
}

static place act_place(const hr__step *x, const hr__act *a)
{
    static const char *const deed[] = {[HR_ACTION_F] = "forward",
                                       [HR_ACTION_B] = "backward",
                                       [HR_ACTION_I] = "input gradient",
                                       [HR_ACTION_W] = "weight gradient"};
    return place_of(x, a->mine, a->microbatch, deed[a->kind]);
}

static hr_status failed(const char *where, hr_status st)
{
    if (hr_last_error()[0])
        return hr_fail(st, hr_last_reason(), "%s: %s", where, hr_last_error());
    return hr_fail(HR_ERR_CALLBACK, "callback",
                   "%s: the function failed with %s and no word", where,
                   hr_status_name(st));
}

hr_status hr__act_failed(const hr__step *x, const hr__act *a, hr_status st)
{
    return failed(act_place(x, a).text, st);
}

hr_status hr__pair_failed(const hr__step *x, const hr__act *f, const hr__act *b,
                          hr_status st)
{
    char both[256];
    snprintf(both, sizeof both, "%s beside %s", act_place(x, f).text,
             act_place(x, b).text);
    return failed(both, st);
}

const char *hr__transfer_name(const hr__op *op)
{
    static const char *const name[2][2] = {
        {"sending the activation", "sending the gradient"},
        {"receiving the activation", "receiving the gradient"}};
    return name[op->kind == HR__RECV][op->back];
}

hr_status hr__op_failed(const hr__step *x, const hr__op *op, hr_status st)
{
    if (op->kind == HR__SLOT)
        return st; /* has its words */
    if (op->kind == HR__REDUCE) {
        char where[64];
        snprintf(where, sizeof where, "stage %d (chunk %d), reduction",
                 x->e->stage[op->mine].stage, op->mine);
        return failed(where, st);
    }
    return failed(place_of(x, op->mine, op->microbatch, hr__transfer_name(op)).text,
                  st);
}
