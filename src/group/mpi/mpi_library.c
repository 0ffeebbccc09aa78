/* See mpi_library.h. */
#include "group/mpi/mpi_library.h"
#include "base/try.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t mu; /* around calls, if serial */
    bool serial, ours, broken;
    int speaker;
} library = {.mu = PTHREAD_MUTEX_INITIALIZER};

void hr__mpi_lock(void)
{
    if (library.serial)
        pthread_mutex_lock(&library.mu);
}

void hr__mpi_unlock(void)
{
    if (library.serial)
        pthread_mutex_unlock(&library.mu);
}

bool hr__mpi_is_serial(void)
{
    return library.serial;
}

void hr__mpi_mark_broken(int first)
{
    library.broken = true;
    library.speaker = first;
}

int hr_mpi_speaker(void)
{
    return library.speaker;
}

hr_status hr__mpi_check(int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (rc == MPI_SUCCESS)
        return HR_OK;
    MPI_Error_string(rc, text, &len);
    return hr_fail(HR_ERR_IO, "mpi", "%.*s: %s", (int)strcspn(call, "("), call, text);
}

/* ---- life ---- */
/* MPICH asks these two for errors of requests, whatever communicator they are of. */
static hr_status return_errors(void)
{
    HR_TRY(hr__mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                         "MPI_Comm_set_errhandler"));
    return hr__mpi_check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN),
                         "MPI_Comm_set_errhandler");
}

static hr_status bring_up(bool serialise)
{
    const char *asked = getenv("HEADRACE_MPI_THREADS");
    int up = 0, over = 0, level = MPI_THREAD_SINGLE;
    bool told = asked && strcmp(asked, "serialized") == 0;
    HR_TRY(hr__mpi_check(MPI_Finalized(&over), "MPI_Finalized"));
    if (over)
        return hr_fail(HR_ERR_UNSUPPORTED, "mpi_over", "MPI has ended in this process");
    HR_TRY(hr__mpi_check(MPI_Initialized(&up), "MPI_Initialized"));
    if (up) {
        HR_TRY(hr__mpi_check(MPI_Query_thread(&level), "MPI_Query_thread"));
    } else {
        int wanted = told ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
        HR_TRY(hr__mpi_check(MPI_Init_thread(NULL, NULL, wanted, &level),
                             "MPI_Init_thread"));
        library.ours = true;
        HR_TRY(return_errors());
    }
    if (level < MPI_THREAD_SERIALIZED)
        return hr_fail(HR_ERR_UNSUPPORTED, "mpi_threads",
                       "MPI lets only one thread of this process call it (level %d); "
                       "groups need MPI_THREAD_SERIALIZED",
                       level);
    library.serial = serialise || told || level < MPI_THREAD_MULTIPLE;
    return HR_OK;
}

hr_status hr__mpi_start(bool serialise)
{
    return bring_up(serialise);
}

int hr_mpi_finish(hr_status st)
{
    int code = st < 0, over = 0;
    if (!library.ours || MPI_Finalized(&over) != MPI_SUCCESS || over)
        return code;
    if (library.broken)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return code;
}

/* ---- questions ---- */
const char *hr_mpi_library(const char **why)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len = 0;
    if (why)
        *why = "";
    if (!text[0]) {
        MPI_Get_library_version(text, &len);
        text[strcspn(text, ",\n")] = '\0';
        for (char *tab = text; (tab = strchr(tab, '\t'));) /* as MPICH writes it */
            *tab = ' ';
    }
    return text;
}
