/* A folder of its own for a test, and files in it. Failing to make one ends the test. */
#ifndef HR_TEST_SCRATCH_H
#define HR_TEST_SCRATCH_H
#include <stdbool.h>
#include <stddef.h>

/* cmocka group fixtures: make the folder, remove it with all that is in it. */
int hr_scratch_setup(void **state);
int hr_scratch_teardown(void **state);

/* Path of `name` in the folder; valid until the 64th call from here. */
const char *hr_scratch_path(const char *name);
const char *hr_scratch_write(const char *name, const void *bytes, size_t n);
/* All bytes of a file, with a zero behind them, for free(); NULL if there is none. */
char *hr_scratch_read(const char *path, size_t *n);

/* From now to the matching call with false, permissions count (root passes them all). False: they
 * cannot be made to count here. */
bool hr_scratch_as_nobody(bool on);

#endif
