/* SHA-256 of a text, to compare with tables that were recorded by their hash alone. */
#ifndef SHA256_H
#define SHA256_H
#include <stddef.h>

void sha256_hex(const char *data, size_t bytes, char hex[65]);

#endif
