/* A thread a stream, which works off a list; and points, what events stand for. */
#include "double_impl.h"

#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- points ------------------------------------------------------------------------------------------ */
point *double_point_new(void)
{
    point *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    atomic_init(&p->holders, 1);
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->cv, NULL);
    return p;
}

point *double_point_hold(point *p)
{
    if (p)
        atomic_fetch_add(&p->holders, 1);
    return p;
}

void double_point_drop(point *p)
{
    if (p == NULL || atomic_fetch_sub(&p->holders, 1) != 1)
        return;
    pthread_mutex_destroy(&p->mu);
    pthread_cond_destroy(&p->cv);
    free(p);
}

bool double_point_done(point *p, int64_t *ns)
{
    if (p == NULL)
        return true;
    pthread_mutex_lock(&p->mu);
    bool done = p->done;
    if (ns)
        *ns = p->ns;
    pthread_mutex_unlock(&p->mu);
    return done;
}

void double_reach(work *w)
{
    point *p = w->at;
    pthread_mutex_lock(&p->mu);
    p->done = true;
    p->ns = now_ns();
    pthread_cond_broadcast(&p->cv);
    pthread_mutex_unlock(&p->mu);
    double_point_drop(p);
}

/* A dead context ends all waiting. */
void double_await(work *w)
{
    point *p = w->at;
    struct timespec until;
    pthread_mutex_lock(&p->mu);
    while (!p->done && w->deaths == double_deaths()) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&p->cv, &p->mu, &until);
    }
    pthread_mutex_unlock(&p->mu);
    double_point_drop(p);
}

/* ---- the list ---------------------------------------------------------------------------------------- */
cudaError_t double_put(cudaStream_t s, const work *w)
{
    work *mine = malloc(sizeof *mine);
    if (mine == NULL)
        return cudaErrorMemoryAllocation;
    *mine = *w;
    mine->next = NULL;
    mine->deaths = double_deaths();
    pthread_mutex_lock(&s->mu);
    *s->last = mine;
    s->last = &mine->next;
    s->pending++;
    pthread_cond_signal(&s->cv);
    pthread_mutex_unlock(&s->mu);
    return cudaSuccess;
}

static void free_queue(cudaStream_t s)
{
    pthread_mutex_destroy(&s->mu);
    pthread_cond_destroy(&s->cv);
    free(s);
}

static void *work_off(void *stream)
{
    cudaStream_t s = stream;
    pthread_mutex_lock(&s->mu);
    for (;;) {
        while (s->first == NULL && !s->closing)
            pthread_cond_wait(&s->cv, &s->mu);
        work *w = s->first;
        if (w == NULL)
            break;
        s->first = w->next;
        if (s->first == NULL)
            s->last = &s->first;
        pthread_mutex_unlock(&s->mu);
        w->run(w);
        free(w);
        pthread_mutex_lock(&s->mu);
        s->pending--;
    }
    pthread_mutex_unlock(&s->mu);
    free_queue(s);
    return NULL;
}

cudaError_t double_queue_start(cudaStream_t s)
{
    pthread_t thread;
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->cv, NULL);
    s->last = &s->first;
    if (pthread_create(&thread, NULL, work_off, s) != 0) {
        free_queue(s);
        return cudaErrorMemoryAllocation;
    }
    pthread_detach(thread);
    return cudaSuccess;
}

void double_queue_close(cudaStream_t s)
{
    pthread_mutex_lock(&s->mu);
    s->closing = true;
    pthread_cond_signal(&s->cv);
    pthread_mutex_unlock(&s->mu);
}
