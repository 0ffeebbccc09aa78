/* A folder of its own for a test, below TMPDIR. */
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[1024];

int hr_scratch_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/headrace-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    return chmod(folder, 0777); /* for hr_scratch_as_nobody */
}

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

int hr_scratch_teardown(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *hr_scratch_path(const char *name)
{
    static char paths[64][2048];
    static int next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *hr_scratch_write(const char *name, const void *bytes, size_t n)
{
    const char *path = hr_scratch_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

char *hr_scratch_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    char *bytes = NULL;
    size_t room = 0, got = 0;
    *n = 0;
    do {
        room += 65536;
        bytes = realloc(bytes, room + 1);
        assert_non_null(bytes);
        got = fread(bytes + *n, 1, room - *n, f);
        *n += got;
    } while (*n == room);
    bytes[*n] = '\0';
    fclose(f);
    return bytes;
}

bool hr_scratch_as_nobody(bool on)
{
    enum { NOBODY = 65534 };
    static bool was_root;
    if (on) {
        was_root = geteuid() == 0;
        return !was_root || seteuid(NOBODY) == 0;
    }
    return !was_root || seteuid(0) == 0;
}
