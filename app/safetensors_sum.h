/* What writer and reader of safetensors files share: dtypes, sizes, and the checksum. */
#ifndef HR_APP_SAFETENSORS_SUM_H
#define HR_APP_SAFETENSORS_SUM_H
#include "safetensors.h"

#define ST_METADATA "__metadata__"
#define ST_CHECKSUM "headrace.checksum"

enum { ST_SUM_TEXT = 32 }; /* bytes of a checksum as text, with its end */

extern const char *const hr_app_st_dtype_names[ST_DTYPES];

/* Bytes of a tensor; false if its shape is none, or too large for memory. */
bool hr_app_st_bytes(const st_tensor *t, size_t *bytes);

/* The checksum is a sum over entries, so that their order in the header does not matter. */
uint64_t hr_app_st_sum_meta(const char *key, const char *value);
uint64_t hr_app_st_sum_tensor(const st_tensor *t, size_t begin, size_t bytes);
void hr_app_st_sum_text(uint64_t sum, char text[ST_SUM_TEXT]);

#endif
