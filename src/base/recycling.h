/* Whether small objects are kept for the next of their kind. With sanitizers they are not, so that each
 * use after release is seen. */
#ifndef HR_RECYCLING_H
#define HR_RECYCLING_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HR__RECYCLING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HR__RECYCLING 0
#endif
#endif
#ifndef HR__RECYCLING
#define HR__RECYCLING 1
#endif

#endif
