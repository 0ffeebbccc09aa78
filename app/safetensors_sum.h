/* What writer and reader of safetensors files share: dtypes, sizes, and the checksums. */
#ifndef HR_APP_SAFETENSORS_SUM_H
#define HR_APP_SAFETENSORS_SUM_H
#include "safetensors.h"

#define ST_METADATA   "__metadata__"
#define ST_HEADER_SUM "headrace.header" /* of all entries but itself */
#define ST_DATA_SUMS                                                                   \
    "headrace.data" /* of each tensor's bytes, in the order of places: hexadecimal */

enum { ST_SUM_DIGITS = 16 };

extern const char *const hr_app_st_dtype_names[ST_DTYPES];

/* Bytes of a tensor; false if its shape is none, or too large for memory. */
bool hr_app_st_bytes(const st_tensor *t, size_t *bytes);

/* The header's checksum is a sum over its entries, so that their order does not matter. */
uint64_t hr_app_st_sum_meta(const char *key, const char *value);
uint64_t hr_app_st_sum_entry(const st_tensor *t, size_t begin);
/* `h` 0 at first; where bytes come in several portions all but the last are whole words. */
uint64_t hr_app_st_sum_bytes(uint64_t h, const void *bytes, size_t n);
void hr_app_st_sum_text(uint64_t sum, char text[ST_SUM_TEXT]);

#endif
