/* checkpoint_folder.h: the folder `checkpoint` in what --out names. Each checkpoint in it is a folder
 * of files, step-00000100, that appears whole by one rename:
 *
 *     step-00000100.tmp-12-3   is being written; left over, if its writer was killed
 *     step-00000100            is whole
 *
 * What goes gets a name of the first kind before it is removed, so that a name of the second kind is a
 * whole checkpoint at any time.
 */
#ifndef HR_APP_CHECKPOINT_FOLDER_H
#define HR_APP_CHECKPOINT_FOLDER_H
#include "options.h"

enum { CHECKPOINT_PATH = OPTION_PATH + 160 };

/* The highest step in `folder`, -1: none. ERR_IO if it cannot be read. */
hr_status hr_app_steps_last(const char *folder, int64_t *step);

/* A checkpoint that is being written. */
typedef struct checkpoint_draft {
    char folder[CHECKPOINT_PATH]; /* in which it will be */
    char temp[CHECKPOINT_PATH];   /* where its files go */
    char path[CHECKPOINT_PATH];   /* where they will be */
    int64_t step;
    int lock; /* held as long as somebody writes it */
} checkpoint_draft;

/* Makes the folders that are missing, and removes what killed writers left. Errors: ERR_IO. */
hr_status hr_app_draft_begin(const char *out, int64_t step, checkpoint_draft *d);
/* Its files are on the disk: it takes its place, instead of a former one of the same step. Steps after
 * it, which an earlier run has left, go, and the oldest until at most `keep` are there. Consumes `d`,
 * on failure too. */
hr_status hr_app_draft_commit(checkpoint_draft *d, int keep);
void hr_app_draft_discard(checkpoint_draft *d);

/* What killed writers left in the folder of --out. What cannot be removed stays, and is in nobody's way. */
void hr_app_drafts_clean(const char *out);

/* mkdir -p. */
hr_status hr_app_make_folders(const char *path);

#endif
