/* checkpoint_meta.h: what a checkpoint says of its run, as the texts of its metadata. */
#ifndef HR_APP_CHECKPOINT_META_H
#define HR_APP_CHECKPOINT_META_H
#include "checkpoint.h"
#include "checkpoint_index.h"

#define CHECKPOINT_FORMAT "headrace-2"

enum { META_MOST = 24 };
typedef struct checkpoint_texts {
    st_meta list[META_MOST];
    int n;
    char number[META_MOST][24]; /* behind the list */
} checkpoint_texts;

/* Of the index. */
void hr_app_meta_of_index(const checkpoint_info *info, checkpoint_texts *t);
/* Of the file of one part: enough to know it again. */
void hr_app_meta_of_part(const checkpoint_info *info, int number, int of,
                         checkpoint_texts *t);

/* ERR_PARSE where something is not there, or outside of what `train` takes: whoever builds a model of
 * it counts on sizes that do not overflow. */
hr_status hr_app_meta_read(const checkpoint_index *x, checkpoint_info *info);

#endif
