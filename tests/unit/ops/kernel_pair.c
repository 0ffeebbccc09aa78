/* See kernel_pair.h. */
#include "kernel_pair.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static hr_device *dev;
static void (*reverse)(int yes);

hr_device *pair_open(void)
{
    void *runtime = dlopen(getenv("HEADRACE_CUDART"), RTLD_NOW);
    void *f = runtime ? dlsym(runtime, "simt_reverse") : NULL;
    memcpy(&reverse, &f, sizeof f);
    dev = f ? op_open(1) : NULL;
    return dev;
}

void pair_close(void)
{
    op_close(dev);
}

static size_t size_of(pair_kind kind, hr_dtype type)
{
    if (kind == REAL || kind == REAL_OUT)
        return hr_dtype_bytes(type);
    return kind == F64_OUT || kind == I64 ? 8 : 4;
}

static bool is_out(pair_kind kind)
{
    return kind == F32_OUT || kind == REAL_OUT || kind == F64_OUT || kind == I32_OUT;
}

/* As f32 or bf16? */
static bool is_bf16(pair_kind kind, hr_dtype type)
{
    return (kind == REAL || kind == REAL_OUT) && type == HR_BF16;
}

static void put_number(void *p, const pair_operand *o, hr_dtype type, int64_t i,
                       double x)
{
    if (is_bf16(o->kind, type))
        ((hr__bf16 *)p)[i] = hr__bf16_near((float)x);
    else if (o->kind <= REAL_OUT)
        ((float *)p)[i] = (float)x;
    else if (o->kind == F64_OUT)
        ((double *)p)[i] = x;
    else if (o->kind == PERMUTED)
        ((int32_t *)p)[i] = (int32_t)((i * 7 + 3) % o->count); /* 7 divides none */
    else
        ((int32_t *)p)[i] = o->limit ? (int32_t)((x + 1) / 2 * (double)o->limit) : -1;
}

void *pair_numbers(const pair_operand *o, hr_dtype type, uint64_t seed)
{
    size_t bytes = (size_t)o->count * size_of(o->kind, type);
    void *p = malloc(bytes ? bytes : 1);
    if (o->given)
        memcpy(p, o->given, bytes);
    for (int64_t i = 0; !o->given && i < o->count; i++)
        put_number(p, o, type, i, op_random(seed, (uint64_t)i));
    return p;
}

static bool there(const pair_operand *o)
{
    return o->count > 0 || o->kind != F32;
}

/* The kernel in one form, on operands of its own, which stay in `memory`. */
static void run(const kernel_pair *p, bool cuda, void **memory)
{
    _Alignas(16) char args[HR_LAUNCH_ARGS];
    memcpy(args, p->args, p->bytes);
    for (int i = 0; i < PAIR_OPERANDS && there(&p->op[i]); i++) {
        memory[i] = pair_numbers(&p->op[i], p->type, (uint64_t)i + 1);
        memcpy(args + p->op[i].at, &memory[i], sizeof(void *));
    }
    if (!cuda) {
        op_ok(p->kernel->host(args, NULL));
        return;
    }
    hr_stream *s = hr_device_default_stream(dev);
    op_ok(hr__launch_kernel(s, "kernel", p->kernel, args, p->bytes, NULL, 0));
    op_ok(hr_stream_synchronize(s));
}

static double number(const void *p, pair_kind kind, hr_dtype type, int64_t i)
{
    if (is_bf16(kind, type))
        return (double)hr__bf16_wide(((const hr__bf16 *)p)[i]);
    switch (kind) {
    case F32_OUT:
    case REAL_OUT:
        return (double)((const float *)p)[i];
    case F64_OUT:
        return ((const double *)p)[i];
    default:
        return (double)((const int32_t *)p)[i];
    }
}

/* Two sums of f32 that are near each other may be rounded to two neighbours. */
static double allowed(const kernel_pair *p, pair_kind kind)
{
    return p->tolerance != 0 && is_bf16(kind, p->type) ? 1.0 / 128 : p->tolerance;
}

static void compare(const kernel_pair *p, int op, const void *host, const void *cuda,
                    const void *other)
{
    const pair_operand *o = &p->op[op];
    double most = 0, tolerance = allowed(p, o->kind);
    assert_memory_equal(cuda, other, (size_t)o->count * size_of(o->kind, p->type));
    for (int64_t i = 0; i < o->count; i++)
        most = fmax(most, fabs(number(host, o->kind, p->type, i)));
    for (int64_t i = 0; i < o->count; i++) {
        double want = number(host, o->kind, p->type, i),
               got = number(cuda, o->kind, p->type, i);
        if (!(fabs(got - want) <= tolerance * most))
            fail_msg("operand %d [%lld], %s, is %.9g, not %.9g", op, (long long)i,
                     hr_dtype_name(p->type), got, want);
    }
}

void pair_check(const kernel_pair *p)
{
    void *memory[3][PAIR_OPERANDS] = {{0}};
    assert_non_null(p->kernel->cuda);
    for (int side = 0; side < 3; side++) {
        reverse(side == 2);
        run(p, side > 0, memory[side]);
    }
    reverse(false);
    for (int i = 0; i < PAIR_OPERANDS; i++) {
        if (is_out(p->op[i].kind))
            compare(p, i, memory[0][i], memory[1][i], memory[2][i]);
        for (int side = 0; side < 3; side++)
            free(memory[side][i]);
    }
}
