/* Both microbatches of a rank in the hands of a test: it says which slot comes next, and reports what it
 * finds as a status, with CHECK and EXPECT; the main thread asserts on the outcome of the job. */
#ifndef HR_MOE_DRIVE_H
#define HR_MOE_DRIVE_H
#include "support/holds.h"
#include "unit/moe/moe_runs.h"

typedef hr_status (*drive_body)(moe_rank *r, moe_flow *f);
typedef struct drive {
    const moe_case *c;
    int two_streams;
    int poison; /* of fresh device memory, as in hr_device_opts */
    drive_body body;
    moe_result *result; /* may be NULL */
} drive;

/* Two ranks and spread tokens, through the symmetric dispatcher. */
extern const moe_case drive_two;

/* Runs `body` on every rank of the case, and asserts that no rank failed: for the main thread. */
void drive_passes(drive d);

hr_status drive_forward(moe_flow *f, int from, int to); /* slots, both included */
hr_status drive_backward(moe_flow *f, int from, int to);
/* One microbatch after the other, slot by slot. */
hr_status drive_serial(moe_rank *r, moe_flow *f);

hr_status expect(hr_status got, hr_status wanted, const char *reason, const char *word,
                 int line);

/* The call fails so, with that reason, and its sentence holds `word`. */
#define EXPECT(expr, st, reason, word)                                                 \
    HR_TRY(expect((expr), (st), (reason), (word), __LINE__))

#endif
