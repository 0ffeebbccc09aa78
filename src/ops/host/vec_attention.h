/* Causal attention of one head for one instruction set, in blocks of BLOCK queries by BLOCK keys
 * with an online softmax. T rows and width d are padded with zeros to whole registers, so that
 * every inner product works on full ones. Keys past T are never seen: the mask hides them from
 * every query before T.
 *
 *   forward   S = Q K^T (rotated, scaled)   m, l, O by row   out = O / l, lse = m + log l
 *   backward  P = exp(S - lse)   dP = dO V^T   dS = P (dP - sum(dO out))
 *             dV += P^T dO   dK += dS^T Q   dQ += dS K
 */
#ifndef HR_VEC_ATTENTION_H
#define HR_VEC_ATTENTION_H
#include "ops/host/vec_product.h"

enum { BLOCK = 64 };

struct plan {
    int64_t t, d, half;  /* as given */
    int64_t tp, dp;      /* padded */
    float *q, *k, *v;    /* [tp, dp], rotated; q scaled. Forward has no k */
    float *kt, *vt;      /* [dp, tp]. Forward has no vt */
    float *s, *ds;       /* [BLOCK, BLOCK] */
    float *o;            /* forward: [BLOCK, dp] */
    float *dq, *dk, *dv; /* [tp, dp] */
    float *dout;         /* [tp, dp] */
    float *row, *row2;   /* [tp]; forward: m and l of a block; backward: lse and dot */
    float scale;
};

static int64_t padded(int64_t n)
{
    return (n + PAD - 1) / PAD * PAD;
}

static size_t vec_attention_scratch(int64_t seq_len, int64_t width, bool backward)
{
    size_t tp = (size_t)padded(seq_len), dp = (size_t)padded(width), block = BLOCK;
    if (backward)
        return 9 * tp * dp + 2 * block * block + 2 * tp;
    return 3 * tp * dp + block * block + block * dp + 2 * tp;
}

static float *take(float **at, int64_t count)
{
    float *mine = *at;
    *at += count;
    return mine;
}

static struct plan plan_make(const hr__head *h, bool backward)
{
    struct plan p = {.t = h->seq_len,
                     .d = h->width,
                     .half = h->width / 2,
                     .tp = padded(h->seq_len),
                     .dp = padded(h->width),
                     .scale = 1.0F / sqrtf((float)h->width)};
    float *at = h->scratch;
    int64_t all = p.tp * p.dp;
    p.q = take(&at, all);
    p.kt = take(&at, all);
    p.s = take(&at, BLOCK * BLOCK);
    p.row = take(&at, p.tp);
    p.row2 = take(&at, p.tp);
    if (!backward) {
        p.v = take(&at, all);
        p.o = take(&at, BLOCK * p.dp);
        return p;
    }
    p.k = take(&at, all);
    p.vt = take(&at, all);
    p.dout = take(&at, all);
    p.dq = take(&at, all);
    p.dk = take(&at, all);
    p.dv = take(&at, all);
    p.v = take(&at, all);
    p.ds = take(&at, BLOCK * BLOCK);
    return p;
}

/* ---- getting in and out of the padded layout ---- */
static void load_plain(const struct plan *p, float *restrict to,
                       const float *restrict from, int64_t stride)
{
    for (int64_t t = 0; t < p->t; t++) {
        memcpy(to + t * p->dp, from + t * stride, (size_t)p->d * sizeof *to);
        memset(to + t * p->dp + p->d, 0, (size_t)(p->dp - p->d) * sizeof *to);
    }
    memset(to + p->t * p->dp, 0, (size_t)((p->tp - p->t) * p->dp) * sizeof *to);
}

static void load_rotated(const struct plan *p, float *restrict to,
                         const float *restrict from, int64_t stride,
                         const float *restrict rotary, float scale)
{
    int64_t half = p->half;
    for (int64_t t = 0; t < p->t; t++) {
        const float *a = from + t * stride, *b = a + half;
        const float *c = rotary + t * p->d, *s = c + half;
        float *y = to + t * p->dp;
        HR__SIMD
        for (int64_t i = 0; i < half; i++) {
            y[i] = scale * hr__turned(a[i], b[i], c[i], s[i]);
            y[i + half] = scale * hr__turned(b[i], a[i], c[i], -s[i]);
        }
        memset(y + p->d, 0, (size_t)(p->dp - p->d) * sizeof *y);
    }
    memset(to + p->t * p->dp, 0, (size_t)((p->tp - p->t) * p->dp) * sizeof *to);
}

/* The reverse turn: gradients of what load_rotated() made. */
static void store_rotated(const struct plan *p, float *restrict to, int64_t stride,
                          const float *restrict from, const float *restrict rotary,
                          float scale)
{
    int64_t half = p->half;
    for (int64_t t = 0; t < p->t; t++) {
        const float *a = from + t * p->dp, *b = a + half;
        const float *c = rotary + t * p->d, *s = c + half;
        float *y = to + t * stride;
        HR__SIMD
        for (int64_t i = 0; i < half; i++) {
            y[i] = scale * hr__turned(a[i], b[i], c[i], -s[i]);
            y[i + half] = scale * hr__turned(b[i], a[i], c[i], s[i]);
        }
    }
}

static void store_plain(const struct plan *p, float *to, int64_t stride,
                        const float *from)
{
    for (int64_t t = 0; t < p->t; t++)
        memcpy(to + t * stride, from + t * p->dp, (size_t)p->d * sizeof *to);
}

static void transpose(const struct plan *p, float *to, const float *from)
{
    for (int64_t i = 0; i < p->dp; i += 4)
        for (int64_t t = 0; t < p->tp; t += 4)
            transpose_quad(to + i * p->tp + t, p->tp, from + t * p->dp + i, p->dp);
}

/* ---- products ---- */
/* Where a block of queries and a block of keys meet. */
struct meet {
    int64_t i, j;       /* first query, first key */
    int64_t rows, cols; /* padded */
    bool diagonal;
};

static struct meet meet_at(const struct plan *p, int64_t i, int64_t j)
{
    int64_t rows = p->tp - i, cols = p->tp - j;
    return (struct meet){i, j, rows < BLOCK ? rows : BLOCK, cols < BLOCK ? cols : BLOCK,
                         i == j};
}

/* How many keys of the block the TILE queries from row r on can see, in whole PADs. */
static int64_t seen(const struct meet *m, int64_t r)
{
    return m->diagonal ? padded(r + TILE) : m->cols;
}

/* s = left right^T for the pairs that are seen. */
static void scores(const struct plan *p, const struct meet *m, float *s,
                   const float *left, const float *right_t)
{
    for (int64_t r = 0; r < m->rows; r += TILE)
        strip(s + r * BLOCK, BLOCK, (struct left){left + (m->i + r) * p->dp, p->dp, 1},
              right_t + m->j, p->tp, seen(m, r), p->d, false);
}

/* o [rows, dp] += s right, o being rows of queries, right rows of keys; the first keys begin o. */
static void to_queries(const struct plan *p, const struct meet *m, float *o,
                       const float *s, const float *right)
{
    for (int64_t r = 0; r < m->rows; r += TILE)
        strip(o + r * p->dp, p->dp, (struct left){s + r * BLOCK, BLOCK, 1},
              right + m->j * p->dp, p->dp, p->dp, seen(m, r), m->j > 0);
}

/* o [cols, dp] += s^T right, o being rows of keys, right rows of queries. */
static void to_keys(const struct plan *p, const struct meet *m, float *o,
                    const float *s, const float *right)
{
    for (int64_t c = 0; c < m->cols; c += TILE) {
        int64_t first = m->diagonal ? c / PAD * PAD : 0; /* the first that sees key c */
        strip(o + c * p->dp, p->dp, (struct left){s + first * BLOCK + c, 1, BLOCK},
              right + (m->i + first) * p->dp, p->dp, p->dp, m->rows - first, true);
    }
}

/* The mask, in the last PAD keys that a query on the diagonal is computed for: it sees those up to
 * itself. All at once, since loads of whole registers wait long for single stores. */
static inline void hide(float *s, int query)
{
    for (int c = 0; c < PAD; c++)
        s[c] = c <= query ? s[c] : -INFINITY;
}

/* ---- forward ---- */
/* How wide row r of the scores is: whole PADs, and at least one. */
static inline int64_t row_width(const struct meet *m, int64_t r)
{
    return seen(m, r / TILE * TILE) / PAD * PAD;
}

/* Hide what the mask hides; then the greatest of each row, the running one included. */
static void greatest(const struct plan *p, const struct meet *m, float *most)
{
    for (int64_t r = 0; r < m->rows; r++) {
        float *s = p->s + r * BLOCK;
        int64_t width = row_width(m, r);
        if (m->diagonal)
            hide(s + width - PAD, (int)(r % PAD));
        most[r] = vec_max(s, width);
        if (m->j > 0 && p->row[r] > most[r])
            most[r] = p->row[r];
    }
}

/* The running maximum has grown to `most`: O and the sum shrink with it. */
static void shrink(const struct plan *p, const struct meet *m, const float *most)
{
    float factor[BLOCK];
    HR__SIMD
    for (int64_t r = 0; r < m->rows; r++)
        factor[r] = vec_exp(p->row[r] - most[r]);
    for (int64_t r = 0; r < m->rows; r++) {
        float *o = p->o + r * p->dp;
        p->row2[r] *= factor[r];
        HR__SIMD
        for (int64_t i = 0; i < p->dp; i++)
            o[i] *= factor[r];
    }
}

/* Scores become probabilities against the running maximum. Loop by loop over all rows, so that the
 * processor has rows enough in flight to hide how long each takes. */
static void soften(const struct plan *p, const struct meet *m)
{
    float most[BLOCK];
    greatest(p, m, most);
    if (m->j > 0)
        shrink(p, m, most);
    for (int64_t r = 0; r < m->rows; r++) {
        float *s = p->s + r * BLOCK;
        int64_t width = row_width(m, r);
        lanes sums = {0};
        for (int64_t c = 0; c < width; c += HR__LANES) {
            for (int l = 0; l < HR__LANES; l++)
                s[c + l] = vec_exp(s[c + l] - most[r]);
            sums += *(lanes *)(s + c);
        }
        p->row2[r] += lanes_sum(sums);
        p->row[r] = most[r];
    }
}

static void vec_attention(const hr__head *h)
{
    struct plan p = plan_make(h, false);
    load_rotated(&p, p.q, h->q, h->stride, h->rotary, p.scale);
    load_rotated(&p, p.v, h->k, h->stride, h->rotary, 1);
    transpose(&p, p.kt, p.v);
    load_plain(&p, p.v, h->v, h->stride);
    for (int64_t i = 0; i < p.tp; i += BLOCK) {
        int64_t rows = p.tp - i < BLOCK ? p.tp - i : BLOCK;
        memset(p.row2, 0, (size_t)rows * sizeof *p.row2);
        for (int64_t j = 0; j <= i; j += BLOCK) {
            struct meet m = meet_at(&p, i, j);
            scores(&p, &m, p.s, p.q, p.kt);
            soften(&p, &m);
            to_queries(&p, &m, p.o, p.s, p.v);
        }
        for (int64_t r = 0; r < rows && i + r < p.t; r++) {
            float *to = h->out + (i + r) * h->out_stride, factor = 1.0F / p.row2[r];
            HR__SIMD
            for (int64_t c = 0; c < p.d; c++)
                to[c] = p.o[r * p.dp + c] * factor;
            h->lse[i + r] = p.row[r] + logf(p.row2[r]);
        }
    }
}

/* ---- backward ---- */
/* p->row = lse, p->row2 = sum(dout out) by row; both 0 where padded. */
static void load_rows(const struct plan *p, const hr__head *h)
{
    memset(p->row, 0, (size_t)(2 * p->tp) * sizeof *p->row);
    for (int64_t t = 0; t < p->t; t++) {
        const float *d = p->dout + t * p->dp, *o = h->out + t * h->out_stride;
        float dot = 0;
        HR__SIMD_SUM(dot)
        for (int64_t i = 0; i < p->d; i++)
            dot += d[i] * o[i];
        p->row[t] = h->lse[t];
        p->row2[t] = dot;
    }
}

/* s: scores to probabilities; ds: dP to dS. What the mask hides is 0 in both. */
static void soften_back(const struct plan *p, const struct meet *m)
{
    for (int64_t r = 0; r < m->rows; r++) {
        float *restrict s = p->s + r * BLOCK, *restrict ds = p->ds + r * BLOCK;
        int64_t width = row_width(m, r);
        float lse = p->row[m->i + r], dot = p->row2[m->i + r];
        if (m->diagonal)
            hide(s + width - PAD, (int)(r % PAD));
        HR__SIMD
        for (int64_t c = 0; c < width; c++) {
            s[c] = vec_exp(s[c] - lse);
            ds[c] = s[c] * (ds[c] - dot);
        }
    }
}

static void vec_attention_back(const hr__head *h)
{
    struct plan p = plan_make(h, true);
    load_rotated(&p, p.q, h->q, h->stride, h->rotary, p.scale);
    load_rotated(&p, p.k, h->k, h->stride, h->rotary, 1);
    load_plain(&p, p.v, h->v, h->stride);
    load_plain(&p, p.dout, h->dout, h->out_stride);
    transpose(&p, p.kt, p.k);
    transpose(&p, p.vt, p.v);
    load_rows(&p, h);
    memset(p.dk, 0, (size_t)(2 * p.tp * p.dp) * sizeof *p.dk); /* dk, dv */
    for (int64_t i = 0; i < p.tp; i += BLOCK)
        for (int64_t j = 0; j <= i; j += BLOCK) {
            struct meet m = meet_at(&p, i, j);
            scores(&p, &m, p.s, p.q, p.kt);
            scores(&p, &m, p.ds, p.dout, p.vt);
            soften_back(&p, &m);
            to_keys(&p, &m, p.dv + j * p.dp, p.s, p.dout);
            to_keys(&p, &m, p.dk + j * p.dp, p.ds, p.q);
            to_queries(&p, &m, p.dq + i * p.dp, p.ds, p.k);
        }
    store_rotated(&p, h->dq, h->stride, p.dq, h->rotary, p.scale);
    store_rotated(&p, h->dk, h->stride, p.dk, h->rotary, 1);
    store_plain(&p, h->dv, h->stride, p.dv);
}

#endif
