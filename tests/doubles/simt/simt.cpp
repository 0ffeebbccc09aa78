/* The scheduler of simt.h. Warps run one after the other, each until all its lanes stand at a barrier of
 * the block or are done; then the barrier opens. Fibers are made once a thread of the operating system. */
#include "simt/simt_shim.hpp"
#include <pthread.h>
#include <stdlib.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#if SIMT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

enum { WARP = 32, MAX_THREADS = 1024, STACK = 96 << 10 };

/* WAITS_WARP: at an exchange or __syncwarp(). */
enum state { READY, WAITS_WARP, WAITS_BLOCK, DONE };

/* Where a fiber, or the scheduler, goes on. */
struct place {
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t context;
#endif
};

struct fiber {
    simt::thread_view view;
    enum state state;
    bool started; /* its stack holds the loop of fiber_main() */
    bool odd;     /* which of the two exchanges comes next */
    struct place here;
    char *stack;
    void *fake_stack; /* ASan's */
};

struct warp {
    uint64_t given[2][WARP];
};

/* One a thread of the operating system. */
struct machine {
    fiber fibers[MAX_THREADS];
    warp warps[MAX_THREADS / WARP];
    fiber *running;
    struct place scheduler;
    const simt_kernel *kernel;
    const void *packed;
    void *shared;
    void *fake_stack;
    const void *bottom; /* of the scheduler's stack */
    size_t bottom_size;
};

static simt_kernel *all_kernels;
static int reverse_order;
static thread_local machine *mine;

/* Frees a machine with its thread. By pthread, so that no C++ library is needed. */
static pthread_key_t machine_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void machine_free(void *p)
{
    machine *m = static_cast<machine *>(p);
    for (int i = 0; i < MAX_THREADS; i++)
        free(m->fibers[i].stack);
    free(m);
}

static void make_key()
{
    if (pthread_key_create(&machine_key, machine_free) != 0)
        abort();
}

/* ---- switching ------------------------------------------------------------------------- */
static void fiber_main();

#ifdef __x86_64__
/* By hand: ucontext asks the kernel each time, and sanitizers sweep the stack at every longjmp(). */
extern "C" void simt_switch(void **from, void *to);
__asm__(".text\n"
        ".type simt_switch, @function\n"
        ".hidden simt_switch\n"
        "simt_switch:\n"
        "    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
        "    ret\n"
        ".size simt_switch, . - simt_switch\n");

static void go(place *from, place *to)
{
    simt_switch(&from->sp, to->sp);
}

/* As if fiber_main() had called simt_switch() first thing. */
static void prepare(place *p, char *stack)
{
    void **top = reinterpret_cast<void **>(stack + STACK);
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void *>(fiber_main);
    memset(top - 8, 0, 6 * sizeof *top);
    p->sp = top - 8;
}
#else
static void go(place *from, place *to)
{
    swapcontext(&from->context, &to->context);
}

static void prepare(place *p, char *stack)
{
    getcontext(&p->context);
    p->context.uc_stack.ss_sp = stack;
    p->context.uc_stack.ss_size = STACK;
    p->context.uc_link = nullptr;
    makecontext(&p->context, fiber_main, 0);
}
#endif

static void switch_start(void **fake, const void *bottom, size_t size)
{
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(fake, bottom, size);
#else
    (void)fake, (void)bottom, (void)size;
#endif
}

static void switch_end(void *fake, const void **bottom, size_t *size)
{
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(fake, bottom, size);
#else
    (void)fake, (void)bottom, (void)size;
#endif
}

static void to_scheduler(machine *m, fiber *f)
{
    switch_start(&f->fake_stack, m->bottom, m->bottom_size);
    go(&f->here, &m->scheduler);
    switch_end(f->fake_stack, &m->bottom, &m->bottom_size);
}

/* Runs one thread of a kernel after the other. */
static void fiber_main()
{
    machine *m = mine;
    fiber *f = m->running;
    switch_end(nullptr, &m->bottom, &m->bottom_size);
    for (;;) {
        m->kernel->call(m->packed);
        f->state = DONE;
        to_scheduler(m, f);
    }
}

static bool enter(machine *m, fiber *f)
{
    if (!f->started) {
        if (!f->stack && !(f->stack = static_cast<char *>(malloc(STACK))))
            return false;
        prepare(&f->here, f->stack);
        f->started = true;
    }
    m->running = f;
    switch_start(&m->fake_stack, f->stack, STACK);
    go(&m->scheduler, &f->here);
    switch_end(m->fake_stack, nullptr, nullptr);
    return true;
}

/* ---- what kernels ask ------------------------------------------------------------------ */
simt::thread_view *simt::self()
{
    return &mine->running->view;
}

void *simt::dynamic_shared()
{
    return mine->shared;
}

static void stop(enum state state)
{
    fiber *f = mine->running;
    f->state = state;
    to_scheduler(mine, f);
}

void simt::sync_block()
{
    stop(WAITS_BLOCK);
}

void simt::sync_warp()
{
    stop(WAITS_WARP);
}

/* Two places in turn: who is at the next exchange already does not write over what others have still to
 * read, and none can be two ahead. */
const uint64_t *simt::exchange(uint64_t value)
{
    machine *m = mine;
    fiber *f = m->running;
    long at = f - m->fibers;
    uint64_t *given = m->warps[at / WARP].given[f->odd];
    given[at % WARP] = value;
    f->odd = !f->odd;
    stop(WAITS_WARP);
    return given;
}

/* ---- scheduling ------------------------------------------------------------------------ */
static const char *run_warp(machine *m, fiber *lane)
{
    for (;;) {
        int waiting = 0, stopped = 0;
        for (int i = 0; i < WARP; i++) {
            fiber *f = &lane[reverse_order ? WARP - 1 - i : i];
            if (f->state == READY && !enter(m, f))
                return "no memory for a stack";
            waiting += f->state == WAITS_WARP;
            stopped += f->state == WAITS_BLOCK || f->state == DONE;
        }
        if (stopped == WARP)
            return nullptr;
        if (waiting != WARP)
            return "lanes of a warp wait for others that do not come";
        for (int i = 0; i < WARP; i++)
            lane[i].state = READY;
    }
}

static const char *run_block(machine *m, int threads)
{
    for (;;) {
        int waiting = 0, done = 0;
        for (int w = 0; w < threads; w += WARP) {
            const char *wrong =
                run_warp(m, &m->fibers[reverse_order ? threads - WARP - w : w]);
            if (wrong)
                return wrong;
        }
        for (int i = 0; i < threads; i++) {
            waiting += m->fibers[i].state == WAITS_BLOCK;
            done += m->fibers[i].state == DONE;
        }
        if (done == threads)
            return nullptr;
        if (waiting != threads)
            return "threads of a block wait for others that are done";
        for (int i = 0; i < threads; i++)
            m->fibers[i].state = READY;
    }
}

static machine *machine_of_thread()
{
    pthread_once(&key_once, make_key);
    if (!mine && (mine = static_cast<machine *>(calloc(1, sizeof *mine))))
        pthread_setspecific(machine_key, mine);
    return mine;
}

/* A kernel that stopped midway leaves fibers that must not be entered again. */
static void give_up(machine *m)
{
    for (int i = 0; i < MAX_THREADS; i++)
        m->fibers[i].started = false;
}

static const char *run_all(machine *m, simt_dim grid, simt_dim block)
{
    const int threads = (int)block.x;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    for (uint64_t n = 0; n < blocks; n++) {
        const uint64_t b = reverse_order ? blocks - 1 - n : n;
        const simt_dim at = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                             (unsigned)(b / grid.x / grid.y)};
        for (int i = 0; i < threads; i++) {
            m->fibers[i].view = simt::thread_view{{(unsigned)i, 0, 0}, at, block, grid};
            m->fibers[i].state = READY;
            m->fibers[i].odd = false;
        }
        const char *wrong = run_block(m, threads);
        if (wrong) {
            give_up(m);
            return wrong;
        }
    }
    return nullptr;
}

const char *simt_run(const simt_kernel *k, simt_dim grid, simt_dim block, size_t shared,
                     const void *packed)
{
    machine *m = machine_of_thread();
    if (block.x == 0 || block.x > MAX_THREADS || block.x % WARP || block.y != 1 ||
        block.z != 1)
        return "a block is not 32 to 1024 threads in whole warps along x";
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff ||
        grid.y > 65535 || grid.z > 65535)
        return "a grid is outside of what GPUs take";
    if (shared > 48 << 10)
        return "more than 48 KiB of dynamic shared memory";
    if (!m)
        return "no memory";
    m->shared = malloc(shared ? shared : 1);
    if (!m->shared)
        return "no memory for shared memory";
    memset(m->shared, 0xff, shared);
    m->kernel = k;
    m->packed = packed;
    const char *wrong = run_all(m, grid, block);
    free(m->shared);
    return wrong;
}

/* ---- kernels by name ------------------------------------------------------------------- */
void simt::add(simt_kernel *k)
{
    k->next = all_kernels;
    all_kernels = k;
}

const simt_kernel *simt_find(const char *name)
{
    for (const simt_kernel *k = all_kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0)
            return k;
    return nullptr;
}

int simt_pack(const simt_kernel *k, void *const *args, void *to, size_t cap)
{
    for (int i = 0; i < k->n_params; i++) {
        if (k->offset[i] + k->size[i] > cap)
            return -1;
        memcpy(static_cast<char *>(to) + k->offset[i], args[i], k->size[i]);
    }
    return 0;
}

void simt_reverse(int yes)
{
    __atomic_store_n(&reverse_order, yes, __ATOMIC_RELAXED);
}
