/* Host kernels of the products: row-major sgemm of the BLAS over tiles whose shape follows from
 * the operands alone. Each tile is one call on one thread; the BLAS runs no threads of its own. */
#include "base/try.h"
#include "ops/host/host_wide.h"
#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { TILE_ROWS = 256, TILE_COLS = 512, WORK_SPACE = 129 << 20 };

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static bool memory_is_limited; /* set once */

static bool limited(int resource)
{
    struct rlimit r;
    return getrlimit(resource, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
}

/* The kernel promises no more than it has. */
static bool strict_overcommit(void)
{
    FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = f ? fgetc(f) : EOF;
    if (f)
        fclose(f);
    return mode == '2';
}

static void prepare_blas(void)
{
    openblas_set_num_threads(1);
    memory_is_limited =
        limited(RLIMIT_AS) || limited(RLIMIT_DATA) || strict_overcommit();
}

static int64_t tile_count(const hr__gemm_args *g)
{
    return hr__parts(g->m, TILE_ROWS) * hr__parts(g->n, TILE_COLS);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The BLAS has a work space for each thread that is in it. Where the system gives it none it asks again for
 * ever, so ask first. */
static hr_status ask_for_work_space(void)
{
    void *at = mmap(NULL, WORK_SPACE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return hr_fail(HR_ERR_NOMEM, "memory",
                       "no memory for what the BLAS wants, %d MiB", WORK_SPACE >> 20);
    munmap(at, WORK_SPACE);
    return HR_OK;
}

static void tile_product(const hr__gemm_args *g, int64_t tile)
{
    int64_t across = hr__parts(g->n, TILE_COLS);
    int64_t i = tile / across * TILE_ROWS, j = tile % across * TILE_COLS;
    int64_t m = least(TILE_ROWS, g->m - i), n = least(TILE_COLS, g->n - j);
    float *c = g->c + i * g->n + j;
    if (g->k == 0) {
        for (int64_t r = 0; r < m && !g->add; r++)
            memset(c + r * g->n, 0, (size_t)n * sizeof *c);
        return;
    }
    const float *a = g->a + (g->a_across ? i : i * g->k);
    const float *b = g->b + (g->b_across ? j * g->k : j);
    cblas_sgemm(CblasRowMajor, g->a_across ? CblasTrans : CblasNoTrans,
                g->b_across ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                (blasint)g->k, 1.0F, a, (blasint)(g->a_across ? g->m : g->k), b,
                (blasint)(g->b_across ? g->k : g->n), g->add ? 1.0F : 0.0F, c,
                (blasint)g->n);
}

/* With little memory one at a time: then there is one work space, and it was there to be had. */
static hr_status tile_run(const hr__gemm_args *g, int64_t tile)
{
    static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
    static bool has_space; /* alone */
    if (!memory_is_limited) {
        tile_product(g, tile);
        return HR_OK;
    }
    pthread_mutex_lock(&alone);
    hr_status st = has_space ? HR_OK : ask_for_work_space();
    if (st >= 0) {
        tile_product(g, tile);
        has_space = true;
    }
    pthread_mutex_unlock(&alone);
    return st;
}

/* c is of the operands' type, or is f32 already. */
static hr_status wide(hr__gemm_args g, hr_team *team)
{
    hr_dtype c_type = g.c_type;
    g.c_type = HR_F32;
    if (c_type == HR_F32)
        return HR__WIDE_RUN(hr__host_gemm, g, team, {&g.a, g.m * g.k, HR_READ},
                            {&g.b, g.k * g.n, HR_READ});
    return HR__WIDE_RUN(hr__host_gemm, g, team, {&g.a, g.m * g.k, HR_READ},
                        {&g.b, g.k * g.n, HR_READ},
                        {&g.c, g.m * g.n, g.add ? HR_READ_WRITE : HR_WRITE});
}

static hr_status gemm_part(void *arg, int i)
{
    return tile_run(arg, i);
}

hr_status hr__host_gemm(const void *args, hr_team *team)
{
    hr__gemm_args g = *(const hr__gemm_args *)args;
    if (g.type == HR_BF16)
        return wide(g, team);
    pthread_once(&blas_once, prepare_blas);
    return hr__parts_run(team, tile_count(&g), gemm_part, &g);
}

/* ---- one product an expert ---- */
typedef hr__gemm_args (*expert_product)(const hr__grouped_args *a, int64_t expert);

static hr__gemm_args expert_y(const hr__grouped_args *a, int64_t l)
{
    int64_t from = a->offsets[l], rows = a->offsets[l + 1] - from;
    return (hr__gemm_args){.c = a->y + from * a->out,
                           .a = a->x + from * a->in,
                           .b = a->w + l * a->out * a->in,
                           .m = rows,
                           .n = a->out,
                           .k = a->in,
                           .b_across = true};
}

static hr__gemm_args expert_dx(const hr__grouped_args *a, int64_t l)
{
    int64_t from = a->offsets[l], rows = a->offsets[l + 1] - from;
    return (hr__gemm_args){.c = a->x + from * a->in,
                           .a = a->y + from * a->out,
                           .b = a->w + l * a->out * a->in,
                           .m = rows,
                           .n = a->in,
                           .k = a->out};
}

static hr__gemm_args expert_dw(const hr__grouped_args *a, int64_t l)
{
    int64_t from = a->offsets[l], rows = a->offsets[l + 1] - from;
    return (hr__gemm_args){.c = a->w + l * a->out * a->in,
                           .a = a->y + from * a->out,
                           .b = a->x + from * a->in,
                           .m = a->out,
                           .n = a->in,
                           .k = rows,
                           .a_across = true,
                           .add = true};
}

struct grouped {
    const hr__grouped_args *args;
    expert_product product;
};

static hr_status grouped_part(void *arg, int i)
{
    const struct grouped *g = arg;
    int64_t tile = i;
    for (int64_t l = 0; l < g->args->experts; l++) {
        hr__gemm_args product = g->product(g->args, l);
        int64_t tiles = tile_count(&product);
        if (tile < tiles)
            return tile_run(&product, tile);
        tile -= tiles;
    }
    return HR_OK;
}

static hr_status grouped_run(const void *args, hr_team *team, expert_product product)
{
    struct grouped g = {args, product};
    int64_t tiles = 0;
    pthread_once(&blas_once, prepare_blas);
    for (int64_t l = 0; l < g.args->experts; l++) {
        hr__gemm_args p = product(g.args, l);
        tiles += tile_count(&p);
    }
    return hr__parts_run(team, tiles, grouped_part, &g);
}

hr_status hr__host_grouped(const void *args, hr_team *team)
{
    hr__grouped_args a = *(const hr__grouped_args *)args;
    int64_t rows = a.offsets[a.experts];
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_grouped, a, team, {&a.x, rows * a.in, HR_READ},
                            {&a.w, a.experts * a.out * a.in, HR_READ},
                            {&a.y, rows * a.out, HR_WRITE});
    return grouped_run(&a, team, expert_y);
}

hr_status hr__host_grouped_dx(const void *args, hr_team *team)
{
    hr__grouped_args a = *(const hr__grouped_args *)args;
    int64_t rows = a.offsets[a.experts];
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_grouped_dx, a, team, {&a.x, rows * a.in, HR_WRITE},
                            {&a.w, a.experts * a.out * a.in, HR_READ},
                            {&a.y, rows * a.out, HR_READ});
    return grouped_run(&a, team, expert_dx);
}

hr_status hr__host_grouped_dw(const void *args, hr_team *team)
{
    hr__grouped_args a = *(const hr__grouped_args *)args;
    int64_t rows = a.offsets[a.experts];
    if (a.type == HR_BF16)
        return HR__WIDE_RUN(hr__host_grouped_dw, a, team, {&a.x, rows * a.in, HR_READ},
                            {&a.y, rows * a.out, HR_READ});
    return grouped_run(&a, team, expert_dw);
}
