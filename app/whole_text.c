/* Reads a file whole, in pieces that grow, as the size of a pipe or of a file in /proc is not known
 * beforehand. */
#include "whole_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

bool hr_app_is_csv(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcasecmp(dot, ".csv") == 0;
}

static hr_status cannot_read(const char *path, int cause)
{
    return hr_fail(HR_ERR_IO, "file", "cannot read '%s': %s", path,
                   strerrordesc_np(cause));
}

static hr_status fill(int fd, const char *path, size_t most, size_t room, char **bytes,
                      size_t *n)
{
    for (;;) {
        if (room - *n < 2) {
            room *= 2;
            char *more = realloc(*bytes, room);
            if (!more)
                return hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", path);
            *bytes = more;
        }
        ssize_t got = read(fd, *bytes + *n, room - *n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot_read(path, errno);
        *n += (size_t)got;
        if (*n > most)
            return hr_fail(HR_ERR_INVALID, "file",
                           "'%s' is too long: at most %zu bytes are taken", path, most);
        if (got == 0) {
            (*bytes)[*n] = '\0';
            return HR_OK;
        }
    }
}

hr_status hr_app_read_file(const char *path, size_t most, char **bytes, size_t *n)
{
    *bytes = NULL;
    *n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot_read(path, errno);
    struct stat info;
    size_t room = 4096;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0)
        room = ((size_t)info.st_size < most ? (size_t)info.st_size : most) + 2;
    *bytes = malloc(room);
    hr_status st = *bytes ? fill(fd, path, most, room, bytes, n)
                          : hr_fail(HR_ERR_NOMEM, NULL, "no memory to read '%s'", path);
    close(fd);
    if (st < 0) {
        free(*bytes);
        *bytes = NULL;
        *n = 0;
    }
    return st;
}

hr_status hr_app_read_into(const char *path, void *bytes, size_t room, size_t *n)
{
    *n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot_read(path, errno);
    int cause = 0;
    while (*n < room && cause == 0) {
        ssize_t got = read(fd, (char *)bytes + *n, room - *n);
        if (got == 0)
            break;
        if (got > 0)
            *n += (size_t)got;
        else if (errno != EINTR)
            cause = errno;
    }
    close(fd);
    return cause ? cannot_read(path, cause) : HR_OK;
}
