/* JSON values as text, for the line builder and for the trace writer. */
#ifndef HR_JSON_TEXT_H
#define HR_JSON_TEXT_H
#include <stddef.h>

/* Bytes that hr__json_real() writes at most, the closing zero included. */
enum { HR__JSON_REAL_BYTES = 40 };

/* The shortest decimal that reads back as `value`, whatever the locale; "null" if `value` is
 * not finite. Returns the length. */
size_t hr__json_real(char out[HR__JSON_REAL_BYTES], double value);

/* The next piece of `*text` as it stands inside quotes, with `*text` moved past it: one
 * character, escaped where JSON wants it, U+FFFD for each byte that is not UTF-8. Returns its
 * length, 0 at the end of the text. */
enum { HR__JSON_PIECE_BYTES = 8 };
size_t hr__json_piece(char out[HR__JSON_PIECE_BYTES], const char **text);

#endif
