/* One JSON object a line, built into the caller's memory. It writes only: what is read (options,
 * checkpoints) is read by a real parser, elsewhere. */
#include "base/json_text.h"
#include "headrace/base.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t hr__json_real(char out[HR__JSON_REAL_BYTES], double value)
{
    if (!isfinite(value)) {
        memcpy(out, "null", 5);
        return 4;
    }
    char text[HR__JSON_REAL_BYTES];
    /* Fifteen digits, less the zeros behind, are the shortest there are, but for numbers so small that
     * they have fewer. */
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* Whatever is no part of a number is the locale's decimal point, maybe of several bytes. */
    size_t n = 0;
    for (const char *c = text; *c; c++) {
        if (strchr("0123456789+-e", *c))
            out[n++] = *c;
        else if (n == 0 || out[n - 1] != '.')
            out[n++] = '.';
    }
    out[n] = '\0';
    return n;
}

/* Bytes of the UTF-8 character at `s`, 0 if there is none: no overlong forms, no surrogates,
 * nothing past U+10FFFF. Reads no further than the closing zero. */
static size_t utf8_length(const unsigned char *s)
{
    unsigned char lead = s[0];
    if (lead < 0x80)
        return 1;
    size_t n = lead >= 0xC2 && lead < 0xE0   ? 2
               : lead >= 0xE0 && lead < 0xF0 ? 3
               : lead >= 0xF0 && lead < 0xF5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (lead == 0xE0 && s[1] < 0xA0) || (lead == 0xF0 && s[1] < 0x90);
    bool outside = (lead == 0xED && s[1] > 0x9F) || (lead == 0xF4 && s[1] > 0x8F);
    return overlong || outside ? 0 : n;
}

size_t hr__json_piece(char out[HR__JSON_PIECE_BYTES], const char **text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escape[] = "\"\\bfnrt";
    const unsigned char *s = (const unsigned char *)*text;
    if (*s == '\0')
        return 0;
    const char *found = strchr(plain, *s);
    if (found) {
        out[0] = '\\';
        out[1] = escape[found - plain];
        *text += 1;
        return 2;
    }
    size_t n = utf8_length(s);
    *text += n ? n : 1;
    if (n == 0)
        return (size_t)snprintf(out, HR__JSON_PIECE_BYTES, "\\ufffd");
    if (*s < 0x20)
        return (size_t)snprintf(out, HR__JSON_PIECE_BYTES, "\\u%04x", *s);
    memcpy(out, s, n);
    return n;
}

/* One byte always stays for the closing zero. */
static void put(hr_json *j, const char *text, size_t n)
{
    if (j->overflow || n >= j->cap - j->len) {
        j->overflow = 1;
        return;
    }
    memcpy(j->buf + j->len, text, n);
    j->len += n;
    j->buf[j->len] = '\0';
}

static void put_quoted(hr_json *j, const char *text)
{
    char piece[HR__JSON_PIECE_BYTES];
    size_t n;
    put(j, "\"", 1);
    while ((n = hr__json_piece(piece, &text)) > 0)
        put(j, piece, n);
    put(j, "\"", 1);
}

static void put_key(hr_json *j, const char *key)
{
    if (j->len > 1)
        put(j, ", ", 2);
    put_quoted(j, key);
    put(j, ": ", 2);
}

void hr_json_begin(hr_json *j, char *buf, size_t cap)
{
    j->buf = buf;
    j->cap = cap;
    j->len = 0;
    j->overflow = cap == 0;
    put(j, "{", 1);
}

void hr_json_int(hr_json *j, const char *key, long long value)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", value);
    put_key(j, key);
    put(j, text, (size_t)n);
}

void hr_json_real(hr_json *j, const char *key, double value)
{
    char text[HR__JSON_REAL_BYTES] = "";
    size_t n = hr__json_real(text, value);
    put_key(j, key);
    put(j, text, n);
}

void hr_json_bool(hr_json *j, const char *key, bool value)
{
    put_key(j, key);
    put(j, value ? "true" : "false", value ? 4 : 5);
}

void hr_json_text(hr_json *j, const char *key, const char *value)
{
    put_key(j, key);
    if (value)
        put_quoted(j, value);
    else
        put(j, "null", 4);
}

hr_status hr_json_end(hr_json *j)
{
    put(j, "}", 1);
    if (!j->overflow)
        return HR_OK;
    if (j->cap > 0)
        j->buf[0] = '\0';
    return hr_fail(HR_ERR_INVALID, "json_overflow",
                   "JSON line does not fit into its buffer of %zu bytes", j->cap);
}
