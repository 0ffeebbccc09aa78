/* Kernels that go element by element or row by row: add, rows by index, embedding, rmsnorm, swiglu.
 * Letters as in headrace/ops.h. */
#include "device/cuda/cuda_code.cuh"
#include "ops/formulas.h"

HR_KERNEL hr_add(float *out, const float *a, const float *b, int64_t count)
{
    for (int64_t i = hr_first(); i < count; i += hr_stride())
        out[i] = a[i] + b[i];
}

/* ---- rows by index ---- */
/* out[j] = x[map[j]] */
HR_KERNEL hr_gather(float *out, const float *x, const int32_t *map, int64_t n,
                    int64_t width, hr__index_rule rule)
{
    int64_t j = hr_row();
    if (j >= n || !hr_index_ok(rule, j, map[j]))
        return;
    const float *from = x + map[j] * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        out[j * width + c] = from[c];
}

/* out[i] = sum over k of x[map[i,k]], in order */
HR_KERNEL hr_combine(float *out, const float *x, const int32_t *map, int64_t n,
                     int64_t top_k, int64_t width, hr__index_rule rule)
{
    int64_t i = hr_row();
    if (i >= n)
        return;
    const int32_t *mine = map + i * top_k;
    for (int64_t k = 0; k < top_k; k++)
        if (!hr_index_ok(rule, i * top_k + k, mine[k]))
            return;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        float sum = top_k > 0 ? x[mine[0] * width + c] : 0;
        for (int64_t k = 1; k < top_k; k++)
            sum += x[mine[k] * width + c];
        out[i * width + c] = sum;
    }
}

/* table[v] += rows of v, in the order of the tokens: a warp takes an id of the vocabulary and looks for
 * its tokens. */
HR_KERNEL hr_embedding_back(float *table, const float *rows, const int32_t *ids,
                            int64_t n, int64_t width, int64_t vocabulary,
                            hr__index_rule rule)
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
            const float *row = rows + (begin + __ffs(found) - 1) * width;
            for (int64_t c = hr_lane(); c < width; c += HR_WARP)
                table[v * width + c] += row[c];
        }
    }
}

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
HR_KERNEL hr_rmsnorm(float *y, const float *x, const float *g, int64_t n, int64_t width,
                     float eps)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    float squares = 0;
    x += row * width;
    y += row * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        squares += x[c] * x[c];
    float factor = hr__rms_factor(hr_warp_sum(squares), width, eps);
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        y[c] = x[c] * factor * g[c];
}

/* Keeps the factor of each row for what follows, if `factors`. */
HR_KERNEL hr_rmsnorm_dx(float *dx, float *factors, const float *x, const float *g,
                        const float *dy, int64_t n, int64_t width, float eps)
{
    int64_t row = hr_row();
    if (row >= n)
        return;
    float squares = 0, dot = 0;
    x += row * width;
    dy += row * width;
    dx += row * width;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP) {
        squares += x[c] * x[c];
        dot += x[c] * g[c] * dy[c];
    }
    float f = hr__rms_factor(hr_warp_sum(squares), width, eps);
    float along = hr__rms_along(f, hr_warp_sum(dot), width);
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        dx[c] = hr__rmsnorm_dx(x[c], g[c], dy[c], f, along);
    if (factors && hr_lane() == 0)
        factors[row] = f;
}

/* A block sums 32 columns (x) of a part's rows (y): its warps take rows in turn. */
HR_KERNEL hr_rmsnorm_part(float *partial, const float *x, const float *dy,
                          const float *factors, int64_t n, int64_t width,
                          int64_t part_rows)
{
    __shared__ float sums[HR_WARPS][HR_WARP];
    int64_t c = (int64_t)blockIdx.x * HR_WARP + hr_lane();
    int64_t begin = (int64_t)blockIdx.y * part_rows;
    int64_t end = begin + part_rows < n ? begin + part_rows : n;
    float sum = 0;
    for (int64_t row = begin + hr_warp(); c < width && row < end; row += HR_WARPS)
        sum += dy[row * width + c] * x[row * width + c] * factors[row];
    sums[hr_warp()][hr_lane()] = sum;
    __syncthreads();
    if (hr_warp() > 0 || c >= width)
        return;
    for (int w = 1; w < HR_WARPS; w++)
        sum += sums[w][hr_lane()];
    partial[blockIdx.y * width + c] = sum;
}

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

HR_KERNEL hr_swiglu(float *y, const float *x, const float *scale, const int64_t *live,
                    int64_t n, int64_t width)
{
    int64_t row = hr_row();
    if (row >= live_rows(live, n))
        return;
    const float *a = x + row * 2 * width, *b = a + width;
    float s = scale ? scale[row] : 1.0F;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        y[row * width + c] = hr__swiglu_value(a[c], b[c], hr_sigmoid(a[c]), s);
}

HR_KERNEL hr_swiglu_back(float *dx, float *dscale, const float *x, const float *scale,
                         const float *dy, const int64_t *live, int64_t n, int64_t width)
{
    int64_t row = hr_row();
    if (row >= live_rows(live, n))
        return;
    const float *a = x + row * 2 * width, *b = a + width, *d = dy + row * width;
    float *da = dx + row * 2 * width, *db = da + width;
    float s = scale ? scale[row] : 1.0F, dot = 0;
    for (int64_t c = hr_lane(); c < width; c += HR_WARP)
        dot += hr__swiglu_grad(a[c], b[c], hr_sigmoid(a[c]), s, d[c], da + c, db + c);
    dot = hr_warp_sum(dot);
    if (dscale && hr_lane() == 0)
        dscale[row] = dot;
}
