/* headrace/tensor.h: storages (bytes), tensors (a shape over a storage), views and aliases.
 *
 * Bytes have claims, apart from handles. A tensor made by create or detach, a view, an alias, a
 * saved tensor, delayed work and what DLPack was handed each carry one claim on the bytes; the
 * bytes go with the last claim, even while handles live on, and using them then is ERR_STATE
 * "freed". A retained handle shares the claim of its tensor. Launches and operations of groups take
 * addresses and have no claim: give bytes up on a stream that is ordered behind them.
 *
 * Tensors are dense and row-major. Shapes are in elements, offsets in elements of the tensor.
 *
 * Threads: a tensor belongs to the issuing thread of its device.
 */
#ifndef HR_TENSOR_H
#define HR_TENSOR_H
#include "headrace/device.h"
HR_BEGIN_C

enum { HR_MAX_DIMS = 4 };

typedef enum hr_dtype { HR_F32, HR_BF16, HR_F16, HR_I32, HR_I64, HR_U8 } hr_dtype;
HR_API size_t hr_dtype_bytes(hr_dtype t);
HR_API const char *hr_dtype_name(hr_dtype t); /* "f32", ... */

typedef struct hr_storage hr_storage;
typedef struct hr_tensor hr_tensor;

/* ---- storage: counted ------------------------------------------------------------------
 * Its home stream must live until its bytes are gone; where they are foreign, all that were
 * recorded on it, too. */
/* `bytes` of device memory; its home stream is `s`. One claim, the caller's. */
HR_API HR_RESULT hr_status hr_storage_create(hr_stream *s, size_t bytes,
                                             hr_storage **out);
/* Foreign memory. `deleter` (may be NULL) runs on the stream of the last release, after what
 * is queued there and on every recorded stream. One that a failed device skipped runs later,
 * with the next foreign memory that is released. */
HR_API HR_RESULT hr_status hr_storage_wrap(hr_stream *home, void *ptr, size_t bytes,
                                           void (*deleter)(void *ctx, void *ptr),
                                           void *ctx, hr_storage **out);
HR_API hr_storage *hr_storage_retain(hr_storage *st);
HR_API void hr_storage_release(hr_storage *st);       /* NULL is fine */
HR_API void *hr_storage_data(const hr_storage *st);   /* NULL once the bytes are gone */
HR_API size_t hr_storage_bytes(const hr_storage *st); /* 0 once they are gone */
HR_API hr_stream *hr_storage_home(const hr_storage *st);
HR_API int hr_storage_claims(const hr_storage *st);
/* The bytes are used on `s` too: their end waits for what is queued there by then. */
HR_API void hr_storage_record_stream(hr_storage *st, hr_stream *s);

/* ---- tensors: counted ------------------------------------------------------------------ */
/* Fresh, not initialised, on the current stream. A dimension of 0 is ordinary; negative is
 * ERR_INVALID. ndim 0 is one element. */
HR_API HR_RESULT hr_status hr_tensor_create(hr_dtype t, int ndim, const int64_t *shape,
                                            hr_tensor **out);
/* The same, filled with zeros on that stream. */
HR_API HR_RESULT hr_status hr_tensor_zeros(hr_dtype t, int ndim, const int64_t *shape,
                                           hr_tensor **out);
/* Over a part of `st`, with a claim of its own. ERR_INVALID if it does not fit, or is not
 * aligned to its elements. */
HR_API HR_RESULT hr_status hr_tensor_over(hr_storage *st, size_t byte_offset,
                                          hr_dtype t, int ndim, const int64_t *shape,
                                          hr_tensor **out);

/* A view: same storage, another shape of as many elements; its base is `t`'s base, or `t`.
 * It keeps its base and carries a claim of its own; a base that only its views keep has none.
 * No graph: see hr_op_view(). */
HR_API HR_RESULT hr_status hr_tensor_view(hr_tensor *t, int ndim, const int64_t *shape,
                                          hr_tensor **out);
/* A view of rows begin..end-1 of the first dimension. No graph. */
HR_API HR_RESULT hr_status hr_tensor_rows(hr_tensor *t, int64_t begin, int64_t end,
                                          hr_tensor **out);
/* An alias: same storage, offset and shape, no base, no graph, a claim of its own. */
HR_API HR_RESULT hr_status hr_tensor_alias(hr_tensor *t, hr_tensor **out);

HR_API hr_tensor *hr_tensor_retain(hr_tensor *t);
HR_API void hr_tensor_release(hr_tensor *t);   /* NULL is fine */
HR_API int hr_tensor_refs(const hr_tensor *t); /* handles */

/* Give up this tensor's claim. If it was the last the bytes are freed after what is queued on
 * `s` now (NULL: the home stream); if not, they will wait for that too. Twice is harmless. */
HR_API void hr_tensor_drop(hr_tensor *t, hr_stream *s);
/* Has it given up its claim? Others may still hold the bytes. */
HR_API bool hr_tensor_dropped(const hr_tensor *t);

HR_API hr_dtype hr_tensor_dtype(const hr_tensor *t);
HR_API int hr_tensor_ndim(const hr_tensor *t);
HR_API const int64_t *hr_tensor_shape(const hr_tensor *t);
/* Of dimension `i`; negative counts from the end; 0 where there is none. */
HR_API int64_t hr_tensor_dim(const hr_tensor *t, int i);
HR_API int64_t hr_tensor_count(const hr_tensor *t); /* elements */
HR_API size_t hr_tensor_bytes(const hr_tensor *t);
/* Its address on the device; NULL if freed or empty. */
HR_API void *hr_tensor_data(const hr_tensor *t);
HR_API float *hr_tensor_f32(const hr_tensor *t); /* the same; NULL if it is not f32 */
HR_API hr_storage *hr_tensor_storage(const hr_tensor *t); /* borrowed */
HR_API hr_tensor *hr_tensor_base(const hr_tensor *t);     /* borrowed; NULL: no view */
HR_API bool hr_tensor_same_shape(const hr_tensor *a, const hr_tensor *b);

/* ERR_STATE "freed" if the bytes are gone (and there are any), naming `what`. */
HR_API HR_RESULT hr_status hr_tensor_check(const hr_tensor *t, const char *what);

/* Name for messages and recordings; copied (31 characters); "" if none. */
HR_API void hr_tensor_set_name(hr_tensor *t, const char *name);
HR_API const char *hr_tensor_name(const hr_tensor *t);

/* The storage is used on `s` too. The probe sees it. ERR_STATE "no_stream" if `s` is NULL. */
HR_API HR_RESULT hr_status hr_tensor_record_stream(hr_tensor *t, hr_stream *s);

/* Symmetric memory: set by who allocated it; see headrace/group.h. */
HR_API bool hr_tensor_is_symmetric(const hr_tensor *t);
HR_API void hr_storage_set_symmetric(hr_storage *st, bool symmetric);

/* Contents, in stream order on the current stream. Both sides same bytes. */
HR_API HR_RESULT hr_status hr_tensor_copy(hr_tensor *dst, hr_tensor *src);
/* Between host memory and a tensor: blocks until done. ERR_INVALID if `bytes` differ. */
HR_API HR_RESULT hr_status hr_tensor_read(hr_tensor *t, void *host, size_t bytes);
HR_API HR_RESULT hr_status hr_tensor_write(hr_tensor *t, const void *host,
                                           size_t bytes);

/* ---- DLPack: the tensors of other libraries, without a copy -------------------------------
 * The structs are those of DLPack's own header (its versions 0.x, and "versioned" since 1.0).
 * Of the CPU for "host", of its own GPU for "cuda".
 *
 *     hr_tensor_from_dlpack(theirs, &x);  // x has their bytes; their deleter runs after x
 *     hr_tensor_to_dlpack(y, &ours);      // whoever gets it calls ours->deleter(ours)
 */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Hand `t` out; strides are always given.
 *
 * Owner:   *out holds a claim of its own on the bytes until its deleter is called, once and
 *          before the device of `t` closes.
 * Order:   touches no stream: synchronise with the stream that writes `t` before the other
 *          library reads; before it writes, with all that use `t`.
 * Threads: the deleter may be called on any. Where the device is not current the claim is
 *          put aside until its thread calls one of these functions or hr_dlpack_collect().
 * Errors:  ERR_STATE "freed", ERR_UNSUPPORTED "device", ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_tensor_to_dlpack(hr_tensor *t,
                                               struct DLManagedTensor **out);
HR_API HR_RESULT hr_status
hr_tensor_to_dlpack_versioned(hr_tensor *t, struct DLManagedTensorVersioned **out);

/* Take `managed` in. Its home stream is the current one; its contents must be there. What the
 * current device handed out comes back as the tensor it was.
 *
 * Owner:   `managed` is the tensor's, and its deleter runs on a stream's thread as that of
 *          hr_storage_wrap() does; after an error it is the caller's as before.
 * Errors:  ERR_INVALID "dtype", "shape" (more than HR_MAX_DIMS dimensions), "strides" (not dense
 *          and row-major), "alignment" (to its elements), "no_memory"; ERR_UNSUPPORTED "device",
 *          "version", "read_only"; ERR_STATE "no_device"; ERR_NOMEM. */
HR_API HR_RESULT hr_status hr_tensor_from_dlpack(struct DLManagedTensor *managed,
                                                 hr_tensor **out);
HR_API HR_RESULT hr_status hr_tensor_from_dlpack_versioned(
    struct DLManagedTensorVersioned *managed, hr_tensor **out);

/* Release what deleters called on other threads have put aside for the current device; before
 * hr_device_close(), where that can be. */
HR_API void hr_dlpack_collect(void);

HR_END_C
#endif
