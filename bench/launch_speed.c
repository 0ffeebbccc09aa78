/* Launches a second of empty kernels on one stream; and, as a yardstick, of empty tasks through a
 * bare ring with one producer and one consumer that sleeps on a futex when it finds nothing: what
 * a stream costs beyond handing a pointer from thread to thread. */
#include "headrace/device.h"
#include "launch_rounds.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- ours ---------------------------------------------------------------------------- */
static hr_status empty_kernel(const void *args, hr_team *team)
{
    return HR_OK;
}

static void run_stream(int tasks)
{
    hr_stream *s = hr_stream_current();
    for (int i = 0; i < tasks; i++)
        ok(hr_launch(s, "empty", empty_kernel, NULL, 0, NULL, 0));
    ok(hr_stream_synchronize(s));
}

/* ---- the bare ring --------------------------------------------------------------------- */
enum { SLOTS = 1024, SPINS = 200 };

typedef struct ring {
    _Alignas(64) atomic_uint head; /* written by the producer */
    atomic_uint sleeps;            /* the consumer sleeps, or is about to */
    _Alignas(64) atomic_uint tail; /* written by the consumer */
    void (*task[SLOTS])(void);
} ring;

static ring bare;

static void futex(atomic_uint *word, int op, unsigned value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void nothing(void) {}

/* Until `tail` is no longer the head. */
static void await_task(unsigned tail)
{
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&bare.head, memory_order_acquire) != tail)
            return;
    atomic_store(&bare.sleeps, 1);
    while (atomic_load(&bare.head) == tail)
        futex(&bare.head, FUTEX_WAIT_PRIVATE, tail);
    atomic_store(&bare.sleeps, 0);
}

static void *consume(void *unused)
{
    for (unsigned tail = 0;;) {
        await_task(tail);
        void (*task)(void) = bare.task[tail % SLOTS];
        if (task == NULL)
            return NULL;
        task();
        atomic_store_explicit(&bare.tail, ++tail, memory_order_release);
    }
}

static void hand_over(void (*task)(void))
{
    unsigned head = atomic_load_explicit(&bare.head, memory_order_relaxed);
    while (head - atomic_load_explicit(&bare.tail, memory_order_acquire) == SLOTS)
        sched_yield();
    bare.task[head % SLOTS] = task;
    atomic_store(&bare.head, head + 1);
    if (atomic_load(&bare.sleeps))
        futex(&bare.head, FUTEX_WAKE_PRIVATE, 1);
}

static void run_ring(int tasks)
{
    for (int i = 0; i < tasks; i++)
        hand_over(nothing);
    while (atomic_load(&bare.tail) != atomic_load(&bare.head))
        sched_yield();
}

int main(void)
{
    hr_device *dev;
    pthread_t consumer;
    ok(hr_device_open("host", NULL, &dev));
    hr_device_set_current(dev);
    launch_measure("stream.launch", run_stream, 200000);
    hr_device_close(dev);
    if (pthread_create(&consumer, NULL, consume, NULL) != 0)
        return 1;
    launch_measure("ring", run_ring, 200000);
    hand_over(NULL);
    pthread_join(consumer, NULL);
    return 0;
}
