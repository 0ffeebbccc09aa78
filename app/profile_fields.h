/* The fields of a profile: one list for its reader and its writer. */
#ifndef HR_APP_PROFILE_FIELDS_H
#define HR_APP_PROFILE_FIELDS_H
#include "profile.h"

typedef enum profile_kind { PROFILE_INT, PROFILE_INT64, PROFILE_REAL } profile_kind;

typedef struct profile_field {
    const char *key;
    profile_kind kind;
    size_t offset; /* in profile, or profile_row */
    double least, most;
} profile_field;

enum { PROFILE_VERSION = 1, PROFILE_NAME = 24 };

/* Each ends with a field without a key. */
extern const profile_field hr_app_profile_model[], hr_app_profile_link[],
    hr_app_profile_row[];

/* The name of row element `i`: "embedding", "layer 0", "mtp 0", "loss". */
void hr_app_profile_name(const profile *p, int i, char out[PROFILE_NAME]);

#endif
