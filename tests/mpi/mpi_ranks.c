/* mpi_ranks MODE: a job whose rank 1 comes to grief, for end_together.sh. Each rank says how its job ended.
 *
 *     stop   it stops (SIGSTOP)      kill   it is killed      exit   it leaves without a word */
#include "headrace/group_mpi.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static hr_status sum(hr_group *g)
{
    int x = 1;
    hr_status st = hr_all_reduce(g, &x, &x, 1, HR_I32, HR_SUM, hr_stream_current());
    return st < 0 ? st : hr_stream_synchronize(hr_stream_current());
}

static hr_status work(hr_group *g, void *arg)
{
    const char *mode = arg;
    hr_status st = sum(g);
    if (st == HR_OK && hr_group_rank(g) == 1) {
        if (strcmp(mode, "stop") == 0)
            raise(SIGSTOP);
        else if (strcmp(mode, "kill") == 0)
            raise(SIGKILL);
        else
            _exit(3);
    }
    return st < 0 ? st : sum(g);
}

int main(int argc, char **argv)
{
    static char stop[] = "stop";
    hr_mpi_opts o = {HR_INIT(hr_mpi_opts), .timeout_s = 1};
    hr_status st = hr_mpi_run(&o, work, argc > 1 ? argv[1] : stop);
    printf("ended: %s: %s\n", hr_status_name(st), st < 0 ? hr_last_error() : "");
    fflush(stdout);
    return hr_mpi_finish(st);
}
