/* Files that appear whole or not at all. The stream is our own cookie over a descriptor, because
 * stdio keeps only the fact that a write failed, and the message is to say why. */
#include "base/try.h" /* HR_TRY */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct hr_file {
    FILE *stream;
    int fd;
    int lock;   /* the same, open until the file is where it belongs */
    int cause;  /* errno of the first write that failed, 0 if none did */
    char *path; /* where commit puts it */
    char *temp; /* where it is written */
};

static hr_status io_error(const char *doing, const char *path, int cause)
{
    return hr_fail(HR_ERR_IO, "file", "cannot %s '%s': %s", doing, path,
                   cause ? strerrordesc_np(cause) : "unknown cause");
}

static ssize_t cookie_write(void *cookie, const char *data, size_t n)
{
    hr_file *f = cookie;
    size_t done = 0;
    while (done < n) {
        ssize_t wrote = write(f->fd, data + done, n - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            if (f->cause == 0)
                f->cause = wrote < 0 ? errno : EIO;
            return (ssize_t)done; /* less than n tells stdio that it failed */
        }
        done += (size_t)wrote;
    }
    return (ssize_t)n;
}

static int cookie_seek(void *cookie, off64_t *offset, int whence)
{
    off64_t at = lseek64(((hr_file *)cookie)->fd, *offset, whence);
    if (at < 0)
        return -1;
    *offset = at;
    return 0;
}

/* Rename would put a plain file in the place of a device or a pipe. */
static hr_status check_target(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode))
        return HR_OK;
    return hr_fail(HR_ERR_IO, "file", "cannot write '%s': it is %s", path,
                   S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
}

/* ---- what writers leave that end while they write ---- */
/* "NAME.tmp-12-3" of NAME? */
static bool is_temp_of(const char *entry, const char *name)
{
    size_t n = strlen(name);
    long pid;
    unsigned serial;
    int end = 0;
    return strncmp(entry, name, n) == 0 &&
           sscanf(entry + n, ".tmp-%ld-%u%n", &pid, &serial, &end) == 2 &&
           entry[n + (size_t)end] == '\0';
}

/* A writer holds a lock on what it writes, which ends with it: what can be locked is left over. What
 * cannot be removed stays, and is in nobody's way. */
static void remove_left_over(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
    DIR *dir = folder ? opendir(folder) : NULL;
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (!is_temp_of(e->d_name, name))
            continue;
        int fd = openat(dirfd(dir), e->d_name,
                        O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(dir), e->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (dir)
        closedir(dir);
    free(folder);
}

/* Takes the lock. False if somebody found the new file before it was locked, and removes it. */
static bool lock_temp(int fd)
{
    struct stat info;
    bool beaten = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    return !beaten && (fstat(fd, &info) != 0 || info.st_nlink > 0);
}

static hr_status open_temp(hr_file *f)
{
    static atomic_uint serial;
    size_t room = strlen(f->path) + 48;
    f->temp = malloc(room);
    if (!f->temp)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to write '%s'", f->path);
    do { /* a name left by a process of the same id that died is in the way once */
        snprintf(f->temp, room, "%s.tmp-%ld-%u", f->path, (long)getpid(),
                 atomic_fetch_add(&serial, 1));
        f->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0 && !lock_temp(f->fd)) {
            close(f->fd);
            f->fd = -1;
            errno = EEXIST;
        }
    } while (f->fd < 0 && errno == EEXIST);
    if (f->fd < 0)
        return io_error("write", f->path, errno);
    f->lock = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    return HR_OK;
}

static void file_free(hr_file *f)
{
    if (f->lock >= 0)
        close(f->lock);
    free(f->path);
    free(f->temp);
    free(f);
}

hr_status hr_file_begin(const char *path, hr_file **out)
{
    if (!out)
        return hr_fail(HR_ERR_INVALID, "no_out", "hr_file_begin: `out` is NULL");
    *out = NULL;
    if (!path || !*path)
        return hr_fail(HR_ERR_INVALID, "file", "file to write has no name");
    HR_TRY(check_target(path));
    hr_status st = HR_ERR_NOMEM;
    hr_file *f = calloc(1, sizeof *f);
    if (!f)
        return hr_fail(st, NULL, "no memory to write '%s'", path);
    f->lock = -1;
    f->path = strdup(path);
    if (!f->path) {
        hr_fail(st, NULL, "no memory to write '%s'", path);
        goto fail;
    }
    remove_left_over(path);
    HR_TRY_GOTO(st, open_temp(f), fail);
    f->stream = fopencookie(
        f, "w", (cookie_io_functions_t){.write = cookie_write, .seek = cookie_seek});
    if (!f->stream) {
        close(f->fd);
        unlink(f->temp);
        st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to write '%s'", path);
        goto fail;
    }
    *out = f;
    return HR_OK;
fail:
    file_free(f);
    return st;
}

FILE *hr_file_stream(hr_file *f)
{
    return f->stream;
}

/* The name is safe on the disk only when its folder is. Some file systems cannot sync a folder
 * and say EINVAL; there is nothing more to be done there. */
static hr_status sync_folder(const char *path)
{
    char *folder = strdup(path);
    if (!folder)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to sync the folder of '%s'",
                       path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0) /* a folder that may be written but not read */
        return errno == EACCES ? HR_OK : io_error("sync the folder of", path, errno);
    int cause = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return cause ? io_error("sync the folder of", path, cause) : HR_OK;
}

hr_status hr_file_commit(hr_file *f)
{
    hr_status st = HR_OK;
    bool bad = ferror(f->stream) != 0;
    errno = 0;
    bad = fclose(f->stream) != 0 || bad; /* flushes; the descriptor is ours and stays */
    if (bad || f->cause)
        st = io_error("write", f->path, f->cause ? f->cause : errno);
    else if (fsync(f->fd) != 0 && errno != EINVAL)
        st = io_error("sync", f->path, errno);
    if (close(f->fd) != 0 && errno != EINTR && st == HR_OK)
        st = io_error("write", f->path, errno);
    if (st == HR_OK && rename(f->temp, f->path) != 0)
        st = io_error("replace", f->path, errno);
    if (st == HR_OK)
        st = sync_folder(f->path);
    else
        unlink(f->temp);
    file_free(f);
    return st;
}

void hr_file_discard(hr_file *f)
{
    if (!f)
        return;
    fclose(f->stream);
    close(f->fd);
    unlink(f->temp);
    file_free(f);
}
