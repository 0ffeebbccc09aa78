/* mpi_exchange.h: what one member sends and gets in one step, all at once. Each message has a head that says
 * what the sender is doing, and so is never taken for another; few bytes travel within it, many in a
 * message of their own that follows, straight from and to the caller's memory.
 *
 *     sender    head, bytes -------------->  receiver: the head says what it expects? then the bytes
 *
 * A step without heads comes after one with heads, where all has been said. */
#ifndef HR_MPI_EXCHANGE_H
#define HR_MPI_EXCHANGE_H
#include "group/group_ops.h"
#include "group/mpi/mpi_library.h"

struct hr__mpi_member;

/* The messages of each kind have an order of their own. */
typedef enum hr__mpi_lane {
    HR__LANE_COLLECTIVE,
    HR__LANE_MESSAGES = 2,
    HR__LANE_HOST = 4
} hr__mpi_lane;

typedef struct hr__head {
    int64_t bytes;    /* of this message */
    int64_t elements; /* of all-to-all: how many */
    int64_t window_offset;
    hr__call call; /* without pointers */
    int stage, chunk, microbatch;
    char what[40]; /* of the label */
} hr__head;

typedef enum hr__leg_stage {
    HR__LEG_IDLE, /* an earlier one of the same peer comes first */
    HR__LEG_HEAD, /* its head is awaited */
    HR__LEG_HELD, /* the head is there, and says something else */
    HR__LEG_DATA, /* its bytes are under way */
    HR__LEG_DONE
} hr__leg_stage;

typedef struct hr__leg {
    bool send;
    int peer; /* in the group */
    char *buf;
    size_t bytes;
    int64_t elements;
    int next; /* the next leg of the same direction and peer; -1 */
    hr__leg_stage stage;
    size_t at; /* where its head is in `heads` */
    /* Its bytes are asked for before the head has said whether they are the right ones. A library may end the
     * program when too many come, so nobody looks at this before. */
    MPI_Request early;
} hr__leg;

typedef struct hr__mpi_exchange {
    struct hr__mpi_member *m;
    hr__mpi_lane lane;
    bool raw;      /* without heads */
    hr__head mine; /* of all that is sent, but for the sizes */
    hr__leg *legs; /* [cap], n in use */
    int n, cap;
    MPI_Request *requests; /* [2 * cap] of each leg its head, its bytes */
    MPI_Status *statuses;  /* [2 * cap] */
    int *through;          /* [2 * cap] */
    int waiting;           /* legs that are neither through nor held */
    int *tails;            /* [2 * size] last leg of each peer and direction, -1 */
    char *heads;
    size_t heads_bytes, heads_cap;
    int heads_missing;
    int64_t bytes;  /* of all messages */
    int64_t met_ns; /* when the last head was there */
    /* The head of a message that comes in: OK its bytes are wanted, PENDING they are not, negative. */
    hr_status (*check)(struct hr__mpi_exchange *x, const hr__leg *leg,
                       const hr__head *head);
} hr__mpi_exchange;

hr_status hr__exchange_init(hr__mpi_exchange *x, struct hr__mpi_member *m,
                            hr__mpi_lane lane);
void hr__exchange_fini(hr__mpi_exchange *x);

/* An empty step. */
void hr__exchange_begin(hr__mpi_exchange *x, bool raw);
hr_status hr__exchange_add(hr__mpi_exchange *x, bool send, int peer, const void *buf,
                           size_t bytes, int64_t elements);
hr_status hr__exchange_start(hr__mpi_exchange *x);
/* For hr__mpi_wait(). OK: all is through, or held. */
hr_status hr__exchange_look(void *exchange);
/* After a failure: nothing of it may come in any more. */
void hr__exchange_drop(hr__mpi_exchange *x);

static inline const hr__head *hr__exchange_head(const hr__mpi_exchange *x,
                                                const hr__leg *leg)
{
    return (const hr__head *)(const void *)(x->heads + leg->at);
}

/* A type and a count for that many bytes, which may be more than `most` (a count goes to INT_MAX). The type
 * is the caller's to free if it is not MPI_BYTE. Locked by the caller. */
int hr__mpi_type_of(size_t bytes, size_t most, MPI_Datatype *type, int *count);

#endif
