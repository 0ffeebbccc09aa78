/* nccl_flight.h: operations that were issued and may not have ended, oldest first, each between two events: so
 * that a wait knows since when one runs, and anybody can be told where the rank is. */
#ifndef HR_NCCL_FLIGHT_H
#define HR_NCCL_FLIGHT_H
#include "device/cuda/cuda_device.h"
#include "group/doing.h"

struct hr__nccl_piece;

typedef struct hr__nccl_flight {
    struct hr__nccl_flight *next;
    const char *op;
    bool batch;
    uint64_t seq;   /* among the group's batches, or its collectives */
    uint64_t peers; /* of a batch: bit i is member i, as far as there are bits */
    int64_t bytes;
    hr_op_label label;
    cudaEvent_t begin, end;
    int64_t begun_ns;              /* since when it is known to run; 0: it is not */
    struct hr__nccl_piece *pieces; /* that it reads; in use until it has ended */
} hr__nccl_flight;

/* All zeros is an empty list. Under the job's mutex. */
typedef struct hr__nccl_flights {
    hr__nccl_flight *first, *last;
    hr__nccl_flight
        *ended; /* events and pieces to be given back by the issuing thread */
    hr__nccl_flight *idle; /* issuing thread: room for the next ones */
    hr__doing doing;       /* of the first, or of the last that ended */
} hr__nccl_flights;

/* Issuing thread. One with its two events; NULL: the device has failed, or there is no memory. */
hr__nccl_flight *hr__nccl_flight_new(hr__nccl_flights *f, hr__gpu_device *dev);
/* It did not start. */
void hr__nccl_flight_drop(hr__nccl_flights *f, hr__gpu_device *dev, hr__nccl_flight *x);
/* Under the mutex: it was put on a stream. */
void hr__nccl_flight_add(hr__nccl_flights *f, hr__nccl_flight *x);
/* Under the mutex: see how far they have come. */
void hr__nccl_flights_refresh(hr__nccl_flights *f, const hr__cudart *rt);
/* Issuing thread, under the mutex: what has ended gives back what it held; all of them, if they are never to be
 * asked about again. */
void hr__nccl_flights_reap(hr__nccl_flights *f, hr__gpu_device *dev, bool all);
void hr__nccl_flights_free(hr__nccl_flights *f, hr__gpu_device *dev);

#endif
