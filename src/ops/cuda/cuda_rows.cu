/* Kernels that go element by element or row by row: add, conversion, rows by index, embedding, rmsnorm, swiglu.
 * Letters as in headrace/ops.h. */
#include "ops/cuda/cuda_types.cuh"
#include "ops/formulas.h"

template <class T> HR_INLINE void add(T *out, const T *a, const T *b, int64_t count)
{
    for (int64_t i = hr_first(); i < count; i += hr_stride())
        hr__put(out + i, hr__f32(a[i]) + hr__f32(b[i]));
}
HR_KERNELS(hr_add, add, (T *out, const T *a, const T *b, int64_t count),
           (out, a, b, count))

HR_KERNEL hr_widen(float *to, const hr__bf16 *from, int64_t count)
{
    for (int64_t i = hr_first(); i < count; i += hr_stride())
        to[i] = hr__f32(from[i]);
}

HR_KERNEL hr_narrow(hr__bf16 *to, const float *from, int64_t count)
{
    for (int64_t i = hr_first(); i < count; i += hr_stride())
        hr__put(to + i, from[i]);
}

/* ---- rows by index ---- */
/* out[j] = x[map[j]] */
template <class T>
HR_INLINE void gather(T *out, const T *x, const int32_t *map, int64_t n, int64_t width,
                      const hr__index_rule &rule)
{
    int64_t j = hr_row();
    if (j >= n || !hr_index_ok(rule, j, map[j]))
        return;
    const T *from = x + map[j] * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        out[j * width + c] = from[c];
}
HR_KERNELS(hr_gather, gather,
           (T *out, const T *x, const int32_t *map, int64_t n, int64_t width,
            hr__index_rule rule),
           (out, x, map, n, width, rule))

/* out[i] = sum over k of x[map[i,k]], in order */
template <class T>
HR_INLINE void combine(T *out, const T *x, const int32_t *map, int64_t n, int64_t top_k,
                       int64_t width, const hr__index_rule &rule)
{
    int64_t i = hr_row();
    if (i >= n)
        return;
    const int32_t *mine = map + i * top_k;
    for (int64_t k = 0; k < top_k; k++)
        if (!hr_index_ok(rule, i * top_k + k, mine[k]))
            return;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        float sum = top_k > 0 ? hr__f32(x[mine[0] * width + c]) : 0;
        for (int64_t k = 1; k < top_k; k++)
            sum += hr__f32(x[mine[k] * width + c]);
        hr__put(out + i * width + c, sum);
    }
}
HR_KERNELS(hr_combine, combine,
           (T *out, const T *x, const int32_t *map, int64_t n, int64_t top_k,
            int64_t width, hr__index_rule rule),
           (out, x, map, n, top_k, width, rule))

/* table[v] += rows of v, in the order of the tokens: a warp takes an id of the vocabulary and looks for
 * its tokens. */
template <class T>
HR_INLINE void embedding_back(float *table, const T *rows, const int32_t *ids,
                              int64_t n, int64_t width, int64_t vocabulary,
                              const hr__index_rule &rule)
{
    int64_t v = hr_row();
    if (v >= vocabulary)
        return;
    for (int64_t begin = 0; begin < n; begin += HR_WARP) {
        int64_t mine = begin + hr_lane();
        int32_t id = mine < n ? ids[mine] : -1;
        if (v == 0 && mine < n)
            hr_index_ok(rule, mine, id);
        unsigned found = __ballot_sync(HR_ALL_LANES, mine < n && id == v);
        for (; found; found &= found - 1) {
            const T *row = rows + (begin + __ffs(found) - 1) * width;
            for (int64_t c = hr_lane(); c < width; c += HR_WARP)
                table[v * width + c] += hr__f32(row[c]);
        }
    }
}
HR_KERNELS(hr_embedding_back, embedding_back,
           (float *table, const T *rows, const int32_t *ids, int64_t n, int64_t width,
            int64_t vocabulary, hr__index_rule rule),
           (table, rows, ids, n, width, vocabulary, rule))

/* Single numbers: slots[slot[i]] = choices[i], or the reverse. */
HR_KERNEL hr_permute_probs(float *choices, float *slots, const int32_t *slot,
                           int64_t count, int back, hr__index_rule rule)
{
    for (int64_t i = hr_first(); i < count; i += hr_stride()) {
        if (!hr_index_ok(rule, i, slot[i]))
            continue;
        if (back)
            choices[i] = slots[slot[i]];
        else
            slots[slot[i]] = choices[i];
    }
}

/* ---- rmsnorm ---- */
template <class T>
HR_INLINE void rmsnorm(T *y, const T *x, const T *g, int64_t n, int64_t width,
                       float eps)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    float squares = 0;
    x += row * width;
    y += row * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        squares += hr__f32(x[c]) * hr__f32(x[c]);
    float factor = hr__rms_factor(hr_warp_sum(squares), width, eps);
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        hr__put(y + c, hr__f32(x[c]) * factor * hr__f32(g[c]));
}
HR_KERNELS(hr_rmsnorm, rmsnorm,
           (T *y, const T *x, const T *g, int64_t n, int64_t width, float eps),
           (y, x, g, n, width, eps))

/* Keeps the factor of each row for what follows, if `factors`. */
template <class T>
HR_INLINE void rmsnorm_dx(T *dx, float *factors, const T *x, const T *g, const T *dy,
                          int64_t n, int64_t width, float eps)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    float squares = 0, dot = 0;
    x += row * width;
    dy += row * width;
    dx += row * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        float v = hr__f32(x[c]);
        squares += v * v;
        dot += v * hr__f32(g[c]) * hr__f32(dy[c]);
    }
    float f = hr__rms_factor(hr_warp_sum(squares), width, eps);
    float along = hr__rms_along(f, hr_warp_sum(dot), width);
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        hr__put(dx + c,
                hr__rmsnorm_dx(hr__f32(x[c]), hr__f32(g[c]), hr__f32(dy[c]), f, along));
    if (factors && hr_lane() == 0)
        factors[row] = f;
}
HR_KERNELS(hr_rmsnorm_dx, rmsnorm_dx,
           (T *dx, float *factors, const T *x, const T *g, const T *dy, int64_t n,
            int64_t width, float eps),
           (dx, factors, x, g, dy, n, width, eps))

/* A block sums 32 columns (x) of a part's rows (y): its warps take rows in turn. */
template <class T>
HR_INLINE void rmsnorm_part(float *partial, const T *x, const T *dy,
                            const float *factors, int64_t n, int64_t width,
                            int64_t part_rows)
{
    __shared__ float sums[HR_WARPS][HR_WARP];
    int64_t c = (int64_t)blockIdx.x * HR_WARP + hr_lane();
    int64_t begin = (int64_t)blockIdx.y * part_rows;
    int64_t end = begin + part_rows < n ? begin + part_rows : n;
    float sum = 0;
    for (int64_t row = begin + hr_warp(); c < width && row < end; row += HR_WARPS)
        sum +=
            hr__f32(dy[row * width + c]) * hr__f32(x[row * width + c]) * factors[row];
    sums[hr_warp()][hr_lane()] = sum;
    __syncthreads();
    if (hr_warp() > 0 || c >= width)
        return;
    for (int w = 1; w < HR_WARPS; w++)
        sum += sums[w][hr_lane()];
    partial[blockIdx.y * width + c] = sum;
}
HR_KERNELS(hr_rmsnorm_part, rmsnorm_part,
           (float *partial, const T *x, const T *dy, const float *factors, int64_t n,
            int64_t width, int64_t part_rows),
           (partial, x, dy, factors, n, width, part_rows))

/* to[c] += each row of partial, in order. */
HR_KERNEL hr_add_rows(float *to, const float *partial, int64_t rows, int64_t width)
{
    for (int64_t c = hr_first(); c < width; c += hr_stride()) {
        float sum = to[c];
        for (int64_t r = 0; r < rows; r++)
            sum += partial[r * width + c];
        to[c] = sum;
    }
}

/* ---- swiglu ---- */
/* How many of n rows there are. */
HR_INLINE int64_t live_rows(const int64_t *live, int64_t n)
{
    return live && *live < n ? *live : n;
}

template <class T>
HR_INLINE void swiglu(T *y, const T *x, const float *scale, const int64_t *live,
                      int64_t n, int64_t width)
{
    int64_t row = hr_row();
    if (row >= live_rows(live, n))
        return;
    const T *a = x + row * 2 * width, *b = a + width;
    float s = scale ? scale[row] : 1.0F;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        float v = hr__f32(a[c]);
        hr__put(y + row * width + c,
                hr__swiglu_value(v, hr__f32(b[c]), hr_sigmoid(v), s));
    }
}
HR_KERNELS(hr_swiglu, swiglu,
           (T *y, const T *x, const float *scale, const int64_t *live, int64_t n,
            int64_t width),
           (y, x, scale, live, n, width))

template <class T>
HR_INLINE void swiglu_back(T *dx, float *dscale, const T *x, const float *scale,
                           const T *dy, const int64_t *live, int64_t n, int64_t width)
{
    int64_t row = hr_row();
    if (row >= live_rows(live, n))
        return;
    const T *a = x + row * 2 * width, *b = a + width, *d = dy + row * width;
    T *to = dx + row * 2 * width;
    float s = scale ? scale[row] : 1.0F, dot = 0;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        float v = hr__f32(a[c]), da, db;
        dot += hr__swiglu_grad(v, hr__f32(b[c]), hr_sigmoid(v), s, hr__f32(d[c]), &da,
                               &db);
        hr__put(to + c, da);
        hr__put(to + width + c, db);
    }
    dot = hr_warp_sum(dot);
    if (dscale && hr_lane() == 0)
        dscale[row] = dot;
}
HR_KERNELS(hr_swiglu_back, swiglu_back,
           (T *dx, float *dscale, const T *x, const float *scale, const T *dy,
            const int64_t *live, int64_t n, int64_t width),
           (dx, dscale, x, scale, dy, live, n, width))
