/* checkpoint_folder.c: see checkpoint_folder.h. */
#include "checkpoint_folder.h"
#include "app_try.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER = OPTION_PATH + 16 }; /* bytes of "OUT/checkpoint" at most */

static hr_status io_error(const char *doing, const char *path, int cause)
{
    return hr_fail(HR_ERR_IO, "folder", "cannot %s '%s': %s", doing, path,
                   strerrordesc_np(cause));
}

hr_status hr_app_make_folders(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return hr_fail(HR_ERR_NOMEM, NULL, "no memory to make folder '%s'", path);
    int cause = 0;
    for (char *p = copy; *p && !cause; p++) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        char end = *p;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            cause = errno;
        *p = end;
        if (!end)
            break;
    }
    free(copy);
    struct stat info;
    if (!cause && stat(path, &info) != 0)
        cause = errno;
    else if (!cause && !S_ISDIR(info.st_mode))
        cause = ENOTDIR;
    return cause ? io_error("make folder", path, cause) : HR_OK;
}

/* Names in it are safe on the disk. Some file systems cannot sync a folder and say EINVAL; one that may
 * be written but not read cannot be opened: there is nothing more to be done there. */
static hr_status sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? HR_OK : io_error("sync", path, errno);
    int cause = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return cause ? io_error("sync", path, cause) : HR_OK;
}

/* ---- names --------------------------------------------------------------------------------- */

/* The step in "step-00000100", -1 for any other name. */
static int64_t step_in(const char *name)
{
    long long step = -1;
    int end = 0;
    bool is = sscanf(name, "step-%lld%n", &step, &end) == 1 && end > 0 && !name[end];
    return is && step >= 0 ? step : -1;
}

/* "step-00000100.tmp-12-3"? */
static bool is_temp(const char *name)
{
    long long step;
    long pid;
    unsigned serial;
    int end = 0;
    return sscanf(name, "step-%lld.tmp-%ld-%u%n", &step, &pid, &serial, &end) == 3 &&
           end > 0 && !name[end];
}

/* A name that this process has not used yet. */
static void name_temp(const char *folder, int64_t step, char temp[CHECKPOINT_PATH])
{
    static atomic_uint serial;
    snprintf(temp, CHECKPOINT_PATH, "%.*s/step-%08lld.tmp-%ld-%u", FOLDER, folder,
             (long long)step, (long)getpid(), atomic_fetch_add(&serial, 1));
}

static void name_step(const char *folder, int64_t step, char path[CHECKPOINT_PATH])
{
    snprintf(path, CHECKPOINT_PATH, "%.*s/step-%08lld", FOLDER, folder,
             (long long)step);
}

/* ---- what goes ----------------------------------------------------------------------------- */

/* A folder and its files; 0, or why not: a cause that is being told must stay this thread's last error. */
static int try_remove(const char *path)
{
    DIR *dir = opendir(path);
    int cause = dir ? 0 : errno;
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(dirfd(dir), e->d_name, 0) != 0 && errno != ENOENT && !cause)
            cause = errno;
    if (dir)
        closedir(dir);
    if (!cause && rmdir(path) != 0 && errno != ENOENT)
        cause = errno;
    return cause;
}

static hr_status remove_folder(const char *path)
{
    int cause = try_remove(path);
    return cause ? io_error("remove", path, cause) : HR_OK;
}

/* It stays, if it cannot be removed, and is in nobody's way. */
static void drop_folder(const char *path)
{
    int cause = try_remove(path);
    if (cause)
        hr_log(HR_LOG_DEBUG, "left over: '%s': %s", path, strerrordesc_np(cause));
}

/* A writer holds a lock on its folder, which ends with it: what can be locked is left over. */
static void clean(const char *folder)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char path[CHECKPOINT_PATH + 256];
        if (!is_temp(e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            drop_folder(path);
        if (fd >= 0)
            close(fd);
    }
    if (dir)
        closedir(dir);
}

static void name_folder(const char *out, char folder[CHECKPOINT_PATH])
{
    snprintf(folder, CHECKPOINT_PATH, "%s/checkpoint", out);
}

void hr_app_drafts_clean(const char *out)
{
    char folder[CHECKPOINT_PATH];
    name_folder(out, folder);
    clean(folder);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* All steps there are, ascending; *out is the caller's. */
static hr_status list_steps(const char *folder, int64_t **out, int *n)
{
    DIR *dir = opendir(folder);
    int room = 0;
    hr_status st = HR_OK;
    *out = NULL;
    *n = 0;
    if (!dir)
        return io_error("read", folder, errno);
    for (const struct dirent *e; (e = readdir(dir)) != NULL && st == HR_OK;) {
        int64_t step = step_in(e->d_name);
        if (step >= 0 && *n == room) {
            room = 2 * room + 16;
            int64_t *more = realloc(*out, (size_t)room * sizeof **out);
            if (!more)
                st = hr_fail(HR_ERR_NOMEM, NULL, "no memory to list '%s'", folder);
            else
                *out = more;
        }
        if (step >= 0 && st == HR_OK)
            (*out)[(*n)++] = step;
    }
    closedir(dir);
    if (*n > 1)
        qsort(*out, (size_t)*n, sizeof **out, ascending);
    return st;
}

hr_status hr_app_steps_last(const char *folder, int64_t *step)
{
    int64_t *steps;
    int n;
    hr_status st = list_steps(folder, &steps, &n);
    *step = n > 0 ? steps[n - 1] : -1;
    free(steps);
    return st;
}

static hr_status remove_step(const char *folder, int64_t step)
{
    char path[CHECKPOINT_PATH], temp[CHECKPOINT_PATH];
    name_step(folder, step, path);
    name_temp(folder, step, temp);
    if (rename(path, temp) != 0)
        return io_error("remove", path, errno);
    return remove_folder(temp);
}

static hr_status prune(const char *folder, int64_t now, int keep)
{
    int64_t *steps;
    int n;
    hr_status st = list_steps(folder, &steps, &n);
    while (st == HR_OK && steps && n > 0 && steps[n - 1] > now)
        st = remove_step(folder, steps[--n]);
    for (int i = 0; st == HR_OK && steps && n - i > keep; i++)
        st = remove_step(folder, steps[i]);
    free(steps);
    return st;
}

/* ---- what comes ---------------------------------------------------------------------------- */

/* Takes the lock; false if somebody found the new folder before it was locked, and removes it. */
static bool lock_temp(checkpoint_draft *d)
{
    struct stat info;
    d->lock = open(d->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->lock < 0)
        return errno != ENOENT; /* cannot be read, and so by nobody */
    bool beaten = flock(d->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!beaten && (fstat(d->lock, &info) != 0 || info.st_nlink > 0))
        return true;
    close(d->lock);
    return false;
}

static hr_status make_temp(checkpoint_draft *d)
{
    for (;
         ;) { /* a name left by a process of the same id that died is in the way once */
        name_temp(d->folder, d->step, d->temp);
        if (mkdir(d->temp, 0777) == 0) {
            if (lock_temp(d))
                return HR_OK;
        } else if (errno != EEXIST) {
            return io_error("make folder", d->temp, errno);
        }
    }
}

hr_status hr_app_draft_begin(const char *out, int64_t step, checkpoint_draft *d)
{
    *d = (checkpoint_draft){.step = step, .lock = -1};
    name_folder(out, d->folder);
    name_step(d->folder, step, d->path);
    bool fresh = access(d->folder, F_OK) != 0;
    APP_TRY(hr_app_make_folders(d->folder));
    if (fresh)
        APP_TRY(sync_folder(out));
    clean(d->folder);
    return make_temp(d);
}

static void unlock(checkpoint_draft *d)
{
    if (d->lock >= 0)
        close(d->lock);
    d->lock = -1;
}

void hr_app_draft_discard(checkpoint_draft *d)
{
    drop_folder(d->temp);
    unlock(d);
}

/* Where the file system has no exchange the step is missing for a moment. */
static int exchange(const checkpoint_draft *d)
{
    char aside[CHECKPOINT_PATH];
    if (renameat2(AT_FDCWD, d->temp, AT_FDCWD, d->path, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    name_temp(d->folder, d->step, aside);
    return rename(d->path, aside) == 0 && rename(d->temp, d->path) == 0 &&
                   rename(aside, d->temp) == 0
               ? 0
               : errno;
}

/* *former: the files of a former checkpoint lie where this one's did. */
static hr_status move_in(const checkpoint_draft *d, bool *former)
{
    struct stat info;
    *former = lstat(d->path, &info) == 0;
    int cause = *former ? exchange(d) : rename(d->temp, d->path) != 0 ? errno : 0;
    return cause ? io_error("replace", d->path, cause) : HR_OK;
}

hr_status hr_app_draft_commit(checkpoint_draft *d, int keep)
{
    bool former;
    hr_status st = move_in(d, &former);
    if (st < 0) {
        hr_app_draft_discard(d);
        return st;
    }
    unlock(d);
    APP_TRY(sync_folder(d->folder));
    if (former)
        APP_TRY(remove_folder(d->temp));
    return prune(d->folder, d->step, keep);
}
