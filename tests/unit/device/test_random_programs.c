/* Random programs of launches, events, host waits, allocs and frees over several streams,
 * held against a model that knows, for every operation, the set of those before it:
 *
 *  - when an operation runs, all in its set have run;
 *  - a block is handed out only where all operations on its bytes come before the next one
 *    (and where one of that size is ready, no new memory is taken);
 *  - what an operation left in its block is there for the next one;
 *  - addresses are the same in every run, with poison, and with blocking launches;
 *  - the stream checker finds nothing: all that these programs do is ordered.
 */
#include "device_kit.h"

#include <sched.h>

enum { OPS = 512, STREAMS = 4, EVENTS = 5, BLOCKS = 12, PAST = 512, SEEDS = 30 };

typedef struct bits {
    uint64_t w[OPS / 64];
} bits;

static void join(bits *a, const bits *b)
{
    for (int i = 0; i < OPS / 64; i++)
        a->w[i] |= b->w[i];
}

static bool within(const bits *a, const bits *b)
{
    for (int i = 0; i < OPS / 64; i++)
        if (a->w[i] & ~b->w[i])
            return false;
    return true;
}

static void add(bits *a, int op)
{
    a->w[op / 64] |= UINT64_C(1) << (op % 64);
}

struct program;
typedef struct op {
    struct program *program;
    bits before;
    atomic_bool done;
    int id;
    int *mem; /* NULL: touches none; else holds `found` and gets the id */
    int found;
} op;

typedef struct block {
    char *ptr; /* NULL: no block here */
    size_t bytes;
    int home, last_op;
    bits ops;         /* on these bytes since the alloc */
    bits on[STREAMS]; /* the same by stream */
    bool recorded[STREAMS];
    bits guard; /* once freed: what the clocks must show; */
    bool free;  /* not handed out again yet */
} block;

typedef struct program {
    uint64_t random;
    hr_device *dev;
    hr_stream *stream[STREAMS];
    hr_event *event[EVENTS];
    bits before[STREAMS], reached[EVENTS], host; /* the model's clocks */
    block live[BLOCKS], past[PAST];
    int n_past, n_ops;
    op ops[OPS];
    atomic_int early, spoiled; /* what kernels found wrong */
    int unordered, wasteful;   /* what the model found wrong */
    char *seen[OPS];           /* addresses in order of their first appearance */
    int n_seen;
    int addresses[OPS], n_addresses; /* places in `seen`, alloc by alloc */
} program;

static unsigned pick(program *p, unsigned n)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (unsigned)(p->random >> 33) % n;
}

static hr_status run_op(const void *args, hr_team *team)
{
    op *o = *(op *const *)args;
    program *p = o->program;
    if (o->id % 3 == 0)
        sched_yield();
    for (int i = 0; i < o->id; i++)
        if ((o->before.w[i / 64] >> (i % 64) & 1) && !atomic_load(&p->ops[i].done))
            atomic_fetch_add(&p->early, 1);
    if (o->mem) {
        if (o->found >= 0 && *o->mem != o->found)
            atomic_fetch_add(&p->spoiled, 1);
        *o->mem = o->id;
    }
    atomic_store(&o->done, true);
    return HR_OK;
}

static void launch(program *p, int s, block *b)
{
    op *o = &p->ops[p->n_ops];
    o->program = p;
    o->id = p->n_ops++;
    join(&p->before[s], &p->host);
    o->before = p->before[s];
    add(&p->before[s], o->id);
    if (b) {
        o->mem = (int *)(void *)b->ptr;
        o->found = b->last_op;
        b->last_op = o->id;
        add(&b->ops, o->id);
        add(&b->on[s], o->id);
    }
    hr_operand whole = {b ? b->ptr : NULL, b ? b->bytes : 0, HR_READ_WRITE};
    OK(hr_launch(p->stream[s], "op", run_op, &o, sizeof o, &whole, b ? 1 : 0));
}

static void record(program *p, int e, int s)
{
    join(&p->before[s], &p->host);
    p->reached[e] = p->before[s];
    OK(hr_event_record(p->event[e], p->stream[s]));
}

static void wait(program *p, int e, int s)
{
    join(&p->before[s], &p->reached[e]);
    OK(hr_event_wait(p->event[e], p->stream[s]));
}

/* Order what is on `from` before what follows on `to`. */
static void chain(program *p, int from, int to)
{
    int e = (int)pick(p, EVENTS);
    record(p, e, from);
    wait(p, e, to);
}

static int first_appearance(program *p, char *ptr)
{
    for (int i = 0; i < p->n_seen; i++)
        if (p->seen[i] == ptr)
            return i;
    p->seen[p->n_seen] = ptr;
    return p->n_seen++;
}

/* The block's bytes were others' before: are those over, by what was issued? */
static void check_handed_out(program *p, const block *b, int s)
{
    int known = p->n_seen;
    bool fresh = first_appearance(p, b->ptr) == known, had_one = false;
    join(&p->before[s], &p->host);
    for (int i = 0; i < p->n_past; i++) {
        block *old = &p->past[i];
        if (old->free && old->bytes == b->bytes && within(&old->guard, &p->before[s]))
            had_one = true;
        if (b->ptr < old->ptr + old->bytes && old->ptr < b->ptr + b->bytes) {
            p->unordered += !within(&old->ops, &p->before[s]);
            old->free = false;
        }
    }
    p->wasteful += fresh && had_one;
    for (int i = 0; i < BLOCKS; i++) {
        const block *l = &p->live[i];
        if (l != b && l->ptr)
            p->unordered += b->ptr < l->ptr + l->bytes && l->ptr < b->ptr + b->bytes;
    }
}

static void alloc_block(program *p, block *b, int s)
{
    static const size_t sizes[] = {100, 512, 700, 1500, 3000, 70000};
    void *ptr;
    *b = (block){.bytes = sizes[pick(p, 6)], .home = s, .last_op = -1};
    OK(hr_mem_alloc(p->stream[s], b->bytes, &ptr));
    b->ptr = ptr;
    check_handed_out(p, b, s);
    p->addresses[p->n_addresses++] = first_appearance(p, b->ptr);
    launch(p, s, b);
}

static void use_block(program *p, block *b, int s)
{
    join(&p->before[s], &p->host);
    for (int t = 0; t < STREAMS; t++)
        if (!within(&b->on[t], &p->before[s]))
            chain(p, t, s);
    if (s != b->home && pick(p, 2)) {
        hr_mem_record_stream(b->ptr, p->stream[s]);
        b->recorded[s] = true;
    }
    launch(p, s, b);
}

static void free_block(program *p, block *b, int s)
{
    bool by_home = s == b->home && pick(p, 2);
    join(&p->before[s], &p->host);
    for (int t = 0; t < STREAMS; t++)
        if (t != s && !b->recorded[t] && !within(&b->on[t], &p->before[s]))
            chain(p, t, s);
    /* `guard` is more than `ops`: all that was queued on the streams at the free. */
    for (int t = 0; t < STREAMS; t++)
        if (t == s || b->recorded[t])
            join(&b->guard, &p->before[t]);
    hr_mem_free(b->ptr, by_home ? NULL : p->stream[s]);
    b->free = true;
    p->past[p->n_past++] = *b;
    b->ptr = NULL;
}

/* Blocks whose home goes away are freed first, as a caller would. */
static void replace_stream(program *p, int s)
{
    for (int i = 0; i < BLOCKS; i++)
        if (p->live[i].ptr && p->live[i].home == s)
            free_block(p, &p->live[i], s);
    hr_stream_destroy(p->stream[s]);
    join(&p->before[s], &p->host);
    p->host = p->before[s];
    p->before[s] = (bits){{0}};
    p->stream[s] = new_stream(p->dev, "new");
}

static void step(program *p)
{
    int s = (int)pick(p, STREAMS), e = (int)pick(p, EVENTS);
    block *b = &p->live[pick(p, BLOCKS)];
    switch (pick(p, 20)) {
    case 0:
    case 1:
        record(p, e, s);
        break;
    case 2:
    case 3:
        wait(p, e, s);
        break;
    case 4:
        launch(p, s, NULL);
        break;
    case 5:
        hr_event_destroy(p->event[e]);
        p->event[e] = new_event(p->dev);
        p->reached[e] = (bits){{0}};
        break;
    case 6:
        if (pick(p, 4) == 0) {
            OK(hr_stream_synchronize(p->stream[s]));
            join(&p->host, &p->before[s]);
        }
        break;
    case 7:
        if (pick(p, 4) == 0) {
            OK(hr_event_synchronize(p->event[e]));
            join(&p->host, &p->reached[e]);
        }
        break;
    case 8:
        if (pick(p, 12) == 0 && s != 0)
            replace_stream(p, s);
        break;
    case 9:
        (void)!hr_stream_query(p->stream[s]);
        (void)!hr_event_query(p->event[e]);
        break;
    default:
        if (!b->ptr)
            alloc_block(p, b, s);
        else if (pick(p, 2))
            use_block(p, b, s);
        else
            free_block(p, b, s);
    }
}

static program *run_program(uint64_t seed, int poison, int blocking, bool check)
{
    program *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (check)
        setenv("HEADRACE_CHECK", "streams", 1);
    p->dev = open_device(&(hr_device_opts){HR_INIT(hr_device_opts), .poison = poison,
                                           .launch_blocking = blocking});
    unsetenv("HEADRACE_CHECK");
    p->stream[0] = hr_device_default_stream(p->dev);
    for (int i = 1; i < STREAMS; i++)
        p->stream[i] = new_stream(p->dev, "more");
    for (int i = 0; i < EVENTS; i++)
        p->event[i] = new_event(p->dev);
    while (p->n_ops < OPS - BLOCKS - 1)
        step(p);
    for (int i = 0; i < BLOCKS; i++)
        if (p->live[i].ptr)
            free_block(p, &p->live[i], 0);
    OK(hr_device_synchronize(p->dev));
    hr_device_close(p->dev);
    assert_int_equal(p->early, 0);
    assert_int_equal(p->spoiled, 0);
    assert_int_equal(p->unordered, 0);
    assert_int_equal(p->wasteful, 0);
    return p;
}

static void order_holds_and_addresses_repeat(void **state)
{
    int allocs = 0, again = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        program *first = run_program(seed, -1, 0, false);
        const int modes[][3] = {{-1, 0, 1}, {1, 0, 0}, {-1, 1, 0}};
        for (int i = 0; i < 3; i++) {
            program *other = run_program(seed, modes[i][0], modes[i][1], modes[i][2]);
            assert_int_equal(other->n_addresses, first->n_addresses);
            assert_memory_equal(other->addresses, first->addresses,
                                sizeof first->addresses);
            free(other);
        }
        allocs += first->n_addresses;
        again += first->n_addresses - first->n_seen;
        free(first);
    }
    assert_true(again > allocs / 4); /* the programs do exercise the cache */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_holds_and_addresses_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
