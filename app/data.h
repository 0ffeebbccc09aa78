/* The text to train on: a file, or all text files under a folder, as bytes in memory. Under
 * /usr/include only headers are taken (*.h and the C++ headers that have no extension).
 *
 * Order and choice follow from relative paths alone, so the same tree gives the same bytes. Validation
 * files (about 1 in 20, at least one) are chosen by a hash of their path; of a single file the last
 * tenth is for validation. Where each sequence starts is a hash of (seed, step, sequence), never
 * state: a resumed run, or one with more ranks, sees the same batches.
 *
 * Threads: read-only once open, so shared by all ranks.
 */
#ifndef HR_APP_DATA_H
#define HR_APP_DATA_H
#include "headrace/base.h"

typedef struct data_set data_set;
typedef enum data_part { DATA_TRAIN, DATA_VALIDATION, DATA_PARTS } data_part;

enum { DATA_CAP = 64 << 20 }; /* bytes that the program loads at most */

/* At most `cap` bytes: files are dropped whole, in an order of their own hash; a single file is cut.
 * Errors: ERR_IO (missing, unreadable), ERR_INVALID (empty, binary), ERR_NOMEM; all name the path. */
hr_status hr_app_data_open(const char *path, size_t cap, data_set **out);
void hr_app_data_close(data_set *d); /* NULL is fine */

/* ERR_INVALID, with both numbers, unless both parts hold a sequence and its last target. */
hr_status hr_app_data_check(const data_set *d, int seq);

const uint8_t *hr_app_data_text(const data_set *d, data_part part, size_t *bytes);
int hr_app_data_files(const data_set *d, data_part part);

/* Sequence `sequence` of step `step`, counted over the whole global batch: `seq` bytes, and the byte
 * after each. Wants hr_app_data_check(). */
void hr_app_data_batch(const data_set *d, int64_t seed, int64_t step, int64_t sequence,
                       int seq, int32_t *inputs, int32_t *targets);

/* Validation window `window` of `of`, spread evenly over the validation text; the same whenever it is
 * asked for. */
void hr_app_data_window(const data_set *d, int64_t window, int64_t of, int seq,
                        int32_t *inputs, int32_t *targets);

/* Nats a byte on the validation text of a model that knows only how frequent each byte is in the
 * training text (add-one smoothed). */
double hr_app_data_baseline(const data_set *d);

#endif
